package links

import (
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
)

// Receiver is the port at the far end of a link.
type Receiver interface {
	// Receive is given a packet at the instant its last bit arrives, and
	// owns it from then on.
	Receive(now units.Time, p *packet.Packet)
}

// Counters counts what a link did, in packets. What it lost is counted by
// the sending port, which is told by Carry, except for Cut.
type Counters struct {
	Delivered  uint64
	Corrupted  uint64
	Duplicated uint64 // copies made
	Reordered  uint64 // held back on purpose
	Cut        uint64 // under way when the link went down
}

// Link is one direction of a cable. It has a single entry in the event queue
// however many packets are under way: they leave in the order they came,
// except where Settings asks for disorder.
type Link struct {
	settings Settings
	rand     *rand.Rand
	timer    sim.Timer
	pool     *packet.Pool
	to       Receiver

	first, last *packet.Packet // under way, in order of arrival
	held        int            // packets under way, in the list and in late
	arrival     units.Time     // of the last packet in the list
	late        lateQueue      // packets that may be overtaken, or overtake

	Counters Counters
}

// New makes a link that delivers to the far port. random decides its losses
// and jitter.
func New(e *sim.Engine, pool *packet.Pool, random *rand.Rand, s Settings, to Receiver) *Link {
	l := &Link{settings: s, rand: random, pool: pool, to: to}
	l.timer = e.NewTimer(l)
	return l
}

// Settings gives what the link does now.
func (l *Link) Settings() Settings { return l.settings }

// InFlight is how many packets are under way.
func (l *Link) InFlight() int { return l.held }

// Set changes what the link does to packets sent from now on. Packets already
// under way keep their arrival, unless the link goes down: then they are lost.
// A shorter delay does not let later packets overtake earlier ones.
func (l *Link) Set(s Settings) {
	l.settings = s
	if s.Up {
		return
	}
	for p := l.first; p != nil; {
		next := p.Next
		l.pool.Free(p)
		l.Counters.Cut++
		p = next
	}
	for _, p := range l.late.packets {
		l.pool.Free(p)
		l.Counters.Cut++
	}
	l.first, l.last, l.held, l.arrival = nil, nil, 0, 0
	l.late.clear()
	l.timer.Disarm()
}

// Carry takes a packet whose first bit leaves the port at now and whose last
// bit leaves tx later. It returns Fine when the link has taken it; otherwise
// the reason for the loss, and the packet still belongs to the caller.
func (l *Link) Carry(now, tx units.Time, p *packet.Packet) packet.Fate {
	s := &l.settings
	switch {
	case !s.Up:
		return packet.LinkDown
	case p.Layer3() > s.MTU:
		return packet.TooBig
	case p.Version == 4 && s.DropMatch.IPID(p.IPID):
		return packet.LinkMatch
	case s.Loss > 0 && l.rand.Float64() < float64(s.Loss):
		return packet.LinkLoss
	}
	if s.Corrupt > 0 && l.rand.Float64() < float64(s.Corrupt) {
		p.BadFCS = true
		l.Counters.Corrupted++
	}
	at := now + tx + s.Delay
	overtake := s.JitterReorder && s.Jitter > 0
	if s.Jitter > 0 {
		at += l.jitter()
	}
	if s.Reorder > 0 && l.rand.Float64() < float64(s.Reorder) {
		at += s.ReorderBy
		overtake = true
		l.Counters.Reordered++
	}
	if s.Duplicate > 0 && l.rand.Float64() < float64(s.Duplicate) {
		l.Counters.Duplicated++
		l.send(at, l.pool.Clone(p), overtake)
	}
	l.send(at, p, overtake)
	return packet.Fine
}

// send puts p under way, to arrive at at.
func (l *Link) send(at units.Time, p *packet.Packet, overtake bool) {
	l.held++
	if overtake {
		p.At = at
		l.late.push(p)
		if at < l.timer.Due() {
			l.timer.Arm(at)
		}
		return
	}
	// What goes in order never arrives before its predecessor.
	at = max(at, l.arrival)
	l.arrival = at
	p.At, p.Next = at, nil
	if l.first != nil {
		l.last.Next = p
		l.last = p
		return
	}
	l.first, l.last = p, p
	if at < l.timer.Due() {
		l.timer.Arm(at)
	}
}

// Fire delivers the packet whose last bit arrives now.
func (l *Link) Fire(now units.Time) {
	p := l.first
	if late := l.late.peek(); late != nil && (p == nil || late.At < p.At) {
		p = l.late.pop()
	} else {
		l.first = p.Next
	}
	l.held--
	next := units.Never
	if l.first != nil {
		next = l.first.At
	}
	if late := l.late.peek(); late != nil {
		next = min(next, late.At)
	}
	if next != units.Never {
		l.timer.Arm(next)
	}
	p.Next = nil
	l.Counters.Delivered++
	l.to.Receive(now, p)
}

// jitter draws the extra delay of one packet.
func (l *Link) jitter() units.Time {
	j := float64(l.settings.Jitter)
	var x float64
	switch l.settings.JitterDistribution {
	case Uniform:
		x = j * l.rand.Float64()
	case Normal:
		x = j + j/4*l.rand.NormFloat64()
	case Exponential:
		x = j * l.rand.ExpFloat64()
	case Pareto:
		const shape = 3
		u := 1 - l.rand.Float64() // in (0, 1]
		x = j * (shape - 1) / shape / math.Cbrt(u)
	}
	return units.Time(max(x, 0))
}
