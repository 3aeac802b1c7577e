package cq

import "github.com/weftlab/weft/sim/units"

// Latency is the time that entries take from the NIC to the program. The zero Latency means no
// delay, and costs nothing. Entries do not overtake each other.
type Latency struct {
	Entry units.Time // of every entry, until it can be polled and makes its event
	// Data is the additional time of an entry that reports data in the host's memory: of a receive
	// with a payload, of a READ or an atomic. The data is written first.
	Data units.Time
}

// Of returns the time that an entry takes when no other is in front of it.
func (l Latency) Of(c *Completion) units.Time {
	if c.Status == Success && c.ByteLen > 0 {
		return l.Entry + l.Data
	}
	return l.Entry
}

// pipe holds the entries under way to the program. A nil pipe takes no time.
type pipe struct {
	Latency
	queue []underWay // in order; the first head of them have arrived
	head  int

	arriving bool // the pushed entry has arrived
}

// underWay is an entry and its arrival time.
type underWay struct {
	at        units.Time
	entry     Completion
	solicited bool
}

// Delay sets the latency of the queue, not negative, before it has entries. Push then marks when
// the NIC makes an entry; Deadline and Expire deliver it.
func (q *CQ) Delay(l Latency) {
	q.pipe = nil
	if l != (Latency{}) {
		q.pipe = &pipe{Latency: l}
	}
}

// Coming returns the number of entries that the NIC has made and that cannot be polled yet.
func (q *CQ) Coming() int {
	if q.pipe == nil {
		return 0
	}
	return len(q.pipe.queue) - q.pipe.head
}

// push schedules the arrival of an entry.
func (p *pipe) push(now units.Time, c Completion, solicited bool) {
	at := now + p.Of(&c)
	if n := len(p.queue); n > p.head {
		at = max(at, p.queue[n-1].at)
	}
	if len(p.queue) == cap(p.queue) && 2*p.head >= len(p.queue) {
		p.queue = p.queue[:copy(p.queue, p.queue[p.head:])]
		p.head = 0
	}
	p.queue = append(p.queue, underWay{at, c, solicited})
}

// next returns when the oldest entry arrives; units.Never if there is none.
func (p *pipe) next() units.Time {
	if p == nil || p.head == len(p.queue) {
		return units.Never
	}
	return p.queue[p.head].at
}

// pop takes the oldest entry.
func (p *pipe) pop() underWay {
	u := p.queue[p.head]
	if p.head++; p.head == len(p.queue) {
		p.clear()
	}
	return u
}

func (p *pipe) clear() {
	if p != nil {
		p.queue, p.head = p.queue[:0], 0
	}
}

// discard removes the entries of a queue pair, and returns how many there were.
func (p *pipe) discard(qp uint32) int {
	if p == nil {
		return 0
	}
	kept := p.queue[:0]
	for _, u := range p.queue[p.head:] {
		if u.entry.QP != qp {
			kept = append(kept, u)
		}
	}
	gone := len(p.queue) - p.head - len(kept)
	p.queue, p.head = kept, 0
	return gone
}

// arrive adds the entries that have arrived by now.
func (q *CQ) arrive(now units.Time) {
	for q.pipe.next() <= now {
		u := q.pipe.pop()
		q.Deliver(u.at, u.entry, u.solicited)
	}
}

// Deliver is Push without a Latency: the entry does not come from the NIC, and precedes those under
// way.
func (q *CQ) Deliver(now units.Time, c Completion, solicited bool) bool {
	if q.pipe == nil {
		return q.Push(now, c, solicited)
	}
	q.pipe.arriving = true
	ok := q.Push(now, c, solicited)
	q.pipe.arriving = false
	return ok
}
