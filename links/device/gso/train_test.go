package gso

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// TestTrain_HoldsThePacketsOfItsSuperPacket: a train and what follows it are the packets of a
// super-packet.
func TestTrain_HoldsThePacketsOfItsSuperPacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pool packet.Pool
		m, size := drawModel(t)
		want := m.pieces(t, &pool, size)
		for i, p := range want {
			p.ID = uint64(7 + i)
		}
		var got []*packet.Packet
		id := uint64(7)
		for _, p := range cutUp(t, &pool, m.frame(t), m.header(size), true) {
			p.ID = id
			id += uint64(p.PacketCount())
			if p.Kind == packet.Train {
				pool.SplitTrain(p, func(q *packet.Packet) { got = append(got, q) })
			} else {
				got = append(got, p)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d packets, want %d", len(got), len(want))
		}
		for i, p := range got {
			if diff := cmp.Diff(*want[i], *p, cmpopts.IgnoreFields(packet.Piece{}, "Of"), cmpopts.IgnoreUnexported(packet.Packet{})); diff != "" {
				t.Fatalf("packet %d (-want +got):\n%s", i, diff)
			}
			same(t, RenderPacket(want[i], nil), RenderPacket(p, nil))
			pool.Free(p)
			pool.Free(want[i])
		}
		if pool.LivePackets() != 0 || pool.LiveSupers() != 0 {
			t.Fatalf("%d packets and %d super-packets remain", pool.LivePackets(), pool.LiveSupers())
		}
	})
}

// addSuper gives the Joiner a super-packet, packet by packet or as a train and what follows it. It
// returns how many trains became part of a run as they were.
func (r *road) addSuper(m model, size int, trains bool) (whole int) {
	ps := m.pieces(r.t, &r.pool, size)
	for _, p := range ps {
		r.in[p.Hash] = append(r.in[p.Hash], slices.Clone(RenderPacket(p, nil)))
	}
	if trains {
		for _, p := range ps {
			r.pool.Free(p)
		}
		ps = cutUp(r.t, &r.pool, m.frame(r.t), m.header(size), true)
	}
	r.now += units.Microsecond
	for _, p := range ps {
		train := p.Kind == packet.Train
		r.j.AddPacket(r.now, p)
		if run := r.j.findRun(p.Hash); train && run != nil && run.tail == p {
			whole++
		}
	}
	return whole
}

// compareRoads ends two roads, by packets and by trains, and compares what they wrote.
func compareRoads(t rapid.TB, packets, trains *road) {
	t.Helper()
	packets.end()
	trains.end()
	if want, got := packets.k.writes, trains.k.writes; !reflect.DeepEqual(want, got) { // much faster than cmp
		t.Fatalf("trains (-as packets +as trains):\n%s", cmp.Diff(want, got, cmp.AllowUnexported(write{})))
	}
}

// TestJoiner_WritesTrainsLikeTheirPackets: a Joiner writes the same for trains as for their
// packets, whatever comes before, between and after them.
func TestJoiner_WritesTrainsLikeTheirPackets(t *testing.T) {
	whole := 0
	rapid.Check(t, func(t *rapid.T) {
		var flows [2]model
		var sizes [2]int
		for i := range flows {
			flows[i], sizes[i] = drawModel(t)
			if rapid.Bool().Draw(t, "plain") {
				flows[i], sizes[i] = base(), rapid.SampledFrom([]int{100, 1448}).Draw(t, "size")
				flows[i].src += uint16(i)
			}
		}
		ip := rapid.Bool().Draw(t, "ip")
		packets, trains := newRoad(t, ip), newRoad(t, ip)
		for range rapid.IntRange(1, 6).Draw(t, "supers") {
			n := rapid.IntRange(0, 1).Draw(t, "flow")
			m, size := &flows[n], sizes[n]
			count := rapid.SampledFrom([]int{1, 2, 3, 10, 30}).Draw(t, "packets")
			length := min(count*size-rapid.IntRange(0, size-1).Draw(t, "short"), 60000)
			m.payload = bytesOf(uint64(length), length)
			if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
				m.seq += 10
			}
			packets.addSuper(*m, size, false)
			whole += trains.addSuper(*m, size, true)
			m.seq += uint32(length)
			m.id += uint16((length + size - 1) / size)
			if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
				packets.j.Flush()
				trains.j.Flush()
			}
		}
		compareRoads(t, packets, trains)
	})
	t.Logf("%d trains were joined whole", whole)
}

// TestJoiner_KeepsTrainsWhole: the trains of plain packets that follow each other are in one run as
// they are, and are written like their packets.
func TestJoiner_KeepsTrainsWhole(t *testing.T) {
	const size, count, supers = 1000, 4, 3
	packets, trains := newRoad(t, false), newRoad(t, false)
	m := base()
	m.payload = bytesOf(1, size*count)
	for i := range supers {
		packets.addSuper(m, size, false)
		if whole := trains.addSuper(m, size, true); whole != 1 {
			t.Errorf("super-packet %d: %d trains were joined whole", i, whole)
		}
		m.seq += size * count
		m.id += count
	}
	compareRoads(t, packets, trains)
	if w := trains.k.writes; len(w) != 1 || w[0].packets != supers*count {
		t.Errorf("%d writes: %+v", len(w), w)
	}
}
