package dctcp

import (
	"math"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

// TestQueueAtK: flows fill the link, share it, and keep the queue where the paper's model of
// synchronised flows has it (§3.3): its maximum is K + N packets, and it swings by
// √(2N(C·RTT+K))/2 packets below that.
func TestQueueAtK(t *testing.T) {
	const packet = 1100
	for _, c := range []struct {
		preset string
		flows  int
		k      units.Bytes
	}{
		{"paper", 1, 40 * packet}, {"paper", 2, 40 * packet}, {"paper", 10, 40 * packet}, {"paper", 2, 65 * packet},
		{"hpcc", 2, 40 * packet}, {"hpcc", 10, 40 * packet},
	} {
		b := &cctest.Bottleneck{Line: 10 * units.Gbps, NIC: 40 * units.Gbps, MTU: 1000, Packet: packet, K: c.k}
		b.Delay = 100*units.Microsecond - b.RTT()
		config := Preset(c.preset, b.NIC)
		var flows []*cctest.Flow
		for i := range c.flows {
			b.Run(units.Time(i) * 500 * units.Microsecond)
			flows = append(flows, b.Start(config.New(b.Flow())))
		}
		b.Run(60 * units.Millisecond)
		b.RestartMeasurement(flows...)
		b.Run(120 * units.Millisecond)
		mean, longest, used := b.Results()
		jain := cctest.Jain(flows...)
		k, n := float64(c.k)/packet, float64(c.flows)
		maxWindow := k + n
		swing := math.Sqrt(2*n*(float64(b.Line.BytesIn(b.RTT()))/packet+k)) / 2
		t.Logf("%d flows of %s, K %.0f packets: %.4f of the link, Jain's index %.4f, queue %.1f packets, at most %.0f; the model's %.1f to %.1f",
			c.flows, c.preset, k, used, jain, mean/packet, longest/packet, maxWindow-swing, maxWindow)
		if used < 0.99 || jain < 0.95 {
			t.Errorf("%d flows of %s, K %.0f packets: %.4f of the link, Jain's index %.4f", c.flows, c.preset, k, used, jain)
		}
		if q := mean / packet; q < maxWindow-swing || q > maxWindow || longest/packet > maxWindow+n+1 {
			t.Errorf("%d flows of %s, K %.0f packets: queue %.1f packets, at most %.0f; the model's %.1f to %.1f", c.flows, c.preset, k, q, longest/packet, maxWindow-swing, maxWindow)
		}
	}
}

// TestBounds: for any input, alpha is a share, and the window is at least a packet and, with
// pacing, no more than the line carries in T.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := Preset(rapid.SampledFrom(Presets).Draw(t, "preset"), 100*units.Gbps)
		config.G = units.Fraction(rapid.Float64Range(0.001, 1).Draw(t, "g"))
		f := cc.Flow{Line: 100 * units.Gbps, MTU: 1000, Packet: 1100}
		if rapid.Bool().Draw(t, "path") {
			f.Path = cc.Path{RTT: 10 * units.Microsecond, Bottleneck: 100 * units.Gbps}
		}
		d := New(&config, f)
		var a cc.Ack
		for range rapid.IntRange(1, 100).Draw(t, "inputs") {
			switch rapid.IntRange(0, 9).Draw(t, "input") {
			case 0:
				d.OnLoss(0, cc.Loss{Payload: 1000, Timeout: rapid.Bool().Draw(t, "timeout")})
			case 1:
				d.SetLineRate(0, units.Rate(rapid.Int64Range(1, int64(400*units.Gbps)).Draw(t, "line")))
			default:
				a.Sent += units.Bytes(rapid.Int64Range(0, 200_000).Draw(t, "sent"))
				a.Newly = units.Bytes(rapid.Int64Range(0, int64(a.Sent-a.Acked)).Draw(t, "newly"))
				a.Acked += a.Newly
				a.InFlight = a.Sent - a.Acked
				a.Marked = rapid.Bool().Draw(t, "marked")
				a.RTT = units.Time(rapid.Int64Range(0, 100).Draw(t, "us")) * units.Microsecond
				d.OnAck(0, &a)
			}
			if !(d.alpha >= 0 && d.alpha <= 1) {
				t.Fatalf("alpha is %v", d.alpha)
			}
			if d.Window() < 1000 || config.Pacing && d.t > 0 && d.Window() > max(1000, d.maxWindow(), d.toPayload(config.MinRate.BytesIn(d.t))) {
				t.Fatalf("the window is %d", d.Window())
			}
			if r := d.Rate(); r < 0 || r > d.line || config.Pacing && d.t > 0 && r == 0 {
				t.Fatalf("the rate is %v", r)
			}
		}
	})
}

// TestConfigAsText: the presets are valid at all line rates, and survive YAML and JSON.
func TestConfigAsText(t *testing.T) {
	cctest.CheckPresets(t, "dctcp", units.Mbps, units.Gbps, 100*units.Gbps, 1_600*units.Gbps)
}

// TestGauges: their values fit their descriptions.
func TestGauges(t *testing.T) {
	config := Preset("paper", 10*units.Gbps)
	d := New(&config, cc.Flow{Line: 10 * units.Gbps, MTU: 1000, Packet: 1100})
	if got, want := cctest.FormatGauges(t, "dctcp", d), "alpha 1share f 0share cwnd 14600B slow_start 1yes/no cwr 0yes/no"; got != want {
		t.Errorf("at the start %s, want %s", got, want)
	}
	d.OnAck(0, &cc.Ack{Acked: 1000, Sent: 14_000, Newly: 1000, InFlight: 13_000, Marked: true, RTT: 20 * units.Microsecond})
	if got, want := cctest.FormatGauges(t, "dctcp", d), "alpha 1share f 1share cwnd 7300B slow_start 0yes/no cwr 1yes/no base_rtt 2e-05s rtt 2e-05s"; got != want {
		t.Errorf("after a mark %s, want %s", got, want)
	}
}

// TestStateIsSmall: a NIC has many flows.
func TestStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 160 {
		t.Errorf("the state of a flow is %d bytes", n)
	}
}

func TestAnAcknowledgementDoesNotAllocate(t *testing.T) {
	ack := acknowledged()
	if n := testing.AllocsPerRun(1000, ack); n != 0 {
		t.Errorf("%v allocations an acknowledgement", n)
	}
}

func BenchmarkAck(b *testing.B) {
	ack := acknowledged()
	b.ReportAllocs()
	for b.Loop() {
		ack()
	}
}

// acknowledged returns a function that gives a flow its next acknowledgement; every 50th is
// marked.
func acknowledged() func() {
	config := Preset("hpcc", 100*units.Gbps)
	d := New(&config, cc.Flow{Line: 100 * units.Gbps, MTU: 1000, Packet: 1100, Path: cc.Path{RTT: 13 * units.Microsecond, Bottleneck: 100 * units.Gbps}})
	ack := cc.Ack{Sent: 100_000, Newly: 1000, Packets: 1, RTT: 14 * units.Microsecond, InFlight: 100_000}
	return func() {
		ack.Acked += 1000
		ack.Sent += 1000
		ack.Marked = ack.Acked%50_000 == 0
		d.OnAck(0, &ack)
		if d.Window() > 0 && d.Rate() > 0 {
			d.OnPacketSent(0, 1100)
		}
	}
}

// TestRounded: alpha after a window, in 1024ths, as Linux counts it. The share of marks adds 64
// times as much, rounded down; less than 16 becomes 0.
func TestRounded(t *testing.T) {
	for _, c := range []struct {
		alpha          float64
		marked, window float64
		want           float64
	}{
		{1024, 1, 1, 1024}, {1024, 0, 1, 960}, {960, 4, 11, 900 + 23}, {100, 1, 100, 94}, {100, 2, 100, 94 + 1},
		{17, 0, 1, 16}, {16, 0, 1, 15}, {15, 0, 1, 0}, {15, 1, 2, 32}, {0, 1, 64, 1}, {0, 1, 65, 0},
	} {
		if got := roundAlpha(c.alpha/1024, 1./16, c.marked/c.window) * 1024; got != c.want {
			t.Errorf("%v of %v packets marked, alpha %v: %v, want %v", c.marked, c.window, c.alpha, got, c.want)
		}
	}
}

// TestWholePackets: a reduction is by whole packets, and leaves at least two.
func TestWholePackets(t *testing.T) {
	config := Preset("linux", units.Gbps)
	for _, c := range []struct{ packets, alpha, want units.Bytes }{
		{100, 1024, 50}, {101, 1024, 51}, {100, 20, 100}, {103, 20, 102}, {3, 1024, 2}, {2, 1024, 2}, {88, 71, 85},
	} {
		d := New(&config, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100})
		d.cwnd, d.alpha = c.packets*1000+999, float64(c.alpha)/1024
		if d.reduceWindow(); d.cwnd != c.want*1000 {
			t.Errorf("%d packets, alpha %d: %d bytes are left, want %d packets", c.packets, c.alpha, d.cwnd, c.want)
		}
	}
}

// TestDelayedAcks: if acknowledgements may wait for a second packet, marks and losses leave a
// window of two; a timeout leaves one.
func TestDelayedAcks(t *testing.T) {
	config := Preset("paper", units.Gbps)
	for _, delayed := range []bool{false, true} {
		d := New(&config, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100, DelayedAcks: delayed})
		want := units.Bytes(1000)
		if delayed {
			want = 2000
		}
		var sent units.Bytes
		for range 20 {
			sent += 10_000
			d.OnAck(0, &cc.Ack{Acked: sent, Sent: sent + 10_000, Newly: 10_000, Packets: 10, Marked: true})
		}
		if got := d.Window(); got != want {
			t.Errorf("delayed %v: marks leave a window of %d", delayed, got)
		}
		d.OnLoss(0, cc.Loss{Payload: 1000, Timeout: true})
		if got := d.Window(); got != 1000 {
			t.Errorf("delayed %v: a timeout leaves a window of %d", delayed, got)
		}
		sent += 1000
		d.OnAck(0, &cc.Ack{Acked: sent, Sent: sent, Newly: 1000, Packets: 1, Marked: true})
		d.OnLoss(0, cc.Loss{Payload: 1000})
		if got := d.Window(); got > 2000 {
			t.Errorf("delayed %v: a loss leaves a window of %d after a timeout", delayed, got)
		}
	}
}
