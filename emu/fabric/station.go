package fabric

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/switches/port"
)

// Device is what a real host's packets are delivered to.
type Device interface {
	// Deliver hands a packet to the host and reports whether it was taken.
	// The packet stays the caller's.
	Deliver(now units.Time, p *packet.Packet) bool
}

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

	Entered, EnteredBytes     uint64
	Delivered, DeliveredBytes uint64
}

func newStation(f *Fabric, id packet.Endpoint, node, index int) *Station {
	mac := f.Plan.Nodes[node].Ports[index].MAC
	return &Station{ID: id, Node: node, Index: index, MAC: wire.ReadMAC(mac[:]), fabric: f, pool: f.Shards[f.shardOf[node]].Pool}
}

// Attach gives the station the device of a real host.
func (s *Station) Attach(d Device) { s.device = d }

// Enter takes a frame that a real host sent.
func (s *Station) Enter(now units.Time, p *packet.Packet) {
	if !p.Parse() {
		p.Size = units.Bytes(len(p.Frame))
		s.admit(now, p)
		s.Port.Discard(now, p, packet.Malformed)
		return
	}
	p.Dest = s.fabric.directory.Resolve(p)
	s.admit(now, p)
	s.Port.Send(now, p)
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
	s.Entered++
	s.EnteredBytes += uint64(p.Size)
}

// Input delivers a packet to whoever it is for: a modelled flow's record or
// the host's device.
func (s *Station) Input(now units.Time, in *port.Port, p *packet.Packet) {
	switch {
	case p.Flow != packet.Real:
		s.fabric.Records[p.Flow].Receive(now, p)
	case s.device == nil:
		in.Discard(now, p, packet.NoReceiver)
		return
	case !s.device.Deliver(now, p):
		in.Discard(now, p, packet.HostRefused)
		return
	}
	s.Delivered++
	s.DeliveredBytes += uint64(p.Size)
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
