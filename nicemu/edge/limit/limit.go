package limit

import (
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/pace"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
	"github.com/weftlab/weft/wire"
)

// limiter is the service at one interface.
//
// A flow with packets is in the list of its lane once the first of them may leave, and otherwise
// the agenda wakes it at that time. A flow without packets is in the list of idle flows, oldest
// first, and its rate control is not woken: it catches up when the flow continues.
type limiter struct {
	*Config
	env     edge.Env
	line    units.Rate
	traits  cc.Traits
	quantum units.Bytes // on the wire, that a flow may send in a turn

	flows  map[packet.FlowKey]*flow
	order  queue.List[flow] // all flows, the oldest first
	idle   queue.List[flow]
	shared *flow // for flows beyond the limit; nil before the first
	lanes  [class.Count]lane
	agenda agenda.Agenda[*flow]
	armed  units.Time

	packets int
	bytes   units.Bytes
	waiting int                      // flows with packets
	held    [class.Count]units.Bytes // by the class of the packets

	forgotten, tableFull, heard, ignored, dropped uint64

	made      uint64 // flows
	onFlowEnd func(now units.Time, x *edge.Flow)
	shown     edge.Flow // the flow being shown
}

// lane holds the flows that may send in one class of the port.
type lane struct {
	ready queue.List[flow] // take turns
	fed   units.Bytes      // size announced to the port for the first packet; 0 if none
}

// flow is one flow.
type flow struct {
	agenda.Task[*flow]
	key     packet.FlowKey
	number  uint64
	control cc.Control
	pace    pace.Pace
	queue   packet.List
	count   int
	bytes   units.Bytes
	hash    uint64 // of its packets
	prio    uint8  // class of the first packet, or of the last one sent
	credit  units.Bytes
	since   units.Time // when it became idle

	inTurn, inOrder, inIdle queue.Link[flow]

	txPackets, txBytes, lost uint64
}

func newLimiter(c *Config, env edge.Env) *limiter {
	l := &limiter{Config: c, env: env, line: env.Line, traits: cc.TraitsOf(c.Control), flows: map[packet.FlowKey]*flow{}, armed: units.Never}
	l.quantum = packet.OnWire(wire.EthernetHeader + 2*wire.VLANTag + env.MTU)
	return l
}

// SendPacket implements edge.Service.
func (l *limiter) SendPacket(now units.Time, p *packet.Packet) {
	if mustPass(p) {
		l.env.Pass(now, p)
		return
	}
	f := l.flowOf(now, p)
	if !l.fitsQueue(f, p) {
		f.lost++
		l.dropped++
		l.env.Drop(now, p, packet.QueueFull)
		return
	}
	l.packets++
	l.bytes += p.Size
	l.held[p.Prio] += p.Size
	f.queue.Push(p)
	f.count++
	f.bytes += p.Size
	l.env.Waits(now, p)
	f.hash = p.Hash
	if f.count > 1 {
		return // nothing changes for earlier packets
	}
	l.idle.Remove(&f.inIdle)
	l.waiting++
	l.runControlTimer(now, f)
	f.control.SetActive(now, true)
	if s, ok := f.control.(cc.Sized); ok {
		s.OnDataQueued(now, f.bytes)
	}
	l.rescheduleFlow(now, f)
	l.armTimer()
}

// mustPass reports whether a packet must not wait: neighbour discovery and group traffic, and
// messages between the protocols of systems.
func mustPass(p *packet.Packet) bool {
	if p.Version == 0 || p.IsMessage() || p.ToGroup() {
		return true
	}
	if p.Proto != wire.ProtoICMPv6 {
		return false
	}
	// Neighbour discovery (RFC 4861 §4) has no extension headers before it.
	const first, last = 133, 137
	b := p.Ethernet()
	at := int(p.L3) + wire.IPv6Header
	return len(b) > at && b[at] >= first && b[at] <= last
}

// fitsQueue reports whether a packet may wait. A flow may hold no more than the free part of the host's
// queue, so that a slow one leaves room for others; and no more than Queue.
func (l *limiter) fitsQueue(f *flow, p *packet.Packet) bool {
	if limit := l.env.Limit[p.Prio]; limit > 0 && f.bytes+p.Size > limit-l.held[p.Prio] {
		return false
	}
	return l.Queue == 0 || f.bytes+p.Size <= l.Queue
}

// Next implements edge.Service.
func (l *limiter) Next(now units.Time, prio uint8) *packet.Packet {
	f := l.nextFlow(&l.lanes[prio])
	if f == nil {
		return nil
	}
	p := f.queue.Pop()
	size := packet.OnWire(p.Size)
	l.packets--
	l.bytes -= p.Size
	l.held[p.Prio] -= p.Size
	f.count--
	f.bytes -= p.Size
	f.credit -= size
	f.txPackets++
	f.txBytes += uint64(p.Size)
	l.runControlTimer(now, f)
	f.pace.RecordSent(now, f.control.Rate(), size, l.traits.Burst)
	f.control.OnPacketSent(now, size)
	if f.count == 0 {
		f.control.SetActive(now, false)
		f.since = now
		l.waiting--
		if f != l.shared {
			l.idle.Push(&f.inIdle, f)
		}
	}
	l.rescheduleFlow(now, f)
	l.env.Leaves(now, p)
	l.armTimer()
	return p
}

// nextFlow returns the flow whose turn it is in a lane, by deficit round robin (Shreedhar and Varghese,
// SIGCOMM 1995), in bytes on the wire.
func (l *limiter) nextFlow(n *lane) *flow {
	for {
		f := n.ready.First()
		if f == nil || f.credit >= packet.OnWire(f.queue.First().Size) {
			return f
		}
		f.credit += l.quantum
		n.ready.Rotate()
	}
}

// runControlTimer runs a rate control's timer if it is due, as is necessary before any other input.
func (l *limiter) runControlTimer(now units.Time, f *flow) {
	if f.control.NextTimer() <= now {
		f.control.OnTimer(now)
	}
}

// rescheduleFlow computes when the next packet of a flow may leave. Every input to a flow ends here.
func (l *limiter) rescheduleFlow(now units.Time, f *flow) {
	l.sendMessages(now, f)
	before, ready, due := f.prio, false, units.Never
	if f.count > 0 {
		f.prio = f.queue.First().Prio
		at := f.pace.Next(f.control.Rate(), l.traits.Burst)
		due = f.control.NextTimer()
		if ready = at <= now; ready {
			f.pace.RecordTurn(now, at, f.inTurn.IsLinked())
		} else {
			due = min(due, at)
		}
	}
	if l.traits.WakeIdle {
		due = min(due, f.control.NextTimer())
	}
	l.agenda.WakeAt(&f.Task, due)
	if !ready || f.prio != before {
		l.lanes[before].ready.Remove(&f.inTurn)
	}
	if ready && !f.inTurn.IsLinked() {
		l.lanes[f.prio].ready.Push(&f.inTurn, f)
		f.credit = l.quantum
	}
	if f.prio != before {
		l.announceNext(now, before)
	}
	l.announceNext(now, f.prio)
}

// announceNext announces the first packet of a lane to the port, if that has changed.
func (l *limiter) announceNext(now units.Time, prio uint8) {
	n, size := &l.lanes[prio], units.Bytes(0)
	if f := l.nextFlow(n); f != nil {
		size = f.queue.First().Size
	}
	if size != n.fed {
		n.fed = size
		l.env.AnnouncePacket(now, prio, size)
	}
}

// Fire implements edge.Service.
func (l *limiter) Fire(now units.Time) {
	l.armed = units.Never
	for k := l.agenda.TakeDue(now); k != nil; k = l.agenda.TakeDue(now) {
		l.runControlTimer(now, k.Owner)
		l.rescheduleFlow(now, k.Owner)
	}
	l.armTimer()
}

// armTimer sets the timer. Every call from outside ends with it.
func (l *limiter) armTimer() {
	next := l.agenda.Next()
	if next == l.armed {
		return
	}
	if l.armed = next; next == units.Never {
		l.env.Disarm()
	} else {
		l.env.Arm(next)
	}
}

// SetLineRate implements edge.Service.
func (l *limiter) SetLineRate(now units.Time, r units.Rate) {
	if r == l.line {
		return
	}
	if l.line = r; r == 0 {
		return // rate controls keep the rate they know
	}
	for f := range l.order.All() {
		l.runControlTimer(now, f)
		f.control.SetLineRate(now, r)
		l.rescheduleFlow(now, f)
	}
	l.armTimer()
}

// HeldPackets implements edge.Service.
func (l *limiter) HeldPackets() (packets int, bytes units.Bytes) { return l.packets, l.bytes }

// AppendGauges implements edge.Service.
func (l *limiter) AppendGauges(now units.Time, values []float64) []float64 {
	return append(values, float64(len(l.flows)-l.countOld(now)), float64(l.waiting), gauge.SizeValue(l.bytes),
		float64(l.forgotten), float64(l.tableFull), float64(l.heard), float64(l.ignored), float64(l.dropped))
}
