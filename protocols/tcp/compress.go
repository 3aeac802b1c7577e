package tcp

import "github.com/weftlab/weft/sim/units"

// compression is which acknowledgements of segments that came out of order wait for others, as
// in Linux (tcp_comp_sack_delay_ns, tcp_comp_sack_nr): the first of a hole go at once, so that
// a loss is found soon.
type compression struct {
	hole  units.Bytes // behind which they came
	ahead uint8       // acknowledgements at once for that hole
	held  uint8       // segments since the last acknowledgement
}

const (
	mostHeld = 44 // segments out of order without an acknowledgement
	sackPart = 20 // of the RTT that one waits at most: 5%
)

// compress has a segment that came out of order, or one behind which there is still a hole,
// acknowledged at once or later. full means that there would be more to report than an
// acknowledgement has room for.
func (r *Receiver) compress(now units.Time, full bool) {
	c := &r.compression
	if c.hole != r.next {
		c.hole, c.ahead = r.next, 0
	}
	wait := min(r.config.SACKDelay, r.rtt/sackPart)
	switch {
	case c.ahead < threshold:
		c.ahead++
		r.answer = true
	case full, wait == 0, r.quick > 0, !r.selective, c.held >= mostHeld:
		r.answer = true
	default:
		c.held++
		r.delayAt = min(r.delayAt, now+wait)
	}
}
