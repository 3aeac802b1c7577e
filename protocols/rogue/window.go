package rogue

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// Window is the congestion window of one direction of a connection, and the rate limit
// that follows from it (§3.3): that of TCP Vegas, which each RTT of a batch moves.
//
// Slow start ends as in Linux' tcp_vegas.c, to which the paper refers only by name: the
// window falls to what the base RTT could have carried, and a packet more. It ends as well
// where the window fills the line at the base RTT, above which it does not grow, since a
// limit above the line limits nothing and would take long to come down.
type Window struct {
	config *Config
	mtu    float64 // payload of a packet
	wire   float64 // bytes on the wire for one of payload
	line   units.Rate

	size  float64    // payload, bytes
	base  units.Time // lowest RTT; 0 before the first
	floor units.Time // below which none is believed
	last  units.Time // RTT that counted last
	slow  bool
	limit units.Rate // in force, or coming; 0 for none
}

// NewWindow makes the window of a connection whose packets carry mtu of payload and take
// frame on the wire, over a line, 0 for one without a rate. idle is the RTT of the path
// when nothing is queued, 0 if it is not known.
func NewWindow(c *Config, line units.Rate, mtu, frame units.Bytes, idle units.Time) *Window {
	w := &Window{config: c, mtu: float64(mtu), wire: float64(frame) / float64(mtu), line: line, floor: max(c.BaseRTT, 0)}
	if w.floor == 0 {
		w.floor = idle
	}
	w.Restart()
	return w
}

// Restart goes back to slow start, as a new connection does, and one that goes on with its
// shadow queue pair. The base RTT stays known. Without a limit the NIC sends at
// the rate of its line.
func (w *Window) Restart() {
	w.size, w.slow, w.limit, w.last = float64(w.config.Initial)*w.mtu, true, 0, 0
}

// Size is the window, payload.
func (w *Window) Size() units.Bytes { return units.Bytes(w.size) }

// SlowStart tells whether the window still doubles.
func (w *Window) SlowStart() bool { return w.slow }

// Base is the lowest RTT so far, 0 before the first; RTT is the last that counted.
func (w *Window) Base() units.Time { return w.base }

// RTT is the last round-trip time that counted; 0 before the first.
func (w *Window) RTT() units.Time { return w.last }

// Limit is what the NIC's rate limiter is to be set to, on the wire; 0 is no limit.
func (w *Window) Limit() units.Rate { return w.limit }

// Estimate is the sending rate that the window stands for, on the wire: cwnd / RTT
// (Fig. 10); 0 before the first sample.
func (w *Window) Estimate() units.Rate {
	if w.last == 0 {
		return 0
	}
	return w.rate(w.last)
}

// rate is what the window makes at an RTT, on the wire.
func (w *Window) rate(rtt units.Time) units.Rate {
	return units.Rate(w.size * w.wire * 8 / rtt.Seconds())
}

// most is the window that fills the line at the base RTT, and Beta packets more.
func (w *Window) most() float64 {
	if w.line == 0 {
		return math.Inf(1)
	}
	return float64(w.line)/8/w.wire*w.base.Seconds() + w.config.Beta*w.mtu
}

// Sample takes the RTT of a batch. It tells whether Limit has changed.
func (w *Window) Sample(rtt units.Time) bool {
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
	if most := w.most(); w.size > most {
		w.size, w.slow = most, false
	}
	w.size = max(w.size, w.mtu)
	return w.adjust(w.slow)
}

// Lost takes the loss of a batch over UC: the window falls to half (§3.4, which has no
// number). It tells whether Limit has changed.
func (w *Window) Lost() bool {
	w.size, w.slow = max(w.size/2, w.mtu), false
	if w.base == 0 {
		return false
	}
	return w.adjust(false)
}

// adjust sets the limit: cwnd / base RTT, by at most a step. In slow start there is none,
// and the first is not bound to a step.
func (w *Window) adjust(none bool) bool {
	was := w.limit
	if none || !w.config.Limiter {
		w.limit = 0
		return was != 0
	}
	next := w.rate(w.base)
	if step := w.config.RateStep; was > 0 && step > 0 {
		next = min(max(next, was-step), was+step)
	}
	if w.line > 0 && next >= w.line {
		next = w.line
	}
	w.limit = max(next, units.Mbps)
	return w.limit != was
}
