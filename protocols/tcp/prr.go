package tcp

import "github.com/weftlab/weft/sim/units"

// reduction is proportional rate reduction (RFC 9937): while losses are repaired, and after
// a mark, the sender sends in proportion to what arrives, so that the bytes in flight
// approach the new window of the rate control.
type reduction struct {
	active         bool
	missed         bool        // the present acknowledgement marked something as lost
	flight         units.Bytes // RecoverFS
	delivered, out units.Bytes
	window         units.Bytes
}

// beginReduction starts a reduction with the bytes in flight. keeps means that the control wants
// none.
func (r *reduction) beginReduction(flight units.Bytes, keeps bool) {
	*r = reduction{active: !keeps, flight: max(flight, 1)}
}

// applyPRR sets the window until the next acknowledgement.
func (s *Sender) applyPRR(n *ackInfo) {
	r := &s.prr
	if !r.active {
		return
	}
	target := s.control.Window()
	if target == 0 {
		r.active = false // the control paces, and has no window
		return
	}
	r.delivered += n.payload
	var more units.Bytes
	if s.inFlight > target {
		more = units.Bytes((float64(r.delivered)*float64(target)+float64(r.flight)-1)/float64(r.flight)) - r.out
	} else {
		more = max(r.delivered-r.out, n.payload)
		if n.moved && !r.missed {
			more += s.full // SafeACK
		}
		more = min(target-s.inFlight, more)
	}
	if r.out == 0 {
		more = max(more, s.full) // the first segment is retransmitted at once
	}
	r.missed = false
	r.window = max(1, s.inFlight+more, s.inFlight) // 0 would mean no limit
}
