// Package dctcp implements DCTCP's rate control at the sender of a NIC: Alizadeh et al., "Data
// Center TCP (DCTCP)", SIGCOMM 2010, and RFC 8257. Switches mark packets that meet a queue
// longer than K; the receiver says in each acknowledgement whether its packet was marked; once
// per window, the sender reduces its window by half of the share of bytes that have recently
// been marked.
//
// Names follow the paper and RFC 8257 §3.3. The differences from the RFC are: bytes are
// payload; an acknowledgement stands for a packet, so the receiver needs no state machine
// (traits); loss halves the window as in TCP (RFC 5681), with a NAK where TCP has duplicate
// acknowledgements. The window does not change while a flow is idle.
package dctcp

import (
	"math"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("dctcp", cc.Method{
		Summary: "DCTCP (Alizadeh et al., SIGCOMM 2010): the share of marked bytes in acknowledgements sets the window of the flow",
		Presets: Presets,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "alpha", Unit: gauge.Share, Help: "estimate of the share of marked bytes", Brief: true},
			{Name: "f", Unit: gauge.Share, Help: "F: share of marked bytes in the last window"},
			{Name: "cwnd", Unit: gauge.Bytes, Help: "congestion window, in payload"},
			{Name: "slow_start", Unit: gauge.YesNo, Help: "whether the window grows by all acknowledged bytes"},
			{Name: "cwr", Unit: gauge.YesNo, Help: "whether the window was reduced since the oldest data in flight was sent"},
			{Name: "base_rtt", Unit: gauge.Seconds, Help: "T: the RTT without queues"},
			{Name: "rtt", Unit: gauge.Seconds, Help: "RTT of the last acknowledgement"},
		},
	})
}

// Control is the state of one flow.
type Control struct {
	cc.NopControl
	config      *Config
	line        units.Rate
	mtu, packet units.Bytes
	t           units.Time // T; 0 if not known yet
	learn       bool       // T is the least RTT so far

	cwnd, ssthresh units.Bytes
	minReduced     units.Bytes // window that a mark or a loss leaves
	credit         units.Bytes // acknowledged since the last additive increase

	alpha, f                           float64
	bytesAcked, bytesMarked, windowEnd units.Bytes // of the window under observation

	cwr     bool        // the window was reduced, and is not reduced again until
	highSeq units.Bytes // this is acknowledged; unknown until the next acknowledgement
	rtt     units.Time
}

var _ cc.Control = (*Control)(nil)

// unknown stands for a sequence number that the next acknowledgement will give.
const unknown = -1

// unlimited is ssthresh before the first congestion.
const unlimited = units.Bytes(math.MaxInt64)

// New returns the control of a flow. c must have passed Validate for the flow's line and is
// shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	d := &Control{config: c, line: f.Line, mtu: f.MTU, packet: f.Packet, t: c.BaseRTT, alpha: float64(c.InitialAlpha)}
	if d.t == 0 {
		d.t = f.Path.RTT
	}
	d.learn = d.t == 0
	slow := c.SlowStart
	switch bdp := f.Path.BDP(); {
	case c.InitialWindow > 0:
		d.cwnd = c.InitialWindow
	case bdp > 0:
		d.cwnd = d.toPayload(bdp)
	default:
		d.cwnd, slow = 10*d.mtu, true
	}
	if d.minReduced = f.MTU; f.DelayedAcks {
		d.minReduced = 2 * f.MTU // RFC 5681 (4), as in NewReno
	}
	d.boundWindow()
	d.ssthresh = d.cwnd
	if slow {
		d.ssthresh = unlimited
	}
	return d
}

// toPayload converts bytes on the wire to payload, for full-size packets.
func (d *Control) toPayload(wire units.Bytes) units.Bytes {
	return units.Bytes(float64(wire) * float64(d.mtu) / float64(d.packet))
}

// OnAck handles an acknowledgement.
func (d *Control) OnAck(_ units.Time, a *cc.Ack) {
	if a.RTT > 0 {
		d.rtt = a.RTT
		if d.learn && (d.t == 0 || a.RTT < d.t) {
			d.t = a.RTT
		}
	}
	d.updateAlpha(a)
	if d.cwr && d.highSeq == unknown {
		d.highSeq = a.Sent
	}
	if d.cwr && a.Acked > d.highSeq {
		d.cwr = false
	}
	switch {
	case d.cwr:
	case a.Marked:
		d.reduceWindow()
		d.recordReduction(a.Sent)
	default:
		d.growWindow(a)
	}
	d.boundWindow()
}

// reduceWindow lowers the window by half of the share of marked bytes: cwnd ← cwnd × (1 − α/2).
func (d *Control) reduceWindow() {
	if !d.config.WholePackets {
		d.cwnd = max(d.cwnd-units.Bytes(float64(d.cwnd)*d.alpha/2), min(d.cwnd, d.minReduced))
		return
	}
	n := d.cwnd / d.mtu
	n -= n * units.Bytes(d.alpha*parts) / (2 * parts)
	d.cwnd = max(n, 2) * d.mtu
}

// parts is the number of parts in which Linux counts alpha. A float64 represents such fractions
// exactly.
const parts = 1024

// updateAlpha updates alpha once per window: α ← (1 − g) × α + g × F. Products are converted
// explicitly so that the result is the same on every processor (Go specification,
// "Floating-point operators").
func (d *Control) updateAlpha(a *cc.Ack) {
	d.bytesAcked += a.Newly
	if a.Marked {
		d.bytesMarked += a.Newly
	}
	if a.Acked <= d.windowEnd {
		return
	}
	if d.bytesAcked > 0 {
		d.f = float64(d.bytesMarked) / float64(d.bytesAcked)
		g := float64(d.config.G)
		if d.config.WholePackets {
			d.alpha = roundAlpha(d.alpha, g, d.f)
		} else {
			d.alpha = float64((1-g)*d.alpha) + float64(g*d.f)
		}
	}
	d.bytesAcked, d.bytesMarked, d.windowEnd = 0, 0, a.Sent
}

// roundAlpha returns alpha after a window, in whole parts. Fewer than 1/g parts become 0 at once.
func roundAlpha(alpha, g, f float64) float64 {
	n := alpha * parts
	if less := math.Floor(float64(g * n)); less > 0 {
		n -= less
	} else {
		n = 0
	}
	return min(1, (n+math.Floor(float64(f*g)*parts))/parts)
}

// recordReduction records that the window was reduced for the data sent up to highSeq.
func (d *Control) recordReduction(highSeq units.Bytes) {
	d.cwr, d.highSeq, d.credit = true, highSeq, 0
	d.boundWindow()
	d.ssthresh = d.cwnd
}

// growWindow raises the window as TCP does (RFC 5681 §3.1, counted in bytes as in RFC 3465).
func (d *Control) growWindow(a *cc.Ack) {
	inFlight := a.InFlight + a.Newly // when the acknowledgement came
	if !d.config.Pacing && inFlight+d.mtu <= d.cwnd {
		return // there was room for more: the window did not hold the flow back
	}
	if d.cwnd < d.ssthresh {
		d.cwnd += a.Newly
		return
	}
	d.credit += a.Newly
	if d.credit < d.cwnd {
		return
	}
	d.credit -= d.cwnd
	if ai := d.config.AdditiveIncrease; ai > 0 {
		d.cwnd += ai
	} else {
		d.cwnd += d.mtu
	}
}

// OnLoss halves the window once per flight; after a timeout the flow starts over with one packet
// and slow start.
func (d *Control) OnLoss(_ units.Time, l cc.Loss) {
	switch {
	case l.Timeout:
		if d.cwnd > d.mtu {
			d.ssthresh = max(d.cwnd/2, 2*d.mtu)
		}
		d.cwnd, d.credit, d.cwr = d.mtu, 0, false
		d.boundWindow()
	case !d.cwr || l.Again:
		d.cwnd = max(d.cwnd/2, min(d.cwnd, d.minReduced))
		d.recordReduction(unknown)
	}
}

// boundWindow keeps the window at a packet and min_rate or more and, with pacing, at what the line
// carries or less.
func (d *Control) boundWindow() {
	minWindow := max(d.mtu, d.toPayload(d.config.MinRate.BytesIn(d.t)))
	if d.config.Pacing && d.t > 0 {
		d.cwnd = min(d.cwnd, d.maxWindow())
	}
	d.cwnd = max(d.cwnd, minWindow)
}

// maxWindow returns what the line carries in T.
func (d *Control) maxWindow() units.Bytes { return d.toPayload(d.line.BytesIn(d.t)) }

// SetLineRate bounds the window by the new line rate.
func (d *Control) SetLineRate(_ units.Time, r units.Rate) {
	d.line = r
	d.boundWindow()
}

// Rate returns the window over T, on the wire, with pacing.
func (d *Control) Rate() units.Rate {
	if !d.config.Pacing || d.t == 0 {
		return 0
	}
	if d.cwnd >= d.maxWindow() {
		return d.line
	}
	wire := float64(d.cwnd) * float64(d.packet) / float64(d.mtu)
	return min(d.line, max(1, units.Rate(wire*8/d.t.Seconds())))
}

// Window returns the congestion window.
func (d *Control) Window() units.Bytes { return d.cwnd }

// AppendGauges implements cc.Control.
func (d *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	return append(values, d.alpha, d.f, gauge.SizeValue(d.cwnd), gauge.BoolValue(d.cwnd < d.ssthresh), gauge.BoolValue(d.cwr), secondsIfKnown(d.t), secondsIfKnown(d.rtt))
}

func secondsIfKnown(t units.Time) float64 {
	if t == 0 {
		return gauge.None
	}
	return gauge.TimeValue(t)
}
