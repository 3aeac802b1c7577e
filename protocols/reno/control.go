// Package reno implements NewReno's congestion control at the sender (RFC 5681, RFC 6582):
// slow start, then one more packet per window, and half the window after a window with a
// loss.
//
// Bytes are payload, and growth is counted in bytes (RFC 3465, without its limit per
// acknowledgement). After a loss, ssthresh is half of the window and not of the flight, as
// in Linux; the window only grows while it is fully used, so the two differ little. The
// control's owner decides which packets to retransmit, and when.
package reno

import (
	"math"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("reno", cc.Method{
		Summary: "NewReno (RFC 5681, RFC 6582): one packet more per window, half of the window at a loss",
		Presets: Presets,
		Preset: func(name string, _ units.Rate) cc.Settings {
			c := Preset(name)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "cwnd", Unit: gauge.Bytes, Help: "congestion window, in payload", Brief: true},
			{Name: "ssthresh", Unit: gauge.Bytes, Help: "slow start threshold; none before the first loss"},
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
	credit         units.Bytes // bytes acknowledged since the window last grew by a packet
	episode        cc.Episode
	before         [2]units.Bytes // cwnd and ssthresh before the last loss; 0 if there was none
}

var _ cc.Undoer = (*Control)(nil)

// New returns the control of a flow. c has passed Validate and is shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	return &Control{config: c, mtu: f.MTU, cwnd: units.Bytes(c.InitialCwnd) * f.MTU, ssthresh: unlimited}
}

// OnAck handles an acknowledgement.
func (r *Control) OnAck(_ units.Time, a *cc.Ack) {
	r.episode.OnAck(a)
	switch {
	case r.episode.IsActive():
	case a.Marked && r.config.ECN:
		r.reduceWindow()
		r.episode.BeginAt(a)
	case cc.HeldBack(a, r.cwnd, r.mtu, r.cwnd < r.ssthresh):
		r.growWindow(a.Newly)
	}
}

// growWindow raises the window for n acknowledged bytes.
func (r *Control) growWindow(n units.Bytes) {
	if r.cwnd < r.ssthresh {
		more := min(n, r.ssthresh-r.cwnd)
		r.cwnd += more
		n -= more
	}
	for r.credit += n; r.credit >= r.cwnd; r.cwnd += r.mtu {
		r.credit -= r.cwnd
	}
}

// reduceWindow lowers the window for a loss or a mark.
func (r *Control) reduceWindow() {
	r.ssthresh = max(units.Bytes(float64(r.cwnd)*float64(r.config.Decrease)), 2*r.mtu)
	r.cwnd, r.credit = r.ssthresh, 0
}

// OnLoss lowers the window once for all packets in flight. After a timeout the flow restarts
// with one packet and slow start.
func (r *Control) OnLoss(_ units.Time, l cc.Loss) {
	if !r.episode.IsActive() {
		r.before = [2]units.Bytes{r.cwnd, r.ssthresh}
	}
	switch {
	case l.Timeout:
		if !r.episode.IsActive() && r.cwnd > r.mtu {
			r.reduceWindow()
		}
		r.cwnd, r.credit = r.mtu, 0
		r.episode.End()
	case !r.episode.IsActive() || l.Again:
		r.reduceWindow()
		r.episode.Begin()
	}
}

// UndoReduction reverts the last reduction (RFC 4015 §3.2).
func (r *Control) UndoReduction(units.Time) {
	if r.before[0] > 0 {
		r.cwnd, r.ssthresh = max(r.cwnd, r.before[0]), max(r.ssthresh, r.before[1])
	}
	r.before = [2]units.Bytes{}
	r.episode.End()
}

// Window returns the congestion window.
func (r *Control) Window() units.Bytes { return r.cwnd }

// AppendGauges implements cc.Control.
func (r *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	ssthresh := gauge.None
	if r.ssthresh < unlimited {
		ssthresh = gauge.SizeValue(r.ssthresh)
	}
	return append(values, gauge.SizeValue(r.cwnd), ssthresh)
}
