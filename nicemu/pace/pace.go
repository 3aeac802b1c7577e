// Package pace spaces packets so that a flow keeps to a rate.
package pace

import "github.com/weftlab/weft/sim/units"

// Pace spaces the packets of a flow: the next one leaves no earlier than the last one takes at the
// rate that rate control allows now.
//
// With a burst, packets leave without a gap until that many bytes have left, and the gap covers all
// of them. A flow that has rested in a burst for longer than that gap begins another.
type Pace struct {
	since units.Time  // when the last burst began to leave, or could have but for others
	ready units.Time  // since when the next one could have left, while it waits for others
	size  units.Bytes // of the last burst so far, on the wire; 0 before the first
	rate  units.Rate  // for which gap is computed
	gap   units.Time
}

// Next returns when the next packet may leave.
func (p *Pace) Next(rate units.Rate, burst units.Bytes) units.Time {
	if rate == 0 || p.size == 0 || p.size < burst {
		return 0
	}
	return p.since + p.burstInterval(rate)
}

// burstInterval returns the time that the last burst takes at a rate, which is above 0.
func (p *Pace) burstInterval(rate units.Rate) units.Time {
	if p.rate != rate {
		p.rate, p.gap = rate, rate.TimeOf(p.size)
	}
	return p.gap
}

// RecordTurn records that the next packet, which may leave at time at, waits for its turn. before says
// whether the one before it waited too.
func (p *Pace) RecordTurn(now, at units.Time, before bool) {
	if before {
		p.ready = max(p.ready, at)
	} else {
		p.ready = max(now, at)
	}
}

// RecordSent records a packet that leaves at now. If it had to wait for others, that delays those behind
// it by no more than its own time, so that the rate holds on average.
func (p *Pace) RecordSent(now units.Time, rate units.Rate, size, burst units.Bytes) {
	over := units.Time(0)
	if p.size > 0 && p.size < burst {
		if over = p.restedSince(rate); over == 0 {
			p.size, p.rate = p.size+size, 0
			return
		}
	}
	if p.size != size {
		p.size, p.rate = size, 0
	}
	p.since = now
	if rate > 0 {
		p.since = max(min(p.ready, now), now-p.burstInterval(rate), over)
	}
}

// restedSince returns the time since when the next packet could start another burst, because the last
// one, which is not full, had its gap in a rest; 0 if the burst goes on. While a flow does not
// rest, ready is no later than since.
func (p *Pace) restedSince(rate units.Rate) units.Time {
	if rate == 0 || p.ready <= p.since {
		return 0
	}
	if over := p.since + p.burstInterval(rate); over <= p.ready {
		return over
	}
	return 0
}
