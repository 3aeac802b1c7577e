package tcp

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// sampler samples the delivery rate (draft-cheng-iccrg-delivery-rate-estimation-02 §3).
// Comments give the names of the draft's connection state.
type sampler struct {
	total units.Bytes // C.delivered
	since units.Time  // C.delivered_time
	first units.Time  // C.first_sent_time
	until units.Bytes // C.app_limited: samples are limited until this much is delivered

	// The newest segment that the present acknowledgement covers.
	departure
	at    units.Time
	some  bool
	short bool // the segment was sent while the sender was limited
}

func (m *sampler) beginFlow(now units.Time) { m.since, m.first = now, now }

// recordSent records a segment that leaves. idle means that nothing was in flight.
func (m *sampler) recordSent(now units.Time, r *record, d *departure, idle bool) {
	if idle {
		m.since, m.first = now, now
	}
	*d = departure{m.total, m.since, m.first}
	r.state &^= limited
	if m.until > m.total {
		r.state |= limited
	}
}

// markAppLimited records that there is nothing to send beyond what is in flight.
func (m *sampler) markAppLimited(inFlight units.Bytes) { m.until = max(1, m.total+inFlight) }

// beginAck begins an acknowledgement.
func (m *sampler) beginAck() { m.some = false }

// recordDelivered records a segment that has arrived.
func (m *sampler) recordDelivered(now units.Time, n units.Bytes, r *record, d *departure) {
	m.total += n
	m.since = now
	if !m.some || d.delivered > m.departure.delivered || d.delivered == m.departure.delivered && r.at > m.at {
		m.some, m.departure, m.at, m.short = true, *d, r.at, r.state&limited != 0
	}
}

// takeSample returns the sample of an acknowledgement. A sample over less than the lowest RTT
// does not count: its Interval is 0.
func (m *sampler) takeSample(minRTT units.Time) cc.Delivery {
	d := cc.Delivery{Total: m.total, Prior: m.total, MinRTT: minRTT}
	if !m.some {
		return d
	}
	d.Prior, d.Limited = m.departure.delivered, m.short
	d.Interval = max(m.at-m.departure.first, m.since-m.departure.since)
	if d.Interval < minRTT {
		d.Interval = 0
	}
	m.first = m.at
	if m.total > m.until {
		m.until = 0
	}
	return d
}
