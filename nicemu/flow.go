package nicemu

import "github.com/weftlab/weft/sim/units"

// FlowStatus is what series say of a queue pair.
type FlowStatus struct {
	Rate     units.Rate  // that rate control, rate limit and static rate allow now, on the wire; 0 is without limit
	Window   units.Bytes // that rate control allows; 0 is without limit
	InFlight units.Bytes // payload of SENDs and WRITEs sent and not acknowledged
	RTT      units.Time  // the last one that was measured; 0 before the first
	Acked    uint64      // payload of SENDs and WRITEs acknowledged since it was made, in bytes
	Received uint64      // payload that came and was placed since it was made, in bytes
	Resent   uint64      // packets sent again since it was made
	HasSent  bool        // requests or READ responses
	HasHeard bool        // packets came
}

// Follow has the round-trip times of all queue pairs measured from now on, and gone
// called of each that is destroyed, just before.
func (d *Device) Follow(gone func(q *QP)) {
	d.gone = gone
	for _, q := range d.numbers.slots {
		if q != nil {
			q.engine.Time()
		}
	}
}

// Type is the queue pair's transport service.
func (q *QP) Type() QPType { return q.config.Type }

// EachQP calls f with the queue pairs that programs know, by rising number.
func (d *Device) EachQP(f func(q *QP)) {
	for _, q := range d.numbers.slots {
		if q != nil && !q.isTwin() {
			f(q)
		}
	}
}

// add adds what a queue pair has done that a layer has put in the place of another, or
// beside it.
func (s *FlowStatus) add(q *QP) {
	if rtt := q.engine.RTT(); rtt > 0 {
		s.RTT = rtt
	}
	s.Acked += q.engine.Acknowledged()
	s.Received += q.engine.Payload()
	s.Resent += q.engine.Retransmitted()
	s.HasSent = s.HasSent || q.counters.DataPackets > 0
	s.HasHeard = s.HasHeard || q.counters.RxPackets > 0
	_, flying := q.engine.Outstanding()
	s.InFlight += flying
}

// Flow is a queue pair's flow at now, which is not before Env.Now and up to which
// nothing else is due, with the values of Settings.FlowGauges appended to those
// given; a queue pair without layer or rate control has none. Looking changes no results.
func (q *QP) Flow(now units.Time, gauges []float64) (FlowStatus, []float64) {
	s := FlowStatus{
		RTT: q.engine.RTT(), Acked: q.engine.Acknowledged(), Received: q.engine.Payload(), Resent: q.engine.Retransmitted(),
		HasSent: q.counters.DataPackets > 0, HasHeard: q.counters.RxPackets > 0,
	}
	_, s.InFlight = q.engine.Outstanding()
	for t := range q.eachTwin {
		s.add(t)
	}
	switch {
	case q.device.layer != nil:
		if q.layered != nil && !q.isTwin() {
			s.Rate, s.Window = q.layered.Allows()
			gauges = q.layered.Gauges(now, gauges)
		}
	case q.control != nil:
		q.tick(now)
		s.Window = q.control.Window()
		gauges = q.control.Gauges(now, gauges)
	}
	if q.layered == nil {
		s.Rate = q.paced()
	}
	return s, gauges
}
