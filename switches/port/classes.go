package port

import (
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/fair"
	"github.com/weftlab/weft/switches/pfc"
	"github.com/weftlab/weft/switches/sched"
	"github.com/weftlab/weft/wire"
)

// Chassis is what the ports of a node with traffic classes share.
type Chassis struct {
	Map    class.Map
	Buffer *buffer.Buffer
	Ports  []*Port     // by Index
	Pause  *pfc.Config // global PAUSE instead of PFC per class; may be nil
	// CutThrough forwards packets before they have arrived completely, including damaged
	// ones: the damage shows only in their last bytes.
	CutThrough bool
	// Forward sends a packet that has been turned round.
	Forward func(now units.Time, p *packet.Packet)
}

// ClassifyPacket sets a packet's priority at this node.
func (c *Chassis) ClassifyPacket(p *packet.Packet) {
	switch {
	case p.Version != 0:
		p.Prio = c.Map.DSCP[p.TOS>>2]
	case p.L3 > wire.EthernetHeader && p.Ethernet() != nil:
		p.Prio = c.Map.PCP[p.Ethernet()[wire.EthernetHeader]>>5]
	default:
		p.Prio = c.Map.Untagged
	}
}

// dwrrQuantum returns the DWRR credit per unit of weight and round: just enough for a packet
// in every turn. With more, classes would send in long bursts.
func (p *Port) dwrrQuantum(weights *[class.Count]int) units.Bytes {
	minWeight := 0
	for _, w := range weights {
		if w > 0 && (minWeight == 0 || w < minWeight) {
			minWeight = w
		}
	}
	frame := units.Bytes(wire.EthernetHeader + 1500)
	if p.link != nil {
		frame = wire.EthernetHeader + p.link.MTU()
	}
	return packet.OnWire(frame)/units.Bytes(max(minWeight, 1)) + 1
}

// fairQuantum is the amount that a flow of a fair queue may send in a turn: a frame of the
// usual MTU (RFC 8290 §5.2.4).
const fairQuantum = 1538

// classes is the egress of a port with a queue for each of several classes, and its flow
// control. It does not compute departures ahead of time, because they depend on other
// classes and the peer.
type classes struct {
	*Chassis
	ready    uint8                    // classes with a packet to send, queued or fed, one bit each
	blocked  uint8                    // classes that must not be sent
	dropping uint8                    // classes that the watchdog discards
	fed      uint8                    // classes for which the feeder has a packet, and
	turn     uint8                    // classes in which it precedes the queue
	gated    uint8                    // classes that need credit from the peer
	lacking  uint8                    // classes with too little credit; they are blocked
	known    uint8                    // classes whose first is valid
	first    [class.Count]units.Bytes // on the wire, of the next packet of each class
	sched    sched.Scheduler
	control  packet.List // MAC control frames: they precede all others and are never paused
	// queue has the queue of each priority. Priorities without a class use the queue of
	// the lowest class.
	queue    [class.Count]*classQueue
	queues   []classQueue  // of each class
	settings []class.Class // likewise

	flow    flowControl // in pause.go
	credits *credits    // in credit.go; nil for a link without credits

	feeder Feeder // in feed.go; nil for most ports

	rand *rand.Rand // for trimming
	full func(now units.Time, prio uint8, full bool)
}

// classQueue is the queue of one class at one port. It takes three cache lines.
type classQueue struct {
	packets packet.List // without fair
	fair    *fair.Queue // nil for first come, first served
	bytes   units.Bytes
	point   congestion.Point
	limit   units.Bytes // maximum length, for the point: the static limit or the buffer's size
	count   int32
	leaving uint8 // additional work when a packet leaves: judged, credited
	prio    uint8
	isFull  bool        // the queue grew beyond high
	high    units.Bytes // full is called when the queue grows beyond it, and
	low     units.Bytes // falls to it again; high 0 means never

	feeds units.Bytes // on the wire, of the feeder's packet of the class

	spends *credit.Sender   // nil for a class that needs no credit
	gives  *credit.Receiver // for packets that came in through the port; nil without credits

	received                 uint64 // packets that came in
	tx                       traffic
	marked, trimmed, dropped uint64
	longest                  units.Bytes // since the last sample of a series
	ever                     units.Bytes // before that
	area                     area
	since                    units.Time // of the last change of bytes
}

// Bits of classQueue.leaving.
const (
	judged   uint8 = 1 << iota // the point also judges departures
	credited                   // sending costs credit
)

// ClassEnv is what the classes of a port need.
type ClassEnv struct {
	Engine *sim.Engine
	Rand   *rand.Rand // for trimming
	// Point returns the congestion point of a queue; nil means plain drop-tail. wake is
	// congestion.Env.Wake.
	Point func(c class.Class, wake func(units.Time)) congestion.Point
	MAC   wire.MAC // source of the port's MAC control frames
	// Obeys says which pauses of the peer the port obeys.
	Obeys pfc.Obeyed
	// Peer has the credit configs of the peer's classes, by priority.
	Peer credit.Configs
	// Storm is called when a watchdog triggers for a class and when it releases it. It may
	// be nil.
	Storm func(now units.Time, prio uint8, begins bool)
	// Paused is called when the peer's pause of a class begins and when it ends. It may be
	// nil.
	Paused func(now units.Time, prio uint8, begins bool)
}

// SetClasses replaces the port's single queue by one for each class. It is called before
// the run, when all ports of the node exist.
func (p *Port) SetClasses(c *Chassis, list []class.Class, env ClassEnv) {
	k := &classes{Chassis: c, queues: make([]classQueue, len(list)), settings: slices.Clone(list), rand: env.Rand}
	for i := range k.queue {
		k.queue[i] = &k.queues[0]
	}
	var weights [class.Count]int
	for i, s := range list {
		weights[s.Priority] = s.Weight
		q := &k.queues[i]
		k.queue[s.Priority] = q
		q.prio = s.Priority
		if s.Fair {
			q.fair = fair.New(fairQuantum)
		}
		if q.limit = s.Limit; q.limit == 0 {
			q.limit = c.Buffer.Size()
		}
		q.point = newTicker(env.Engine, func(wake func(units.Time)) congestion.Point { return env.Point(s, wake) },
			func(units.Time) congestion.Queue { return p.classView(q) })
		if q.point != nil {
			_, arrivalsOnly := q.point.(congestion.ArrivalsOnly)
			if !arrivalsOnly {
				q.leaving |= judged
			}
		}
	}
	k.sched = sched.New(weights, p.dwrrQuantum(&weights))
	p.classes, p.mayAhead, p.ahead = k, false, false
	k.flow.startControl(p, env)
}

// WatchQueues sets f to be called when the queue of any class grows beyond high bytes, and when
// it has fallen to low again.
func (p *Port) WatchQueues(high, low units.Bytes, f func(now units.Time, prio uint8, full bool)) {
	p.classes.full = f
	for i := range p.classes.queues {
		p.classes.queues[i].high, p.classes.queues[i].low = high, low
	}
}

// CountReceived counts a packet that came in through the port and has been classified.
func (p *Port) CountReceived(pkt *packet.Packet) {
	q := p.classes.queue[pkt.Prio]
	q.received++
	if q.gives != nil {
		q.gives.CountReceived(pkt.Size)
	}
}

// settingsOf returns the settings of a class.
func (c *classes) settingsOf(prio uint8) *class.Class {
	for i := range c.settings {
		if c.settings[i].Priority == prio {
			return &c.settings[i]
		}
	}
	return nil
}

// classView returns what a point sees of its queue.
func (p *Port) classView(q *classQueue) congestion.Queue {
	v := congestion.Queue{Bytes: q.bytes, Packets: int(q.count), Limit: q.limit}
	if p.link != nil {
		v.Rate = p.link.Rate()
	}
	return v
}

// isIdle reports whether a packet of a class may leave at once.
func (p *Port) isIdle(now units.Time, prio uint8) bool {
	c := p.classes
	return p.freeAt <= now && c.ready&^c.blocked == 0 && c.blocked>>prio&1 == 0 && c.control.Empty()
}

// sendClass sends a packet through this port.
func (p *Port) sendClass(now units.Time, pkt *packet.Packet) {
	c := p.classes
	q := c.queue[pkt.Prio]
	pkt.At = now
	if c.dropping>>pkt.Prio&1 != 0 {
		p.dropClass(now, q, pkt, packet.Watchdog)
		return
	}
	atOnce := p.isIdle(now, pkt.Prio) && p.earliestWhole(pkt) <= now
	if !atOnce {
		if fate := c.Buffer.CheckFit(pkt.In, p.Index, pkt.Prio, pkt.Size); fate != packet.Fine {
			if pkt = p.handleOverflow(now, q, pkt, fate); pkt == nil {
				return
			}
			q = c.queue[pkt.Prio]
		}
	}
	if q.point != nil {
		if fate := q.point.OnEnqueue(now, p.classView(q), pkt); fate.IsDrop() {
			p.dropClass(now, q, pkt, fate)
			return
		} else if fate == packet.Marked {
			q.countMark(p, pkt)
		}
	}
	// The point may have sent a packet into this queue, or made pkt longer.
	if atOnce && p.isIdle(now, pkt.Prio) {
		c.turn |= 1 << pkt.Prio
		p.beginPacket(now, q, pkt)
		p.armNext()
		return
	}
	if q.point != nil {
		if fate := c.Buffer.CheckFit(pkt.In, p.Index, pkt.Prio, pkt.Size); fate != packet.Fine {
			p.refuse(now, pkt, fate)
			p.informRemoved(now, q, pkt, fate)
			p.dropClass(now, q, pkt, fate)
			return
		}
	}
	p.enqueueClass(now, q, pkt)
}

// enqueueClass puts a packet into its queue.
func (p *Port) enqueueClass(now units.Time, q *classQueue, pkt *packet.Packet) {
	c := p.classes
	xoff := c.Buffer.ChargePacket(now, pkt.In, p.Index, pkt.Prio, pkt.Size)
	if at := p.earliestWhole(pkt); at > now && p.freeAt <= now && c.ready&^c.blocked == 0 {
		p.freeAt = at
	}
	first := q.count == 0
	q.changeLength(now, pkt.Size)
	q.pushPacket(pkt)
	c.known &^= 1 << q.prio
	if first {
		c.ready |= 1 << q.prio
		if c.blocked>>q.prio&1 != 0 {
			p.heldUp(now, q.prio)
		} else if p.freeAt != units.Never {
			p.list.timer.Arm(p.freeAt)
		}
	}
	p.bytes += pkt.Size
	p.counters.MaxQueue = max(p.counters.MaxQueue, p.bytes)
	if xoff {
		c.Ports[pkt.In].handleHeld(now, pkt.Prio, pkt.Size, p.Index)
	}
	if q.high > 0 && !q.isFull && q.bytes > q.high {
		q.isFull = true
		c.full(now, q.prio, true)
	}
}

// removeFirst removes the first packet of a queue.
func (p *Port) removeFirst(now units.Time, q *classQueue) *packet.Packet {
	pkt := q.popPacket()
	p.countDeparted(now, q, pkt)
	return pkt
}

// countDeparted updates the accounts after a packet has left its queue.
func (p *Port) countDeparted(now units.Time, q *classQueue, pkt *packet.Packet) {
	c := p.classes
	q.changeLength(now, -pkt.Size)
	p.bytes -= pkt.Size
	c.known &^= 1 << q.prio
	if q.count == 0 && c.fed>>q.prio&1 == 0 {
		c.ready &^= 1 << q.prio
	}
	if c.Buffer.DischargePacket(pkt.In, p.Index, q.prio, pkt.Size) {
		c.Ports[pkt.In].handleFreed(now, pkt.Prio, pkt.Size)
	}
	if q.isFull && q.bytes <= q.low {
		q.isFull = false
		c.full(now, q.prio, false)
	}
}

// pushPacket adds a packet to the queue.
func (q *classQueue) pushPacket(pkt *packet.Packet) {
	q.count++
	if q.fair != nil {
		q.fair.Push(pkt)
	} else {
		q.packets.Push(pkt)
	}
}

// headPacket returns the packet that leaves next. There is one.
func (q *classQueue) headPacket() *packet.Packet {
	if q.fair != nil {
		return q.fair.HeadPacket()
	}
	return q.packets.First()
}

// popPacket removes the packet that leaves next.
func (q *classQueue) popPacket() *packet.Packet {
	q.count--
	if q.fair != nil {
		return q.fair.Pop()
	}
	p := q.packets.Pop()
	if next := q.packets.First(); next != nil {
		// It has waited, and has left the cache.
		next.Prefetch(packet.Forwarded)
	}
	return p
}

// startClasses puts packets on the link that may be sent now.
func (p *Port) startClasses(now units.Time) {
	c := p.classes
	for p.freeAt <= now {
		if !c.control.Empty() {
			p.startControl(now)
			continue
		}
		ready := c.sendableClasses()
		if ready == 0 {
			return
		}
		// A class that is alone takes nothing from others and is not charged.
		i, shared := bits.TrailingZeros8(ready), ready&(ready-1) != 0
		if shared {
			c.lookUpLengths(ready)
			i = c.sched.Next(ready, c.ready, &c.first)
		}
		if c.fed|c.gated != 0 {
			if c.gated>>i&1 != 0 && !p.hasCredit(now, uint8(i)) {
				continue
			}
			if c.feedsNext(uint8(i)) {
				p.startFed(now, uint8(i), shared)
				continue
			}
		}
		q := c.queue[i]
		if at := p.earliestWhole(q.headPacket()); at > now {
			p.freeAt = at
			break
		}
		// Packets sent into this port meanwhile wait.
		p.freeAt = units.Never
		c.turn |= 1 << i
		c.known &^= 1 << i
		pkt := p.removeFirst(now, q)
		size := packet.OnWire(pkt.Size)
		if p.beginPacket(now, q, pkt) && shared {
			c.sched.ChargeQueue(i, size)
		}
	}
	p.armNext()
}

// sendableClasses returns the classes among which the scheduler chooses. Classes that the
// watchdog discards, of which only the feeder still has packets, come last.
func (c *classes) sendableClasses() uint8 {
	ready := c.ready &^ c.blocked
	if rest := ready &^ c.dropping; rest != 0 {
		return rest
	}
	return ready
}

// armNext arms the timer for the end of the packet being sent, if anything waits.
func (p *Port) armNext() {
	c := p.classes
	if (c.ready&^c.blocked != 0 || !c.control.Empty()) && p.freeAt != units.Never {
		p.list.timer.Arm(p.freeAt)
	}
}

// earliestWhole returns the earliest time at which a packet may begin to leave such that its end
// arrives in time: on a link faster than the one that it came in on, the port would
// otherwise run out of bits.
func (p *Port) earliestWhole(pkt *packet.Packet) units.Time {
	if !p.classes.CutThrough || pkt.In == buffer.Own {
		return 0
	}
	return pkt.Tail - p.txTime(pkt)
}

// beginPacket puts a packet's first bit on the link, unless the congestion point drops it. It
// reports whether the packet was sent.
func (p *Port) beginPacket(now units.Time, q *classQueue, pkt *packet.Packet) (sent bool) {
	if q.leaving != 0 {
		return p.departQueued(now, q, pkt)
	}
	q.tx.addPacket(pkt.Size)
	p.transmitPacket(now, pkt)
	return true
}

// departQueued is begin for queues whose departures are judged or cost credit.
func (p *Port) departQueued(now units.Time, q *classQueue, pkt *packet.Packet) (sent bool) {
	if q.leaving&judged != 0 {
		p.freeAt = units.Never
		fate := q.point.OnDequeue(now, p.classView(q), pkt)
		p.freeAt = now
		switch {
		case fate.IsDrop():
			p.dropClass(now, q, pkt, fate)
			if q.leaving&credited != 0 {
				p.checkCredit(now, q.prio) // the next packet may be longer
			}
			return false
		case fate == packet.Marked:
			q.countMark(p, pkt)
		}
	}
	q.tx.addPacket(pkt.Size)
	size := pkt.Size
	p.transmitPacket(now, pkt)
	if q.leaving&credited != 0 {
		p.spendCredit(now, q, size)
	}
	return true
}

// informRemoved informs the congestion point of a packet that has left its queue without being
// sent.
func (p *Port) informRemoved(now units.Time, q *classQueue, pkt *packet.Packet, why packet.Fate) {
	if q.leaving&judged != 0 {
		q.point.OnRemoved(now, p.classView(q), pkt, why)
	}
}

// dropClass drops a packet that a queue does not accept.
func (p *Port) dropClass(now units.Time, q *classQueue, pkt *packet.Packet, fate packet.Fate) {
	q.dropped++
	if p.observer != nil {
		p.observer.Observe(now, p, Out, pkt, fate, q.bytes)
	}
	p.losePacket(now, pkt, fate)
}

// countMark records a mark for the capture and counts it.
func (q *classQueue) countMark(p *Port, pkt *packet.Packet) {
	pkt.Fate, pkt.Depth = packet.Marked, uint32(q.bytes)
	q.marked++
	p.counters.Marked++
}

// changeLength accounts for n more bytes in the queue.
func (q *classQueue) changeLength(now units.Time, n units.Bytes) {
	q.area.addBytes(q.bytes, now-q.since)
	q.since = now
	q.bytes += n
	q.longest = max(q.longest, q.bytes)
}
