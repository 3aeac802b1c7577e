package cubic

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/protocols/tcp/tcptest"
	"github.com/weftlab/weft/sim/units"
)

// TestShares: flows fill a link with a buffer of a BDP, and share it.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		flows  int
		preset string
		ecn    bool
		jain   float64
	}{{1, "rfc", false, 1}, {2, "rfc", false, 0.9}, {8, "rfc", false, 0.85}, {1, "linux", false, 1}, {2, "linux", true, 0.9}} {
		d := &tcptest.Dumbbell{Line: 100 * units.Mbps, NIC: units.Gbps, RTT: 20 * units.Millisecond, Buffer: 250 * units.KB, Config: tcp.Default()}
		config := Preset(c.preset)
		if config.ECN = c.ecn; c.ecn {
			d.Config.ECN, d.K = tcp.ClassicECN, 125*units.KB
		}
		var flows []*tcptest.Flow
		for i := range c.flows {
			d.Run(units.Time(i) * 30 * units.Millisecond)
			flows = append(flows, d.Start(&config, 1<<40))
		}
		d.Run(8 * units.Second)
		d.RestartMeasurement(flows...)
		d.Run(28 * units.Second)
		queue, used := d.Results()
		jain := tcptest.Jain(flows...)
		t.Logf("%d flows, %s, ECN %v: %.4f of the link, mean queue %.3f of the buffer, Jain's index %.4f, %d drops, %d marks",
			c.flows, c.preset, c.ecn, used, queue/float64(d.Buffer), jain, d.Dropped, d.Marked)
		if used < 0.97 || jain < c.jain {
			t.Errorf("%d flows, %s, ECN %v: %.4f of the link, Jain's index %.4f", c.flows, c.preset, c.ecn, used, jain)
		}
	}
}

// TestHyStart: on a path whose buffer is a BDP slow start ends before the first loss, and
// without it does not. The drops with it are one round trip's growth by initial_growth.
func TestHyStart(t *testing.T) {
	drops := func(preset string) int {
		d := &tcptest.Dumbbell{Line: 100 * units.Mbps, NIC: units.Gbps, RTT: 40 * units.Millisecond, Buffer: 500 * units.KB, Config: tcp.Default()}
		config := Preset(preset)
		f := d.Start(&config, 1<<40)
		d.Run(2 * units.Second)
		t.Logf("%s: %d drops, %v received", preset, d.Dropped, f.Receiver.ReceivedBytes())
		if f.Receiver.ReceivedBytes() < 15*units.MB {
			t.Errorf("%s: only %v came in 2s", preset, f.Receiver.ReceivedBytes())
		}
		return d.Dropped
	}
	// The window is twice the BDP of 330 packets when the buffer is full.
	if n := drops("linux"); n > 40 {
		t.Errorf("with HyStart %d packets were dropped", n)
	}
	if n := drops("rfc"); n < 300 {
		t.Errorf("without HyStart %d packets were dropped", n)
	}
}

// TestAckDelay: the train of acknowledgements that ends slow start may be longer by four
// super-packets at the rate of slow start, and by 1 ms at most (Linux's hystart_ack_delay).
func TestAckDelay(t *testing.T) {
	for _, c := range []struct {
		rtt, want units.Time
		cwnd      units.Bytes
	}{
		{20 * units.Millisecond, units.Millisecond, 150 * units.KB},
		{20 * units.Microsecond, 2621440 * units.Picosecond, 1000 * units.KB},
	} {
		if got := ackDelay(c.rtt, c.cwnd); got != c.want {
			t.Errorf("RTT %v, window %v: %v, not %v", c.rtt, c.cwnd, got, c.want)
		}
	}
}

// TestInitialGrowth: while no window is known at which packets were lost, Linux's grows by 5% a
// round trip, as the cubic function alone would not; so it does again after a timeout (RFC 9438
// §4.8: the epoch begins at W_max), and not after a loss.
func TestInitialGrowth(t *testing.T) {
	const mtu, rtt = 1000, 10 * units.Millisecond
	for _, preset := range Presets {
		c := Preset(preset)
		c.HyStart, c.RenoFriendly = false, false
		f := New(&c, cc.Flow{Line: 10 * units.Gbps, MTU: mtu, Packet: 1100})
		f.cwnd, f.ssthresh = 100*mtu, 100*mtu
		var a cc.Ack
		now := units.Time(0)
		grown := func() float64 {
			before := f.toPackets(f.cwnd)
			for k := f.cwnd / mtu; k > 0; k-- {
				now += rtt / units.Time(f.cwnd/mtu)
				a.Acked += mtu
				a.Sent, a.Newly, a.InFlight, a.RTT = a.Acked+f.cwnd, mtu, f.cwnd, rtt
				f.OnAck(now, &a)
			}
			return f.toPackets(f.cwnd)/before - 1
		}
		want := float64(c.InitialGrowth)
		if got := grown(); math.Abs(got-want) > 0.002 {
			t.Errorf("%s: at first the window grows by %.4f of it, not %.4f", preset, got, want)
		}
		f.OnLoss(now, cc.Loss{Payload: mtu})
		f.episode.End()
		// Of 105 packets 30% are regained in K, which is 4.3 s; most of it in the first round trips.
		if got := grown(); got < 0.001 || got > 0.01 {
			t.Errorf("%s: after a loss the window grows by %.4f of it", preset, got)
		}
		f.OnLoss(now, cc.Loss{Payload: mtu, Timeout: true})
		for f.cwnd < f.ssthresh {
			grown()
		}
		if f.wMax > f.toPackets(f.cwnd) || f.growing && f.k != 0 {
			t.Errorf("%s: after a timeout W_max is %.1f, K %.3f s", preset, f.wMax, f.k)
		}
		if got := grown(); math.Abs(got-want) > 0.002 {
			t.Errorf("%s: after a timeout the window grows by %.4f of it, not %.4f", preset, got, want)
		}
	}
}

// TestFunction: after a loss the window is β times its old size, K later it has that size
// again, and in between it follows the function (RFC 9438 §4.2).
func TestFunction(t *testing.T) {
	c := Preset("rfc")
	c.RenoFriendly = false
	const mtu = 1000
	const rtt = 100 * units.Millisecond
	f := New(&c, cc.Flow{Line: 10 * units.Gbps, MTU: mtu, Packet: 1100})
	f.cwnd = 1000 * mtu
	f.OnLoss(0, cc.Loss{Payload: mtu})
	if f.cwnd != 700*mtu {
		t.Fatalf("a loss leaves %d of 1000 packets", f.cwnd/mtu)
	}
	f.episode.End()
	k := math.Cbrt(300 / 0.4)
	var a cc.Ack
	for now := units.Time(0); now < 20*units.Second; {
		// An acknowledgement of each packet, over an RTT.
		for n := f.cwnd / mtu; n > 0; n-- {
			now += rtt / units.Time(f.cwnd/mtu)
			a.Acked += mtu
			a.Sent, a.Newly, a.InFlight, a.RTT = a.Acked+f.cwnd, mtu, f.cwnd, rtt
			f.OnAck(now, &a)
		}
		d := (now - f.epoch).Seconds() - k
		want := 0.4*d*d*d + 1000
		if got := f.toPackets(f.cwnd); math.Abs(got-want) > 0.02*want {
			t.Fatalf("at %v the window is %.1f packets, not %.1f", now, got, want)
		}
	}
}

// TestAlphaOne: where NewReno is faster than the function, the window grows by α per round trip
// up to its size at the loss, and from there by a packet, or by α with alpha_one off.
func TestAlphaOne(t *testing.T) {
	const mtu = 1000
	const rtt = 10 * units.Millisecond
	for _, one := range []bool{true, false} {
		c := Preset("rfc")
		c.AlphaOne = one
		f := New(&c, cc.Flow{Line: 10 * units.Gbps, MTU: mtu, Packet: 1100})
		f.cwnd = 40 * mtu
		f.OnLoss(0, cc.Loss{Payload: mtu})
		f.episode.End()
		var a cc.Ack
		now := units.Time(0)
		rounds := func(n int) (grown float64) {
			before := f.toPackets(f.cwnd)
			for range n {
				for k := f.cwnd / mtu; k > 0; k-- {
					now += rtt / units.Time(f.cwnd/mtu)
					a.Acked += mtu
					a.Sent, a.Newly, a.InFlight, a.RTT = a.Acked+f.cwnd, mtu, f.cwnd, rtt
					f.OnAck(now, &a)
				}
			}
			return (f.toPackets(f.cwnd) - before) / float64(n)
		}
		const alpha = 3 * 0.3 / 1.7
		if got := rounds(20); math.Abs(got-alpha) > 0.03 {
			t.Errorf("below where it was the window grows by %.3f packets a round trip, not %.3f", got, alpha)
		}
		for f.toPackets(f.cwnd) < 41 {
			rounds(1)
		}
		want := alpha
		if one {
			want = 1
		}
		if got := rounds(10); math.Abs(got-want) > 0.06 {
			t.Errorf("alpha_one %v: above it the window grows by %.3f packets a round trip, not %.3f", one, got, want)
		}
	}
}

// TestUndo: a spurious recovery leaves no trace.
func TestUndo(t *testing.T) {
	c := Preset("rfc")
	f := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100})
	f.OnLoss(0, cc.Loss{Payload: 1000})
	if f.Window() != 7000 || f.wMax != 10 {
		t.Fatalf("a loss leaves %d, W_max is %v", f.Window(), f.wMax)
	}
	if f.UndoReduction(0); f.Window() != 10_000 || f.ssthresh != unlimited || f.wMax != 0 {
		t.Errorf("taken back, it is %d, W_max %v", f.Window(), f.wMax)
	}
}

// TestRests: time stands still while a flow has nothing to send.
func TestRests(t *testing.T) {
	c := Preset("rfc")
	f := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100})
	f.SetActive(0, true)
	f.epoch = units.Second
	f.SetActive(2*units.Second, false)
	f.SetActive(7*units.Second, true)
	if f.epoch != 6*units.Second {
		t.Errorf("the epoch began at %v", f.epoch)
	}
}

// TestBounds: for any input, the window is at least a packet.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Preset(rapid.SampledFrom(Presets).Draw(t, "preset"))
		c.ECN = rapid.Bool().Draw(t, "ecn")
		c.FastConvergence = rapid.Bool().Draw(t, "fast")
		c.RenoFriendly = rapid.Bool().Draw(t, "friendly")
		f := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100})
		var a cc.Ack
		now := units.Time(0)
		for range rapid.IntRange(1, 100).Draw(t, "inputs") {
			now += units.Time(rapid.Int64Range(0, int64(units.Second)).Draw(t, "later"))
			switch rapid.IntRange(0, 9).Draw(t, "input") {
			case 0:
				f.OnLoss(now, cc.Loss{Payload: 1000, Timeout: rapid.Bool().Draw(t, "timeout")})
			case 1:
				f.UndoReduction(now)
			case 2:
				f.SetActive(now, rapid.Bool().Draw(t, "active"))
			default:
				a.Sent += units.Bytes(rapid.Int64Range(0, 200_000).Draw(t, "sent"))
				a.Newly = units.Bytes(rapid.Int64Range(0, int64(a.Sent-a.Acked)).Draw(t, "newly"))
				a.Acked += a.Newly
				a.InFlight = a.Sent - a.Acked
				a.RTT = units.Time(rapid.Int64Range(1, int64(units.Second)).Draw(t, "rtt"))
				a.Marked = rapid.Bool().Draw(t, "marked")
				before := f.Window()
				f.OnAck(now, &a)
				if f.Window() > before+max(a.Newly, before) {
					t.Fatalf("%d bytes raise the window from %d to %d", a.Newly, before, f.Window())
				}
			}
			if f.Window() < 1000 {
				t.Fatalf("window %d", f.Window())
			}
		}
	})
}

func TestPresets(t *testing.T) { cctest.CheckPresets(t, "cubic", units.Mbps, 400*units.Gbps) }

// TestSize: a flow's control is small.
func TestSize(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 384 {
		t.Errorf("%d bytes", n)
	}
}

// TestValidate: errors name the parameter.
func TestValidate(t *testing.T) {
	c := Config{InitialCwnd: 0, C: math.NaN(), Beta: 1, InitialGrowth: 0.51}
	err := c.Validate(units.Gbps)
	for _, key := range []string{"initial_cwnd", "c", "beta", "initial_growth"} {
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("nothing about %s in %v", key, err)
		}
	}
}
