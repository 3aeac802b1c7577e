package fabric

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/links/gso"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/port"
)

// Device is what a real host's packets are delivered to.
type Device interface {
	// Deliver hands a packet to the host, and owns it from then on.
	Deliver(now units.Time, p *packet.Packet)
}

// maxSupers is how many super-packets may be pieces in queues and on links:
// 64 MB of them. Beyond that pieces get bytes of their own, so that a long
// queue in which each packet is from another super-packet takes the memory of
// its packets and not 64 KB for each.
const maxSupers = 1000

// Station is one network interface of a host: where packets enter the fabric
// and leave it.
type Station struct {
	ID          packet.Endpoint
	Node, Index int // of the host and its port in the plan
	Port        *port.Port
	MAC         wire.MAC

	fabric *Fabric
	pool   *packet.Pool
	device Device
	count  uint64 // of packets that entered here, for their identity

	chassis *port.Chassis // of a host with traffic classes

	Entered, EnteredBytes     uint64
	Delivered, DeliveredBytes uint64
}

func newStation(f *Fabric, id packet.Endpoint, node, index int) *Station {
	mac := f.Plan.Nodes[node].Ports[index].MAC
	return &Station{ID: id, Node: node, Index: index, MAC: wire.ReadMAC(mac[:]), fabric: f, pool: f.Shards[f.shardOf[node]].Pool}
}

// Attach gives the station the device of a real host.
func (s *Station) Attach(d Device) { s.device = d }

// Enter takes a frame that a real host sent and that has been parsed.
func (s *Station) Enter(now units.Time, p *packet.Packet) {
	p.Dest = s.fabric.directory.Resolve(p.Frame, p, s.ID)
	s.admit(now, p)
	s.Port.Send(now, p)
}

// EnterSuper splits a super-packet that a real host sent. head is what its
// pieces have in common.
func (s *Station) EnterSuper(now units.Time, super *packet.Super, head *packet.Packet) {
	head.Dest = s.fabric.directory.Resolve(super.Data, head, s.ID)
	split := gso.Split(s.pool, super, head)
	for p := split.Next(); p != nil; p = split.Next() {
		if s.pool.Supers() > maxSupers {
			p = gso.Copy(s.pool, p)
		}
		s.admit(now, p)
		s.Port.Send(now, p)
	}
	s.pool.Release(super)
}

// Malformed takes a frame that a real host sent and that is none.
func (s *Station) Malformed(now units.Time, p *packet.Packet) {
	p.Size = units.Bytes(len(p.Frame))
	s.admit(now, p)
	s.Port.Discard(now, p, packet.Malformed)
}

// Refused counts a packet as dropped that was delivered to the device and that
// the host's kernel then did not take. The packet stays the caller's.
func (s *Station) Refused(now units.Time, p *packet.Packet) {
	s.Delivered--
	s.DeliveredBytes -= uint64(p.Size)
	s.Port.Refused(now, p)
}

// Originate takes a packet of a modelled flow.
func (s *Station) Originate(now units.Time, p *packet.Packet) {
	s.admit(now, p)
	s.Port.Send(now, p)
}

func (s *Station) admit(now units.Time, p *packet.Packet) {
	s.count++
	p.ID = uint64(s.ID)<<40 | s.count
	p.Origin, p.Born = s.ID, now
	if s.chassis != nil {
		p.In = buffer.Own
		s.chassis.Classify(p)
	}
	s.Entered++
	s.EnteredBytes += uint64(p.Size)
}

// Input delivers a packet to whoever it is for: a modelled flow's record or
// the host's device.
func (s *Station) Input(now units.Time, in *port.Port, p *packet.Packet) {
	if p.Flow == packet.Real && s.device == nil {
		in.Discard(now, p, packet.NoReceiver)
		return
	}
	s.Delivered++
	s.DeliveredBytes += uint64(p.Size)
	if p.Flow == packet.Real {
		s.device.Deliver(now, p)
		return
	}
	switch r := s.fabric.Records[p.Flow]; {
	case p.Returned:
		r.TakeBack()
	case p.Trimmed:
		r.ReceiveTrimmed()
	default:
		r.Receive(now, p)
	}
	s.pool.Free(p)
}

// Foresee tells whether anybody receives p; that a device refuses it shows
// only when it does.
func (s *Station) Foresee(_ *port.Port, p *packet.Packet) packet.Fate {
	if p.Flow == packet.Real && s.device == nil {
		return packet.NoReceiver
	}
	return packet.Fine
}
