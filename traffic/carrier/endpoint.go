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
	own     netip.Addr // of the host; not known before the first packet
	arrived []arrived  // and not reported yet
}

// arrived is a flow that has arrived completely.
type arrived struct {
	pattern.Flow
	id uint64
}

// hostAddress returns the host's address.
func (e *endpoint) hostAddress() netip.Addr {
	if !e.own.IsValid() {
		e.own, _ = e.outlet.AddressOf(e.host.Node)
	}
	return e.own
}

// resolveDestination returns the address of a flow's destination and the path to it, or why the flow
// cannot start. protocol carries it.
func (e *endpoint) resolveDestination(r *records.Record, protocol string) (to netip.Addr, path nicemu.Path, failure string) {
	known, reachable := false, false
	if to, known = e.outlet.AddressOf(int(r.To)); known {
		path, reachable = e.outlet.PathTo(to)
	}
	switch {
	case int(r.From) != e.host.Node:
		failure = "started by the wrong host: " + protocol + " flows start at the host that has the data"
	case !known:
		failure = "the destination host is not part of the traffic"
	case !reachable:
		failure = "no host has the address " + to.String()
	}
	return to, path, failure
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
