package cq

import (
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
)

// Latency is the time that entries take from the NIC to the program. The zero Latency means no
// delay, and costs nothing. Entries do not overtake each other.
type Latency struct {
	Entry units.Time // of every entry, until it can be polled and makes its event
	// Data is the additional time of an entry that reports data in the host's memory: of a receive
	// with a payload, of a READ or an atomic. The data is written first.
	Data units.Time
}

// LatencyOf returns the time that an entry takes when no other is in front of it.
func (l Latency) LatencyOf(c *Completion) units.Time {
	if c.Status == Success && c.ByteLen > 0 {
		return l.Entry + l.Data
	}
	return l.Entry
}

// pipe holds the entries under way to the program. A nil pipe takes no time.
type pipe struct {
	Latency
	queue    queue.FIFO[underWay] // in order
	arriving bool                 // the pushed entry has arrived
}

// underWay is an entry and its arrival time.
type underWay struct {
	at        units.Time
	entry     Completion
	solicited bool
}

// SetLatency sets the latency of the queue, not negative, before it has entries. Push then marks when
// the NIC makes an entry; Deadline and ReleaseDue deliver it.
func (q *CQ) SetLatency(l Latency) {
	q.pipe = nil
	if l != (Latency{}) {
		q.pipe = &pipe{Latency: l}
	}
}

// EntriesInPipe returns the number of entries that the NIC has made and that cannot be polled yet.
func (q *CQ) EntriesInPipe() int {
	if q.pipe == nil {
		return 0
	}
	return q.pipe.queue.Len()
}

// pushEntry schedules the arrival of an entry.
func (p *pipe) pushEntry(now units.Time, c Completion, solicited bool) {
	at := now + p.LatencyOf(&c)
	if p.queue.Len() > 0 {
		at = max(at, p.queue.Last().at)
	}
	p.queue.Push(underWay{at, c, solicited})
}

// nextArrival returns when the oldest entry arrives; units.Never if there is none.
func (p *pipe) nextArrival() units.Time {
	if p == nil || p.queue.Len() == 0 {
		return units.Never
	}
	return p.queue.First().at
}

func (p *pipe) clearEntries() {
	if p != nil {
		p.queue.Clear()
	}
}

// discardEntries removes entries, and returns how many there were.
func (p *pipe) discardEntries(of func(*Completion) bool) int {
	if p == nil {
		return 0
	}
	return p.queue.DeleteFunc(func(u *underWay) bool { return of(&u.entry) })
}

// addArrived adds the entries that have arrived by now.
func (q *CQ) addArrived(now units.Time) {
	for q.pipe.nextArrival() <= now {
		u := q.pipe.queue.Pop()
		q.DeliverEntry(u.at, u.entry, u.solicited)
	}
}

// DeliverEntry is Push without a Latency: the entry does not come from the NIC, and precedes those under
// way.
func (q *CQ) DeliverEntry(now units.Time, c Completion, solicited bool) bool {
	if q.pipe == nil {
		return q.Push(now, c, solicited)
	}
	q.pipe.arriving = true
	ok := q.Push(now, c, solicited)
	q.pipe.arriving = false
	return ok
}
