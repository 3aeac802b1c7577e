package rogue

import "github.com/weftlab/weft/sim/units"

// Meter measures the RTTs of the batches of an RC connection in one direction (§3.3). A
// batch starts when it is posted, or when the last byte of the one before has left, which
// is an RTT before that one completed; and what it takes to be sent at the rate limit is
// taken off:
//
//	start_i = max(posted_i, completed_(i-1) - RTT_(i-1))
//	RTT_i   = completed_i - start_i - B_i/rate_limit
//
// A limit comes into force some data after it is set (§3.3). The paper drops samples for
// so long; but RTT_(i-1) is needed all the same, so the meter counts what leaves before
// that at the old limit.
type Meter struct {
	line  units.Rate
	lag   units.Bytes // after which a limit is in force
	frame units.Bytes // of a packet, on the wire

	old, limit units.Rate  // 0 is the line
	from       units.Bytes // position from which on limit holds

	posted, done units.Bytes // positions in all that was sent, on the wire
	completed    units.Time  // of the last batch
	rtt          units.Time  // of the last batch
	any          bool
}

// NewMeter makes the meter of a direction of a connection over a line, 0 for one without a
// rate, whose NIC's limiter follows after lag bytes in packets that take frame on the wire.
func NewMeter(line units.Rate, lag, frame units.Bytes) Meter {
	return Meter{line: line, lag: lag, frame: frame}
}

// Posted notes data that was posted, as bytes on the wire.
func (m *Meter) Posted(wire units.Bytes) { m.posted += wire }

// Limited notes a limit that was set at now; 0 is none.
func (m *Meter) Limited(now units.Time, limit units.Rate) {
	at := m.sent(now)
	if at >= m.from {
		m.old = m.limit
	}
	// The limiter counts packets, from the next one on. A packet too few would show as a queue
	// of some microseconds in all batches to come.
	packets := (at-m.done)/m.frame + (m.lag+m.frame-1)/m.frame
	m.limit, m.from = limit, m.done+packets*m.frame
}

// sent is how much has probably left by now.
func (m *Meter) sent(now units.Time) units.Bytes {
	if !m.any {
		return m.done
	}
	gone := units.Bytes(0)
	if r := m.rateAt(m.done); r > 0 {
		gone = r.Per(max(0, now-(m.completed-m.rtt)))
	}
	return min(m.posted, m.done+gone)
}

// rateAt is the rate at which the data at a position leaves.
func (m *Meter) rateAt(at units.Bytes) units.Rate {
	r := m.limit
	if at < m.from {
		r = m.old
	}
	if r == 0 || m.line > 0 && r > m.line {
		return m.line
	}
	return r
}

// takes is how long the data between two positions takes to leave.
func (m *Meter) takes(from, to units.Bytes) (t units.Time) {
	if from < m.from && m.from < to {
		t, from = m.takes(from, m.from), m.from
	}
	if r := m.rateAt(from); r > 0 && to > from {
		t += r.TimeOf(to - from)
	}
	return t
}

// Completed takes the completion of a batch of so many bytes on the wire that was posted
// at a time, and gives its RTT, which is not negative.
func (m *Meter) Completed(posted, completed units.Time, wire units.Bytes) units.Time {
	start := posted
	if m.any {
		start = max(start, m.completed-m.rtt)
	}
	m.rtt = max(0, completed-start-m.takes(m.done, m.done+wire))
	m.done += wire
	m.completed, m.any = completed, true
	return m.rtt
}

// Skip notes that data has completed whose RTT could not be measured, or is not, over UC.
func (m *Meter) Skip(completed units.Time, wire units.Bytes) {
	m.done += wire
	m.completed, m.any = completed, true
}

// Position is how much was posted, as bytes on the wire.
func (m *Meter) Position() units.Bytes { return m.posted }

// Echoed gives the RTT of a batch over UC, whose last verb asked for an echo (§3.4), which
// is not negative. The batch was posted at a position, of which wire bytes went; it started
// when it was posted, or when the last byte of the one before had left. Over UC completions
// tell when data has left; Skip takes them.
//
//	start_i = max(posted_i, sent_(i-1))
//	RTT_i   = echo_i - start_i - response_i - B_i/rate_limit
func (m *Meter) Echoed(at, wire units.Bytes, start, echo, response units.Time) units.Time {
	return max(0, echo-start-response-m.takes(at, at+wire))
}

// Backlog tells how long what was posted and is not completed takes to leave.
func (m *Meter) Backlog() units.Time { return m.takes(m.done, m.posted) }

// Forget drops what was posted and never completed: the queue pair was reset.
func (m *Meter) Forget() { *m = NewMeter(m.line, m.lag, m.frame) }
