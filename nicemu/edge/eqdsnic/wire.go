package eqdsnic

import (
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim/units"
)

// firstPort is the UDP source port of path 0, from the ports for private use (RFC 6335 §6).
const firstPort = 0xc000

// WantsPacket implements edge.Service: the packets of tunnels.
func (s *service) WantsPacket(p *packet.Packet) bool {
	return p.Kind == packet.Protocol && p.Message.Protocol == protocol
}

// ReceivePacket implements edge.Service. A packet that was sent back is ignored: its sender's timeout
// handles the loss.
func (s *service) ReceivePacket(now units.Time, p *packet.Packet) {
	s.now = now
	h := p.Message.Body.(*header)
	switch {
	case p.Returned || p.Size < protocol.HeaderLen(p.Version)+eqds.HeaderLen:
		s.refused++ // it was sent back, or trimmed to less than its header
	case h.control:
		if s.CountControl {
			s.pacer.ChargeFrame(now, p.Size)
		}
		s.receiveControl(now, p.Message.From, &h.answer)
	default:
		s.receiveData(now, p, h)
	}
	s.env.Consume(now, p)
	s.deliverPackets(now)
	s.armTimer()
}

// receiveControl passes a control packet to its sender.
func (s *service) receiveControl(now units.Time, from netip.Addr, c *eqds.Control) {
	x := s.knownSender(address{from, c.Sender})
	if x == nil {
		s.refused++
		return
	}
	x.ReceiveControl(now, c)
	s.rescheduleSender(now, x)
}

// receiveData passes a data packet to the receiver of its tunnel, with the packet it carries.
func (s *service) receiveData(now units.Time, p *packet.Packet, h *header) {
	m := p.Message
	if h.data.Sender >= eqifCount {
		s.refused++
		return
	}
	k := tunnel.Key{From: m.From, Sender: h.data.Sender}
	if h.data.Flags.Has(eqds.FlagRST) && !s.table.Has(k) {
		return // it is closed already
	}
	r := s.table.ReceiverFor(now, k)
	if r == nil {
		s.refused++
		return
	}
	x, inner := r.Owner.(*receiver), m.Inner
	size := protocol.HeaderLen(versionOf(m.From)) + eqds.HeaderLen
	if inner != nil {
		size += inner.Layer3()
		ecn, drop := combineECN(inner.ECN(), p.ECN())
		inner.SetECN(ecn)
		if inner.Fate = packet.Fine; drop {
			inner.Fate = packet.EarlyDrop // when its turn comes: the tunnel has delivered it
		}
	}
	answer := r.ReceiveData(now, &h.data, inner, size, p.Trimmed)
	if answer.Kept {
		m.Inner = nil
	}
	s.agenda.WakeAt(&x.Task, x.NextTimer())
	if answer.Send {
		s.sendControl(now, x.from, &answer.Control)
	}
}

// sendPulls sends the PULLs that are due.
func (s *service) sendPulls(now units.Time) {
	for t := s.pacer.Next(now); t != nil; t = s.pacer.Next(now) {
		c := t.Owner.TakePull(now)
		x := t.Owner.Owner.(*receiver)
		s.agenda.WakeAt(&x.Task, x.NextTimer())
		s.sendControl(now, x.from, &c)
	}
}

// deliverPackets delivers the packets from tunnels to the host.
func (s *service) deliverPackets(now units.Time) {
	for p := s.arrived.Pop(); p != nil; p = s.arrived.Pop() {
		fate := p.Fate
		p.Fate = packet.Fine
		s.env.Unwrap(now, p, fate)
	}
}

// makeDataPacket makes the packet for the header of a data packet, without addresses.
func (s *service) makeDataPacket(x *sender, h *eqds.Data) *packet.Packet {
	m := s.env.Pool.NewMessage(protocol)
	m.Message.To = x.to
	m.TOS, m.SrcPort = uint8(s.DSCP)<<2, firstPort|uint16(x.address.eqif)<<8|uint16(h.Path)
	return m
}

// sendRTS sends an RTS, which does not wait for data.
func (s *service) sendRTS(now units.Time, x *sender, h *eqds.Data) {
	m := s.makeDataPacket(x, h)
	m.Message.Body.(*header).data = *h
	s.sendMessage(now, m)
}

// sendControl sends a control packet, by any path.
func (s *service) sendControl(now units.Time, to netip.Addr, c *eqds.Control) {
	m := s.env.Pool.NewMessage(protocol)
	b := m.Message.Body.(*header)
	b.control, b.answer = true, *c
	m.Message.To = to
	m.SrcPort = firstPort | uint16(s.env.Rand.Uint32())&uint16(s.Paths-1)
	s.sendMessage(now, m)
}

// sendMessage sends a packet in the class of control packets. One to an address without a host is lost.
func (s *service) sendMessage(now units.Time, m *packet.Packet) {
	m.TOS = uint8(s.ControlDSCP) << 2
	if !s.env.Address(m) {
		s.env.Pool.Free(m)
		return
	}
	s.env.Admit(now, m)
	s.env.Pass(now, m)
}
