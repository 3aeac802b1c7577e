package routing

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/switches/router"
)

// SetFirstHop prepares a packet that a switch itself generated, which has the Dest of a
// host and no bytes, for the path through routers.
func (t *Topology) SetFirstHop(node int, p *packet.Packet) {
	r := t.routers
	if r == nil || !t.isHost(p.Dest) {
		return
	}
	host := t.Endpoints[p.Dest]
	p.To = t.firstNumber(host, p.Version)
	here := t.reach.Domain[node][0]
	if t.plan.Nodes[node].Router != nil || t.reach.Domain[host.Node][host.Port] == here {
		return
	}
	if e, ok := r.firsts[here]; ok {
		p.Dest = t.Endpoint(e)
	}
}

// TurnRound prepares a packet that has been turned round for the path back through
// routers: as an Ethernet frame it goes to the host that sent it last. There must be
// routers.
func (t *Topology) TurnRound(p *packet.Packet) {
	r := t.routers
	if e := r.addresses[p.To].Endpoint; e >= 0 {
		p.Origin = e
	}
	if ethernet := p.Ethernet(); ethernet != nil {
		p.To = r.numbers[router.DestinationOf(ethernet[p.L3:])]
	} else if to, ok := p.Destination(); ok {
		p.To = r.numbers[to]
	} else if t.isHost(p.Dest) {
		p.To = t.firstNumber(t.Endpoints[p.Dest], p.Version)
	}
	if to, _ := p.MACs(); to != 0 {
		if e, ok := t.Directory.byMAC[to]; ok {
			p.Dest = e
		}
	}
}

// isHost reports whether an endpoint is a port of a host.
func (t *Topology) isHost(e packet.Endpoint) bool { return e >= 0 && int(e) < t.hosts }

// firstNumber returns the packet.To of a port's first address of an IP version, 0 if it has
// none.
func (t *Topology) firstNumber(e plan.End, version uint8) int32 {
	a, ok := plan.AddressOf(&t.plan.Nodes[e.Node].Ports[e.Port], version == 6)
	if !ok {
		return 0
	}
	return t.routers.numbers[a]
}
