package rogue

import "github.com/weftlab/weft/sim/units"

// Meter measures the RTTs of the batches of an RC connection in one direction (§3.3). A batch
// starts when it is posted, or when the last byte of the previous batch has left, which is one
// RTT before that batch completed. Its transmission time at the rate limit is subtracted:
//
//	start_i = max(posted_i, completed_(i-1) - RTT_(i-1))
//	RTT_i   = completed_i - start_i - B_i/rate_limit
//
// A limit takes effect some data after it is set (§3.3). The paper drops the samples until
// then; but RTT_(i-1) is needed anyway, so the meter uses the old limit for data that leaves
// before.
type Meter struct {
	line  units.Rate
	lag   units.Bytes // after which a limit takes effect
	frame units.Bytes // of a packet, on the wire

	old, limit units.Rate  // 0 means the line rate
	from       units.Bytes // position from which limit applies

	posted, done units.Bytes // positions in the sent data, on the wire
	completed    units.Time  // of the last batch
	rtt          units.Time  // of the last batch
	any          bool
}

// NewMeter returns the meter of one direction of a connection over a line; 0 means a line
// without a rate. The NIC's limiter follows after lag bytes, in packets that take frame bytes
// on the wire.
func NewMeter(line units.Rate, lag, frame units.Bytes) Meter {
	return Meter{line: line, lag: lag, frame: frame}
}

// RecordPosted records posted data, in bytes on the wire.
func (m *Meter) RecordPosted(wire units.Bytes) { m.posted += wire }

// RecordLimit records a limit that was set at now; 0 means none.
func (m *Meter) RecordLimit(now units.Time, limit units.Rate) {
	at := m.estimateSent(now)
	if at >= m.from {
		m.old = m.limit
	}
	// The limiter counts packets, from the next one on. One packet too few would look like a
	// queue of some microseconds in all later batches.
	packets := (at-m.done)/m.frame + (m.lag+m.frame-1)/m.frame
	m.limit, m.from = limit, m.done+packets*m.frame
}

// estimateSent returns an estimate of how much has left by now.
func (m *Meter) estimateSent(now units.Time) units.Bytes {
	if !m.any {
		return m.done
	}
	gone := units.Bytes(0)
	if r := m.rateAt(m.done); r > 0 {
		gone = r.BytesIn(max(0, now-(m.completed-m.rtt)))
	}
	return min(m.posted, m.done+gone)
}

// rateAt returns the rate at which the data at a position leaves.
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

// timeToSend returns how long the data between two positions takes to leave.
func (m *Meter) timeToSend(from, to units.Bytes) (t units.Time) {
	if from < m.from && m.from < to {
		t, from = m.timeToSend(from, m.from), m.from
	}
	if r := m.rateAt(from); r > 0 && to > from {
		t += r.TimeOf(to - from)
	}
	return t
}

// RecordCompletion records the completion of a batch of wire bytes that was posted at posted, and
// returns its RTT, which is not negative.
func (m *Meter) RecordCompletion(posted, completed units.Time, wire units.Bytes) units.Time {
	start := posted
	if m.any {
		start = max(start, m.completed-m.rtt)
	}
	m.rtt = max(0, completed-start-m.timeToSend(m.done, m.done+wire))
	m.done += wire
	m.completed, m.any = completed, true
	return m.rtt
}

// SkipCompletion records the completion of data without an RTT: it could not be measured, or the
// connection is UC.
func (m *Meter) SkipCompletion(completed units.Time, wire units.Bytes) {
	m.done += wire
	m.completed, m.any = completed, true
}

// PostedBytes returns how much was posted, in bytes on the wire.
func (m *Meter) PostedBytes() units.Bytes { return m.posted }

// RecordEcho returns the RTT, not negative, of a batch over UC whose last verb asked for an echo
// (§3.4). The batch took wire bytes from position at. It started when it was posted, or when
// the last byte of the previous batch had left. Over UC completions show when data has left;
// Skip records them.
//
//	start_i = max(posted_i, sent_(i-1))
//	RTT_i   = echo_i - start_i - response_i - B_i/rate_limit
func (m *Meter) RecordEcho(at, wire units.Bytes, start, echo, response units.Time) units.Time {
	return max(0, echo-start-response-m.timeToSend(at, at+wire))
}

// BacklogTime returns how long the posted data that has not completed takes to leave.
func (m *Meter) BacklogTime() units.Time { return m.timeToSend(m.done, m.posted) }

// DiscardPosted discards posted data that never completed, after a reset of the queue pair.
func (m *Meter) DiscardPosted() { *m = NewMeter(m.line, m.lag, m.frame) }
