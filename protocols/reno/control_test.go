package reno

import (
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

// TestSawtooth: flows fill a link with a buffer of one BDP, and share it. The queue of a
// single flow oscillates between empty and full, as half of the window is one BDP.
func TestSawtooth(t *testing.T) {
	for _, c := range []struct {
		flows      int
		ecn        bool
		low, high  float64 // of the buffer, mean
		jain, full float64
	}{
		{1, false, 0.3, 0.65, 1, 0.97}, {2, false, 0.3, 0.8, 0.9, 0.97}, {8, false, 0.4, 0.9, 0.85, 0.97}, {2, true, 0.1, 0.6, 0.9, 0.9},
	} {
		d := &tcptest.Dumbbell{Line: 100 * units.Mbps, NIC: units.Gbps, RTT: 20 * units.Millisecond, Buffer: 250 * units.KB, Config: tcp.Default()}
		config := Preset("rfc")
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
		share, jain := queue/float64(d.Buffer), tcptest.Jain(flows...)
		t.Logf("%d flows, ECN %v: %.4f of the link, mean queue %.3f of the buffer, Jain's index %.4f, %d drops, %d marks", c.flows, c.ecn, used, share, jain, d.Dropped, d.Marked)
		if used < c.full || share < c.low || share > c.high || jain < c.jain {
			t.Errorf("%d flows, ECN %v: %.4f of the link, mean queue %.3f of the buffer, Jain's index %.4f", c.flows, c.ecn, used, share, jain)
		}
		if c.ecn && (d.Dropped > 0 || d.Marked == 0) {
			t.Errorf("with ECN %d packets were dropped, %d marked", d.Dropped, d.Marked)
		}
	}
}

// TestUndo: a spurious recovery leaves no trace.
func TestUndo(t *testing.T) {
	c := Preset("rfc")
	r := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100})
	r.OnLoss(0, cc.Loss{Payload: 1000})
	if r.Window() != 5000 {
		t.Fatalf("a loss leaves %d", r.Window())
	}
	if r.UndoReduction(0); r.Window() != 10_000 || r.ssthresh != unlimited {
		t.Errorf("taken back, it is %d", r.Window())
	}
	r.OnLoss(0, cc.Loss{Payload: 1000, Timeout: true})
	if r.Window() != 1000 || r.ssthresh != 5000 {
		t.Errorf("a timeout leaves %d, and slow start until %d", r.Window(), r.ssthresh)
	}
	if r.UndoReduction(0); r.Window() != 10_000 {
		t.Errorf("taken back, it is %d", r.Window())
	}
}

// TestBounds: whatever happens, the window is at least one packet.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Preset("rfc")
		c.ECN = rapid.Bool().Draw(t, "ecn")
		r := New(&c, cc.Flow{Line: units.Gbps, MTU: 1000, Packet: 1100})
		var a cc.Ack
		for range rapid.IntRange(1, 100).Draw(t, "inputs") {
			switch rapid.IntRange(0, 9).Draw(t, "input") {
			case 0:
				r.OnLoss(0, cc.Loss{Payload: 1000, Timeout: rapid.Bool().Draw(t, "timeout")})
			case 1:
				r.UndoReduction(0)
			default:
				a.Sent += units.Bytes(rapid.Int64Range(0, 200_000).Draw(t, "sent"))
				a.Newly = units.Bytes(rapid.Int64Range(0, int64(a.Sent-a.Acked)).Draw(t, "newly"))
				a.Acked += a.Newly
				a.InFlight = a.Sent - a.Acked
				a.Marked = rapid.Bool().Draw(t, "marked")
				r.OnAck(0, &a)
			}
			if r.Window() < 1000 || r.credit < 0 || r.credit >= r.cwnd {
				t.Fatalf("window %d, credit %d", r.Window(), r.credit)
			}
		}
	})
}

func TestPresets(t *testing.T) { cctest.CheckPresets(t, "reno", units.Mbps, 400*units.Gbps) }

// TestSize: a flow's control is small.
func TestSize(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 256 {
		t.Errorf("%d bytes", n)
	}
}

// TestValidate: errors name the parameter.
func TestValidate(t *testing.T) {
	c := Config{InitialCwnd: 0, Decrease: 1}
	err := c.Validate(units.Gbps)
	for _, key := range []string{"initial_cwnd", "decrease"} {
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("nothing about %s in %v", key, err)
		}
	}
}
