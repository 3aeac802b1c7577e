package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/telemetry"
)

// stamp is what a port needs to write in-band telemetry. It is not a congestion point: a
// queue has at most one of those, and may have telemetry in addition.
type stamp struct {
	number uint16 // of the port, for telemetry.Stack.Path
	code   uint8  // of the link's rate; 0 if it has none
}

// EnableTelemetry makes the port write in-band telemetry into packets that have room for it, as
// their first bit leaves: the time, the bytes that it has sent before, and the bytes that
// wait behind the packet in all its queues. number identifies the port. Stamp is called
// before the run. A link whose rate has no telemetry.RateCode is written with rate 0.
func (p *Port) EnableTelemetry(number uint16) {
	p.stamp = &stamp{number: number}
	p.stamp.recordRate(p)
	p.mayAhead, p.ahead = false, false
}

// recordRate records the rate of the port's link.
func (s *stamp) recordRate(p *Port) {
	if s != nil && p.link != nil {
		s.code, _ = telemetry.RateCode(p.link.Rate())
	}
}

// writeTelemetry writes the telemetry of a packet that is about to leave.
func (s *stamp) writeTelemetry(now units.Time, p *Port, pkt *packet.Packet) {
	t := pkt.Telemetry()
	if t == nil {
		return
	}
	// Bytes are those on the wire, except padding, because the rate counts bytes on the
	// wire.
	sent := units.Bytes(p.tx.bytes + p.tx.packets*wire.EthernetOverhead)
	t.Push(s.number, telemetry.NewHop(s.code, now, sent, p.bytes))
}
