package nicemu

import (
	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// sound checks a device's internal state.
func (d *Device) sound(t rapid.TB) {
	t.Helper()
	d.soundAgenda(t)
	d.soundLanes(t)
	if n := len(d.numbers.allQPs()); n != d.inUse[qp.QueuePairs] {
		t.Fatalf("%s: %d queue pairs, and %d are counted", d.Name(), n, d.inUse[qp.QueuePairs])
	}
}

// soundAgenda checks the agenda: a heap of tasks that have, or had, work; none is woken later than
// it wants.
func (d *Device) soundAgenda(t rapid.TB) {
	t.Helper()
	if err := d.agenda.Check(); err != nil {
		t.Fatalf("%s: %v", d.Name(), err)
	}
	if d.armed != d.agenda.Next() {
		t.Fatalf("%s: the timer is armed for %v, and the agenda begins at %v", d.Name(), d.armed, d.agenda.Next())
	}
	for _, q := range d.numbers.allQPs() {
		if q.WantedTime() != units.Never && !q.IsEntered() {
			t.Fatalf("%s: queue pair %d wants %v and is not in the agenda", d.Name(), q.Number(), q.WantedTime())
		}
	}
}

// soundLanes: every queue pair that has a packet to send is in its lane, or is woken when it may be
// sent, or waits for its window; the others are in no lane.
func (d *Device) soundLanes(t rapid.TB) {
	t.Helper()
	turns, urgent := map[*QP]bool{}, map[*QP]bool{}
	for prio := range d.lanes {
		l := &d.lanes[prio]
		for q := range l.ready.All() {
			if int(q.prio) != prio || turns[q] {
				t.Fatalf("%s: queue pair %d takes turns in lane %d, and says in lane %d", d.Name(), q.Number(), prio, q.prio)
			}
			turns[q] = true
		}
		for i := range l.urgent.Len() {
			q := *l.urgent.At(i)
			if int(q.ack) != prio || urgent[q] {
				t.Fatalf("%s: queue pair %d is urgent in lane %d, and says in lane %d", d.Name(), q.Number(), prio, q.ack)
			}
			urgent[q] = true
		}
		some := !l.own.Empty() || l.ccMessages.Len() > 0 || l.cnps.Len() > 0 || l.urgent.Len() > 0 || l.ready.Len() > 0
		if some != (l.fed > 0) {
			t.Fatalf("%s: lane %d has something to send: %v; the port was told of %v", d.Name(), prio, some, l.fed)
		}
		waiting := map[*QP]bool{}
		for i := range l.cnps.Len() {
			q := *l.cnps.At(i)
			if waiting[q] || !q.notified {
				t.Fatalf("%s: a CNP for queue pair %d waits twice, or it does not know", d.Name(), q.Number())
			}
			waiting[q] = true
		}
	}
	all := d.QPs()
	for q := range turns {
		if d.QP(q.Number()) != q {
			t.Fatalf("%s: queue pair %d is destroyed and takes turns", d.Name(), q.Number())
		}
	}
	for q := range urgent {
		if d.QP(q.Number()) != q {
			t.Fatalf("%s: queue pair %d is destroyed and urgent", d.Name(), q.Number())
		}
	}
	for _, q := range all {
		q.sound(t, urgent[q], turns[q])
	}
}

func (q *QP) sound(t rapid.TB, urgent, turns bool) {
	t.Helper()
	name, number := q.device.Name(), q.Number()
	if q.State() != q.engine.State() {
		t.Fatalf("%s: queue pair %d is in %v, its engine in %v", name, number, q.State(), q.engine.State())
	}
	if q.urgent != urgent || q.turn.IsLinked() != turns {
		t.Fatalf("%s: queue pair %d is urgent: %v, takes turns: %v, and says %v, %v", name, number, urgent, turns, q.urgent, q.turn.IsLinked())
	}
	offer := q.engine.Offer()
	if offer != q.offer {
		t.Fatalf("%s: queue pair %d offers %+v, and was taken to offer %+v", name, number, offer, q.offer)
	}
	if due := q.engine.NextExpiry(); q.WantedTime() > due {
		t.Fatalf("%s: queue pair %d has something due at %v and is woken at %v", name, number, due, q.WantedTime())
	}
	switch offer.Kind {
	case transport.Nothing:
		if urgent || turns {
			t.Fatalf("%s: queue pair %d has nothing to send, and waits to", name, number)
		}
	case transport.Control:
		if !urgent {
			t.Fatalf("%s: queue pair %d has a response to send, and is not urgent", name, number)
		}
		if q.prio == q.ack {
			break
		}
		if rest := q.engine.OfferBehind(); rest != q.rest || turns && rest.Kind == transport.Nothing {
			t.Fatalf("%s: queue pair %d offers %+v behind it, takes turns: %v, and was taken to offer %+v", name, number, rest, turns, q.rest)
		} else if at := q.earliestDeparture(); rest.Kind != transport.Nothing && !turns && q.WantedTime() > at {
			t.Fatalf("%s: queue pair %d may send at %v, and is woken at %v", name, number, at, q.WantedTime())
		}
	default:
		if at := q.earliestDeparture(); !turns && at != units.Never && q.WantedTime() > at {
			t.Fatalf("%s: queue pair %d may send at %v, and is woken at %v", name, number, at, q.WantedTime())
		}
	}
}
