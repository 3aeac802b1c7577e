package carrier

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// messageReceiver identifies a TCP flow from this host in messages: by its receiver and its port.
type messageReceiver struct {
	to   netip.Addr
	port uint16
}

// queueMessages queues the pending messages of the flow's rate control. Switches choose their path
// as they do for the flow's segments.
func (d *Streams) queueMessages(now units.Time, s *tcpFlow) {
	k, ok := s.sender.Control().(cc.MessageSender)
	for ok && k.SendsMessages() {
		p := d.out.Pool.NewMessage(cc.Methods.Kind(d.config.Control.Name).Feedback)
		k.NextMessage(packet.FlowKey{From: s.from, To: s.to, Proto: wire.ProtoTCP, SrcPort: s.SrcPort, DstPort: d.listenPort(), Flow: -1}, p.Message.Body)
		p.Message.From, p.Message.To = s.from, s.to
		p.TOS, p.SrcPort = d.traits.MessageDSCP<<2, p.Message.Protocol.Port
		p.SetFields()
		p.Hash = packet.FlowHash(packet.FoldAddress(s.from), packet.FoldAddress(s.to), wire.ProtoTCP, s.SrcPort, d.listenPort())
		d.sendMessage(now, p, s.path)
	}
}

// sendMessage sends a message as soon as none waits in its class at the port.
func (d *Streams) sendMessage(now units.Time, p *packet.Packet, path nicemu.Path) {
	p.Dest, p.To, p.Src, p.Dst = path.Dest, path.To, d.out.MAC, path.MAC
	d.ccMessages.PutProbe(d.out.Pool, p)
	d.sendMessages(now)
}

// sendMessages sends messages as long as none waits in their class at the port, since a message
// that waits there can no longer be replaced. While the class is paused the port is polled.
func (d *Streams) sendMessages(now units.Time) {
	d.relook = units.Never
	for p := d.ccMessages.FirstProbe(); p != nil; p = d.ccMessages.FirstProbe() {
		if d.out.Waiting(now, p.TOS>>2) > 0 {
			full, _ := d.wireSizes()
			d.relook = now + d.out.Rate().TimeOf(full)
			d.host.WakeAt(d.relook)
			return
		}
		d.out.Send(now, d.ccMessages.Pop())
	}
}

// ReceiveMessage takes a message of the protocol that the traffic's rate control handles, and reports
// whether it is about a flow of the traffic. The packet stays the caller's. A message that
// has reached its flow's receiver is sent back.
func (d *Streams) ReceiveMessage(now units.Time, p *packet.Packet) bool {
	m, ok := p.Message.Body.(cc.Probe)
	if !ok || m.FlowKey().Proto != wire.ProtoTCP || m.FlowKey().DstPort != d.listenPort() {
		return false
	}
	k := m.FlowKey()
	switch s := d.hearing[messageReceiver{k.To, k.SrcPort}]; {
	case p.Trimmed || p.Returned:
	case m.IsOutward():
		d.returnMessage(now, p)
	case s != nil && k.From == s.from:
		s.sender.ReceiveMessage(now, m)
		d.rescheduleFlow(now, s)
		d.host.WakeAt(now) // Work sends: a port's own contention point answers while DoWork runs
	}
	d.requestWork()
	return true
}

// returnMessage sends a message back to its source, if it has an answer.
func (d *Streams) returnMessage(now units.Time, p *packet.Packet) {
	to, ok := d.back(p)
	if !ok || !p.Message.Body.(cc.Probe).TurnAround() {
		return
	}
	a := d.out.Pool.NewMessage(p.Message.Protocol)
	a.Message.Body.Set(p.Message.Body)
	a.Message.From, a.Message.To = to.from, to.to
	a.TOS, a.SrcPort = p.TOS, p.SrcPort
	a.SetFields()
	d.sendMessage(now, a, to.path)
}
