// Package port implements the port of a switch or a host: an egress queue with its
// congestion point, the serialiser that puts packets on a link, and the receiving side that
// checks arriving packets.
//
// A plain port has one queue. A port of a node with traffic classes has a queue for each
// class, a scheduler among them, accounts in the node's buffer, and flow control
// (classes.go, pause.go, overflow.go). A NIC may feed it (feed.go).
//
// A plain port computes the departure of a packet from those before it, if nothing else
// can change that time: a plain link, a congestion point that judges only arrivals, no
// observer (ahead.go). A hop then costs one event. When a capture begins or the link
// changes, the port takes back the packets that have not begun to leave, and starts each
// by a timer (queue.go).
//
// A port with classes never computes ahead, because other classes and pauses affect
// departures: a packet that waits costs a second event. A packet that finds the port idle
// is not charged to the buffer. Queues exist only for the classes that the port has, and
// the state of a pause only after the first pause.
//
// MAC control frames are packets with Dest packet.MACControl. They precede all others, are
// never paused, and end at the next port, so captures show them at both ends.
//
// With credits the port counts all arrivals, and a layer between it and its owner (giver)
// checks the counts when the owner is done with a packet. A class without credit for its
// next packet is blocked like a paused one. An idle port is blocked as soon as there is no
// credit for the longest packet, so code that finds it idle need not check. A waiting
// credit frame gets its counts as it leaves. Ports request updates only while credit is
// outstanding, so a run can end.
//
// With cut-through a packet arrives with its head, and packet.Tail says when the rest
// arrives, so that a faster outgoing link does not run dry.
//
// A port with classes settles nothing lazily: reading it does not change it, so results do not
// depend on who looks. The longest queue of an interval costs the packet path nothing (peak.go).
package port

import (
	"math/rand/v2"
	"unsafe"

	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/prefetch"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// Owner is the switch or host that a port belongs to.
type Owner interface {
	// InputPacket takes every good packet or train that the port receives, and owns it.
	InputPacket(now units.Time, in *Port, p *packet.Packet)
	// PeekFate returns what InputPacket would do with p: Fine, or the reason why it would DiscardPacket
	// it. Only observed ports call it.
	PeekFate(now units.Time, in *Port, p *packet.Packet) packet.Fate
}

// Direction distinguishes packets that come in from those that go out.
type Direction uint8

// The directions of a port.
const (
	In Direction = iota
	Out
)

// Observer sees every packet of a port, for a capture. The packet is valid only during the
// call.
type Observer interface {
	Observe(now units.Time, at *Port, dir Direction, p *packet.Packet, fate packet.Fate, depth units.Bytes)
}

// Port is one port. New and ConnectLink set its fields.
//
// The packets in the queue determine when a new packet leaves. If nothing else can affect
// that, the port computes the departure at once and launches the packet ahead of time: a hop
// is then a single event (ahead.go). Otherwise packets wait in a list, and a timer starts
// each (queue.go). Both give the same results to the picosecond.
//
// The fields that a packet needs are six cache lines in a row: one of the link that leaves
// the port, two for a packet that goes out, one for a packet that comes in, and two of the
// link that ends here.
type Port struct {
	near links.Link // room for the link that leaves this port, see MakeLink

	link     *links.Link // leaving this port
	freeAt   units.Time  // end of the last packet begun, or promised
	limit    units.Bytes
	bytes    units.Bytes // waiting: packets that have not begun to leave
	point    congestion.Point
	classes  *classes // in classes.go; nil for a plain port
	ahead    bool     // departures are computed ahead of time
	mayAhead bool     // they will be again when the list is empty
	delays   bool     // jitter is not 0

	lastSize units.Bytes           // of a packet, and
	lastTime units.Time            // how long its serialisation takes
	promised queue.FIFO[departure] // in ahead.go
	tx       traffic

	owner    Owner
	observer Observer
	rx       traffic
	trace    trace
	Index    int // among its owner's ports

	far links.Flight // room for the other half of the link that ends here

	stamp    *stamp  // in stamp.go; nil for a port that writes no telemetry
	list     waiting // in queue.go
	pool     *packet.Pool
	counters QueueCounters
	losses   *losses     // nil until a packet has ended here
	longest  units.Bytes // maximum queue before counters.MaxQueue was reset

	clock  *nodeclock.Clock // in clock.go; nil for an exact one
	jitter units.Time       // bound of the clock's on the link

	Name string // "s1:3"

	_ [48]byte // pads to whole cache lines, so that ports are aligned to them
}

// What a packet needs of a port is between these offsets.
const (
	needed    = unsafe.Sizeof(links.Link{}) - links.NearSize
	neededEnd = unsafe.Offsetof(Port{}.far) + links.FarSize
)

// traffic counts packets and the bytes of their frames.
type traffic struct{ packets, bytes uint64 }

func (t *traffic) addTrain(pkt *packet.Packet) {
	n := uint64(pkt.PacketCount())
	t.packets += n
	t.bytes += n * uint64(pkt.Size)
}

func (t *traffic) addPacket(n units.Bytes) {
	t.packets++
	t.bytes += uint64(n)
}

// New returns a port with a queue of limit bytes.
func New(e *sim.Engine, pool *packet.Pool, name string, index int, owner Owner, limit units.Bytes) *Port {
	p := &Port{Name: name, Index: index, owner: owner, pool: pool, limit: limit}
	p.list.timer = e.NewTimer(p)
	return p
}

// PrefetchAll prefetches what receiving and sending a packet needs of the port and its links.
func (p *Port) PrefetchAll() {
	prefetch.PrefetchBytes(unsafe.Add(unsafe.Pointer(p), needed), neededEnd-needed)
}

// Prefetch prefetches the part of that which is not of links.
func (p *Port) Prefetch() { prefetch.PrefetchBytes(unsafe.Pointer(&p.link), uintptr(3*prefetch.Line)) }

// SetPoint sets the congestion point of the queue to the one that make returns; nil means
// plain drop-tail. It is called before the run. wake is congestion.Env.Wake.
func (p *Port) SetPoint(e *sim.Engine, make func(wake func(units.Time)) congestion.Point) {
	p.point = newTicker(e, make, p.queueView)
}

// AppendGauges appends the values of the gauges of a plain port's congestion point, or nothing if
// it has none.
func (p *Port) AppendGauges(now units.Time, values []float64) []float64 {
	if p.point == nil {
		return values
	}
	return p.point.AppendGauges(now, p.queueView(now), values)
}

// ClassGauges is Gauges for class number i, by ascending priority, of a port with classes.
func (p *Port) ClassGauges(now units.Time, i int, values []float64) []float64 {
	c := p.classes
	q := &c.queues[i]
	if q.point == nil {
		return values
	}
	return q.point.AppendGauges(now, p.classView(q), values)
}

// MakeLink makes a link from this port to another, for ConnectLink. Its halves are in the memory of
// the two ports. near and far are the engines and pools of the ports; see links.Link.Init.
func (p *Port) MakeLink(to *Port, near, far links.End, out *links.Mailbox, random *rand.Rand, s links.Settings) *links.Link {
	return p.near.InitLink(&to.far, near, far, out, random, s, to)
}

// ConnectLink sets the link that leaves the port.
func (p *Port) ConnectLink(l *links.Link) {
	p.link = l
	p.updateJitter()
	p.stamp.recordRate(p)
	p.chooseAhead(0)
}

// InFlight returns the number of packets in flight on the link.
func (p *Port) InFlight(now units.Time) int {
	p.drainDeparted(now)
	return p.link.InFlight() - p.promised.Len()
}

// Link returns the link that leaves the port, or nil.
func (p *Port) Link() *links.Link { return p.link }

// SetLink changes the settings of the port's link for packets that begin to leave from now
// on.
func (p *Port) SetLink(now units.Time, s links.Settings) {
	p.stopAhead(now)
	p.link.Set(s)
	p.lastSize = 0
	p.updateJitter()
	p.stamp.recordRate(p)
	p.chooseAhead(now)
}

// SetObserver sets the observer of the port's packets from now on; nil removes it.
func (p *Port) SetObserver(now units.Time, o Observer) {
	p.stopAhead(now)
	p.observer = o
	p.chooseAhead(now)
}

// Limit returns the byte limit of the queue of a plain port.
func (p *Port) Limit() units.Bytes { return p.limit }

// QueueLength returns the packets and bytes in the queue, without the packet being sent.
func (p *Port) QueueLength(now units.Time) (packets int, bytes units.Bytes) {
	if p.classes != nil {
		return p.classes.countWaiting(), p.bytes
	}
	p.drainDeparted(now)
	return p.list.packets + p.promised.Len(), p.bytes
}

// WaitingPackets returns the number of packets in the queue of a priority's class, or in the only
// queue.
func (p *Port) WaitingPackets(now units.Time, prio uint8) int {
	if p.classes != nil {
		return int(p.classes.queue[prio].count)
	}
	packets, _ := p.QueueLength(now)
	return packets
}

func (p *Port) queueView(now units.Time) congestion.Queue {
	packets, bytes := p.QueueLength(now)
	q := congestion.Queue{Bytes: bytes, Packets: packets, Limit: p.limit}
	if p.link != nil {
		q.Rate = p.link.Rate()
	}
	return q
}

// Send sends a packet or a train through this port.
func (p *Port) Send(now units.Time, pkt *packet.Packet) {
	pkt.Fate = packet.Fine
	if pkt.Kind == packet.Train {
		p.sendTrain(now, pkt)
		return
	}
	if p.link == nil {
		p.dropPacket(now, pkt, packet.NoRoute)
		return
	}
	if p.classes != nil {
		p.sendClass(now, pkt)
		return
	}
	if p.bytes > 0 {
		p.drainDeparted(now)
	}
	if p.bytes+pkt.Size > p.limit {
		p.dropPacket(now, pkt, packet.QueueFull)
		return
	}
	if p.point != nil {
		fate := p.point.OnEnqueue(now, p.queueView(now), pkt)
		// The point may have sent a packet into this queue, or made pkt longer.
		if !fate.IsDrop() && p.bytes+pkt.Size > p.limit {
			p.point.OnRemoved(now, p.queueView(now), pkt, packet.QueueFull)
			fate = packet.QueueFull
		}
		if fate.IsDrop() {
			p.dropPacket(now, pkt, fate)
			return
		}
		p.recordMark(pkt, fate)
	}
	if p.ahead {
		if p.sendAhead(now, pkt) {
			return
		}
		p.stopAhead(now)
	}
	if p.list.first == nil && now >= p.freeAt {
		p.startPacket(now, pkt)
		return
	}
	p.pushPacket(now, pkt)
}

// drainDeparted removes packets from the queue that begin to leave at now or before. Events of one
// instant have no inherent order: whether a packet that begins to leave at now is still in
// the queue must not depend on whether the timer or another event comes first.
func (p *Port) drainDeparted(now units.Time) {
	if p.classes != nil {
		return // it never computes ahead, so there is nothing to settle
	}
	for p.headIsDue(now) {
		p.bytes -= p.promised.First().size
		p.promised.DropFirst()
	}
	for p.list.first != nil && p.freeAt <= now {
		p.startNext(now)
	}
}

// txTime returns how long pkt's serialisation takes.
func (p *Port) txTime(pkt *packet.Packet) units.Time {
	if pkt.Size != p.lastSize {
		return p.computeTxTime(pkt)
	}
	return p.lastTime
}

func (p *Port) computeTxTime(pkt *packet.Packet) units.Time {
	tx := p.link.Rate().TimeOf(packet.OnWire(pkt.Size))
	if p.clock != nil {
		return p.clock.TrueTime(tx, p.tx.packets)
	}
	p.lastSize, p.lastTime = pkt.Size, tx
	return tx
}

// recordMark records a mark for the capture and counts it.
func (p *Port) recordMark(pkt *packet.Packet, fate packet.Fate) {
	if fate == packet.Marked {
		pkt.Fate, pkt.Depth = fate, uint32(p.bytes)
		p.counters.Marked++
	}
}

// ReceivePacket takes a packet or a train from the link that ends at this port.
func (p *Port) ReceivePacket(now units.Time, pkt *packet.Packet) {
	if pkt.Kind == packet.Train {
		p.receiveTrain(now, pkt)
		return
	}
	p.rx.addPacket(pkt.Size)
	if p.observer != nil {
		fate := packet.Fine
		switch {
		case pkt.BadFCS && (p.classes == nil || !p.classes.CutThrough):
			fate = packet.BadFCS
		case pkt.Dest == packet.MACControl:
			fate = pkt.Fate
		default:
			fate = p.owner.PeekFate(now, p, pkt)
		}
		p.observer.Observe(now, p, In, pkt, fate, 0)
	}
	if pkt.BadFCS && (p.classes == nil || !p.classes.CutThrough || pkt.Dest == packet.MACControl) {
		p.losePacket(now, pkt, packet.BadFCS)
		return
	}
	if pkt.Dest == packet.MACControl {
		p.takeControl(now, pkt)
		return
	}
	p.owner.InputPacket(now, p, pkt)
}

// DiscardPacket drops a packet that came in through this port and that its owner cannot use.
func (p *Port) DiscardPacket(now units.Time, pkt *packet.Packet, fate packet.Fate) {
	p.losePacket(now, pkt, fate)
}

// CountRefused counts a packet that came in through this port and that its host finally did not
// accept, or all of a train. The caller keeps the packet.
func (p *Port) CountRefused(now units.Time, pkt *packet.Packet) {
	p.countLost(now, pkt, packet.HostRefused)
}

// dropPacket drops a packet that the queue does not accept.
func (p *Port) dropPacket(now units.Time, pkt *packet.Packet, fate packet.Fate) {
	if p.observer != nil {
		p.observer.Observe(now, p, Out, pkt, fate, p.bytes)
	}
	p.losePacket(now, pkt, fate)
}

// losePacket counts and frees a packet.
func (p *Port) losePacket(now units.Time, pkt *packet.Packet, fate packet.Fate) {
	p.countLost(now, pkt, fate)
	p.pool.Free(pkt)
}

// countLost counts a lost packet, or all of a train.
func (p *Port) countLost(now units.Time, pkt *packet.Packet, fate packet.Fate) {
	if p.losses == nil {
		p.losses = new(losses)
	}
	n := uint64(pkt.PacketCount())
	if isForLackOfRoom(fate) {
		p.losses.losers.recordLoss(pkt)
	}
	p.losses.Drops[fate] += n
	p.losses.DropBytes += n * uint64(pkt.Size)
	p.trace.addTrain(now, pkt, fate)
}
