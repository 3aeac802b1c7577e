// Package port is the port of a switch or a host: an egress queue with its
// congestion point, the serialiser that puts packets on a link, and the
// receiving side that checks what comes in.
//
// There is one queue per port; shared buffers, priorities, schedulers and PFC
// are to come between Send and start.
package port

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/switches/congestion"
)

// Owner is the switch or host that a port belongs to.
type Owner interface {
	// Input is given every good packet that the port receives, and owns it.
	Input(now units.Time, in *Port, p *packet.Packet)
	// Foresee tells what Input would do with p: Fine, or the reason why it
	// would Discard it. Only ports that are watched ask.
	Foresee(in *Port, p *packet.Packet) packet.Fate
}

// Direction tells packets that come in from those that go out.
type Direction uint8

// The directions of a port.
const (
	In Direction = iota
	Out
)

// Observer sees every packet of a port, for a capture. The packet is lent.
type Observer interface {
	Observe(now units.Time, at *Port, dir Direction, p *packet.Packet, fate packet.Fate, depth units.Bytes)
}

// Port is one port. Its fields are set up by New and Connect.
type Port struct {
	Name  string // "s1:3"
	Index int    // among its owner's ports

	owner Owner
	pool  *packet.Pool
	link  *links.Link // leaving this port
	timer sim.Timer   // end of the packet being sent, armed only while others wait

	limit       units.Bytes
	point       congestion.Point
	first, last *packet.Packet
	bytes       units.Bytes
	packets     int
	freeAt      units.Time // when the packet being sent is out

	observer Observer
	counters Counters
	trace    trace
}

// New makes a port with a queue of limit bytes.
func New(e *sim.Engine, pool *packet.Pool, name string, index int, owner Owner, limit units.Bytes) *Port {
	p := &Port{Name: name, Index: index, owner: owner, pool: pool, limit: limit}
	p.timer = e.NewTimer(p)
	return p
}

// SetPoint puts a congestion point on the queue; nil is plain drop-tail. It
// is called before the run.
func (p *Port) SetPoint(e *sim.Engine, c congestion.Point) {
	p.point = c
	if c == nil {
		return
	}
	t := &ticker{port: p}
	t.timer = e.NewTimer(t)
	t.timer.Arm(0)
}

// ticker is the timer of a port's congestion point.
type ticker struct {
	port  *Port
	timer sim.Timer
}

func (t *ticker) Fire(now units.Time) {
	if next := t.port.point.Tick(now, t.port.view()); next != units.Never {
		t.timer.Arm(next)
	}
}

// Connect gives the port the link that leaves it.
func (p *Port) Connect(l *links.Link) { p.link = l }

// Link is the link that leaves the port, nil when there is none.
func (p *Port) Link() *links.Link { return p.link }

// Observe sets who sees the port's packets; nil ends that.
func (p *Port) Observe(o Observer) { p.observer = o }

// Limit is the byte limit of the queue.
func (p *Port) Limit() units.Bytes { return p.limit }

// Queued is what waits in the queue, without the packet being sent.
func (p *Port) Queued() (packets int, bytes units.Bytes) { return p.packets, p.bytes }

func (p *Port) view() congestion.Queue {
	q := congestion.Queue{Bytes: p.bytes, Packets: p.packets, Limit: p.limit}
	if p.link != nil {
		q.Rate = p.link.Settings().Rate
	}
	return q
}

// Send takes a packet that is to leave through this port.
func (p *Port) Send(now units.Time, k *packet.Packet) {
	k.Fate = packet.Fine
	if p.link == nil {
		p.drop(now, k, packet.NoRoute)
		return
	}
	if p.bytes+k.Size > p.limit {
		p.drop(now, k, packet.QueueFull)
		return
	}
	if p.point != nil {
		fate := p.point.Enqueue(now, p.view(), k)
		// The point may have sent a packet into this queue, or made k longer.
		if !fate.Dropped() && p.bytes+k.Size > p.limit {
			fate = packet.QueueFull
		}
		if fate.Dropped() {
			p.drop(now, k, fate)
			return
		}
		p.note(k, fate)
	}
	if p.first == nil && now >= p.freeAt {
		p.start(now, k)
		return
	}
	p.counters.queued(now, p.bytes)
	k.Next = nil
	if p.first == nil {
		p.first = k
		p.timer.Arm(p.freeAt)
	} else {
		p.last.Next = k
	}
	p.last = k
	p.packets++
	p.bytes += k.Size
	p.counters.MaxQueue = max(p.counters.MaxQueue, p.bytes)
}

// Fire is the end of one packet: the next begins.
func (p *Port) Fire(now units.Time) {
	k := p.first
	p.counters.queued(now, p.bytes)
	p.first = k.Next
	p.packets--
	p.bytes -= k.Size
	p.start(now, k)
}

// start puts a packet's first bit on the link, unless the congestion point
// drops it, and arms for the next.
func (p *Port) start(now units.Time, k *packet.Packet) {
	if p.point == nil {
		p.transmit(now, k)
	} else {
		// What the point sends into this queue waits until k is on its way.
		p.freeAt = units.Never
		fate := p.point.Dequeue(now, p.view(), k)
		if fate.Dropped() {
			p.freeAt = now
			p.drop(now, k, fate)
		} else {
			p.note(k, fate)
			p.transmit(now, k)
		}
	}
	if p.first != nil {
		p.timer.Arm(p.freeAt)
	}
}

// transmit puts a packet's first bit on the link.
func (p *Port) transmit(now units.Time, k *packet.Packet) {
	p.counters.TxPackets++
	p.counters.TxBytes += uint64(k.Size)
	tx := p.link.Settings().Rate.TimeOf(packet.OnWire(k.Size))
	p.freeAt = now + tx
	p.trace.add(now, k, k.Fate)
	fate := p.link.Carry(now, tx, k)
	if p.observer != nil {
		// A packet that the link took is only under way: it stays intact
		// until the engine comes to its arrival, and can still be shown.
		shown := fate
		if fate == packet.Fine {
			shown = k.Fate
		}
		p.observer.Observe(now, p, Out, k, shown, k.Depth)
	}
	if fate != packet.Fine {
		p.lose(now, k, fate)
	}
}

// note remembers a mark for the capture and counts it.
func (p *Port) note(k *packet.Packet, fate packet.Fate) {
	if fate == packet.Marked {
		k.Fate, k.Depth = fate, p.bytes
		p.counters.Marked++
	}
}

// Receive is given a packet by the link that ends at this port.
func (p *Port) Receive(now units.Time, k *packet.Packet) {
	p.counters.RxPackets++
	p.counters.RxBytes += uint64(k.Size)
	if p.observer != nil {
		fate := packet.BadFCS
		if !k.BadFCS {
			fate = p.owner.Foresee(p, k)
		}
		p.observer.Observe(now, p, In, k, fate, 0)
	}
	if k.BadFCS {
		p.lose(now, k, packet.BadFCS)
		return
	}
	p.owner.Input(now, p, k)
}

// Discard ends a packet that came in through this port and that its owner
// cannot use.
func (p *Port) Discard(now units.Time, k *packet.Packet, fate packet.Fate) { p.lose(now, k, fate) }

// drop ends a packet that the queue does not take.
func (p *Port) drop(now units.Time, k *packet.Packet, fate packet.Fate) {
	if p.observer != nil {
		p.observer.Observe(now, p, Out, k, fate, p.bytes)
	}
	p.lose(now, k, fate)
}

// lose counts and frees a packet.
func (p *Port) lose(now units.Time, k *packet.Packet, fate packet.Fate) {
	p.counters.Drops[fate]++
	p.counters.DropBytes += uint64(k.Size)
	p.trace.add(now, k, fate)
	p.pool.Free(k)
}
