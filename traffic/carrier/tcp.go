package carrier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/wire"
)

// TCP says how TCP carries a traffic's flows: each on a separate connection, from
// the handshake to the FINs.
type TCP struct {
	tcp.Config
	Control cc.Choice // of each flow; not none
	DSCP    uint8     // 0 to 63
}

// Check returns what is wrong with the settings.
func (c *TCP) Check() error {
	switch {
	case c.DSCP > 63:
		return fmt.Errorf("dscp is %d: it can be 0 to 63", c.DSCP)
	case c.Control.Settings == nil:
		return errors.New("TCP flows need a rate control, such as cubic")
	}
	if err := CheckControl(c.Control); err != nil {
		return err
	}
	return c.Config.Check()
}

// CheckControl returns why TCP flows cannot use a rate control.
func CheckControl(c cc.Choice) error {
	t := cc.TraitsOf(c)
	switch {
	case t.Telemetry > 0:
		return fmt.Errorf("%s needs in-band telemetry, which TCP does not carry", c)
	case t.Marks == cc.AnswerCNP:
		return fmt.Errorf("%s needs CNPs, which RoCE has and TCP does not", c)
	}
	if m := cc.Methods.Kind(c.Name).Feedback; m != nil {
		if _, ok := m.New().(cc.Probe); !ok {
			return fmt.Errorf("%s needs messages that switches send to NICs and edge services", c)
		}
	}
	return nil
}

// ECNOf returns how connections under a rate control take part in ECN.
func ECNOf(c cc.Choice) tcp.ECN {
	switch t := cc.TraitsOf(c); {
	case !t.ECT || t.Marks != cc.AnswerEcho:
		return tcp.NoECN
	case t.ClassicECN:
		return tcp.ClassicECN
	}
	return tcp.DCTCP
}

// StreamOutlet says how the segments of flows leave a host.
type StreamOutlet struct {
	Outlet
	Rate   func() units.Rate                // of the link now, above 0
	Queued func(now units.Time) units.Bytes // bytes waiting at the host's port, without those that an edge service holds
	// Waiting is how many packets wait at the port in the class of a DSCP.
	Waiting func(now units.Time, dscp uint8) int
	Trip    func(to netip.Addr, size, ack units.Bytes) cc.Path // as in nicemu.Env
	Rand    *rand.Rand                                         // of the host's flows
	Offload bool                                               // tcp.Config.Offload of the host
}

// Streams carries the flows of one traffic over TCP, from and to one host. Flows that may
// send take turns, one segment each, and pass a segment to the host's port only while less
// than two full packets wait there: so windows, rates and retransmissions are decided late,
// and no flow fills the host's queue. Acknowledgements do not wait for that.
type Streams struct {
	endpoint
	config TCP
	traits cc.Traits
	out    *StreamOutlet

	senders    agenda.Agenda[*outgoing]
	receivers  agenda.Agenda[*accepted]
	sending    map[uint64]*outgoing // by ID of the flow
	coming     map[uint64]*accepted
	numbers    map[int32]uint32              // flows so far, by receiver
	hearing    map[messageReceiver]*outgoing // whose rate controls hear messages, if any do
	ccMessages cc.Outbox
	refused    []*outgoing
	over       []*outgoing // and not reported yet
	ipID       uint16

	ready  queue.FIFO[*outgoing] // flows that may send, in turn
	look   units.Time            // when to check again whether the port has room; units.Never while no flow waits
	relook units.Time            // likewise for messages of rate controls
	waited uint8                 // consecutive checks that found no room

	counted   tcp.Counters // of flows that are over
	onFlowEnd func(now units.Time, x *StreamFlow)
	seen      StreamFlow // the flow that was read last
	order     []uint64   // for EachFlow

	freeOut *outgoing
	freeIn  *accepted
}

// outgoing is a flow from this host.
type outgoing struct {
	agenda.Task[*outgoing]
	records.Record
	route
	sender  tcp.Sender
	next    *outgoing  // in freeOut
	line    units.Rate // as known to its control
	waiting bool       // it is in ready
	dead    bool       // reported to its host as over, but still in ready
}

// accepted is a flow to this host.
type accepted struct {
	agenda.Task[*accepted]
	receiver tcp.Receiver
	pattern.Flow
	route   // of acknowledgements
	id      uint64
	next    *accepted // in freeIn
	port    uint16    // of the sender
	arrived bool
}

// NewStreams makes the carrier of a host's flows of a traffic over TCP. Packets
// of SegmentProtocol that arrive at the host must be passed to ReceivePacket.
func NewStreams(h *Host, traffic int, c TCP, o StreamOutlet) *Streams {
	c.Offload = o.Offload
	return &Streams{
		endpoint: endpoint{host: h, traffic: traffic, outlet: &o.Outlet}, config: c, traits: cc.TraitsOf(c.Control), out: &o, look: units.Never, relook: units.Never,
		sending: map[uint64]*outgoing{}, coming: map[uint64]*accepted{}, numbers: map[int32]uint32{}, hearing: map[messageReceiver]*outgoing{},
	}
}

// Ephemeral ports of senders, as in Linux.
const (
	firstPort = 32768
	portCount = 28232
)

// Start implements Carrier.
func (d *Streams) Start(now units.Time, r *records.Record) {
	s := d.freeOut
	if s == nil {
		s = new(outgoing)
		d.senders.EnrolTask(&s.Task, s)
	} else {
		d.freeOut = s.next
	}
	s.Record, s.next, s.dead = *r, nil, false
	s.Started = now
	if s.route, s.Failure = d.resolveDestination(r, "TCP"); s.Failure == "" {
		d.openFlow(now, s)
		return
	}
	s.State = records.Failed
	d.refused = append(d.refused, s)
	d.host.WakeAt(now)
}

// openFlow opens a flow's connection.
func (d *Streams) openFlow(now units.Time, s *outgoing) {
	n := d.numbers[s.To]
	d.numbers[s.To]++
	s.SrcPort = uint16(firstPort + (mixBits(uint64(s.From)<<32|uint64(s.To))+uint64(n))%portCount)
	full, ack := d.wireSizes()
	s.line = d.out.Rate()
	f := cc.Flow{Line: s.line, MTU: d.config.FullPayload(), Packet: full, DelayedAcks: d.config.AckEvery > 1, Rand: d.out.Rand}
	if d.traits.NeedsPath {
		f.Path = d.out.Trip(s.to, full, ack)
	}
	s.sender.Reset(&d.config.Config, d.config.Control.Settings.New(f), d.traits, uint32(mixBits(s.ID)), s.Size)
	d.sending[s.ID] = s
	d.hearing[messageReceiver{s.to, s.SrcPort}] = s
	s.sender.Open(now)
	d.rescheduleFlow(now, s)
	d.host.WakeAt(now) // Work sends
}

// wireSizes returns the sizes of a full segment and an acknowledgement on the wire.
func (d *Streams) wireSizes() (full, ack units.Bytes) {
	const ethernet = wire.EthernetHeader
	bare := d.config.MTU - d.config.MSS()
	if d.config.Timestamps {
		bare += 12
	}
	return packet.OnWire(ethernet + d.config.MTU), packet.OnWire(ethernet + bare)
}

// rescheduleFlow schedules a flow's further work, or ends the flow if it is over.
func (d *Streams) rescheduleFlow(now units.Time, s *outgoing) {
	d.queueMessages(now, s)
	switch s.sender.Phase() {
	case tcp.Done:
		d.endFlow(now, s, records.Done)
		return
	case tcp.Failed:
		s.Failure = s.sender.Failure()
		d.endFlow(now, s, records.Failed)
		return
	}
	at, ready := s.sender.NextTimer(), s.sender.NextDeparture()
	switch {
	case ready > now:
		at = min(at, ready)
	case !s.waiting:
		s.waiting = true
		d.ready.Push(s)
	}
	d.senders.WakeAt(&s.Task, at)
}

// endFlow ends a flow; Work reports this to the host.
func (d *Streams) endFlow(now units.Time, s *outgoing, state records.State) {
	d.senders.Remove(&s.Task)
	if d.onFlowEnd != nil {
		d.onFlowEnd(now, d.flowState(now, s))
	}
	delete(d.sending, s.ID)
	d.counted.AddCounters(s.sender.Counters())
	if k := (messageReceiver{s.to, s.SrcPort}); d.hearing[k] == s {
		delete(d.hearing, k)
	}
	d.updateRecord(s)
	s.State = state
	d.over = append(d.over, s)
	d.host.WakeAt(now)
}

// updateRecord updates a flow's record.
func (d *Streams) updateRecord(s *outgoing) {
	s.Retransmitted, s.Acked = s.sender.Counters().Resent, s.sender.AckedBytes()
}

// recycleFlow keeps a finished flow's state for reuse.
func (d *Streams) recycleFlow(s *outgoing) {
	if s.waiting {
		s.dead = true // send finds it
		return
	}
	s.next, d.freeOut = d.freeOut, s
}

// DoWork implements Carrier.
func (d *Streams) DoWork(now units.Time) {
	for len(d.refused) > 0 {
		s := d.refused[0]
		d.refused = d.refused[1:]
		d.host.RecordEnd(now, &s.Record, 0)
		d.recycleFlow(s)
	}
	for k := d.senders.TakeDue(now); k != nil; k = d.senders.TakeDue(now) {
		k.Owner.sender.OnTimer(now)
		d.rescheduleFlow(now, k.Owner)
	}
	for k := d.receivers.TakeDue(now); k != nil; k = d.receivers.TakeDue(now) {
		k.Owner.receiver.OnTimer(now)
		d.sendPending(now, k.Owner)
	}
	d.sendMessages(now)
	d.sendReady(now)
	// An agent that is told of a flow may start others, which proceed in the next DoWork.
	for i := 0; i < len(d.over); i++ {
		s := d.over[i]
		d.host.RecordEnd(now, &s.Record, s.ID)
		d.recycleFlow(s)
	}
	d.over = d.over[:0]
	d.reportArrived(now)
	d.requestWork()
}

// requestWork requests a call of DoWork when something is due.
func (d *Streams) requestWork() {
	d.host.WakeAt(min(d.senders.Next(), d.receivers.Next(), d.look, d.relook))
}

// maxWaits limits the interval between checks of the port while it is paused: to
// this many doublings of the time of a packet.
const maxWaits = 2

// sendReady lets the flows that may send do so in turn, while the host's port has room.
func (d *Streams) sendReady(now units.Time) {
	full, _ := d.wireSizes()
	for d.look = units.Never; d.ready.Len() > 0; {
		if d.out.Queued(now) >= 2*d.config.MTU {
			d.look = now + d.out.Rate().TimeOf(full)<<d.waited
			d.waited = min(d.waited+1, maxWaits)
			return
		}
		d.waited = 0
		s := d.ready.Pop()
		s.waiting = false
		if p := s.sender.Phase(); p == tcp.Done || p == tcp.Failed {
			if s.dead {
				d.recycleFlow(s)
			}
			continue
		}
		if line := d.out.Rate(); line != s.line {
			s.line = line
			s.sender.Control().SetLineRate(now, line)
		}
		var g tcp.Segment
		if s.sender.Next(now, &g) {
			d.emitSegment(now, &g, &s.route, s.SrcPort, d.listenPort(), s.Record.ID, s.Size, s.Tag)
		}
		d.rescheduleFlow(now, s)
	}
}

// listenPort returns the port on which receivers of the traffic listen.
func (d *Streams) listenPort() uint16 { return uint16(SegmentPort + d.traffic) }

// emitSegment sends a segment of a flow.
func (d *Streams) emitSegment(now units.Time, g *tcp.Segment, by *route, src, dst uint16, id uint64, size units.Bytes, tag uint32) {
	p := d.out.Pool.NewMessage(segments)
	*p.Message.Body.(*segment) = segment{Segment: *g, id: id, size: size, tag: tag, traffic: d.traffic, from: int(id >> idHost)}
	p.Message.From, p.Message.To, p.SrcPort, p.DstPort = by.from, by.to, src, dst
	p.SetFields()
	p.TOS = d.config.DSCP << 2
	if g.ECT {
		p.TOS |= wire.ECT0
	}
	d.ipID++
	d.transmitPacket(now, p, by.path, d.ipID)
}

// ReceivePacket takes a packet of SegmentProtocol that has arrived at the host, and reports
// whether it belongs to the traffic. The packet stays the caller's. One that was trimmed or
// sent back is lost: TCP handles neither.
func (d *Streams) ReceivePacket(now units.Time, p *packet.Packet) bool {
	b := p.Message.Body.(*segment)
	switch {
	case b.traffic != d.traffic:
		return false
	case p.Trimmed || p.Returned:
		return true
	}
	b.CE = p.ECN() == wire.CE
	if b.from == d.host.Node {
		d.receiveAck(now, p, b)
	} else {
		d.receiveData(now, p, b)
	}
	d.requestWork()
	return true
}

// receiveAck takes a segment of the receiver of a flow from this host.
func (d *Streams) receiveAck(now units.Time, p *packet.Packet, b *segment) {
	s := d.sending[b.id]
	if s != nil {
		s.sender.Receive(now, &b.Segment)
		d.rescheduleFlow(now, s)
		d.sendReady(now)
		if s.sender.Phase() == tcp.Established {
			return
		}
	}
	if a, ok := tcp.AnswerUnknown(&b.Segment); ok {
		d.answerUnknown(now, &a, p, b)
	}
}

// answerUnknown answers a segment of a connection that does not exist.
func (d *Streams) answerUnknown(now units.Time, a *tcp.Segment, p *packet.Packet, b *segment) {
	if to, ok := d.back(p); ok {
		d.emitSegment(now, a, &to, p.DstPort, p.SrcPort, b.id, b.size, b.tag)
	}
}

// receiveData takes a segment of a flow to this host.
func (d *Streams) receiveData(now units.Time, p *packet.Packet, b *segment) {
	a := d.coming[b.id]
	if a == nil {
		if b.Flags&(tcp.SYN|tcp.ACK) != tcp.SYN {
			if r, ok := tcp.AnswerClosed(&b.Segment); ok {
				d.answerUnknown(now, &r, p, b)
			}
			return
		}
		to, ok := d.back(p)
		if !ok {
			return
		}
		if a = d.freeIn; a == nil {
			a = new(accepted)
			d.receivers.EnrolTask(&a.Task, a)
		} else {
			d.freeIn = a.next
		}
		a.Flow = pattern.Flow{Tag: b.tag, From: b.from, To: d.host.Node, Size: b.size}
		a.id, a.next, a.route, a.port, a.arrived = b.id, nil, to, p.SrcPort, false
		a.receiver.Reset(&d.config.Config, uint32(mixBits(b.id^uint64(now))))
		d.coming[b.id] = a
	}
	a.receiver.Receive(now, &b.Segment)
	d.sendPending(now, a)
}

// sendPending sends a receiver's pending segments, and records when all data has arrived.
func (d *Streams) sendPending(now units.Time, a *accepted) {
	var g tcp.Segment
	for a.receiver.Next(now, &g) {
		d.emitSegment(now, &g, &a.route, d.listenPort(), a.port, a.id, a.Size, a.Tag)
	}
	if a.receiver.IsComplete() && !a.arrived {
		a.arrived = true
		d.arrived = append(d.arrived, arrived{a.Flow, a.id})
		d.host.WakeAt(now)
	}
	if p := a.receiver.Phase(); p == tcp.Done || p == tcp.Failed {
		d.receivers.Remove(&a.Task)
		delete(d.coming, a.id)
		a.next, d.freeIn = d.freeIn, a
		return
	}
	d.receivers.WakeAt(&a.Task, a.receiver.NextTimer())
}

// UnderWay implements Carrier.
func (d *Streams) UnderWay(f func(*records.Record)) {
	for _, s := range d.sending {
		d.updateRecord(s)
		f(&s.Record)
	}
	for _, list := range [][]*outgoing{d.refused, d.over} {
		for _, s := range list {
			f(&s.Record)
		}
	}
}
