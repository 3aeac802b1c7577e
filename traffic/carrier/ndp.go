package carrier

import (
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds/pull"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/wire"
)

// NDP says how NDP carries a traffic's flows: each on a separate connection.
type NDP struct {
	ndp.Config
	DSCP        uint8 // of data, 0 to 63
	ControlDSCP uint8 // of ACKs, NACKs and PULLs, 0 to 63
}

// Check returns what is wrong with the settings.
func (c *NDP) Check() error {
	switch {
	case c.DSCP > 63:
		return fmt.Errorf("dscp is %d: it can be 0 to 63", c.DSCP)
	case c.ControlDSCP > 63:
		return fmt.Errorf("control-dscp is %d: it can be 0 to 63", c.ControlDSCP)
	}
	return c.Config.Check()
}

// Pulls is the pull queue of a host's port, shared by all NDP flows to it.
type Pulls struct {
	config pull.Config
	pacer  *ndp.Pacer
	rate   func() units.Rate // of the port's link
}

// NewPulls makes the pull queue of a host's port. Of the flows' settings only the MTU and
// the share matter here; they are the same for all traffics of the port.
func NewPulls(c *NDP, rate func() units.Rate) *Pulls {
	p := &Pulls{rate: rate, config: pull.Config{Line: rate(), MTU: wire.EthernetHeader + c.MTU, Share: c.PullShare, Credit: 1, Policy: pull.Strict{}}}
	p.pacer = pull.New[*ndp.Receiver](&p.config)
	return p
}

// CheckShared returns why flows of a traffic cannot share the pull queue; nil if they can.
func (p *Pulls) CheckShared(c *NDP) error {
	if p.config.MTU != wire.EthernetHeader+c.MTU || p.config.Share != c.PullShare {
		return fmt.Errorf("NDP flows to one host share its pull queue: they need the same mtu and pull-share, but one has %v and %v and another %v and %v",
			c.MTU, c.PullShare, p.config.MTU-wire.EthernetHeader, p.config.Share)
	}
	return nil
}

// sendPulls sends the PULLs that are due.
func (p *Pulls) sendPulls(now units.Time) {
	if line := p.rate(); line != p.config.Line {
		p.config.Line = line
		p.pacer.SetLineRate(&p.config)
	}
	for s := p.pacer.Next(now); s != nil; s = p.pacer.Next(now) {
		x := s.Owner.User.(*pulledIn)
		h := s.Owner.MakePull()
		x.carrier.emitPacket(now, &h, 0, &x.route, x.flow)
	}
}

// PulledStreams carries the flows of one traffic over NDP, from and to one host. ACKs, NACKs and
// PULLs do not wait for room at the host's port.
type PulledStreams struct {
	outgoingFlows[ndp.Sender]
	config NDP
	pulls  *Pulls

	coming map[uint64]*pulledIn
	peers  map[int]*ndp.Peer // by sender
	ipID   uint16

	counted ndp.Counters // of flows that are over

	freeIn *pulledIn
}

// ndpFlow is a flow from this host.
type ndpFlow = outgoing[ndp.Sender]

// pulledFlow is what packets tell the programs at a flow's ends about the flow.
type pulledFlow struct {
	id   uint64
	size units.Bytes
	tag  uint32
}

// pulledIn is a flow to this host.
type pulledIn struct {
	route    // of control packets
	carrier  *PulledStreams
	receiver ndp.Receiver
	flow     pulledFlow
	sender   int       // node
	next     *pulledIn // in freeIn
}

// NewPulledStreams makes the carrier of a host's flows of a traffic over NDP. Packets of
// NDPProtocol that arrive at the host must be passed to ReceivePacket. Paths are drawn with the
// outlet's random numbers.
func NewPulledStreams(h *Host, traffic int, c NDP, o StreamOutlet, p *Pulls) *PulledStreams {
	return &PulledStreams{
		outgoingFlows: newOutgoingFlows[ndp.Sender](h, traffic, &o), config: c, pulls: p,
		coming: map[uint64]*pulledIn{}, peers: map[int]*ndp.Peer{},
	}
}

// Start implements Carrier.
func (d *PulledStreams) Start(now units.Time, r *records.Record) {
	if s, ok := d.startFlow(now, r, "NDP"); ok {
		d.openFlow(now, s)
	}
}

// openFlow opens a flow's connection.
func (d *PulledStreams) openFlow(now units.Time, s *ndpFlow) {
	full, ack := d.wireSizes()
	trip := d.out.Trip(s.to, full, ack)
	if d.config.Paths == 1 {
		s.SrcPort = ndp.SourcePort(0)
	}
	s.sender.Reset(now, &d.config.Config, ndp.Start{
		Service: uint8(d.traffic), Connection: d.numbers[s.To], Size: s.Size,
		Window: d.config.WindowFor(trip.BDP(), full), RTT: trip.RTT, Rand: d.out.Rand,
	})
	d.numbers[s.To]++
	d.sending[s.ID] = s
	d.rescheduleFlow(now, s)
	d.host.WakeAt(now) // Work sends
}

// wireSizes returns the sizes of a full packet and a control packet on the wire.
func (d *PulledStreams) wireSizes() (full, ack units.Bytes) {
	const ethernet = wire.EthernetHeader
	return packet.OnWire(ethernet + d.config.MTU), packet.OnWire(ethernet + d.config.HeadersLen())
}

// rescheduleFlow schedules a flow's further work, or ends the flow if it is over.
func (d *PulledStreams) rescheduleFlow(now units.Time, s *ndpFlow) {
	switch s.sender.Phase() {
	case ndp.Done:
		d.closeFlow(now, s, records.Done)
		return
	case ndp.Failed:
		s.Failure = s.sender.Failure()
		d.closeFlow(now, s, records.Failed)
		return
	}
	if s.sender.CanSend() {
		d.addReady(s)
	}
	d.senders.WakeAt(&s.Task, s.sender.NextTimer())
}

// closeFlow counts a flow whose connection has ended, and ends it.
func (d *PulledStreams) closeFlow(now units.Time, s *ndpFlow, state records.State) {
	if d.onFlowEnd != nil {
		d.onFlowEnd(now, d.flowState(s))
	}
	d.counted.AddCounters(s.sender.Counters())
	d.updateRecord(s)
	d.endFlow(now, s, state)
}

// updateRecord updates a flow's record.
func (d *PulledStreams) updateRecord(s *ndpFlow) {
	s.Retransmitted, s.Acked = s.sender.Counters().Resent, s.sender.AckedBytes()
}

// DoWork implements Carrier.
func (d *PulledStreams) DoWork(now units.Time) {
	d.reportRefused(now)
	for k := d.senders.TakeDue(now); k != nil; k = d.senders.TakeDue(now) {
		k.Owner.sender.OnTimer(now)
		d.rescheduleFlow(now, k.Owner)
	}
	d.pulls.sendPulls(now)
	d.sendReady(now)
	d.reportOver(now)
	d.reportArrived(now)
	d.requestWork(now)
}

// requestWork requests a call of DoWork when something is due.
func (d *PulledStreams) requestWork(now units.Time) {
	d.host.WakeAt(min(d.senders.Next(), max(now, d.pulls.pacer.NextPull()), d.look))
}

// sendReady lets the flows that may send do so in turn, while the host's port has room.
func (d *PulledStreams) sendReady(now units.Time) {
	full, _ := d.wireSizes()
	for s := d.takeReady(now, d.config.MTU, full); s != nil; s = d.takeReady(now, d.config.MTU, full) {
		var h ndp.Header
		if payload, ok := s.sender.Next(now, &h); ok {
			d.emitPacket(now, &h, payload, &s.route, pulledFlow{s.Record.ID, s.Size, s.Tag})
		}
		d.rescheduleFlow(now, s)
	}
}

// emitPacket sends a packet of a flow.
func (d *PulledStreams) emitPacket(now units.Time, h *ndp.Header, payload units.Bytes, by *route, f pulledFlow) {
	p := d.out.Pool.NewMessage(pulledPackets)
	*p.Message.Body.(*pulledPacket) = pulledPacket{
		Header: *h, payload: payload, id: f.id, size: f.size, tag: f.tag, traffic: d.traffic, from: int(f.id >> idHost),
	}
	p.Message.From, p.Message.To, p.SrcPort = by.from, by.to, ndp.SourcePort(h.Path)
	p.SetFields()
	p.TOS = d.config.ControlDSCP << 2
	if h.Flags.IsData() {
		p.TOS = d.config.DSCP << 2
	}
	d.ipID++
	d.transmitPacket(now, p, by.path, d.ipID) // the hash is that of the path, so that labels spread packets, too
}

// ReceivePacket takes a packet of NDPProtocol that has arrived at the host, and reports whether it
// belongs to the traffic. The packet stays the caller's.
func (d *PulledStreams) ReceivePacket(now units.Time, p *packet.Packet) bool {
	b := p.Message.Body.(*pulledPacket)
	switch {
	case b.traffic != d.traffic:
		return false
	case b.from != d.host.Node:
		d.receiveData(now, p, b)
	case d.sending[b.id] != nil:
		s := d.sending[b.id]
		switch {
		case p.Returned && b.Flags.IsData():
			s.sender.ReceiveReturned(now, &b.Header)
		case !p.Returned && !p.Trimmed:
			s.sender.Receive(now, &b.Header)
		}
		d.rescheduleFlow(now, s)
		d.sendReady(now)
	}
	d.requestWork(now)
	return true
}

// receiveData takes a data packet of a flow to this host, or its header. A control packet that was
// sent back is lost.
func (d *PulledStreams) receiveData(now units.Time, p *packet.Packet, b *pulledPacket) {
	if !b.Flags.IsData() || p.Returned {
		return
	}
	to, ok := d.back(p)
	if !ok {
		return
	}
	f := pulledFlow{b.id, b.size, b.tag}
	peer := d.peers[b.from]
	if peer == nil {
		peer = &ndp.Peer{}
		d.peers[b.from] = peer
	}
	x := d.coming[b.id]
	switch {
	case x != nil:
	case peer.IsOver(b.Connection):
		h := ndp.AnswerLate(&b.Header)
		d.emitPacket(now, &h, 0, &to, f)
		return
	case b.Flags&ndp.FlagSYN == 0:
		return
	default:
		if x = d.freeIn; x == nil {
			x = &pulledIn{carrier: d}
			x.receiver.User = x
		} else {
			d.freeIn = x.next
		}
		x.flow, x.sender, x.next, x.route = f, b.from, nil, to
		x.receiver.Reset(&d.config.Config, d.pulls.pacer, &b.Header)
		d.coming[b.id] = x
	}
	h, ok := x.receiver.Receive(&b.Header, b.payload, p.Trimmed)
	if !ok {
		return
	}
	d.emitPacket(now, &h, 0, &x.route, x.flow)
	if x.receiver.IsComplete() {
		peer.RecordEnd(b.Connection)
		delete(d.coming, b.id)
		d.arrived = append(d.arrived, arrived{pattern.Flow{Tag: f.tag, From: x.sender, To: d.host.Node, Size: f.size}, f.id})
		x.next, d.freeIn = d.freeIn, x
		d.host.WakeAt(now)
	}
}

// UnderWay implements Carrier.
func (d *PulledStreams) UnderWay(f func(*records.Record)) { d.eachRecord(d.updateRecord, f) }

// EachFlow calls f with the flows from the host that are under way, in the order in which
// they began. x is valid only during the call.
func (d *PulledStreams) EachFlow(_ units.Time, f func(x *StreamFlow)) {
	d.eachInOrder(func(s *ndpFlow) { f(d.flowState(s)) })
}

// flowState returns the state of a flow. Its window is the initial window, and its rate the line
// rate.
func (d *PulledStreams) flowState(s *ndpFlow) *StreamFlow {
	x := &s.sender
	d.seen = StreamFlow{
		ID: s.ID, NDP: true, Number: x.Connection, From: netip.AddrPortFrom(s.from, 0), To: netip.AddrPortFrom(s.to, ndp.Port),
		Rate: d.out.Rate(), Window: x.WindowBytes(), InFlight: x.InFlight(), RTT: x.SRTT(), Acked: x.AckedBytes(), Resent: x.Counters().Resent,
	}
	return &d.seen
}

// Counters returns the counters of the host's senders, including finished flows.
func (d *PulledStreams) Counters() ndp.Counters {
	sum := d.counted
	for _, s := range d.sending {
		sum.AddCounters(s.sender.Counters())
	}
	return sum
}
