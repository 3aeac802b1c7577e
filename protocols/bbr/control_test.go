package bbr

import (
	"math/rand/v2"
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

// TestBottleneck: a flow fills the link and keeps the queue short, however long the buffer;
// several have about a BDP in the queue (cwnd_gain is 2), with their bursts up to two, and share
// the link.
func TestBottleneck(t *testing.T) {
	bdp := float64(units.Rate(100 * units.Mbps).BytesIn(20 * units.Millisecond))
	for _, c := range []struct {
		flows           int
		used, low, high float64 // of the link; queue, of a BDP
		jain            float64
	}{{1, 0.94, 0, 0.2, 1}, {2, 0.95, 0.2, 1.3, 0.8}, {8, 0.95, 0.3, 2, 0.7}} {
		d := &tcptest.Dumbbell{Line: 100 * units.Mbps, NIC: units.Gbps, RTT: 20 * units.Millisecond, Buffer: 2500 * units.KB, Config: tcp.Default()}
		config := Preset("v1")
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
		t.Logf("%d flows: %.4f of the link, mean queue %.3f BDP, Jain's index %.4f, %d drops", c.flows, used, queue/bdp, jain, d.Dropped)
		if used < c.used || queue < c.low*bdp || queue > c.high*bdp || jain < c.jain {
			t.Errorf("%d flows: %.4f of the link, mean queue %.3f BDP, Jain's index %.4f", c.flows, used, queue/bdp, jain)
		}
	}
}

// TestStates: a flow goes through Startup and Drain to ProbeBW, knows the path, and measures
// the RTT again every ten seconds.
func TestStates(t *testing.T) {
	d := &tcptest.Dumbbell{Line: 100 * units.Mbps, NIC: units.Gbps, RTT: 20 * units.Millisecond, Buffer: 2500 * units.KB, Config: tcp.Default()}
	config := Preset("v1")
	f := d.Start(&config, 1<<40)
	b := f.Sender.Control().(*Control)
	seen := map[state]int{}
	for d.Now < 12*units.Second {
		if d.Now == 1500*units.Millisecond {
			d.Start(&config, 1<<40) // a flow alone sees the least RTT again and again
		}
		d.Run(d.Now + units.Millisecond)
		seen[b.state]++
		if d.Now == units.Second {
			if b.state != probeBW {
				t.Errorf("after a second the state is %d", b.state)
			}
			want := 100e6 * 1448 / 1538
			if bw := float64(b.btlbw.maxRate()); bw < 0.99*want || bw > 1.05*want {
				t.Errorf("BtlBw is %v, the path's is %.0f", b.btlbw.maxRate(), want)
			}
			if b.rtprop < 20*units.Millisecond || b.rtprop > 21*units.Millisecond {
				t.Errorf("RTprop is %v", b.rtprop)
			}
		}
	}
	t.Logf("milliseconds in each state: %d", seen)
	if seen[startup] < 80 || seen[drain] == 0 || seen[probeRTT] < 200 || seen[probeRTT] > 300 {
		t.Errorf("milliseconds in each state: %d", seen)
	}
}

// TestLoss: losses that say nothing about the path cost little throughput.
func TestLoss(t *testing.T) {
	d := &tcptest.Dumbbell{Line: 100 * units.Mbps, NIC: units.Gbps, RTT: 20 * units.Millisecond, Buffer: 60 * units.KB, Config: tcp.Default()}
	config := Preset("v1")
	f := d.Start(&config, 1<<40)
	d.Run(2 * units.Second)
	d.RestartMeasurement(f)
	d.Run(8 * units.Second)
	_, used := d.Results()
	t.Logf("with a buffer of a quarter of a BDP: %.4f of the link, %d drops", used, d.Dropped)
	if used < 0.9 {
		t.Errorf("with a buffer of a quarter of a BDP %.4f of the link are used", used)
	}
}

// TestFilter: the filter returns a sample of the last rounds, and the largest if samples come
// in every round.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := maxFilter{rounds: 10}
		var all []units.Rate
		for range rapid.IntRange(1, 100).Draw(t, "rounds") {
			r := units.Rate(rapid.Int64Range(1, 100).Draw(t, "rate"))
			all = append(all, r)
			f.addSample(uint32(len(all)), r)
			largest, known := units.Rate(0), false
			for _, x := range all[max(0, len(all)-11):] {
				largest = max(largest, x)
				known = known || x == f.maxRate()
			}
			if !known || f.maxRate() > largest || f.maxRate() < all[len(all)-1] {
				t.Fatalf("the largest of %v is %d", all, f.maxRate())
			}
		}
	})
}

// TestBounds: for any input there is a window, and the rate does not exceed the line's.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Preset("v1")
		b := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100, Rand: rand.New(rand.NewPCG(1, 2))})
		var a cc.Ack
		now := units.Time(0)
		for range rapid.IntRange(1, 200).Draw(t, "inputs") {
			now += units.Time(rapid.Int64Range(0, int64(units.Second)).Draw(t, "later"))
			switch rapid.IntRange(0, 9).Draw(t, "input") {
			case 0:
				b.OnLoss(now, cc.Loss{Payload: 1000, Timeout: rapid.Bool().Draw(t, "timeout")})
			case 1:
				b.UndoReduction(now)
			case 2:
				b.SetActive(now, rapid.Bool().Draw(t, "active"))
			default:
				a.Sent += units.Bytes(rapid.Int64Range(0, 200_000).Draw(t, "sent"))
				a.Newly = units.Bytes(rapid.Int64Range(0, int64(a.Sent-a.Acked)).Draw(t, "newly"))
				a.Delivery.Prior = units.Bytes(rapid.Int64Range(0, int64(a.Acked)).Draw(t, "prior"))
				a.Acked += a.Newly
				a.InFlight = a.Sent - a.Acked
				a.RTT = units.Time(rapid.Int64Range(1, int64(units.Second)).Draw(t, "rtt"))
				a.Delivery.Total = a.Acked
				a.Delivery.Interval = units.Time(rapid.Int64Range(0, int64(units.Second)).Draw(t, "interval"))
				a.Delivery.Limited = rapid.Bool().Draw(t, "limited")
				b.OnAck(now, &a)
			}
			if b.Window() < 1000 || b.Rate() < 0 || b.Rate() > units.Gbps {
				t.Fatalf("window %d, rate %v", b.Window(), b.Rate())
			}
		}
	})
}

func TestPresets(t *testing.T) { cctest.CheckPresets(t, "bbr", units.Mbps, 400*units.Gbps) }

// TestSize: a flow's control is small.
func TestSize(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 384 {
		t.Errorf("%d bytes", n)
	}
}

// TestValidate: errors name the parameter.
func TestValidate(t *testing.T) {
	c := Config{HighGain: 1, Margin: 0.6}
	err := c.Validate(units.Gbps)
	for _, key := range []string{"initial_cwnd", "high_gain", "cwnd_gain", "margin", "btlbw_rounds", "rtprop_filter", "probe_rtt"} {
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("nothing about %s in %v", key, err)
		}
	}
}
