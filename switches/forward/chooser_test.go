package forward

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

func chooser(s Settings) Chooser {
	h := New(s, 1, sim.NewRand(1, "forwarding s1"))
	h.SetGroups(4)
	return h
}

// udp returns a packet of flow number i.
func udp(i int) *packet.Packet {
	p := &packet.Packet{Version: 4, Proto: wire.ProtoUDP, SrcPort: uint16(i), DstPort: 4791}
	p.Hash = packet.FlowHash(0x0a000001, 0x0a000002, p.Proto, p.SrcPort, p.DstPort)
	return p
}

// even fails unless each count is within four standard deviations of its share
// of the draws.
func even(t *testing.T, what string, count []int) {
	t.Helper()
	sum := 0
	for _, n := range count {
		sum += n
	}
	share := 1 / float64(len(count))
	sigma := math.Sqrt(float64(sum) * share * (1 - share))
	for i, n := range count {
		if d := math.Abs(float64(n) - float64(sum)*share); d > 4*sigma {
			t.Errorf("%s: way %d of %d has %d of %d, %.1f sigma off", what, i, len(count), n, sum, d/sigma)
		}
	}
}

// TestRandom: each packet draws independently and evenly, whatever its flow. So does
// the second choice, overall and for each first choice.
func TestRandom(t *testing.T) {
	const draws = 100_000
	for _, n := range []uint32{2, 3, 7, 16} {
		h := chooser(&Random{})
		first := make([]int, n)
		others := make([][]int, n)
		repeated, last := 0, uint32(0)
		for i := range draws {
			c := h.ChoosePath(0, udp(1), 1)
			a := c.PickAmong(n)
			first[a]++
			if others[a] == nil {
				others[a] = make([]int, n-1)
			}
			others[a][c.PickOther(n, n-1)]++
			if i > 0 && a == last {
				repeated++
			}
			last = a
		}
		even(t, "first choice", first)
		for a := range others {
			even(t, fmt.Sprintf("second choice after %d", a), others[a])
		}
		want := float64(draws) / float64(n)
		if d := math.Abs(float64(repeated) - want); d > 4*math.Sqrt(want) {
			t.Errorf("%d ways: the same twice in a row %d times, want some %.0f", n, repeated, want)
		}
	}
}

// TestRoundRobin: paths are taken exactly in turn, separately for each group; and a
// second choice gives the rest equal numbers.
func TestRoundRobin(t *testing.T) {
	h := chooser(&RoundRobin{})
	var got []uint32
	for i := range 8 {
		got = append(got, h.ChoosePath(0, udp(i), 1).PickAmong(3))
		if i%2 == 0 {
			got = append(got, 10+h.ChoosePath(0, udp(i), 2).PickAmong(2))
		}
	}
	if want := []uint32{0, 10, 1, 2, 11, 0, 1, 10, 2, 0, 11, 1}; !cmp.Equal(got, want) {
		t.Errorf("ways %v, want %v", got, want)
	}
	count := map[uint32]int{}
	for i := range 600 {
		if c := h.ChoosePath(0, udp(i), 3); c.PickAmong(3) == 0 {
			count[c.PickOther(3, 2)]++
		}
	}
	if want := map[uint32]int{0: 100, 1: 100}; !cmp.Equal(count, want) {
		t.Errorf("second choices %v, want %v", count, want)
	}
}

// TestECMPOthers: flows whose hash selects a path that they cannot take spread evenly
// over the rest.
func TestECMPOthers(t *testing.T) {
	h := chooser(&ECMP{})
	count := make([]int, 3)
	for i := range 60_000 {
		if c := h.ChoosePath(0, udp(i), 1); c.PickAmong(4) == 2 {
			count[c.PickOther(4, 3)]++
		}
	}
	even(t, "second choice", count)
}

// TestFlowlet is the transcript of one flow: it keeps its draw until it is silent for
// the gap, whatever other flows do.
func TestFlowlet(t *testing.T) {
	const gap = 100 * units.Microsecond
	h := chooser(&Flowlet{Gap: gap, Table: DefaultTable})
	p := udp(7)
	draw := func(now units.Time) uint64 { return h.ChoosePath(now, p, 1).number }
	first := draw(0)
	now := units.Time(0)
	for range 1000 { // for much longer than the gap
		now += gap - 1
		if draw(now) != first {
			t.Fatalf("another draw at %v, %v after the packet before", now, gap-1)
		}
	}
	// A silence of exactly the gap ends it.
	now += gap
	second := draw(now)
	if second == first {
		t.Error("the same draw after a gap")
	}
	if draw(now) != second || draw(now+gap-1) != second {
		t.Error("the new flowlet does not keep its draw")
	}
}

// TestFlowletsSpread: the flowlets of one flow, and first packets of many,
// spread evenly.
func TestFlowletsSpread(t *testing.T) {
	h := chooser(&Flowlet{Gap: units.Microsecond, Table: 64})
	one, many := make([]int, 5), make([]int, 5)
	for i := range 50_000 {
		one[h.ChoosePath(units.Time(i)*units.Microsecond, udp(1), 1).PickAmong(5)]++
	}
	for i := range 50_000 {
		many[h.ChoosePath(units.Time(100_000+i)*units.Microsecond, udp(i), 1).PickAmong(5)]++
	}
	even(t, "flowlets of one flow", one)
	even(t, "flowlets of many flows", many)
}

// TestFlowletsShareEntries: with a table of one entry all flows are one, which each
// group maps to its number of paths; with a large one, flows are separate.
func TestFlowletsShareEntries(t *testing.T) {
	const gap = units.Millisecond
	one, large := chooser(&Flowlet{Gap: gap, Table: 1}), chooser(&Flowlet{Gap: gap, Table: DefaultTable})
	draws, apart := map[uint64]bool{}, map[uint64]bool{}
	for i := range 100 {
		now := units.Time(i) * gap / 2
		draws[one.ChoosePath(now, udp(i), uint16(i%3)).number] = true
		apart[large.ChoosePath(now, udp(i), uint16(i%3)).number] = true
	}
	if len(draws) != 1 || len(apart) < 90 {
		t.Errorf("100 flows: %d draws with one entry, %d with %d", len(draws), len(apart), DefaultTable)
	}
}

// TestFlowletsKeepOrder: whatever a flow's pattern and whatever other flow shares its
// entry, if the gap exceeds the difference of the paths' delays, no packet overtakes
// another of its flow.
func TestFlowletsKeepOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfN(rapid.Int64Range(0, 1000), 2, 8).Draw(t, "delays of the ways")
		low, high := delays[0], delays[0]
		for _, d := range delays {
			low, high = min(low, d), max(high, d)
		}
		gap := units.Time(high - low + 1)
		h := chooser(&Flowlet{Gap: gap, Table: rapid.IntRange(1, 8).Draw(t, "table")})
		arrived := map[int]units.Time{}
		now := units.Time(0)
		for range rapid.IntRange(1, 200).Draw(t, "packets") {
			now += units.Time(rapid.Int64Range(0, 2*int64(gap)).Draw(t, "interval"))
			flow := rapid.IntRange(0, 5).Draw(t, "flow")
			way := h.ChoosePath(now, udp(flow), 1).PickAmong(uint32(len(delays)))
			at := now + units.Time(delays[way])
			if last, ok := arrived[flow]; ok && at < last {
				t.Fatalf("flow %d: a packet sent at %v arrives at %v, the one before at %v", flow, now, at, last)
			}
			arrived[flow] = at
		}
	})
}

// TestEntropy: the digits of the field determine the path; without the field the hash
// does.
func TestEntropy(t *testing.T) {
	label := func(l uint32) *packet.Packet {
		return &packet.Packet{Version: 6, Proto: wire.ProtoTCP, Label: l, Hash: 99}
	}
	tcp := &packet.Packet{Version: 4, Proto: wire.ProtoTCP, SrcPort: 5, Hash: 99}
	hashed := chooser(&ECMP{}).ChoosePath(0, tcp, 1)
	for _, c := range []struct {
		name   string
		config Entropy
		packet *packet.Packet
		ways   uint32
		want   uint32
	}{
		{"port", Entropy{Divide: 1}, udp(6), 4, 2},
		{"port, second digit", Entropy{Divide: 4}, udp(6), 4, 1},
		{"port, below the divisor", Entropy{Divide: 4096}, udp(6), 4, 0},
		{"port, three ways", Entropy{Divide: 1}, udp(65535), 3, 0},
		{"label", Entropy{Field: FlowLabel, Divide: 1}, label(0xfffff), 16, 15},
		{"label, second digit", Entropy{Field: FlowLabel, Divide: 16}, label(0x0a3), 16, 10},
		{"label, most divided", Entropy{Field: FlowLabel, Divide: MaxDivide}, label(0xfffff), 16, 0},
		{"no label", Entropy{Field: FlowLabel, Divide: 1}, label(0), 16, hashed.PickAmong(16)},
		{"IPv4 has no label", Entropy{Field: FlowLabel, Divide: 1}, tcp, 16, hashed.PickAmong(16)},
		{"TCP", Entropy{Divide: 1}, tcp, 16, hashed.PickAmong(16)},
		{"no port", Entropy{Divide: 1}, &packet.Packet{Version: 4, Proto: wire.ProtoUDP, Hash: 99}, 16, hashed.PickAmong(16)},
		{"no IP", Entropy{Divide: 1}, &packet.Packet{Hash: 99}, 16, hashed.PickAmong(16)},
	} {
		if got := chooser(&c.config).ChoosePath(0, c.packet, 1).PickAmong(c.ways); got != c.want {
			t.Errorf("%s: way %d, want %d", c.name, got, c.want)
		}
	}
}

// TestEntropyReachesEveryPath: with two tiers of m paths and divisors 1 and m, m*m
// consecutive values take all m*m paths.
func TestEntropyReachesEveryPath(t *testing.T) {
	for m := uint32(1); m <= 8; m++ {
		edge, agg := chooser(&Entropy{Divide: 1}), chooser(&Entropy{Divide: int(m)})
		paths := map[[2]uint32]bool{}
		for port := range int(m * m) {
			p := udp(49152 + port)
			paths[[2]uint32{edge.ChoosePath(0, p, 1).PickAmong(m), agg.ChoosePath(0, p, 1).PickAmong(m)}] = true
		}
		if len(paths) != int(m*m) {
			t.Errorf("%d ports take %d paths through %d times %d ways", m*m, len(paths), m, m)
		}
	}
}
