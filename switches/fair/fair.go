// Package fair implements a queue that shares its bandwidth equally among flows:
// deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) with the two lists of
// FQ-CoDel (RFC 8290 §4.2; Linux net/sched/sch_fq_codel.c), which serve flows that
// send little before those with a backlog. It is pure and allocates nothing after
// New.
package fair

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// Flows is the maximum number of flows with a separate queue. Beyond that some
// share one.
const (
	Flows = 1024
	ways  = 8
)

// Queue holds packets, whose Size must not change while they are in it. It
// identifies flows by packet.Packet.Hash.
//
// Flows take turns. A turn lasts until the flow has sent a quantum, on the wire. A
// flow may exceed it by less than a packet, and then waits longer. A flow that
// begins to send has its first turn before all flows that have had one. To begin
// again it must have let a turn pass, so that a flow gains nothing by sending in
// small pieces.
//
// A flow finds its queue among eight by its hash, as in CAKE
// (net/sched/sch_cake.c): two share one only if all eight are in use.
type Queue struct {
	begun, turns list // flows in their first turn, and those after it
	quantum      units.Bytes
	packets      int
	bytes        units.Bytes
	flows        [Flows]flow
}

// flow holds the packets of a flow, first to last.
type flow struct {
	first, last *packet.Packet
	hash        uint64 // of the flow that the queue was assigned to
	bytes       units.Bytes
	credit      units.Bytes // on the wire; the turn ends when it is used up
	next        *flow       // in its list
	active      bool        // it is in a list
	sent        bool        // it has sent in this turn
	shared      bool        // other flows than hash may have packets here
}

// New returns an empty queue. quantum is the amount that a flow may send in a turn,
// with preamble, FCS and gap; at least one byte. A full frame (RFC 8290 §5.2.4)
// gives turns of one packet.
func New(quantum units.Bytes) *Queue { return &Queue{quantum: max(quantum, 1)} }

// Len returns the number of packets in the queue.
func (q *Queue) Len() int { return q.packets }

// Bytes returns the length of the frames in the queue.
func (q *Queue) Bytes() units.Bytes { return q.bytes }

// Push appends a packet to those of its flow.
func (q *Queue) Push(p *packet.Packet) {
	f := q.flowOf(p.Hash)
	if !f.active {
		f.active, f.credit = true, q.quantum
		q.begun.pushFlow(f)
	}
	p.Next = nil
	if f.first == nil {
		f.first = p
	} else {
		f.last.Next = p
	}
	f.last = p
	f.bytes += p.Size
	q.packets++
	q.bytes += p.Size
}

// HeadPacket returns the packet that Pop would return, or nil. It changes nothing.
func (q *Queue) HeadPacket() *packet.Packet {
	if f := q.servedFlow(); f != nil {
		return f.first
	}
	return nil
}

// Pop removes and returns the packet to send, or nil.
func (q *Queue) Pop() *packet.Packet {
	f := q.servedFlow()
	if f == nil {
		return nil
	}
	p := q.removeFirst(f)
	f.credit -= packet.OnWire(p.Size)
	f.sent = true
	q.endTurns()
	return p
}

// DropFattest removes and returns the first packet of the flow that holds the most
// bytes, or nil (RFC 8290 §4.1): a flow learns of congestion sooner from the loss
// of its oldest packet. To enforce the limit of a queue, push the new packet first:
// its flow may be that flow.
//
// Its running time is proportional to the number of flows that wait.
func (q *Queue) DropFattest() *packet.Packet {
	var fattest *flow
	for _, f := range [...]*flow{q.begun.first, q.turns.first} {
		for ; f != nil; f = f.next {
			if f.first != nil && (fattest == nil || f.bytes > fattest.bytes) {
				fattest = f
			}
		}
	}
	if fattest == nil {
		return nil
	}
	p := q.removeFirst(fattest)
	q.endTurns()
	return p
}

// EachPacket calls see for all packets, flow by flow. see must not change the queue.
func (q *Queue) EachPacket(see func(*packet.Packet)) {
	for _, f := range [...]*flow{q.begun.first, q.turns.first} {
		for ; f != nil; f = f.next {
			for p := f.first; p != nil; p = p.Next {
				see(p)
			}
		}
	}
}

// servedFlow returns the flow whose turn it is. It has a packet and credit: settle
// ensures that, and a flow that begins has both.
func (q *Queue) servedFlow() *flow {
	if q.begun.first != nil {
		return q.begun.first
	}
	return q.turns.first
}

// removeFirst removes the first packet of a flow that has one.
func (q *Queue) removeFirst(f *flow) *packet.Packet {
	p := f.first
	f.first, p.Next = p.Next, nil
	f.bytes -= p.Size
	q.packets--
	q.bytes -= p.Size
	return p
}

// endTurns ends the turns of flows that are empty or without credit, until it is the
// turn of one that can send. A flow leaves the lists when its turn comes and it has
// nothing to send. RFC 8290 lets it leave when it becomes empty: with the right
// timing it could begin again at once and get two quanta in a round.
func (q *Queue) endTurns() {
	for {
		l := &q.begun
		if l.first == nil {
			l = &q.turns
		}
		f := l.first
		switch {
		case f == nil:
			return
		case f.first == nil && !f.sent && f.credit > 0:
			l.popFlow()
			f.active, f.shared = false, false
		case f.first == nil || f.credit <= 0:
			l.popFlow()
			f.credit = min(f.credit, 0) + q.quantum
			f.sent = false
			q.turns.pushFlow(f)
		default:
			return
		}
	}
}

// flowOf finds the queue of a flow: the one that it has, or else an unused one, or
// else the first of its set, which it shares. A flow does not move while it has
// packets, because packets of a flow keep their order.
func (q *Queue) flowOf(hash uint64) *flow {
	set := q.flows[hash/ways%(Flows/ways)*ways:][:ways]
	own := &set[hash%ways]
	var free *flow
	for i := range uint64(ways) {
		f := &set[(hash+i)%ways]
		if f.hash == hash {
			return f
		}
		if free == nil && !f.active {
			free = f
		}
	}
	// A shared queue may hold packets of this flow.
	if free == nil || own.shared {
		own.shared = true
		return own
	}
	free.hash = hash
	return free
}

// list is an ordered list of flows.
type list struct{ first, last *flow }

func (l *list) pushFlow(f *flow) {
	f.next = nil
	if l.first == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
}

func (l *list) popFlow() { l.first = l.first.next }
