package nicemu

import (
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
)

// sound holds what a device keeps of itself to what it should be.
func (d *Device) sound(t rapid.TB) {
	t.Helper()
	d.soundAgenda(t)
	d.soundLanes(t)
	if n := len(d.numbers.all()); n != d.inUse[qp.QueuePairs] {
		t.Fatalf("%s: %d queue pairs, and %d are counted", d.Name(), n, d.inUse[qp.QueuePairs])
	}
}

// soundAgenda: a heap of what has, or had, something due; none is woken later than it
// wants to be.
func (d *Device) soundAgenda(t rapid.TB) {
	t.Helper()
	a := &d.agenda
	live := 0
	for i, k := range a.heap {
		if int(k.index) != i+1 {
			t.Fatalf("%s: a task at %d of the agenda says that it is at %d", d.Name(), i, k.index-1)
		}
		if i > 0 && before(k, a.heap[(i-1)/2]) {
			t.Fatalf("%s: the agenda is no heap at %d", d.Name(), i)
		}
		if k.want != units.Never {
			live++
		}
		if k.want < k.entry {
			t.Fatalf("%s: a task wants %v and is woken at %v", d.Name(), k.want, k.entry)
		}
	}
	if live != a.live {
		t.Fatalf("%s: %d tasks have something due, and %d are counted", d.Name(), live, a.live)
	}
	if d.armed != a.next() {
		t.Fatalf("%s: the timer is armed for %v, and the agenda begins at %v", d.Name(), d.armed, a.next())
	}
	for _, q := range d.numbers.all() {
		if q.want != units.Never && q.index == 0 {
			t.Fatalf("%s: queue pair %d wants %v and is not in the agenda", d.Name(), q.Number(), q.want)
		}
	}
}

// soundLanes: every queue pair that has a packet to send is where its turn comes, or
// is woken when it may be sent, or waits for its window; the others are nowhere.
func (d *Device) soundLanes(t rapid.TB) {
	t.Helper()
	in := map[*QP]spot{}
	for prio := range d.lanes {
		l := &d.lanes[prio]
		for s, r := range map[spot]*ring{inUrgent: &l.urgent, inReady: &l.ready} {
			var last *QP
			for q := r.head; q != nil; q = q.behind {
				if q.before != last || q.spot != s || int(q.prio) != prio || in[q] != nowhere {
					t.Fatalf("%s: queue pair %d is in lane %d, spot %d, and says lane %d, spot %d", d.Name(), q.Number(), prio, s, q.prio, q.spot)
				}
				in[q], last = s, q
			}
			if r.tail != last {
				t.Fatalf("%s: a ring of lane %d has another tail than last", d.Name(), prio)
			}
		}
		some := !l.own.Empty() || !l.cnps.empty() || l.urgent.head != nil || l.ready.head != nil
		if some != (l.fed > 0) {
			t.Fatalf("%s: lane %d has something to send: %v; the port was told of %v", d.Name(), prio, some, l.fed)
		}
		waiting := map[*QP]bool{}
		for _, q := range l.cnps.list[l.cnps.head:] {
			if waiting[q] || !q.notified {
				t.Fatalf("%s: a CNP for queue pair %d waits twice, or it does not know", d.Name(), q.Number())
			}
			waiting[q] = true
		}
	}
	for q := range in {
		if d.numbers.find(q.Number()) != q {
			t.Fatalf("%s: queue pair %d is destroyed and waits for its turn", d.Name(), q.Number())
		}
	}
	for _, q := range d.numbers.all() {
		q.sound(t, in[q])
	}
}

func (q *QP) sound(t rapid.TB, in spot) {
	t.Helper()
	name, number := q.device.Name(), q.Number()
	if q.State() != q.engine.State() {
		t.Fatalf("%s: queue pair %d is in %v, its engine in %v", name, number, q.State(), q.engine.State())
	}
	if q.spot != in {
		t.Fatalf("%s: queue pair %d is in spot %d and says %d", name, number, in, q.spot)
	}
	offer := q.engine.Offer()
	if offer != q.offer {
		t.Fatalf("%s: queue pair %d offers %+v, and was taken to offer %+v", name, number, offer, q.offer)
	}
	if due := q.engine.Deadline(); q.want > due {
		t.Fatalf("%s: queue pair %d has something due at %v and is woken at %v", name, number, due, q.want)
	}
	switch offer.Kind {
	case transport.Nothing:
		if in != nowhere {
			t.Fatalf("%s: queue pair %d has nothing to send, and a turn", name, number)
		}
	case transport.Control:
		if in != inUrgent {
			t.Fatalf("%s: queue pair %d has a response to send, and is in spot %d", name, number, in)
		}
	default:
		if at := q.earliest(); in != inReady && at != units.Never && q.want > at {
			t.Fatalf("%s: queue pair %d may send at %v, and is woken at %v", name, number, at, q.want)
		}
	}
}
