package nicemu

import "github.com/weftlab/weft/sim/units"

// FlowStatus is the state of a queue pair for series.
type FlowStatus struct {
	Rate     units.Rate  // of rate control, rate limit and static rate, on the wire; 0 if unlimited
	Window   units.Bytes // allowed by rate control; 0 if unlimited
	InFlight units.Bytes // payload of SENDs and WRITEs sent and not acknowledged
	RTT      units.Time  // the last measured; 0 before the first
	Acked    uint64      // payload of SENDs and WRITEs acknowledged since it was made, in bytes
	Received uint64      // payload received and placed since it was made, in bytes
	Resent   uint64      // packets retransmitted since it was made
	HasSent  bool        // requests or READ responses
	HasHeard bool        // packets arrived
}

// MeasureRTT starts measuring the round-trip times of all queue pairs, and calls gone just before a
// queue pair is destroyed.
func (d *Device) MeasureRTT(onDestroy func(q *QP)) {
	d.onDestroy = onDestroy
	for _, q := range d.numbers.slots {
		if q != nil {
			q.engine.MeasureRTT()
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

// addProgress adds the progress of a queue pair that a layer uses instead of or beside another.
func (s *FlowStatus) addProgress(q *QP) {
	if rtt := q.engine.RTT(); rtt > 0 {
		s.RTT = rtt
	}
	s.Acked += q.engine.Acknowledged()
	s.Received += q.engine.Payload()
	s.Resent += q.engine.Retransmitted()
	s.HasSent = s.HasSent || q.counters.DataPackets > 0
	s.HasHeard = s.HasHeard || q.counters.RxPackets > 0
	_, inFlight := q.engine.Outstanding()
	s.InFlight += inFlight
}

// Flow returns the state of a queue pair's flow at now, which is not before Env.Now and up to which
// no other work is due, with the values of Settings.FlowGauges appended to gauges; a queue pair
// without layer or rate control has none. The call changes no results.
func (q *QP) Flow(now units.Time, gauges []float64) (FlowStatus, []float64) {
	s := FlowStatus{
		RTT: q.engine.RTT(), Acked: q.engine.Acknowledged(), Received: q.engine.Payload(), Resent: q.engine.Retransmitted(),
		HasSent: q.counters.DataPackets > 0, HasHeard: q.counters.RxPackets > 0,
	}
	_, s.InFlight = q.engine.Outstanding()
	for t := range q.eachTwin {
		s.addProgress(t)
	}
	switch {
	case q.device.layer != nil:
		if q.layered != nil && !q.isTwin() {
			s.Rate, s.Window = q.layered.Allows()
			gauges = q.layered.Gauges(now, gauges)
		}
	case q.control != nil:
		q.runControlTimer(now)
		s.Window = q.control.Window()
		gauges = q.control.AppendGauges(now, gauges)
	}
	if q.layered == nil {
		s.Rate = q.pacingRate()
	}
	return s, gauges
}
