package tcp

import "github.com/weftlab/weft/sim/units"

// compression decides which acknowledgements of out-of-order segments wait for others, as in
// Linux (tcp_comp_sack_delay_ns, tcp_comp_sack_nr). The first ones after a hole are sent at
// once, so that the sender detects a loss quickly.
type compression struct {
	hole  units.Bytes // before the out-of-order segments
	ahead uint8       // acknowledgements sent at once for that hole
	held  uint8       // segments since the last acknowledgement
}

const (
	maxHeld  = 44 // segments out of order without an acknowledgement
	sackPart = 20 // part of the RTT that one waits at most: 5%
)

// compressAck acknowledges an out-of-order segment, or one that still has a hole after it, at
// once or later. full means that there is more to report than an acknowledgement has room
// for.
func (r *Receiver) compressAck(now units.Time, full bool) {
	c := &r.compression
	if c.hole != r.next {
		c.hole, c.ahead = r.next, 0
	}
	wait := min(r.config.SACKDelay, r.rtt/sackPart)
	switch {
	case c.ahead < threshold:
		c.ahead++
		r.answer = true
	case full, wait == 0, r.quick > 0, !r.selective, c.held >= maxHeld:
		r.answer = true
	default:
		c.held++
		r.delayAt = min(r.delayAt, now+wait)
	}
}
