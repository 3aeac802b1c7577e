package rogue

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// Window is the congestion window of one direction of a connection, and the resulting rate
// limit (§3.3). It is the window of TCP Vegas, updated by the RTT of each batch.
//
// Slow start ends as in Linux' tcp_vegas.c, which the paper only names: the window falls
// to what it could have carried at the base RTT, plus one packet. It also ends when the
// window fills the line at the base RTT. The window does not grow above that: a limit
// above the line rate has no effect and would take long to come down.
type Window struct {
	config *Config
	mtu    float64 // payload of a packet
	wire   float64 // bytes on the wire for one of payload
	line   units.Rate

	size  float64    // payload, bytes
	base  units.Time // lowest RTT; 0 before the first one
	floor units.Time // lower bound of RTTs
	last  units.Time // last RTT that counted
	slow  bool
	limit units.Rate // current or pending; 0 for none
}

// NewWindow returns the window of a connection whose packets carry mtu bytes of payload
// and take frame bytes on the wire. line is the line rate; 0 means none. idle is the RTT
// of the path without queues, or 0 if it is not known.
func NewWindow(c *Config, line units.Rate, mtu, frame units.Bytes, idle units.Time) *Window {
	w := &Window{config: c, mtu: float64(mtu), wire: float64(frame) / float64(mtu), line: line, floor: max(c.BaseRTT, 0)}
	if w.floor == 0 {
		w.floor = idle
	}
	w.RestartSlowStart()
	return w
}

// RestartSlowStart returns to slow start, for a new connection or one that continues with its
// shadow queue pair. It keeps the base RTT. Without a limit the NIC sends at line rate.
func (w *Window) RestartSlowStart() {
	w.size, w.slow, w.limit, w.last = float64(w.config.Initial)*w.mtu, true, 0, 0
}

// Size returns the window, in payload.
func (w *Window) Size() units.Bytes { return units.Bytes(w.size) }

// SlowStart reports whether the window is in slow start.
func (w *Window) SlowStart() bool { return w.slow }

// BaseRTT returns the base RTT, or 0 before the first sample.
func (w *Window) BaseRTT() units.Time { return w.base }

// RTT returns the last round-trip time that counted, or 0 before the first.
func (w *Window) RTT() units.Time { return w.last }

// RateLimit returns the setting for the NIC's rate limiter, on the wire; 0 means no limit.
func (w *Window) RateLimit() units.Rate { return w.limit }

// EstimatedRate returns the sending rate that the window allows, on the wire: cwnd / RTT (Fig.
// 10). It is 0 before the first sample.
func (w *Window) EstimatedRate() units.Rate {
	if w.last == 0 {
		return 0
	}
	return w.rateAt(w.last)
}

// rateAt returns the rate of the window at an RTT, on the wire.
func (w *Window) rateAt(rtt units.Time) units.Rate {
	return units.Rate(w.size * w.wire * 8 / rtt.Seconds())
}

// maxSize returns the window that fills the line at the base RTT, plus Beta packets.
func (w *Window) maxSize() float64 {
	if w.line == 0 {
		return math.Inf(1)
	}
	return float64(w.line)/8/w.wire*w.base.Seconds() + w.config.Beta*w.mtu
}

// SampleRTT updates the window with the RTT of a batch. It reports whether Limit has changed.
func (w *Window) SampleRTT(rtt units.Time) bool {
	rtt = max(rtt, w.floor, units.Nanosecond)
	w.last = rtt
	switch {
	case w.config.FixedBase && w.floor > 0:
		w.base = w.floor
	case w.base == 0 || rtt < w.base:
		w.base = rtt
	}
	share := w.base.Seconds() / rtt.Seconds()
	diff := w.size / w.mtu * (1 - share)
	switch {
	case w.slow && diff > w.config.Gamma:
		w.slow = false
		w.size = min(w.size, w.size*share+w.mtu)
	case w.slow:
		w.size *= 2
	case diff > w.config.Beta:
		w.size -= w.mtu
	case diff < w.config.Alpha:
		w.size += w.mtu
	}
	if maxSize := w.maxSize(); w.size > maxSize {
		w.size, w.slow = maxSize, false
	}
	w.size = max(w.size, w.mtu)
	return w.adjustLimit(w.slow)
}

// OnLoss halves the window after the loss of a batch over UC (§3.4, which gives no number).
// It reports whether Limit has changed.
func (w *Window) OnLoss() bool {
	w.size, w.slow = max(w.size/2, w.mtu), false
	if w.base == 0 {
		return false
	}
	return w.adjustLimit(false)
}

// adjustLimit sets the limit to cwnd / base RTT, changing it by at most RateStep. In slow start
// there is no limit, and the first limit may be more than a step.
func (w *Window) adjustLimit(none bool) bool {
	was := w.limit
	if none || !w.config.Limiter {
		w.limit = 0
		return was != 0
	}
	next := w.rateAt(w.base)
	if step := w.config.RateStep; was > 0 && step > 0 {
		next = min(max(next, was-step), was+step)
	}
	if w.line > 0 && next >= w.line {
		next = w.line
	}
	w.limit = max(next, units.Mbps)
	return w.limit != was
}
