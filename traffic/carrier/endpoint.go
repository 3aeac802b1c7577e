package carrier

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/wire"
)

// endpoint is what the carriers of a host's flows over TCP, NDP and UDP have in common.
type endpoint struct {
	host    *Host
	traffic int
	outlet  *Outlet
	arrived []arrived // and not reported yet
}

// route is how the packets of a flow leave a host.
type route struct {
	from, to netip.Addr // from is the host's
	path     nicemu.Path
}

// arrived is a flow that has arrived completely.
type arrived struct {
	pattern.Flow
	id uint64
}

// resolveDestination returns the route to a flow's destination, or why the flow cannot start. protocol
// carries it.
func (e *endpoint) resolveDestination(r *records.Record, protocol string) (to route, failure string) {
	if int(r.From) != e.host.Node {
		return to, "started by the wrong host: " + protocol + " flows start at the host that has the data"
	}
	if to.from, to.to, failure = e.outlet.Ends(int(r.To)); failure != "" {
		return to, failure
	}
	var ok bool
	if to.path, ok = e.outlet.PathTo(to.to); !ok {
		failure = "nobody on the links of " + to.from.String() + " has the address " + to.to.String() + " or leads to it"
	}
	return to, failure
}

// back returns the route of the answers to a packet.
func (e *endpoint) back(p *packet.Packet) (to route, ok bool) {
	to.from, to.to = p.Message.To, p.Message.From
	to.path, ok = e.outlet.PathTo(to.to)
	return to, ok
}

// transmitPacket passes a sealed packet to the host's port. id is its identification in IPv4.
func (e *endpoint) transmitPacket(now units.Time, p *packet.Packet, path nicemu.Path, id uint16) {
	p.IPID = id
	if p.Version == 6 {
		p.Label = max(uint32(p.Hash)&wire.MaxFlowLabel, 1) // as Linux does (RFC 6437 §3)
	}
	p.Dest, p.To, p.Src, p.Dst = path.Dest, path.To, e.outlet.MAC, path.MAC
	e.outlet.Send(now, p)
}

// reportArrived tells the agents of flows that have arrived.
func (e *endpoint) reportArrived(now units.Time) {
	for i := 0; i < len(e.arrived); i++ {
		a := e.arrived[i]
		e.host.FlowArrived(now, e.traffic, a.Flow, a.id)
	}
	e.arrived = e.arrived[:0]
}
