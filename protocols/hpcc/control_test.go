package hpcc

import (
	"testing"
	"unsafe"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

// incast is a port of 100 Gb/s with an RTT of 13 us, as in the paper's simulations.
func incast() *cctest.Bottleneck {
	b := &cctest.Bottleneck{Line: 100 * units.Gbps, NIC: 100 * units.Gbps, MTU: 1000, Packet: 1100}
	b.Delay = 13*units.Microsecond - b.RTT()
	return b
}

// TestConvergence: flows that begin at the line rate all at once, or one after the other,
// converge to equal shares of η of the link and next to no queue.
func TestConvergence(t *testing.T) {
	const ms = units.Millisecond
	for _, c := range []struct {
		preset   string
		reaction Reaction
		flows    int
		apart    units.Time
		settle   units.Time
		queue    float64 // highest mean allowed
		jain     float64 // least
	}{
		{"paper", Combined, 1, 0, ms, 1, 1}, {"paper", Combined, 2, 0, 5 * ms, 1000, 0.99}, {"paper", Combined, 16, 0, 10 * ms, 4000, 0.985},
		// Shares become equal by W_AI alone, a thousandth of W_init or less in an RTT.
		{"paper", Combined, 4, ms, 16 * ms, 2000, 0.985}, {"paper", PerRTT, 4, ms, 16 * ms, 2000, 0.97},
		// With maxStage 0 the window also rises by U, which leaves shares as they are.
		{"hpcc", Combined, 4, ms, 16 * ms, 2000, 0.9},
	} {
		config := Preset(c.preset, 100*units.Gbps)
		config.Reaction = c.reaction
		b := incast()
		var flows []*cctest.Flow
		for i := range c.flows {
			b.Run(units.Time(i) * c.apart)
			flows = append(flows, b.Start(config.New(b.Flow())))
		}
		b.Run(c.settle)
		b.RestartMeasurement(flows...)
		b.Run(c.settle + 4*ms)
		mean, longest, used := b.Results()
		jain := cctest.Jain(flows...)
		t.Logf("%d flows of %s, %v, %v apart: %.4f of the link, Jain's index %.4f, queue %.0f B, at most %.0f", c.flows, c.preset, c.reaction, c.apart, used, jain, mean, longest)
		if used < 0.945 || used > 0.96 || jain < c.jain || mean > c.queue {
			t.Errorf("%d flows of %s: %.4f of the link, Jain's index %.4f, queue %.0f B", c.flows, c.preset, used, jain, mean)
		}
	}
}

// TestIncast: sixteen flows begin at once with a window of a BDP each, 2.6 MB in all. Once that
// has been sent, 220 us later, the queue is empty and stays so.
func TestIncast(t *testing.T) {
	config := Preset("paper", 100*units.Gbps)
	b := incast()
	for range 16 {
		b.Start(config.New(b.Flow()))
	}
	b.Run(300 * units.Microsecond)
	_, longest, _ := b.Results()
	b.RestartMeasurement()
	b.Run(2 * units.Millisecond)
	mean, after, used := b.Results()
	t.Logf("queue at most %.0f B, then %.0f B and %.0f B at most, %.4f of the link", longest, mean, after, used)
	if longest < 1e6 || mean > 5000 || after > 30_000 || used < 0.9 {
		t.Errorf("queue at most %.0f B, then %.0f B and %.0f B at most, %.4f of the link", longest, mean, after, used)
	}
}

// TestReclaim: when three of four flows stop, the last one takes η of the link, through U after
// at most maxStage additive increases. With those alone it would take some 700 round trips.
func TestReclaim(t *testing.T) {
	config := Preset("paper", 100*units.Gbps)
	b := incast()
	var flows []*cctest.Flow
	for range 4 {
		flows = append(flows, b.Start(config.New(b.Flow())))
	}
	b.Run(3 * units.Millisecond)
	for _, f := range flows[1:] {
		f.Stop()
	}
	b.Run(3*units.Millisecond + 12*b.RTT())
	b.RestartMeasurement()
	b.Run(4 * units.Millisecond)
	if _, _, used := b.Results(); used < 0.94 {
		t.Errorf("%.4f of the link 12 round trips after the others stopped", used)
	}
}

// TestPerACKOverreacts: with W_c set at every acknowledgement, the flow reacts to the same
// congestion again and again, and the link is not filled (§5.4).
func TestPerACKOverreacts(t *testing.T) {
	config := Preset("paper", 100*units.Gbps)
	used := func(r Reaction) float64 {
		c := config
		c.Reaction = r
		b := incast()
		for range 2 {
			b.Start(c.New(b.Flow()))
		}
		b.Run(100 * units.Microsecond)
		b.RestartMeasurement()
		b.Run(300 * units.Microsecond)
		_, _, used := b.Results()
		return used
	}
	combined, ack := used(Combined), used(PerACK)
	t.Logf("%.3f of the link, with reaction ack %.3f", combined, ack)
	if ack > combined-0.1 {
		t.Errorf("%.3f of the link, with reaction ack %.3f", combined, ack)
	}
}

// TestConfigAsText: the presets are valid at all line rates, and survive YAML and JSON.
func TestConfigAsText(t *testing.T) {
	cctest.CheckPresets(t, "hpcc", units.Mbps, units.Gbps, 100*units.Gbps, 1_600*units.Gbps)
}

// TestGauges: their values fit their descriptions before and after the first
// acknowledgement.
func TestGauges(t *testing.T) {
	h, ack := measured()
	if got, want := cctest.FormatGauges(t, "hpcc", h), "w 162500B w_c 162500B inc_stage 0 base_rtt 1.3e-05s hops 0"; got != want {
		t.Errorf("at the start %s, want %s", got, want)
	}
	ack()
	ack()
	if got, want := cctest.FormatGauges(t, "hpcc", h), "u 0.998031 w 154761B w_c 162500B inc_stage 0 base_rtt 1.3e-05s rtt 1.4e-05s hops 3"; got != want {
		t.Errorf("after two acknowledgements %s, want %s", got, want)
	}
}

// TestStateIsSmall: a NIC has many flows.
func TestStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 208 {
		t.Errorf("the state of a flow is %d bytes", n)
	}
}

func TestAnAcknowledgementDoesNotAllocate(t *testing.T) {
	_, ack := measured()
	if n := testing.AllocsPerRun(1000, ack); n != 0 {
		t.Errorf("%v allocations an acknowledgement", n)
	}
}

func BenchmarkAck(b *testing.B) {
	_, ack := measured()
	b.ReportAllocs()
	for b.Loop() {
		ack()
	}
}

// measured returns a flow through three ports of 400, 100 and 100 Gb/s, and a function that
// gives it the next acknowledgement.
func measured() (*Control, func()) {
	config := Preset("paper", 100*units.Gbps)
	h := New(&config, cc.Flow{Line: 100 * units.Gbps, MTU: 1000, Packet: 1100, Path: cc.Path{RTT: 13 * units.Microsecond}})
	fast, _ := telemetry.RateCode(400 * units.Gbps)
	slow, _ := telemetry.RateCode(100 * units.Gbps)
	now, sent := units.Time(0), units.Bytes(0)
	hops := make([]telemetry.Hop, 3)
	ack := cc.Ack{Sent: 100_000, Newly: 1000, Packets: 1, RTT: 14 * units.Microsecond, Hops: hops}
	return h, func() {
		now += 128 * units.Nanosecond
		sent += 1280
		ack.Acked += 1000
		ack.Sent += 1000
		hops[0] = telemetry.NewHop(fast, now, 3*sent, 0)
		hops[1] = telemetry.NewHop(slow, now, sent, 0)
		hops[2] = telemetry.NewHop(slow, now, sent/2, 1600)
		h.OnAck(now, &ack)
		if h.Window() > 0 && h.Rate() > 0 {
			h.OnPacketSent(now, 1100)
		}
	}
}
