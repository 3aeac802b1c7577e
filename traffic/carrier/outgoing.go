package carrier

import (
	"maps"
	"slices"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// outgoing is a flow from this host with its sender, an S.
type outgoing[S any] struct {
	agenda.Task[*outgoing[S]]
	records.Record
	route
	sender  S
	next    *outgoing[S] // in free
	waiting bool         // it is in ready
	over    bool         // it has ended
	dead    bool         // reported to its host as over, but still in ready
}

// outgoingFlows are the flows from one host over a transport with connections, TCP or NDP. Flows
// that may send take turns, one packet each, and pass a packet to the host's port only while less
// than two full packets wait there: so windows, rates and retransmissions are decided late, and
// no flow fills the host's queue.
type outgoingFlows[S any] struct {
	endpoint
	out *StreamOutlet

	senders agenda.Agenda[*outgoing[S]]
	sending map[uint64]*outgoing[S] // by ID of the flow
	numbers map[int32]uint32        // connections so far, by receiver
	refused []*outgoing[S]
	over    []*outgoing[S] // and not reported yet
	free    *outgoing[S]

	ready  queue.FIFO[*outgoing[S]] // flows that may send, in turn
	look   units.Time               // when to check again whether the port has room; units.Never while no flow waits
	waited uint8                    // consecutive checks that found no room

	onFlowEnd func(now units.Time, x *StreamFlow)
	seen      StreamFlow // the flow that was read last
	order     []uint64   // of flows that are read
}

func newOutgoingFlows[S any](h *Host, traffic int, o *StreamOutlet) outgoingFlows[S] {
	return outgoingFlows[S]{
		endpoint: endpoint{host: h, traffic: traffic, outlet: &o.Outlet}, out: o, look: units.Never,
		sending: map[uint64]*outgoing[S]{}, numbers: map[int32]uint32{},
	}
}

// startFlow returns a flow for a record, with its route. ok is false if the flow cannot start;
// DoWork reports that.
func (d *outgoingFlows[S]) startFlow(now units.Time, r *records.Record, protocol string) (s *outgoing[S], ok bool) {
	if s = d.free; s == nil {
		s = new(outgoing[S])
		d.senders.EnrolTask(&s.Task, s)
	} else {
		d.free = s.next
	}
	s.Record, s.next, s.over, s.dead = *r, nil, false, false
	s.Started = now
	if s.route, s.Failure = d.resolveDestination(r, protocol); s.Failure == "" {
		return s, true
	}
	s.State = records.Failed
	d.refused = append(d.refused, s)
	d.host.WakeAt(now)
	return s, false
}

// addReady puts a flow that may send behind the others, unless it waits already.
func (d *outgoingFlows[S]) addReady(s *outgoing[S]) {
	if !s.waiting {
		s.waiting = true
		d.ready.Push(s)
	}
}

// maxWaits limits the interval between checks of the port while it is paused: to
// this many doublings of the time of a packet.
const maxWaits = 2

// takeReady returns the flow whose turn it is to send a packet. It returns nil if there is none or
// the host's port has no room, which is then looked at again after the time of a full packet.
func (d *outgoingFlows[S]) takeReady(now units.Time, mtu, full units.Bytes) *outgoing[S] {
	for d.look = units.Never; d.ready.Len() > 0; {
		if d.out.Queued(now) >= 2*mtu {
			d.look = now + d.out.Rate().TimeOf(full)<<d.waited
			d.waited = min(d.waited+1, maxWaits)
			return nil
		}
		d.waited = 0
		s := d.ready.Pop()
		s.waiting = false
		if !s.over {
			return s
		}
		if s.dead {
			d.recycleFlow(s)
		}
	}
	return nil
}

// endFlow ends a flow whose record is complete but for its state; DoWork reports this to the host.
func (d *outgoingFlows[S]) endFlow(now units.Time, s *outgoing[S], state records.State) {
	d.senders.Remove(&s.Task)
	delete(d.sending, s.ID)
	s.State, s.over = state, true
	d.over = append(d.over, s)
	d.host.WakeAt(now)
}

// recycleFlow makes the state of a flow that has been reported free for another.
func (d *outgoingFlows[S]) recycleFlow(s *outgoing[S]) {
	if s.waiting {
		s.dead = true // takeReady finds it
		return
	}
	s.next, d.free = d.free, s
}

// reportRefused reports the flows that could not start.
func (d *outgoingFlows[S]) reportRefused(now units.Time) {
	for len(d.refused) > 0 {
		s := d.refused[0]
		d.refused = d.refused[1:]
		d.host.RecordEnd(now, &s.Record, 0)
		d.recycleFlow(s)
	}
}

// reportOver reports the flows that are over. An agent that is told of a flow may start others,
// which proceed in the next DoWork.
func (d *outgoingFlows[S]) reportOver(now units.Time) {
	for i := 0; i < len(d.over); i++ {
		s := d.over[i]
		d.host.RecordEnd(now, &s.Record, s.ID)
		d.recycleFlow(s)
	}
	d.over = d.over[:0]
}

// eachRecord calls f with the records of all flows that have not been reported, those that are
// under way after update.
func (d *outgoingFlows[S]) eachRecord(update func(*outgoing[S]), f func(*records.Record)) {
	for _, s := range d.sending {
		update(s)
		f(&s.Record)
	}
	for _, list := range [][]*outgoing[S]{d.refused, d.over} {
		for _, s := range list {
			f(&s.Record)
		}
	}
}

// eachInOrder calls f with the flows that are under way, in the order in which they began.
func (d *outgoingFlows[S]) eachInOrder(f func(*outgoing[S])) {
	d.order = slices.AppendSeq(d.order[:0], maps.Keys(d.sending))
	slices.Sort(d.order)
	for _, id := range d.order {
		f(d.sending[id])
	}
}

// OnFlowEnd makes onEnd be called with each flow from the host when it ends, in its final state.
func (d *outgoingFlows[S]) OnFlowEnd(onEnd func(now units.Time, x *StreamFlow)) { d.onFlowEnd = onEnd }
