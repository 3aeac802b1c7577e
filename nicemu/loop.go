package nicemu

import (
	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// loop carries what the NIC sends to an address of its own, or to a group. It goes round inside
// the NIC, at the rate of the line and without delay.
type loop struct {
	agenda.Task[sleeper]
	device *Device
	packet *packet.Packet // under way, and
	until  units.Time     // until when
}

// feedLoop is told that the lane of the loop has something else to send.
func (d *Device) feedLoop() {
	if d.loop.packet == nil && d.lanes[loopback].fed > 0 {
		d.agenda.At(&d.loop.Task, d.env.Now())
	}
}

// echo gives a copy of what is sent to a group to the members on the NIC itself, by the
// loop: no switch sends it back. NICs do so, the sender included, and so do the kernel's
// sockets (IP_MULTICAST_LOOP), by which rdma_rxe sends.
func (d *Device) echo(p *packet.Packet) {
	if len(d.groups.Members(GID(p.RoCE.To))) > 0 {
		d.sendOwn(d.env.Pool.Clone(p), loopback)
	}
}

// wake takes the packet that has come round, and sends the next.
func (l *loop) wake(now units.Time) {
	d := l.device
	if p := l.packet; p != nil {
		if now < l.until {
			d.agenda.At(&l.Task, l.until)
			return
		}
		d.accept(now, p)
	}
	if l.packet = d.first(now, &d.lanes[loopback]); l.packet != nil {
		l.until = now
		if d.line > 0 {
			l.until += d.line.TimeOf(packet.OnWire(l.packet.Size))
		}
		d.agenda.At(&l.Task, l.until)
	}
	d.feed(loopback)
}
