package limit

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// WantsPacket implements edge.Service: messages for a rate control, and messages that ask for an answer.
// A message about a queue pair that is no flow here is for the NIC.
func (l *limiter) WantsPacket(p *packet.Packet) bool {
	if p.Kind != packet.Protocol || p.Message.Protocol != cc.Methods.Kind(l.Control.Name).Feedback || p.Trimmed || p.Returned {
		return false
	}
	m, ok := p.Message.Body.(cc.Feedback)
	if !ok {
		return false
	}
	k := m.FlowKey()
	return k.QP == 0 || l.flows[k] != nil
}

// ReceivePacket implements edge.Service.
func (l *limiter) ReceivePacket(now units.Time, p *packet.Packet) {
	m := p.Message.Body.(cc.Feedback)
	probe, _ := m.(cc.Probe)
	switch f := l.flows[m.FlowKey()]; {
	case probe != nil && probe.IsOutward():
		if probe.TurnAround() {
			l.returnMessage(now, p)
		}
	case f == nil:
		l.ignored++
	default:
		l.heard++
		l.runControlTimer(now, f)
		f.control.OnMessage(now, m)
		l.rescheduleFlow(now, f)
		l.armTimer()
	}
	l.env.Consume(now, p)
}

// returnMessage sends a turned message back to its sender.
func (l *limiter) returnMessage(now units.Time, p *packet.Packet) {
	a := l.env.Pool.NewMessage(p.Message.Protocol)
	a.Message.Body.Set(p.Message.Body)
	a.Message.To = p.Message.From
	a.TOS, a.SrcPort = p.TOS, p.SrcPort
	l.sendMessage(now, a, 0)
}

// sendMessages sends the pending messages of a flow's rate control. Flows that share a queue have no peer
// to send to.
func (l *limiter) sendMessages(now units.Time, f *flow) {
	s, ok := f.control.(cc.MessageSender)
	for ok && s.SendsMessages() {
		p := l.env.Pool.NewMessage(cc.Methods.Kind(l.Control.Name).Feedback)
		s.NextMessage(f.key, p.Message.Body)
		if p.Message.To = f.key.To; f.key.Flow >= 0 {
			_, p.Message.To = l.env.Ends(f.key.Flow)
		}
		if f == l.shared || !p.Message.To.IsValid() {
			l.env.Pool.Free(p)
			continue
		}
		p.TOS, p.SrcPort = l.traits.MessageDSCP<<2, p.Message.Protocol.Port
		l.sendMessage(now, p, f.hash)
	}
}

// sendMessage sends a message, which has the hash of its flow so that it takes the flow's path. A message
// to an address without a host is lost.
func (l *limiter) sendMessage(now units.Time, p *packet.Packet, hash uint64) {
	if !l.env.Address(p) {
		l.env.Pool.Free(p)
		return
	}
	if hash != 0 {
		p.Hash = hash
	}
	l.env.Admit(now, p)
	l.env.Pass(now, p)
}
