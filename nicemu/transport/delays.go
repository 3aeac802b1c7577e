package transport

import (
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// Delays are what the way between a NIC and its host takes, in one direction or the
// other; 0 is no time, which costs nothing.
//
// A NIC begins to fetch the data of a work request as soon as it knows of it, whatever
// is in front of it. So reads are pipelined: the first message after a pause waits for
// its data, and those behind it find theirs there, unless they were posted later than
// a Fetch before their turn. A message waits as a whole, before its first packet. What
// is sent again is not delayed, but for a READ that comes again: its response is
// fetched again.
type Delays struct {
	Doorbell units.Time // from a post to the send queue until the NIC knows of it
	// Fetch is a read of the host's memory (PCIe): by the requester, of the data of a
	// SEND or WRITE that is not inline; by the responder, of what a READ asks for, or of
	// the 8 bytes of an atomic.
	Fetch units.Time
}

// bus is the way to the host, for the queue pair at its end. Nil takes no time: what asks
// is small enough to be inlined then.
type bus struct {
	Delays
	now   units.Time       // the last that the queue pair was told
	known ring[units.Time] // when the NIC learns of each work request of the send queue
	reads ring[reading]    // for responses, in order of time
}

// Delay gives a queue pair in RESET delays, none of them negative.
func (q *QP) Delay(d Delays) {
	q.bus = nil
	if d != (Delays{}) {
		q.bus = &bus{Delays: d}
	}
}

// Clock tells a queue pair with Delays what time it is, before PostSend. Receive and
// Expire do so too, but Next does not: it gives what was on offer.
func (q *QP) Clock(now units.Time) {
	if q.bus != nil {
		q.bus.now = now
	}
}

// posted notes when the newest work request comes to be known to the NIC, and completed
// that the oldest is over.
func (b *bus) posted() { *b.known.push() = b.now + b.Doorbell }

func (b *bus) completed() { b.known.pop() }

// clear forgets all work requests.
func (b *bus) clear() {
	if b != nil {
		b.known.clear()
		b.reads.clear()
	}
}

// ready is from when on the i-th work request of the queue, which is w, may begin.
func (b *bus) ready(i int, w *sendWQE) units.Time {
	at := *b.known.at(i)
	if w.length > 0 && len(w.Inline) == 0 && !w.Op.fetches() {
		at += b.Fetch
	}
	return at
}

// upcoming is the place in the queue of the work request that begins next; the length of
// the queue if there is none. While a message is under way it is the length, too.
func (r *requester) upcoming() int {
	switch {
	case r.next == r.free:
		return r.numbered
	case r.next == r.queue.at(r.numbered-1).first: // it has PSNs already
		return r.numbered - 1
	}
	return r.queue.n
}

// holds tells whether the work request that begins next, or fails, has to wait.
func (q *QP) holds(w *sendWQE) bool { return q.bus != nil && q.heldUp(w) }

func (q *QP) heldUp(w *sendWQE) bool {
	i := q.req.upcoming()
	return i < q.req.queue.n && q.bus.now < q.bus.ready(i, w)
}

// reading is the data of a response on its way to the NIC.
type reading struct {
	of PSN // the response's first
	at units.Time
}

// fetch begins to read what a response carries.
func (b *bus) fetch(f *fetched) {
	if b == nil || !f.atomic && f.span.Length == 0 {
		return
	}
	for b.reads.n > 0 && b.reads.at(0).at <= b.now {
		b.reads.pop()
	}
	*b.reads.push() = reading{f.first, b.now + b.Fetch}
}

// awaits tells whether a response waits for its data.
func (b *bus) awaits(f *fetched) bool { return b != nil && f != nil && b.now < b.arrival(f) }

// arrival is when the data of a response comes, or something that has been.
func (b *bus) arrival(f *fetched) units.Time {
	for i := b.reads.n - 1; i >= 0; i-- {
		if r := b.reads.at(i); r.of == f.first {
			return r.at
		}
	}
	return b.now
}

// busDeadline is when a message or a response has waited long enough; units.Never if
// none waits.
func (q *QP) busDeadline() units.Time {
	b, r, t := q.bus, &q.req, units.Never
	if i := r.upcoming(); i < r.queue.n && q.state == qp.RTS {
		if at := b.ready(i, r.queue.at(i)); b.now < at {
			t = at
		}
	}
	if f := q.awaited(); b.awaits(f) {
		t = min(t, b.arrival(f))
	}
	return t
}

// awaited is the response that is to be sent next, if there is one.
func (q *QP) awaited() *fetched {
	r := &q.resp
	if r.answers.waiting() {
		return q.answer()
	}
	for i := range r.fetches.n {
		if f := r.fetches.at(i); r.answers == nil && f.at < f.packets {
			return f
		}
	}
	return nil
}
