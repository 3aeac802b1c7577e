package nicemu

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/nicemu/cmnic"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// receiveManagement handles a datagram to queue pair 1.
func (d *Device) receiveManagement(now units.Time, from, to netip.Addr, b *roce.Packet) {
	switch {
	case !d.ownsAddress(to):
		d.counters.WrongAddress++
	case b.BTH.Opcode.Service() != roce.UD || b.BTH.Opcode.Operation() != roce.SendOnly:
		d.counters.NoQP++
	case b.FurtherHeaders().DETH.QKey != roce.ManagementQKey:
		d.counters.QKeyViolations++
	default:
		d.conns.cm.Receive(now, from, to, b.Payload)
		d.conns.flushManager()
	}
}

// sendMessage sends a message of connection management.
func (c *connections) sendMessage(s *cmnic.Send) {
	d := c.device
	r := route{ends: packet.NewAddresses(s.From, s.To), tos: s.TrafficClass, ttl: defaultTTL, port: portOf(qp.GSINumber)}
	if d.locateDestination(&r) != nil {
		return // no host has the address: as if it was lost on the way
	}
	p := d.env.Pool.NewRoCE()
	b := &p.RoCE.Packet
	b.BTH = roce.BTH{Opcode: roce.UD.WithOperation(roce.SendOnly), PKey: roce.DefaultPKey, DestQP: qp.GSINumber, PSN: c.psn}
	b.FurtherHeaders().DETH = roce.DETH{QKey: roce.ManagementQKey, SourceQP: qp.GSINumber}
	c.psn = (c.psn + 1) & roce.PSNMask
	b.Payload = slices.Grow(b.Payload[:0], msg.MADLen)[:msg.MADLen]
	b.Length = msg.MADLen
	s.EncodeTo(b.Payload)
	d.fillHeaders(p, &r, units.Bytes(b.BTH.Opcode.PacketLen(msg.MADLen)))
	d.sendOwn(p, r.prio)
}
