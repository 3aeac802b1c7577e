package gso

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// TestTrain: a train and what follows it are the packets of a super-packet.
func TestTrain(t *testing.T) {
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
			id += uint64(p.Count())
			if p.Flow == packet.Train {
				pool.Uncouple(p, func(q *packet.Packet) { got = append(got, q) })
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
			same(t, Render(want[i], nil), Render(p, nil))
			pool.Free(p)
			pool.Free(want[i])
		}
		if pool.Live() != 0 || pool.Supers() != 0 {
			t.Fatalf("%d packets and %d super-packets remain", pool.Live(), pool.Supers())
		}
	})
}

// TestJoinTrains: a Joiner writes the same for trains as for their packets, whatever comes before,
// between and after them.
func TestJoinTrains(t *testing.T) {
	whole := 0 // trains that were not uncoupled
	rapid.Check(t, func(t *rapid.T) {
		var flows [2]model
		var sizes [2]int
		for i := range flows {
			flows[i], sizes[i] = drawModel(t)
			if rapid.Bool().Draw(t, "plain") {
				flows[i], sizes[i] = base(), rapid.SampledFrom([]int{100, 1448}).Draw(t, "size")
				flows[i].src += uint16(i)
			}
			flows[i].payload = flows[i].payload[:0]
		}
		var roads [2]*road
		ip := rapid.Bool().Draw(t, "ip")
		for i := range roads {
			roads[i] = newRoad(t, ip)
		}
		for range rapid.IntRange(1, 6).Draw(t, "supers") {
			n := rapid.IntRange(0, 1).Draw(t, "flow")
			m, size := &flows[n], sizes[n]
			packets := rapid.SampledFrom([]int{1, 2, 3, 10, 30}).Draw(t, "packets")
			length := min(packets*size-rapid.IntRange(0, size-1).Draw(t, "short"), 60000)
			m.payload = bytesOf(uint64(length), length)
			if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
				m.seq += 10
			}
			for i, r := range roads {
				ps := m.pieces(t, &r.pool, size)
				for _, p := range ps {
					r.in[p.Hash] = append(r.in[p.Hash], slices.Clone(Render(p, nil)))
				}
				if i == 1 {
					for _, p := range ps {
						r.pool.Free(p)
					}
					ps = cutUp(t, &r.pool, m.frame(t), m.header(size), true)
				}
				r.now += units.Microsecond
				for _, p := range ps {
					train := p.Flow == packet.Train
					r.j.Add(r.now, p)
					if run := r.j.find(p.Hash); train && run != nil && run.tail == p {
						whole++
					}
				}
			}
			m.seq += uint32(length)
			m.id += uint16((length + size - 1) / size)
			if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
				roads[0].j.Flush()
				roads[1].j.Flush()
			}
		}
		for _, r := range roads {
			r.end()
		}
		if diff := cmp.Diff(roads[0].k.writes, roads[1].k.writes, cmp.AllowUnexported(write{})); diff != "" {
			t.Fatalf("trains (-as packets +as trains):\n%s", diff)
		}
	})
	if whole < 20 {
		t.Errorf("%d trains were joined whole", whole)
	}
}
