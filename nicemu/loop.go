package nicemu

import (
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// loop carries what the NIC sends to one of its own addresses, or to a group. It loops back inside
// the NIC, at line rate and without delay.
type loop struct {
	agenda.Task[sleeper]
	device *Device
	packet *packet.Packet // under way, and
	until  units.Time     // when it arrives
}

// feedLoop handles a change of the first packet in the loop's lane.
func (d *Device) feedLoop() {
	if d.loop.packet == nil && d.lanes[loopback].fed > 0 {
		d.agenda.WakeAt(&d.loop.Task, d.env.Now())
	}
}

// loopGroupCopy sends a copy of a packet to a group to the members on the NIC itself, through the loop: no
// switch sends it back. NICs do so, the sender included, and so do the kernel's sockets
// (IP_MULTICAST_LOOP), which rdma_rxe uses to send.
func (d *Device) loopGroupCopy(p *packet.Packet) {
	if len(d.groups.Members(GID(p.RoCE.To))) > 0 {
		d.sendOwn(d.env.Pool.ClonePacket(p), loopback)
	}
}

// doDueWork receives the packet that has gone round, and sends the next.
func (l *loop) doDueWork(now units.Time) {
	d := l.device
	if p := l.packet; p != nil {
		if now < l.until {
			d.agenda.WakeAt(&l.Task, l.until)
			return
		}
		d.acceptPacket(now, p)
	}
	if l.packet = d.takeFirst(now, &d.lanes[loopback]); l.packet != nil {
		l.until = now
		if d.line > 0 {
			l.until += d.line.TimeOf(packet.OnWire(l.packet.Size))
		}
		d.agenda.WakeAt(&l.Task, l.until)
	}
	d.announceNext(loopback)
}
