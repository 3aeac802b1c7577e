package hosts

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// Device receives the packets for a real host.
type Device interface {
	// DeliverPacket hands a packet to the host, and owns it from then on.
	DeliverPacket(now units.Time, p *packet.Packet)
}

// TrainDevice is a Device that takes trains too.
type TrainDevice interface {
	Device
	// DeliverTrain hands a train of packets to the host, and owns it from then on.
	DeliverTrain(now units.Time, p *packet.Packet)
}

// NIC receives the RoCEv2 packets that arrive at an interface.
type NIC interface {
	// ReceivePacket takes a packet, and owns it. A packet of another NIC has a RoCE
	// and no bytes; one of a real program or guest has a whole Frame instead. It
	// may be Trimmed, or Returned to its sender. If it was sent to all, it may
	// have any address.
	ReceivePacket(now units.Time, p *packet.Packet)
}

// Attach sets the device of a real host.
func (i *Interface) Attach(d Device) {
	i.device = d
	i.trains, _ = d.(TrainDevice)
}

// SetNIC gives the interface a NIC. The NIC then receives RoCEv2 instead of the
// device: packets of NICs, and packets to UDP port 4791 that are not fragments.
// It sends through the interface's port, which it feeds (port.Feeder) with
// packets that Admit has seen. Call SetNIC before the run.
func (i *Interface) SetNIC(n NIC) { i.nic = n }

// Taker takes a packet with a Message, or of a modelled flow, that arrived at an interface, and owns
// it. The packet may be Trimmed, or Returned to its sender.
type Taker func(now units.Time, p *packet.Packet)

// SetReceiver makes t receive the packets of a protocol that arrive at the interface, instead of
// the host's device. Call it before the run.
func (i *Interface) SetReceiver(m *packet.MessageProtocol, t Taker) {
	if i.takers == nil {
		i.takers = map[*packet.MessageProtocol]Taker{}
	}
	i.takers[m] = t
}

// ReceiverOf returns what SetReceiver has set; nil if there is nothing.
func (i *Interface) ReceiverOf(m *packet.MessageProtocol) Taker { return i.takers[m] }

// Refused counts a packet, or all of a train, as dropped that was delivered to the device but that
// the host's kernel did not take. The caller keeps the packet.
func (i *Interface) Refused(now units.Time, p *packet.Packet) {
	n := uint64(p.PacketCount())
	i.Delivered -= n
	i.DeliveredBytes -= n * uint64(p.Size)
	i.Port.CountRefused(now, p)
}

// InputPacket passes a packet that arrived to the edge service, if that wants it; otherwise
// it delivers the packet.
func (i *Interface) InputPacket(now units.Time, in *port.Port, p *packet.Packet) {
	if p.Kind == packet.Train {
		i.inputTrain(now, in, p)
		return
	}
	if i.edge != nil && i.edge.service.WantsPacket(p) {
		i.edge.service.ReceivePacket(now, p)
		return
	}
	i.deliver(now, in, p)
}

// inputTrain delivers a train whole if the device takes it.
func (i *Interface) inputTrain(now units.Time, in *port.Port, p *packet.Packet) {
	if i.trains == nil || i.edge != nil || i.takes(p) {
		i.Pool.SplitTrain(p, func(q *packet.Packet) { i.InputPacket(now, in, q) })
		return
	}
	i.countIn(p)
	i.trains.DeliverTrain(now, p)
}

// deliver passes a packet to its receiver: a Taker, the host's NIC or its device.
func (i *Interface) deliver(now units.Time, in *port.Port, p *packet.Packet) {
	if p.Kind == packet.Modelled {
		i.countIn(p)
		i.Modelled(now, p)
		return
	}
	if p.Kind == packet.Protocol {
		if t := i.takers[p.Message.Protocol]; t != nil {
			i.countIn(p)
			t(now, p)
			return
		}
	}
	switch nic := i.takes(p); {
	case !nic && i.device == nil:
		in.DiscardPacket(now, p, packet.NoReceiver)
	case nic:
		i.countIn(p)
		if p.Piece.Of != nil || p.Sum != 0 {
			p = i.Pool.MakeBytes(p)
		}
		i.nic.ReceivePacket(now, p)
	default:
		i.countIn(p)
		if p.Kind != packet.Real { // nothing else in the host takes it, so its kernel sees it
			p = i.Pool.MakeBytes(p)
		}
		i.device.DeliverPacket(now, p)
	}
}

func (i *Interface) countIn(p *packet.Packet) {
	n := uint64(p.PacketCount())
	i.Delivered += n
	i.DeliveredBytes += n * uint64(p.Size)
}

// takes reports whether a packet that belongs to no modelled flow is for the
// interface's NIC. The ports of a fragment are not known, not even of the first.
func (i *Interface) takes(p *packet.Packet) bool {
	return i.nic != nil && (p.Kind == packet.NIC || p.Proto == wire.ProtoUDP && (p.DstPort == roce.Port || p.DstPort == telemetry.Port))
}

// PeekFate returns Fine if anything at the interface receives p, else NoReceiver.
// A refusal by the device shows only when it happens.
func (i *Interface) PeekFate(_ units.Time, _ *port.Port, p *packet.Packet) packet.Fate {
	taken := p.Kind == packet.Modelled || i.edge != nil && i.edge.service.WantsPacket(p) || i.device != nil || i.takes(p) || p.Kind == packet.Protocol && i.takers[p.Message.Protocol] != nil
	if !taken {
		return packet.NoReceiver
	}
	return packet.Fine
}
