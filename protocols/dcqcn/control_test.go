package dcqcn

import (
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestStages checks the increase for each pair of stages (Fig. 7), F = 5.
func TestStages(t *testing.T) {
	const gbps = units.Gbps
	for _, c := range []struct {
		name         string
		time, byte   uint32
		noBytes      bool
		rate, target units.Rate // after, from 10 and 20 Gb/s
	}{
		{"first fast recovery", 0, 0, false, 15 * gbps, 20 * gbps},
		{"fifth fast recovery", 4, 0, false, 15 * gbps, 20 * gbps},
		{"both counters in fast recovery", 4, 4, false, 15 * gbps, 20 * gbps},
		{"the timer has had five", 5, 0, false, 15_500 * units.Mbps, 21 * gbps},
		{"the byte counter has had five", 0, 5, false, 15_500 * units.Mbps, 21 * gbps},
		{"both have had five", 5, 5, false, 15_500 * units.Mbps, 21 * gbps},
		{"one beyond five", 9, 5, false, 15_500 * units.Mbps, 21 * gbps},
		{"both beyond five", 6, 6, false, 20 * gbps, 30 * gbps},
		{"timer alone, fast recovery", 4, 0, true, 15 * gbps, 20 * gbps},
		{"timer alone, additive", 5, 0, true, 15_500 * units.Mbps, 21 * gbps},
		{"timer alone, hyper", 6, 0, true, 20 * gbps, 30 * gbps},
	} {
		config := paperPreset(40 * gbps)
		config.RPGAIRate, config.RPGHAIRate = gbps, 10*gbps
		if c.noBytes {
			config.RPGByteReset = 0
		}
		r := New(&config, 40*gbps)
		r.OnCNP(0)
		r.rate, r.target, r.timeStage, r.byteStage = 10*gbps, 20*gbps, c.time, c.byte
		r.OnTimer(r.NextTimer())
		got := r.State(r.NextTimer() - 1)
		want := State{Limited: true, Rate: c.rate, Target: c.target, Alpha: got.Alpha, TimeStage: int(c.time) + 1, ByteStage: int(c.byte)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestClamp checks the target after a decrease from 10 Gb/s.
func TestClamp(t *testing.T) {
	for _, c := range []struct {
		clamp, afterTime bool
		time, byte       uint32
		want             units.Rate
	}{
		{false, false, 0, 0, 20}, {false, false, 1, 0, 20}, {false, false, 0, 1, 10},
		{false, true, 0, 0, 20}, {false, true, 1, 0, 10}, {false, true, 0, 1, 10},
		{true, false, 0, 0, 10}, {true, false, 1, 0, 10},
	} {
		config := paperPreset(40 * units.Gbps)
		config.ClampTgtRate, config.ClampTgtRateAfterTimeInc = c.clamp, c.afterTime
		r := New(&config, 40*units.Gbps)
		r.OnCNP(0)
		r.rate, r.target, r.timeStage, r.byteStage = 10*units.Gbps, 20*units.Gbps, c.time, c.byte
		r.OnCNP(units.Microsecond)
		if r.rate != 5*units.Gbps || r.target != c.want*units.Gbps {
			t.Errorf("%+v: rate %v, target %v", c, r.rate, r.target)
		}
	}
}

// TestShareIsAtMostTheRate: rpg_gd below 10 would subtract more than the rate.
func TestShareIsAtMostTheRate(t *testing.T) {
	for _, c := range []struct {
		rate units.Rate
		gd   int
		want units.Rate
	}{{8, 11, 4}, {8, 10, 8}, {8, 9, 8}, {8, 13, 1}, {100_000 * units.Tbps, 0, 100_000 * units.Tbps}} {
		r := Control{config: &Config{RPGGD: c.gd}, rate: c.rate, alpha: one}
		if got := r.increaseShare(); got != c.want {
			t.Errorf("rpg_gd %d takes %v of %v, want %v", c.gd, got, c.rate, c.want)
		}
	}
}

// TestNotificationsKeepTheirDistance: for any arrivals there are never two CNPs
// within N, never one without CE, and no marked packet that is neither answered
// nor within N after a CNP.
func TestNotificationsKeepTheirDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := connectxPreset()
		c.NPMinTimeBetweenCNPs = units.Time(rapid.Int64Range(0, 20).Draw(t, "N"))
		var n cc.Notification
		last := units.Time(-100)
		now := units.Time(0)
		for range rapid.IntRange(1, 100).Draw(t, "packets") {
			now += units.Time(rapid.Int64Range(0, 8).Draw(t, "gap"))
			ce := rapid.Bool().Draw(t, "CE")
			got := n.NeedsCNP(now, ce, c.NPMinTimeBetweenCNPs)
			if want := ce && now-last >= c.NPMinTimeBetweenCNPs; got != want {
				t.Fatalf("%d ps after a CNP, CE %v: CNP %v", now-last, ce, got)
			}
			if got {
				last = now
			}
		}
	})
}

// TestConfigAsText: all presets are valid at all line rates from 1 Mb/s that
// their minimum rate allows, and survive YAML and JSON.
func TestConfigAsText(t *testing.T) {
	cctest.CheckPresets(t, "dcqcn", 100*units.Mbps, units.Gbps, 10*units.Gbps, 400*units.Gbps, 1_600*units.Gbps)
}

// TestStateIsSmall: a NIC has many flows.
func TestStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 128 {
		t.Errorf("a reaction point is %d bytes", n)
	}
	if n := unsafe.Sizeof(cc.Notification{}); n > 8 {
		t.Errorf("a notification point is %d bytes", n)
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

// traffic is a flow of 1 KB packets at its rate, of which every 50th is marked.
type traffic struct {
	c   Config
	rp  cc.Control
	np  cc.Notification
	ack cc.Ack
	at  units.Time
	n   int
}

func newTraffic() *traffic {
	f := &traffic{c: connectxPreset()}
	f.rp = New(&f.c, 100*units.Gbps)
	return f
}

func (f *traffic) packet() {
	for f.rp.NextTimer() <= f.at {
		f.rp.OnTimer(f.rp.NextTimer())
	}
	f.rp.OnPacketSent(f.at, 1048)
	f.n++
	if f.np.NeedsCNP(f.at, f.n%50 == 0, f.c.NPMinTimeBetweenCNPs) {
		f.rp.OnCNP(f.at)
	}
	f.ack.RTT = 10 * units.Microsecond
	f.rp.OnAck(f.at, &f.ack)
	f.at += f.rp.Rate().TimeOf(1048)
}
