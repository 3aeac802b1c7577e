package edge

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// Feeder supplies packets to a port (port.Feeder).
type Feeder interface {
	Next(now units.Time, prio uint8) *packet.Packet
}

// Outlet joins the packets of a service and of the host's NIC for a port: in each class they take
// turns, packet by packet. To the port it is one feeder.
type Outlet struct {
	port  Port
	sides [2]side
	last  [class.Count]uint8 // side that supplied the last packet
}

// side is one of the two feeders.
type side struct {
	outlet *Outlet
	feeder Feeder
	number uint8
	size   [class.Count]units.Bytes // of its next packet in each class; 0 if there is none
}

// NewOutlet makes the outlet that feeds a port.
func NewOutlet(p Port) *Outlet {
	o := &Outlet{port: p}
	for i := range o.sides {
		o.sides[i].outlet, o.sides[i].number = o, uint8(i)
	}
	return o
}

// ServicePort returns the port for the service to feed, which asks f. It is called before the run.
func (o *Outlet) ServicePort(f Feeder) Port { return o.makeSide(0, f) }

// NICPort returns the port for the NIC to feed.
func (o *Outlet) NICPort(f Feeder) Port { return o.makeSide(1, f) }

func (o *Outlet) makeSide(n int, f Feeder) Port {
	o.sides[n].feeder = f
	return &o.sides[n]
}

// AnnouncePacket implements Port for one side.
func (s *side) AnnouncePacket(now units.Time, prio uint8, size units.Bytes) {
	s.size[prio] = size
	s.outlet.announceNext(now, prio)
}

// announceNext announces the next packet of a class to the port.
func (o *Outlet) announceNext(now units.Time, prio uint8) {
	o.port.AnnouncePacket(now, prio, o.nextSide(prio).size[prio])
}

// nextSide returns the side whose turn it is: the one that did not supply the last packet, if it has
// one.
func (o *Outlet) nextSide(prio uint8) *side {
	s := &o.sides[1-o.last[prio]]
	if s.size[prio] == 0 {
		s = &o.sides[o.last[prio]]
	}
	return s
}

// Next returns a packet for the port.
func (o *Outlet) Next(now units.Time, prio uint8) *packet.Packet {
	for range o.sides {
		s := o.nextSide(prio)
		if s.size[prio] == 0 {
			break
		}
		if p := s.feeder.Next(now, prio); p != nil {
			o.last[prio] = s.number
			o.announceNext(now, prio)
			return p
		}
		s.size[prio] = 0
	}
	return nil
}
