// Package cubic implements the sender's side of CUBIC congestion control (RFC 9438), with
// optional HyStart. After a loss the window grows as a cubic function of the time since then:
// towards its size at the loss, then slowly past it, then ever faster.
//
// Windows are bytes of payload; the function counts in full-size packets. Its time stands still
// while the flow has nothing to send (§4.2 of the RFC's restrictions on application-limited
// flows, §5.8).
package cubic

import (
	"math"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("cubic", cc.Method{
		Summary: "CUBIC (RFC 9438): the window grows as a cubic function of the time since the last loss; HyStart by option",
		Presets: Presets,
		Preset: func(name string, _ units.Rate) cc.Settings {
			c := Preset(name)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "cwnd", Unit: gauge.Bytes, Help: "congestion window, in payload", Brief: true},
			{Name: "ssthresh", Unit: gauge.Bytes, Help: "slow start threshold; none before the first loss"},
			{Name: "w_max", Unit: gauge.Bytes, Help: "window at the last loss"},
			{Name: "w_est", Unit: gauge.Bytes, Help: "window that NewReno would have"},
			{Name: "k", Unit: gauge.Seconds, Help: "K: time from the last loss until the window is w_max again"},
		},
	})
}

// unlimited is ssthresh before the first loss.
const unlimited = units.Bytes(math.MaxInt64)

// Control is the state of one flow.
type Control struct {
	cc.NopControl
	config         *Config
	mtu            units.Bytes
	cwnd, ssthresh units.Bytes
	episode        cc.Episode

	growing bool       // an epoch of congestion avoidance has begun
	probing bool       // in this epoch no window is known at which packets were lost
	epoch   units.Time // when; it moves while the flow rests
	idle    units.Time // since when the flow rests; -1 while it does not
	rtt     units.Time // least so far
	// In packets: the window at the last loss, 0 before the first and after a timeout; NewReno's
	// window; growth that is less than a byte so far.
	wMax, wEst, credit float64
	k                  float64 // seconds
	hystart            hystart

	before saved
}

// saved is the state before a loss.
type saved struct {
	some           bool
	cwnd, ssthresh units.Bytes
	wMax           float64
}

var _ cc.Undoer = (*Control)(nil)

// New returns the control of a flow. c must have passed Validate and is shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	return &Control{config: c, mtu: f.MTU, cwnd: units.Bytes(c.InitialCwnd) * f.MTU, ssthresh: unlimited, idle: -1}
}

// SetActive stops the time of the window function while the flow has nothing to send.
func (c *Control) SetActive(now units.Time, active bool) {
	switch {
	case !active:
		c.idle = now
	case c.idle >= 0:
		c.epoch += now - c.idle
		c.idle = -1
	}
}

// OnAck handles an acknowledgement.
func (c *Control) OnAck(now units.Time, a *cc.Ack) {
	if a.RTT > 0 && (c.rtt == 0 || a.RTT < c.rtt) {
		c.rtt = a.RTT
	}
	c.episode.OnAck(a)
	slow := c.cwnd < c.ssthresh
	switch {
	case c.episode.IsActive():
		return
	case a.Marked && c.config.ECN:
		c.reduceWindow()
		c.episode.BeginAt(a)
		return
	}
	if slow && c.config.HyStart && c.hystart.onAck(now, a, c.rtt, c.cwnd, c.mtu) {
		c.ssthresh = c.cwnd
	}
	if !cc.HeldBack(a, c.cwnd, c.mtu, slow) {
		return
	}
	n := a.Newly
	if c.cwnd < c.ssthresh {
		more := min(n, c.ssthresh-c.cwnd)
		c.cwnd += more
		if n -= more; n == 0 {
			return
		}
	}
	c.avoidCongestion(now, n)
}

// toPackets converts a window to packets.
func (c *Control) toPackets(n units.Bytes) float64 { return float64(n) / float64(c.mtu) }

// avoidCongestion raises the window in congestion avoidance for n acknowledged bytes (§4.2 to §4.5).
// Products are converted explicitly so that the result is the same on every processor.
func (c *Control) avoidCongestion(now units.Time, n units.Bytes) {
	cwnd, acked := c.toPackets(c.cwnd), c.toPackets(n)
	if !c.growing {
		c.growing, c.epoch, c.wEst, c.credit = true, now, cwnd, 0
		c.probing = c.wMax == 0
		if c.wMax < cwnd {
			c.wMax, c.k = cwnd, 0
		} else {
			c.k = math.Cbrt((c.wMax - cwnd) / c.config.C)
		}
	}
	target := c.windowAt(now - c.epoch + c.rtt)
	target = min(max(target, cwnd), 1.5*cwnd)
	more := float64((target-cwnd)/cwnd) * acked
	if c.probing {
		more = max(more, float64(float64(c.config.InitialGrowth)*acked))
	}
	if c.config.RenoFriendly {
		beta := float64(c.config.Beta)
		alpha := 3 * (1 - beta) / (1 + beta)
		if c.config.AlphaOne && c.wEst >= c.wMax {
			alpha = 1
		}
		c.wEst += float64(alpha * acked / cwnd)
		if est := c.wEst; c.windowAt(now-c.epoch) < est && est > cwnd {
			more = max(more, est-cwnd)
		}
	}
	// Windows are whole bytes; the fraction is carried over.
	c.credit += float64(more * float64(c.mtu))
	whole := math.Floor(c.credit)
	c.credit -= whole
	c.cwnd += units.Bytes(whole)
}

// windowAt returns W_cubic at time t after the epoch's beginning, in packets.
func (c *Control) windowAt(t units.Time) float64 {
	d := t.Seconds() - c.k
	return float64(float64(float64(c.config.C*d)*d)*d) + c.wMax
}

// reduceWindow lowers the window for a loss or a mark (§4.6, §4.7).
func (c *Control) reduceWindow() {
	beta := float64(c.config.Beta)
	cwnd := c.toPackets(c.cwnd)
	if cwnd < c.wMax && c.config.FastConvergence {
		c.wMax = float64(cwnd * (1 + beta) / 2)
	} else {
		c.wMax = cwnd
	}
	c.ssthresh = max(units.Bytes(float64(c.cwnd)*beta), 2*c.mtu)
	c.cwnd, c.growing = c.ssthresh, false
}

// OnLoss lowers the window once per flight; after a timeout the flow starts over with one packet
// and slow start.
func (c *Control) OnLoss(_ units.Time, l cc.Loss) {
	if !c.episode.IsActive() {
		c.before = saved{true, c.cwnd, c.ssthresh, c.wMax}
	}
	switch {
	case l.Timeout:
		if !c.episode.IsActive() && c.cwnd > c.mtu {
			c.reduceWindow()
		}
		// The epoch after this slow start begins at its W_max (§4.8).
		c.cwnd, c.growing, c.wMax = c.mtu, false, 0
		c.hystart = hystart{}
		c.episode.End()
	case !c.episode.IsActive() || l.Again:
		c.reduceWindow()
		c.episode.Begin()
	}
}

// UndoReduction reverts the last reduction (§4.9).
func (c *Control) UndoReduction(units.Time) {
	if b := &c.before; b.some {
		c.cwnd, c.ssthresh, c.wMax = max(c.cwnd, b.cwnd), max(c.ssthresh, b.ssthresh), b.wMax
	}
	c.before, c.growing = saved{}, false
	c.episode.End()
}

// Window returns the congestion window.
func (c *Control) Window() units.Bytes { return c.cwnd }

// AppendGauges implements cc.Control.
func (c *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	ssthresh, wMax, wEst, k := gauge.None, gauge.None, gauge.None, gauge.None
	if c.ssthresh < unlimited {
		ssthresh = gauge.SizeValue(c.ssthresh)
	}
	if c.wMax > 0 {
		wMax = c.wMax * float64(c.mtu)
	}
	if c.growing {
		wEst, k = c.wEst*float64(c.mtu), c.k
	}
	return append(values, gauge.SizeValue(c.cwnd), ssthresh, wMax, wEst, k)
}
