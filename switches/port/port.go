// Package port is the port of a switch or a host: an egress queue with its
// congestion point, the serialiser that puts packets on a link, and the
// receiving side that checks what comes in.
//
// A plain port has one queue. A port of a node with traffic classes has one for
// each, a scheduler among them, a part in the node's buffer, and is paused and
// pauses (classes.go, pause.go, overflow.go). A NIC may feed it (feed.go).
package port

import (
	"unsafe"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/prefetch"
	"github.com/weftlab/weft/sim/units"
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
//
// What a packet finds in the queue decides when it leaves. Where nothing else
// can have a say in that, the port computes the departure at once and puts the
// packet under way ahead of time: a hop is then a single event (ahead.go).
// Otherwise packets wait in a list, and a timer starts each (queue.go). The
// two give the same results to the picosecond.
//
// The fields lie in the order in which a packet needs them: a cache line for
// one that comes in, two for one that goes out.
type Port struct {
	owner    Owner
	observer Observer
	rx       traffic
	pool     *packet.Pool
	Index    int // among its owner's ports

	link     *links.Link // leaving this port
	freeAt   units.Time  // when the last packet begun, or promised, is out
	limit    units.Bytes
	bytes    units.Bytes // waiting: packets that have not begun to leave
	point    congestion.Point
	lastSize units.Bytes // of a packet, and
	lastTime units.Time  // how long its serialisation takes

	promised departures // in ahead.go
	tx       traffic
	trace    trace
	ahead    bool // departures are computed ahead of time
	mayAhead bool // they are again when the list is empty

	classes  *classes // in classes.go; nil for a plain port
	stamp    *stamp   // in stamp.go; nil for a port that writes no telemetry
	list     queue    // in queue.go
	counters QueueCounters
	losses   *Losses     // nil until a packet has ended here
	longest  units.Bytes // the queue has been before counters.MaxQueue was reset

	Name string // "s1:3"

	_ [32]byte // whole cache lines, at whose beginning ports then lie
}

// traffic counts packets and the bytes of their frames.
type traffic struct{ packets, bytes uint64 }

func (t *traffic) add(n units.Bytes) {
	t.packets++
	t.bytes += uint64(n)
}

// New makes a port with a queue of limit bytes.
func New(e *sim.Engine, pool *packet.Pool, name string, index int, owner Owner, limit units.Bytes) *Port {
	p := &Port{Name: name, Index: index, owner: owner, pool: pool, limit: limit}
	p.list.timer = e.NewTimer(p)
	return p
}

// Prefetch asks for what receiving and sending a packet needs.
func (p *Port) Prefetch() { prefetch.Head(p, unsafe.Offsetof(p.classes)) }

// SetPoint puts a congestion point on the queue, which make makes; nil is plain
// drop-tail. It is called before the run. wake is congestion.Env.Wake.
func (p *Port) SetPoint(e *sim.Engine, make func(wake func(units.Time)) congestion.Point) {
	p.point = newTicker(e, make, p.view)
}

// Gauges appends the values of the gauges of a plain port's congestion point, none if it
// has no point.
func (p *Port) Gauges(now units.Time, values []float64) []float64 {
	if p.point == nil {
		return values
	}
	return p.point.Gauges(now, p.view(now), values)
}

// ClassGauges is Gauges of class number i of a port that has classes, by rising priority.
func (p *Port) ClassGauges(now units.Time, i int, values []float64) []float64 {
	c := p.classes
	q := &c.queues[i]
	if q.point == nil {
		return values
	}
	return q.point.Gauges(now, p.classView(q), values)
}

// Connect gives the port the link that leaves it.
func (p *Port) Connect(l *links.Link) {
	p.link = l
	p.stamp.follow(p)
	p.choose(0)
}

// InFlight is how many packets are under way on the link.
func (p *Port) InFlight(now units.Time) int {
	p.settle(now)
	return p.link.InFlight() - p.promised.len()
}

// Link is the link that leaves the port, nil when there is none.
func (p *Port) Link() *links.Link { return p.link }

// SetLink changes what the link that leaves the port does to packets that
// begin to leave from now on.
func (p *Port) SetLink(now units.Time, s links.Settings) {
	p.stopAhead(now)
	p.link.Set(s)
	p.lastSize = 0
	p.stamp.follow(p)
	p.choose(now)
}

// Observe sets who sees the port's packets from now on; nil ends that.
func (p *Port) Observe(now units.Time, o Observer) {
	p.stopAhead(now)
	p.observer = o
	p.choose(now)
}

// Limit is the byte limit of the queue of a plain port.
func (p *Port) Limit() units.Bytes { return p.limit }

// Queued is what waits in the queue, without the packet being sent.
func (p *Port) Queued(now units.Time) (packets int, bytes units.Bytes) {
	if p.classes != nil {
		return p.classes.count(), p.bytes
	}
	p.settle(now)
	return p.list.packets + p.promised.len(), p.bytes
}

// Waiting is how many packets wait in the queue of a priority's class, or in the only queue.
func (p *Port) Waiting(now units.Time, prio uint8) int {
	if p.classes != nil {
		return int(p.classes.queue[prio].count)
	}
	packets, _ := p.Queued(now)
	return packets
}

func (p *Port) view(now units.Time) congestion.Queue {
	packets, bytes := p.Queued(now)
	q := congestion.Queue{Bytes: bytes, Packets: packets, Limit: p.limit}
	if p.link != nil {
		q.Rate = p.link.Rate()
	}
	return q
}

// Send takes a packet that is to leave through this port.
func (p *Port) Send(now units.Time, k *packet.Packet) {
	k.Fate, k.Depth = packet.Fine, 0
	if p.link == nil {
		p.drop(now, k, packet.NoRoute)
		return
	}
	if p.classes != nil {
		p.sendClass(now, k)
		return
	}
	if p.bytes > 0 {
		p.settle(now)
	}
	if p.bytes+k.Size > p.limit {
		p.drop(now, k, packet.QueueFull)
		return
	}
	if p.point != nil {
		fate := p.point.Enqueue(now, p.view(now), k)
		// The point may have sent a packet into this queue, or made k longer.
		if !fate.Dropped() && p.bytes+k.Size > p.limit {
			p.point.Removed(now, p.view(now), k, packet.QueueFull)
			fate = packet.QueueFull
		}
		if fate.Dropped() {
			p.drop(now, k, fate)
			return
		}
		p.note(k, fate)
	}
	if p.ahead {
		if p.sendAhead(now, k) {
			return
		}
		p.stopAhead(now)
	}
	if p.list.first == nil && now >= p.freeAt {
		p.start(now, k)
		return
	}
	p.push(now, k)
}

// settle counts as gone whatever begins to leave at now or before. Events of
// one instant have no order of their own: whether a packet that begins to
// leave at now is still in the queue must not depend on whether the timer or
// somebody else comes first.
func (p *Port) settle(now units.Time) {
	if p.classes != nil {
		return // it never runs ahead, so there is nothing to catch up with
	}
	for p.promised.due(now) {
		p.bytes -= p.promised.pop().size
	}
	for p.list.first != nil && p.freeAt <= now {
		p.startNext(now)
	}
}

// txTime is how long k's serialisation takes.
func (p *Port) txTime(k *packet.Packet) units.Time {
	if k.Size != p.lastSize {
		p.lastSize = k.Size
		p.lastTime = p.link.Rate().TimeOf(packet.OnWire(k.Size))
	}
	return p.lastTime
}

// note remembers a mark for the capture and counts it.
func (p *Port) note(k *packet.Packet, fate packet.Fate) {
	if fate == packet.Marked {
		k.Fate, k.Depth = fate, uint32(p.bytes)
		p.counters.Marked++
	}
}

// Receive is given a packet by the link that ends at this port.
func (p *Port) Receive(now units.Time, k *packet.Packet) {
	p.rx.add(k.Size)
	if p.observer != nil {
		fate := packet.Fine
		switch {
		case k.BadFCS && (p.classes == nil || !p.classes.CutThrough):
			fate = packet.BadFCS
		case k.Dest == packet.MACControl:
			fate = k.Fate
		default:
			fate = p.owner.Foresee(p, k)
		}
		p.observer.Observe(now, p, In, k, fate, 0)
	}
	if k.BadFCS && (p.classes == nil || !p.classes.CutThrough || k.Dest == packet.MACControl) {
		p.lose(now, k, packet.BadFCS)
		return
	}
	if k.Dest == packet.MACControl {
		p.takeControl(now, k)
		return
	}
	p.owner.Input(now, p, k)
}

// Discard ends a packet that came in through this port and that its owner
// cannot use.
func (p *Port) Discard(now units.Time, k *packet.Packet, fate packet.Fate) { p.lose(now, k, fate) }

// Refused counts a packet that came in through this port and that its host did
// not take in the end. The packet stays the caller's.
func (p *Port) Refused(now units.Time, k *packet.Packet) { p.count(now, k, packet.HostRefused) }

// drop ends a packet that the queue does not take.
func (p *Port) drop(now units.Time, k *packet.Packet, fate packet.Fate) {
	if p.observer != nil {
		p.observer.Observe(now, p, Out, k, fate, p.bytes)
	}
	p.lose(now, k, fate)
}

// lose counts and frees a packet.
func (p *Port) lose(now units.Time, k *packet.Packet, fate packet.Fate) {
	p.count(now, k, fate)
	p.pool.Free(k)
}

// count counts the end of a packet.
func (p *Port) count(now units.Time, k *packet.Packet, fate packet.Fate) {
	if p.losses == nil {
		p.losses = new(Losses)
	}
	p.losses.Drops[fate]++
	p.losses.DropBytes += uint64(k.Size)
	p.trace.add(now, k, fate)
}
