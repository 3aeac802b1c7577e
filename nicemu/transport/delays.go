package transport

import (
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// Delays are the delays between a NIC and its host, in one direction or the other; 0 means no
// delay, which costs nothing.
//
// A NIC starts to fetch the data of a work request as soon as it knows of it, whatever is queued
// before it. So reads are pipelined: the first message after a pause waits for its data, and those
// after it find theirs there, unless they were posted later than a Fetch before their turn. A
// message waits as a whole, before its first packet. Retransmissions are not delayed, except for a
// repeated READ: its response is fetched again.
type Delays struct {
	Doorbell units.Time // from a post to the send queue until the NIC knows of it
	// Fetch is a read of the host's memory (PCIe): by the requester, of the data of a SEND or WRITE
	// that is not inline; by the responder, of the data for a READ, or of the 8 bytes of an atomic.
	Fetch units.Time
}

// bus is the connection to the host. A nil bus takes no time; that check is small enough to be
// inlined.
type bus struct {
	Delays
	now   units.Time             // time of the last input
	known queue.FIFO[units.Time] // when the NIC learns of each work request of the send queue
	reads queue.FIFO[reading]    // for responses, in order of time
}

// SetDelays sets the delays of a queue pair in RESET, none of them negative.
func (q *QP) SetDelays(d Delays) {
	q.bus = nil
	if d != (Delays{}) {
		q.bus = &bus{Delays: d}
	}
}

// SetTime sets the time of a queue pair with Delays, before PostSend. Receive and DoDueWork do so too,
// but Next does not: it returns the packet on offer.
func (q *QP) SetTime(now units.Time) {
	if q.bus != nil {
		q.bus.now = now
	}
}

// recordPost records when the NIC learns of the newest work request, and completed removes the oldest.
func (b *bus) recordPost() { *b.known.PushReused() = b.now + b.Doorbell }

func (b *bus) removeOldest() { b.known.DropFirst() }

// clearPosts removes all work requests.
func (b *bus) clearPosts() {
	if b != nil {
		b.known.Clear()
		b.reads.Clear()
	}
}

// readyTime returns when the i-th work request of the queue, which is w, may begin.
func (b *bus) readyTime(i int, w *sendWQE) units.Time {
	at := *b.known.At(i)
	if w.length > 0 && len(w.Inline) == 0 && !w.Op.fetchesData() {
		at += b.Fetch
	}
	return at
}

// nextPosition returns the queue position of the work request that begins next; the length of the queue
// if there is none. It returns the length, too, while a message is under way.
func (r *requester) nextPosition() int {
	switch {
	case r.next == r.free:
		return r.numbered
	case r.next == r.queue.At(r.numbered-1).first: // it has PSNs already
		return r.numbered - 1
	}
	return r.queue.Len()
}

// mustHold reports whether the work request that begins next, or fails, has to wait.
func (q *QP) mustHold(w *sendWQE) bool { return q.bus != nil && q.heldUp(w) }

func (q *QP) heldUp(w *sendWQE) bool {
	i := q.req.nextPosition()
	return i < q.req.queue.Len() && q.bus.now < q.bus.readyTime(i, w)
}

// reading is a fetch of a response's data.
type reading struct {
	of PSN // the response's first
	at units.Time
}

// fetchData starts to read the data of a response.
func (b *bus) fetchData(f *fetched) {
	if b == nil || !f.atomic && f.span.Length == 0 {
		return
	}
	for b.reads.Len() > 0 && b.reads.First().at <= b.now {
		b.reads.DropFirst()
	}
	*b.reads.PushReused() = reading{f.first, b.now + b.Fetch}
}

// awaitsData reports whether a response waits for its data.
func (b *bus) awaitsData(f *fetched) bool { return b != nil && f != nil && b.now < b.dataArrival(f) }

// dataArrival returns when the data of a response arrives, or a past time.
func (b *bus) dataArrival(f *fetched) units.Time {
	for i := b.reads.Len() - 1; i >= 0; i-- {
		if r := b.reads.At(i); r.of == f.first {
			return r.at
		}
	}
	return b.now
}

// busDeadline returns when a message or a response has waited long enough; units.Never if none
// waits.
func (q *QP) busDeadline() units.Time {
	b, r, t := q.bus, &q.req, units.Never
	if i := r.nextPosition(); i < r.queue.Len() && q.state == qp.RTS {
		if at := b.readyTime(i, r.queue.At(i)); b.now < at {
			t = at
		}
	}
	if f := q.awaitedResponse(); b.awaitsData(f) {
		t = min(t, b.dataArrival(f))
	}
	return t
}

// awaitedResponse returns the response to send next, if there is one.
func (q *QP) awaitedResponse() *fetched {
	r := &q.resp
	if r.answers.areUnacknowledged() {
		return q.findResponse()
	}
	for i := range r.fetches.Len() {
		if f := r.fetches.At(i); r.answers == nil && f.at < f.packets {
			return f
		}
	}
	return nil
}
