package timely

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestWeight checks w(g) of Zhu et al. at its corners and in between.
func TestWeight(t *testing.T) {
	for g, want := range map[float64]float64{-9: 0, -0.25: 0, -0.125: 0.25, 0: 0.5, 0.125: 0.75, 0.25: 1, 9: 1} {
		if got := gradientWeight(g); got != want {
			t.Errorf("w(%v) is %v, want %v", g, got, want)
		}
	}
}

// TestRateStaysInBounds, whatever the RTTs; and it never falls by more than
// max_decrease at once.
func TestRateStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]units.Rate{units.Gbps, 100 * units.Gbps}).Draw(t, "line")
		c := Preset(rapid.SampledFrom(Presets).Draw(t, "preset"), line)
		c.MinRTT = rapid.SampledFrom([]units.Time{0, units.Picosecond, c.MinRTT}).Draw(t, "min_rtt")
		c.MaxDecrease = rapid.SampledFrom([]units.Fraction{0, 0.25, 1}).Draw(t, "max_decrease")
		c.InitialRate = rapid.SampledFrom([]units.Rate{0, c.MinRate, 2 * line}).Draw(t, "initial_rate")
		if err := c.Validate(line); err != nil {
			t.Fatal(err)
		}
		flow := New(&c, cc.Flow{Line: line})
		now := units.Time(0)
		var a cc.Ack
		for range rapid.IntRange(1, 60).Draw(t, "acks") {
			now += units.Time(rapid.Int64Range(0, int64(units.Millisecond)).Draw(t, "gap"))
			a.Newly = units.Bytes(rapid.Int64Range(0, 100_000).Draw(t, "newly"))
			a.Acked += a.Newly
			a.Sent = a.Acked + units.Bytes(rapid.Int64Range(0, 100_000).Draw(t, "flying"))
			a.RTT = units.Time(rapid.Int64Range(0, int64(units.Millisecond)).Draw(t, "rtt"))
			before := float64(flow.Rate())
			flow.OnAck(now, &a)
			r := flow.Rate()
			if r < c.MinRate || r > line || float64(r) < before*(1-float64(c.MaxDecrease))-1 {
				t.Fatalf("from %v to %v, within %v and %v", before, r, c.MinRate, line)
			}
			if n := len(flow.AppendGauges(now, nil)); n != 4 {
				t.Fatalf("%d gauges", n)
			}
		}
	})
}

// TestConfigAsText: all presets are valid at all line rates, and survive YAML and
// JSON.
func TestConfigAsText(t *testing.T) {
	cctest.CheckPresets(t, "timely", units.Mbps, units.Gbps, 40*units.Gbps, 1_600*units.Gbps)
}

// TestTraits: acknowledgements are requested at least once per segment at every
// path MTU, and the path only if min_rtt comes from it.
func TestTraits(t *testing.T) {
	for _, x := range []struct {
		seg  units.Bytes
		want int
	}{{0, 1}, {1, 1}, {16 * units.KB, 3}, {64 * units.KB, 15}, {units.GB, 64}} {
		c := Preset("paper", units.Gbps)
		c.Seg = x.seg
		got := c.Traits()
		if want := (cc.Traits{Burst: 16 * units.KB, NeedsAcks: true, AskEvery: x.want}); got != want {
			t.Errorf("seg %v: %+v, want %+v", x.seg, got, want)
		}
		c.MinRTT = 0
		if !c.Traits().NeedsPath {
			t.Error("min_rtt 0 does not ask for the path")
		}
	}
}

// TestStateIsSmall: a NIC has many flows.
func TestStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 128 {
		t.Errorf("a flow is %d bytes", n)
	}
}

func TestAPacketDoesNotAllocate(t *testing.T) {
	f := newTraffic()
	if n := testing.AllocsPerRun(1000, f.packet); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

func BenchmarkPacket(b *testing.B) {
	f := newTraffic()
	b.ReportAllocs()
	for b.Loop() {
		f.packet()
	}
}

// traffic models a flow of packets that are all acknowledged.
type traffic struct {
	c    Config
	flow cc.Control
	ack  cc.Ack
	at   units.Time
}

func newTraffic() *traffic {
	f := &traffic{c: Preset("paper", 100*units.Gbps)}
	f.flow = f.c.New(cc.Flow{Line: 100 * units.Gbps})
	return f
}

func (f *traffic) packet() {
	f.flow.OnPacketSent(f.at, 4200)
	f.ack.Newly = 4096
	f.ack.Acked += 4096
	f.ack.Sent = f.ack.Acked
	f.ack.RTT = 40*units.Microsecond + f.at%(30*units.Microsecond)
	f.flow.OnAck(f.at, &f.ack)
	f.at += f.flow.Rate().TimeOf(4200)
}
