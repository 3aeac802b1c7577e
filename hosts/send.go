package hosts

import (
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
)

// maxSupers is how many super-packets may be pieces in queues and on links: 64
// MB of them. Beyond that, pieces get their own bytes, so that a long queue in
// which each packet is from another super-packet takes the memory of its
// packets and not 64 KB for each.
const maxSupers = 1000

// Enter takes a parsed frame that a real host sent.
func (i *Interface) Enter(now units.Time, p *packet.Packet) {
	p.Dest = i.Directory.Resolve(p.Frame, p, i.ID, i.MAC)
	i.sendPacket(now, p)
}

// sendPacket passes a packet that the host sends to its edge service or, without one, to its
// port.
func (i *Interface) sendPacket(now units.Time, p *packet.Packet) {
	if i.edge != nil {
		i.edge.enterService(now, p)
		return
	}
	i.Admit(now, p)
	i.Port.Send(now, p)
}

// QueueLength returns how much waits at the interface to leave: in its port's queues and in
// its edge service.
func (i *Interface) QueueLength(now units.Time) (packets int, bytes units.Bytes) {
	packets, bytes = i.Port.QueueLength(now)
	if i.edge != nil {
		n, more := i.edge.service.HeldPackets()
		packets, bytes = packets+n, bytes+more
	}
	return packets, bytes
}

// EnterSuper splits a super-packet that a real host sent. head has the fields
// that its pieces share. If the port lets them pass at once, all but the last are a train.
func (i *Interface) EnterSuper(now units.Time, super *packet.Super, head *packet.Packet) {
	head.Dest = i.Directory.Resolve(super.Data, head, i.ID, i.MAC)
	split := gso.NewSplitter(i.Pool, super, head)
	if i.edge == nil && i.chassis == nil && i.Pool.LiveSupers() <= maxSupers {
		head.Size = units.Bytes(super.Payload) + units.Bytes(super.Segment)
		if i.Port.PassesAtOnce(now, head) {
			if p := split.CutTrain(); p != nil {
				i.Admit(now, p)
				i.Port.Send(now, p)
			}
		}
	}
	for p := split.Next(); p != nil; p = split.Next() {
		if i.Pool.LiveSupers() > maxSupers {
			p = gso.CopyPacket(i.Pool, p)
		}
		i.sendPacket(now, p)
	}
	i.Pool.ReleaseSuper(super)
}

// Malformed takes a malformed frame that a real host sent, and discards it.
func (i *Interface) Malformed(now units.Time, p *packet.Packet) {
	p.Size = units.Bytes(len(p.Frame))
	i.Admit(now, p)
	i.Port.DiscardPacket(now, p, packet.Malformed)
}

// OriginatePacket takes a packet of a modelled flow.
func (i *Interface) OriginatePacket(now units.Time, p *packet.Packet) { i.sendPacket(now, p) }

// Admit counts a packet or a train as entered and sets its identity, its origin, its class
// and the time. It does not send it: the code that feeds the interface's port
// does.
func (i *Interface) Admit(now units.Time, p *packet.Packet) {
	n := uint64(p.PacketCount())
	p.ID = uint64(i.ID)<<40 | (i.Entered + 1)
	p.Origin, p.Created = i.ID, now
	if i.chassis != nil {
		p.In = buffer.Own
		i.chassis.ClassifyPacket(p)
	}
	i.Entered += n
	i.EnteredBytes += n * uint64(p.Size)
}
