package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// flowTo identifies the flow of a queue pair to others: by the destination of its packets.
type flowTo struct {
	to netip.Addr
	qp uint32
}

// ReceiveMessage takes a packet of the protocol whose messages the NIC's rate control hears
// (Control.Feedback), and frees it or sends it back. A packet that was trimmed or sent back, or
// that is about no flow of the NIC, is counted and ignored.
func (d *Device) ReceiveMessage(now units.Time, p *packet.Packet) {
	m, ok := p.Message.Body.(cc.Feedback)
	probe, _ := m.(cc.Probe)
	switch {
	case !ok || p.Trimmed || p.Returned:
		d.counters.RPMessagesIgnored++
	case probe == nil || !probe.IsOutward():
		d.handleFeedback(now, m)
	case probe.TurnAround():
		d.returnMessage(p)
		d.armTimer()
		return
	}
	d.freePacket(p)
	d.armTimer()
}

func (d *Device) handleFeedback(now units.Time, m cc.Feedback) {
	k := m.FlowKey()
	q := d.flows[flowTo{k.To, k.QP}]
	if q == nil || k.From != q.route.ends.From {
		d.counters.RPMessagesIgnored++
		return
	}
	d.counters.RPMessagesHandled++
	q.runControlTimer(now)
	q.control.OnMessage(now, m)
	d.rescheduleQP(now, q)
}

// NotifySender tells the queue pair that sent a packet to slow down, as a CNP would: the network in front
// of the NIC holds the packet in a long queue. It returns false, and counts an ignored CNP, if no
// queue pair of the NIC sent the packet or the queue pair has no rate control.
func (d *Device) NotifySender(now units.Time, p *packet.Packet) bool {
	if p.Kind != packet.NIC {
		return false
	}
	if d.flows == nil {
		d.knowFlows()
	}
	r := p.RoCE
	q := d.flows[flowTo{r.To, r.BTH.DestQP}]
	if q == nil || q.control == nil || r.From != q.route.ends.From {
		d.counters.RPCNPIgnored++
		return false
	}
	d.slowQP(now, q)
	d.armTimer()
	return true
}

// knowFlows starts indexing queue pairs by the destination of their packets.
func (d *Device) knowFlows() {
	d.flows = map[flowTo]*QP{}
	for _, q := range d.numbers.slots {
		if q != nil && q.control != nil {
			d.flows[q.flow] = q
		}
	}
}

// returnMessage sends back a turned message. A message from an address without a host is lost.
func (d *Device) returnMessage(p *packet.Packet) {
	m := p.Message
	path, ok := d.env.Path(m.To, m.From)
	if !ok {
		d.freePacket(p)
		return
	}
	m.From, m.To = m.To, m.From
	p.SetFields()
	d.queueMessage(p, path)
}

// sendMessages sends the pending messages of a queue pair's rate control. They have the flow's hash, so
// that they take its path. In loopback there is no peer to send to.
func (d *Device) sendMessages(q *QP) {
	s, ok := q.control.(cc.MessageSender)
	for ok && s.SendsMessages() {
		p := d.env.Pool.NewMessage(cc.Methods.Kind(d.settings.Control.Name).Feedback)
		m, r := p.Message, &q.route
		s.NextMessage(packet.FlowKey{
			From: r.ends.From, To: r.ends.To, Proto: wire.ProtoUDP, SrcPort: r.port, DstPort: d.HashPort(), QP: q.flow.qp, Flow: -1,
		}, m.Body)
		if r.loop {
			d.freePacket(p)
			continue
		}
		m.From, m.To = r.ends.From, r.ends.To
		p.TOS, p.SrcPort = d.traits.MessageDSCP<<2, m.Protocol.Port
		p.SetFields()
		p.Hash = r.hash
		d.queueMessage(p, r.path)
	}
}

// queueMessage queues a message for a path in the lane of its class. While it waits, a newer one about
// its flow replaces it.
func (d *Device) queueMessage(p *packet.Packet, path Path) {
	p.Dest, p.To, p.Dst, p.Src = path.Dest, path.To, path.MAC, d.env.MAC
	prio := d.env.Priority[p.TOS>>2]
	d.lanes[prio].ccMessages.PutProbe(d.env.Pool, p)
	d.announceNext(prio)
}
