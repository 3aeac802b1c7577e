package workload

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// rig runs one source and records when its packets leave.
type rig struct {
	engine sim.Engine
	pool   packet.Pool
	record *Record
	times  []units.Time
	see    func(p *packet.Packet)
}

func (r *rig) OriginatePacket(now units.Time, p *packet.Packet) {
	r.times = append(r.times, now)
	if r.see != nil {
		r.see(p)
	}
	r.pool.Free(p)
}

func newRig(f Flow, seed uint64) *rig {
	r := &rig{record: NewRecord(f, "a", "b")}
	t := packet.Packet{Size: f.Size + 42, Version: 4, Dest: 3, TOS: wire.ECT0, Flow: 7, SrcPort: 1, DstPort: 2, Hash: 5}
	NewSource(&r.engine, &r.pool, sim.NewRand(seed, f.Name), sim.NewSalt(seed, f.Name), nil, f, t, r.record, r)
	return r
}

// run runs until the source falls silent or the limit is reached.
func (r *rig) run(limit units.Time) []units.Time {
	r.engine.Run(limit, math.MaxInt)
	return r.times
}

// TestCBRIsExact: the n-th of a million packets leaves exactly n sizes after
// the start, rounded up to a picosecond, at rates that do not divide evenly.
func TestCBRIsExact(t *testing.T) {
	for f, packets := range map[Flow]int{
		{Size: 1200, Rate: 9_700_000_001, At: units.Second}: 1_000_000,
		{Size: 1458, Rate: 100 * units.Gbps}:                10_000,
		{Size: 7, Rate: 3 * units.Gbps, At: 1}:              10_000,
	} {
		r := newRig(f, 1)
		r.engine.Run(units.Never-1, packets)
		if len(r.times) != packets {
			t.Fatalf("%d packets, want %d", len(r.times), packets)
		}
		// n * size * 8e12 / rate without rounding, by adding.
		step, rest := new(big.Int).QuoRem(big.NewInt(int64(f.Size)*8*int64(units.Second)), big.NewInt(int64(f.Rate)), new(big.Int))
		whole, part := f.At, int64(0)
		for n, got := range r.times {
			want := whole
			if part > 0 {
				want++
			}
			if got != want {
				t.Fatalf("%v of %d bytes: packet %d leaves at %d ps, want %d", f.Rate, f.Size, n, got, want)
			}
			whole += units.Time(step.Int64())
			if part += rest.Int64(); part >= int64(f.Rate) {
				part -= int64(f.Rate)
				whole++
			}
		}
	}
}

// TestPoisson measures the gaps: mean, spread and tail of an exponential law,
// and no memory.
func TestPoisson(t *testing.T) {
	const packets = 200_000
	f := Flow{Name: "f", Pattern: Poisson, Size: 1250, Rate: units.Gbps, At: units.Millisecond} // 10 us
	r := newRig(f, 1)
	r.engine.Run(units.Never-1, packets)
	var sum, squares, products, last float64
	var beyond int
	before := f.At
	for _, at := range r.times {
		gap := float64(at-before) / float64(10*units.Microsecond)
		before = at
		sum += gap
		squares += gap * gap
		products += (gap - 1) * (last - 1)
		last = gap
		if gap > 2 {
			beyond++
		}
	}
	mean := sum / packets
	variance := squares/packets - mean*mean
	// Standard deviations of the estimates: 1/√n, √8/√n, √(e⁻²(1-e⁻²)/n), 1/√n.
	root := math.Sqrt(packets)
	if math.Abs(mean-1) > 4.5/root || math.Abs(variance-1) > 4.5*math.Sqrt(8)/root {
		t.Errorf("gaps have mean %.4f and variance %.4f of Size/Rate, want 1 and 1", mean, variance)
	}
	if share := float64(beyond) / packets; math.Abs(share-math.Exp(-2)) > 4.5*0.342/root {
		t.Errorf("a share of %.4f is longer than twice the mean, want %.4f", share, math.Exp(-2))
	}
	if correlation := products / packets; math.Abs(correlation) > 4.5/root {
		t.Errorf("successive gaps correlate by %.4f", correlation)
	}
	// The first packet comes after a gap too, not at the start.
	if r.times[0] == f.At {
		t.Error("the first packet leaves at the start")
	}
}

// TestOnOff checks the times of packets with fixed phases, one by one.
func TestOnOff(t *testing.T) {
	const us = units.Microsecond
	for _, c := range []struct {
		name string
		flow Flow
		want []units.Time // in microseconds
	}{
		// A packet takes 10 us. A phase of 30 us holds those at 0, 10 and 20.
		{"even", Flow{On: 30 * us, Off: 70 * us}, []units.Time{5, 15, 25, 105, 115, 125, 205, 215, 225}},
		{"uneven", Flow{On: 25 * us, Off: 20 * us}, []units.Time{5, 15, 25, 50, 60, 70, 95, 105, 115}},
		{"shorter than a packet", Flow{On: 1 * us, Off: 9 * us}, []units.Time{5, 15, 25, 35}},
	} {
		f := c.flow
		f.Pattern, f.Size, f.Rate, f.At = OnOff, 1250, units.Gbps, 5*us
		got := newRig(f, 1).run(250 * us)
		for i := range c.want {
			c.want[i] *= us
		}
		if diff := cmp.Diff(c.want, got[:len(c.want)]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestOnOffDuty: with random phases a source sends for the share of time given
// by their means, at the full rate, and their lengths are exponential.
func TestOnOffDuty(t *testing.T) {
	const gap = units.Microsecond
	f := Flow{Pattern: OnOff, Size: 125, Rate: units.Gbps, On: 200 * gap, Off: 600 * gap, Exponential: true}
	const length = 800 * gap * 3000 // approximately 3000 pairs of phases
	times := newRig(f, 1).run(length)
	// Four and a half standard deviations of the share are about 0.014.
	if share := float64(len(times)) * float64(gap) / float64(length); math.Abs(share-0.25) > 0.015 {
		t.Errorf("it sends for %.4f of the time, want 0.25", share)
	}
	var phases, longOn, longOff float64
	begin := times[0]
	for i := 1; i < len(times); i++ {
		if off := times[i] - times[i-1]; off != gap {
			phases++
			if times[i-1]-begin > 200*gap {
				longOn++
			}
			if off > 600*gap {
				longOff++
			}
			begin = times[i]
		}
	}
	for what, n := range map[string]float64{"phases": longOn, "silences": longOff} {
		if share := n / phases; math.Abs(share-1/math.E) > 0.045 {
			t.Errorf("of the %s %.3f are longer than their mean, want %.3f", what, share, 1/math.E)
		}
	}
}

// TestAtAndFor: the first packet of a constant rate leaves at At, and none at
// At + For or later.
func TestAtAndFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Flow{
			Name: "f", Pattern: rapid.SampledFrom([]Pattern{CBR, Poisson, OnOff}).Draw(t, "pattern"), Size: 125, Rate: units.Gbps, // 1 us
			At:  units.Time(rapid.Int64Range(0, 5_000_000).Draw(t, "at")),
			For: units.Time(rapid.Int64Range(1, 20_000_000).Draw(t, "for")),
			On:  3 * units.Microsecond, Off: 2 * units.Microsecond, Exponential: rapid.Bool().Draw(t, "exponential"),
		}
		r := newRig(f, rapid.Uint64().Draw(t, "seed"))
		times := r.run(units.Second)
		if !slices.IsSorted(times) {
			t.Fatalf("out of order: %v", times)
		}
		for _, at := range times {
			if at < f.At || at >= f.At+f.For {
				t.Fatalf("a packet leaves at %v, outside %v and %v more", at, f.At, f.For)
			}
		}
		if f.Pattern != Poisson && times[0] != f.At {
			t.Fatalf("the first packet leaves at %v, want %v", times[0], f.At)
		}
		if want := int((f.For + units.Microsecond - 1) / units.Microsecond); f.Pattern == CBR && len(times) != want {
			t.Fatalf("%d packets in %v, want %d", len(times), f.For, want)
		}
		if r.engine.Next() != units.Never || r.pool.LivePackets() != 0 {
			t.Fatalf("it has ended, but is due at %v with %d packets live", r.engine.Next(), r.pool.LivePackets())
		}
		if x := r.record.Result(r.engine.Now()); x.Sent != uint64(len(times)) {
			t.Fatalf("recorded %d sent, want %d", x.Sent, len(times))
		}
	})
}

// TestForWithoutEnd: without For a flow sends until the run ends.
func TestForWithoutEnd(t *testing.T) {
	for _, p := range []Pattern{CBR, Poisson, OnOff} {
		r := newRig(Flow{Pattern: p, Size: 125, Rate: units.Gbps, On: units.Millisecond, Off: units.Microsecond}, 1)
		if n := len(r.run(100 * units.Millisecond)); n < 99_000 || n > 101_000 {
			t.Errorf("%v: %d packets in 100 ms, want about 100000", p, n)
		}
	}
}

// TestPackets: each packet is the template with a different number.
func TestPackets(t *testing.T) {
	r := newRig(Flow{Size: 100, Rate: units.Gbps}, 1)
	n := uint32(0)
	r.see = func(p *packet.Packet) {
		if p.Seq != n || p.IPID != uint16(n) {
			t.Fatalf("packet %d has the numbers %d and %d", n, p.Seq, p.IPID)
		}
		if n++; n%1000 != 0 {
			return
		}
		want := packet.Packet{Size: 142, Version: 4, Dest: 3, TOS: wire.ECT0, Flow: 7, SrcPort: 1, DstPort: 2, Hash: 5, Seq: n - 1, IPID: uint16(n - 1)}
		if diff := cmp.Diff(want, *p, cmpopts.IgnoreUnexported(packet.Packet{})); diff != "" {
			t.Fatalf("packet %d (-want +got):\n%s", n-1, diff)
		}
	}
	r.engine.Run(units.Never-1, 70_000) // beyond the 16 bits of an IP ID
	if n != 70_000 {
		t.Errorf("%d packets, want 70000", n)
	}
}

// TestSourceDependsOnItsSeed: the same random stream gives the same times.
func TestSourceDependsOnItsSeed(t *testing.T) {
	f := Flow{Name: "f", Pattern: Poisson, Size: 125, Rate: units.Gbps}
	one := newRig(f, 7).run(units.Millisecond)
	if !slices.Equal(one, newRig(f, 7).run(units.Millisecond)) {
		t.Error("two runs of one seed differ")
	}
	if slices.Equal(one, newRig(f, 8).run(units.Millisecond)) {
		t.Error("two seeds send at the same times")
	}
}

func TestPatternNames(t *testing.T) {
	for p, want := range map[Pattern]string{CBR: "cbr", Poisson: "poisson", OnOff: "on-off"} {
		if p.String() != want {
			t.Errorf("%d is called %s, want %s", p, p, want)
		}
	}
}
