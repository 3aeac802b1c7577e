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

// Streams carries the flows of one traffic over TCP, from and to one host. Acknowledgements do not
// wait for room at the host's port.
type Streams struct {
	outgoingFlows[tcpSender]
	config TCP
	traits cc.Traits

	receivers  agenda.Agenda[*accepted]
	coming     map[uint64]*accepted
	hearing    map[messageReceiver]*tcpFlow // whose rate controls hear messages, if any do
	ccMessages cc.Outbox
	ipID       uint16

	relook  units.Time   // when to check again whether the port has room for messages of rate controls
	counted tcp.Counters // of flows that are over

	freeIn *accepted
}

// tcpFlow is a flow from this host.
type tcpFlow = outgoing[tcpSender]

// tcpSender is the sender of a flow.
type tcpSender struct {
	tcp.Sender
	line units.Rate // as known to its control
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
		outgoingFlows: newOutgoingFlows[tcpSender](h, traffic, &o), config: c, traits: cc.TraitsOf(c.Control), relook: units.Never,
		coming: map[uint64]*accepted{}, hearing: map[messageReceiver]*tcpFlow{},
	}
}

// Ephemeral ports of senders, as in Linux.
const (
	firstPort = 32768
	portCount = 28232
)

// Start implements Carrier.
func (d *Streams) Start(now units.Time, r *records.Record) {
	if s, ok := d.startFlow(now, r, "TCP"); ok {
		d.openFlow(now, s)
	}
}

// openFlow opens a flow's connection.
func (d *Streams) openFlow(now units.Time, s *tcpFlow) {
	n := d.numbers[s.To]
	d.numbers[s.To]++
	s.SrcPort = uint16(firstPort + (mixBits(uint64(s.From)<<32|uint64(s.To))+uint64(n))%portCount)
	full, ack := d.wireSizes()
	s.sender.line = d.out.Rate()
	f := cc.Flow{Line: s.sender.line, MTU: d.config.FullPayload(), Packet: full, DelayedAcks: d.config.AckEvery > 1, Rand: d.out.Rand}
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
func (d *Streams) rescheduleFlow(now units.Time, s *tcpFlow) {
	d.queueMessages(now, s)
	switch s.sender.Phase() {
	case tcp.Done:
		d.closeFlow(now, s, records.Done)
		return
	case tcp.Failed:
		s.Failure = s.sender.Failure()
		d.closeFlow(now, s, records.Failed)
		return
	}
	at, ready := s.sender.NextTimer(), s.sender.NextDeparture()
	switch {
	case ready > now:
		at = min(at, ready)
	default:
		d.addReady(s)
	}
	d.senders.WakeAt(&s.Task, at)
}

// closeFlow counts a flow whose connection has ended, and ends it.
func (d *Streams) closeFlow(now units.Time, s *tcpFlow, state records.State) {
	if d.onFlowEnd != nil {
		d.onFlowEnd(now, d.flowState(now, s))
	}
	d.counted.AddCounters(s.sender.Counters())
	if k := (messageReceiver{s.to, s.SrcPort}); d.hearing[k] == s {
		delete(d.hearing, k)
	}
	d.updateRecord(s)
	d.endFlow(now, s, state)
}

// updateRecord updates a flow's record.
func (d *Streams) updateRecord(s *tcpFlow) {
	s.Retransmitted, s.Acked = s.sender.Counters().Resent, s.sender.AckedBytes()
}

// DoWork implements Carrier.
func (d *Streams) DoWork(now units.Time) {
	d.reportRefused(now)
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
	d.reportOver(now)
	d.reportArrived(now)
	d.requestWork()
}

// requestWork requests a call of DoWork when something is due.
func (d *Streams) requestWork() {
	d.host.WakeAt(min(d.senders.Next(), d.receivers.Next(), d.look, d.relook))
}

// sendReady lets the flows that may send do so in turn, while the host's port has room.
func (d *Streams) sendReady(now units.Time) {
	full, _ := d.wireSizes()
	for s := d.takeReady(now, d.config.MTU, full); s != nil; s = d.takeReady(now, d.config.MTU, full) {
		if line := d.out.Rate(); line != s.sender.line {
			s.sender.line = line
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
func (d *Streams) UnderWay(f func(*records.Record)) { d.eachRecord(d.updateRecord, f) }
