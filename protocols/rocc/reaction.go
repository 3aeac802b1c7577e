package rocc

import (
	"slices"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// Reaction is the reaction point of one flow: Algorithm 2.
//
// A flow is not limited until its first message. A message is accepted if it comes from the
// congestion point of the one that was accepted last, or if its rate is not above that of
// the flow, which then becomes the flow's. For each Rise without one that was accepted the
// rate doubles, and once it is above R_max, the line rate, the flow is not limited any more
// and its congestion point is forgotten.
//
// The paper keeps a limiter that is no longer needed until its queue is empty. That would
// make no difference: it lets through what the line does.
type Reaction struct {
	cc.Deaf
	config *Config
	line   units.Rate // R_max

	limited bool
	rate    units.Rate // R_cur, of a limited flow
	cp      CP         // CP_cur
	riseAt  units.Time

	// waiting are the messages that the NIC has not reacted to yet, the oldest first.
	waiting []notice

	accepted, refused uint64
	rises             uint64
}

// notice is a rate that takes effect at a time.
type notice struct {
	at   units.Time
	rate units.Rate
	cp   CP
}

// maxWaiting bounds what a flow that is flooded with messages keeps. Beyond it the latest
// takes the place of the one before.
const maxWaiting = 64

var _ cc.Control = (*Reaction)(nil)

// New makes the reaction point of a flow at a port with line rate line. c has passed
// Validate(line) and is shared, not copied.
func New(c *Config, line units.Rate) *Reaction {
	return &Reaction{config: c, line: line, riseAt: units.Never}
}

// Rate is R_cur, and never above the line rate.
func (r *Reaction) Rate() units.Rate {
	if !r.limited {
		return r.line
	}
	return min(r.rate, r.line)
}

// Timer is when a message takes effect or the rate doubles.
func (r *Reaction) Timer() units.Time {
	if len(r.waiting) > 0 {
		return min(r.waiting[0].at, r.riseAt)
	}
	return r.riseAt
}

// Message takes a Feedback, which takes effect after the NIC's delay. What is no Feedback
// changes nothing.
func (r *Reaction) Message(now units.Time, m cc.Feedback) {
	r.Tick(now)
	f, ok := m.(*Feedback)
	if !ok {
		return
	}
	n := notice{now + r.config.Delay, r.config.rateOf(f), f.CP}
	switch {
	case r.config.Delay == 0:
		r.process(n)
	case len(r.waiting) == maxWaiting:
		n.at = r.waiting[maxWaiting-1].at
		r.waiting[maxWaiting-1] = n
	default:
		r.waiting = append(r.waiting, n)
	}
}

// Tick does what is due by now, in the order of time.
func (r *Reaction) Tick(now units.Time) {
	for r.Timer() <= now {
		if len(r.waiting) > 0 && r.waiting[0].at <= r.riseAt {
			n := r.waiting[0]
			r.waiting = slices.Delete(r.waiting, 0, 1)
			r.process(n)
		} else {
			r.timerExpired()
		}
	}
}

// process is PROCESS_CNP.
func (r *Reaction) process(n notice) {
	current := r.rate
	if !r.limited {
		current = r.line
	}
	if n.rate > current && (!r.limited || n.cp != r.cp) {
		r.refused++
		return
	}
	r.accepted++
	r.limited = true
	r.rate = max(n.rate, r.config.RMin)
	r.cp = n.cp
	r.riseAt = n.at + r.config.Rise
}

// timerExpired is TIMER_EXPIRED.
func (r *Reaction) timerExpired() {
	if r.rate > r.line {
		r.limited, r.riseAt = false, units.Never
		r.cp = CP{}
		return
	}
	r.rises++
	r.rate *= 2
	r.riseAt += r.config.Rise
}

// Line takes over another rate of the port, which is another R_max.
func (r *Reaction) Line(now units.Time, line units.Rate) {
	r.Tick(now)
	r.line = line
}
