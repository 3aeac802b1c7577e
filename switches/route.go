package switches

import (
	"encoding/binary"
	"net/netip"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/switches/router"
	"github.com/weftlab/weft/wire"
)

// Routing makes a switch a router: every port bounds a broadcast domain and has an
// Ethernet address, and IP packets to that address are forwarded by their
// destination.
type Routing struct {
	Table *router.Table
	Ends  []packet.Endpoint // the router's ports as destinations of frames, by port
	MACs  []wire.MAC        // by port
	// Sources are the source addresses of ICMP messages about packets that came in
	// through a port, by port: IPv4 and IPv6. If an address is not valid, the
	// router sends none.
	Sources [][2]netip.Addr
	// Number returns the packet.To of an address.
	Number func(netip.Addr) int32
}

// routing is the state of a router apart from its ports.
type routing struct {
	Routing
	limit router.Limit
	count uint64 // packets that it has generated, for their ID
	ip    uint16 // identification of the next IPv4 packet that it generates

	rendered []byte // bytes of a packet that had to be rendered
	made     []byte // bytes of a packet that it generates
}

// SetRouting makes the switch a router, or changes its routes. Its ports and the
// groups of Table.Routes (SetTable) must exist.
func (s *Switch) SetRouting(r Routing) {
	if s.router == nil {
		s.router = &routing{rendered: make([]byte, 0, packet.MaxFrame), made: make([]byte, 0, packet.MaxFrame)}
	}
	s.router.Routing = r
}

// Routing returns the argument of SetRouting, nil for a plain switch.
func (s *Switch) Routing() *Routing {
	if s.router == nil {
		return nil
	}
	return &s.router.Routing
}

// routePacket handles a packet that arrives at a router. It forwards packets to the
// Ethernet address of the port that they came in through.
func (s *Switch) routePacket(now units.Time, in *port.Port, p *packet.Packet) {
	r := s.router
	if !r.isTo(in, p) || p.Version == 0 {
		s.handleUnrouted(now, in, p)
		return
	}
	if p.L3 != wire.EthernetHeader {
		s.dropPacket(now, in, p, packet.Tagged)
		return
	}
	n, fate, problem := r.findRoute(p)
	switch {
	case fate != packet.Fine:
		s.refusePacket(now, in, p, fate, problem, 0)
		return
	case n == router.Local:
		s.receiveOwn(now, in, p)
		return
	case p.TTL <= 1:
		s.refusePacket(now, in, p, packet.TTLExpired, router.TimeExceeded, 0)
		return
	}
	out, hop := s.nextHop(now, n, p)
	if out == nil {
		s.refusePacket(now, in, p, packet.NoRoute, router.NetUnreachable, 0)
		return
	}
	mtu := out.Link().MTU()
	if p.Layer3() > mtu && !s.mayCut(p, mtu) {
		s.refusePacket(now, in, p, packet.TooBig, router.TooBig, mtu)
		return
	}
	p.TTL--
	if p.Frame != nil {
		wire.DecrementTTL(p.Frame[p.L3:])
	}
	if p.Layer3() > mtu {
		s.sendFragments(now, out, hop, p, mtu)
		return
	}
	s.sendToHop(now, out, hop, p)
}

// isTo reports whether a packet is to the Ethernet address of the port that it came in
// through.
func (r *routing) isTo(in *port.Port, p *packet.Packet) bool {
	if p.Dest.IsByMAC() {
		dst, _ := p.MACs()
		return dst == r.MACs[in.Index]
	}
	return p.Dest == r.Ends[in.Index]
}

// forwardRouted sends a packet back that a port has turned round.
func (s *Switch) forwardRouted(now units.Time, p *packet.Packet) {
	n, fate, _ := s.router.findRoute(p)
	switch {
	case fate != packet.Fine:
	case n == router.Local: // the router generated it
		s.consumePacket(p)
		return
	default:
		if out, hop := s.nextHop(now, n, p); out != nil {
			s.sendToHop(now, out, hop, p)
			return
		}
		fate = packet.NoRoute
	}
	s.discardTurned(now, p, fate)
}

// findRoute returns the index of the route of a packet to the router's Ethernet address;
// or the fate of the packet, and the problem to report to its sender.
func (r *routing) findRoute(p *packet.Packet) (n uint16, fate packet.Fate, problem router.Problem) {
	t := r.Table
	n = t.Known[p.To]
	if p.To == 0 {
		if b := p.Ethernet(); b != nil {
			n = t.FindRoute(router.DestinationOf(b[p.L3:]))
		} else if to, ok := p.Destination(); ok {
			n = t.FindRoute(to)
		}
	}
	switch {
	case n == router.NoRoute:
		return n, packet.NoRoute, router.NetUnreachable
	case n == router.Local:
		return n, packet.Fine, 0
	case t.Routes[n].Direct && t.Addresses[p.To].Endpoint < 0:
		return n, packet.NoHost, router.HostUnreachable
	}
	return n, packet.Fine, 0
}

// nextHop returns the port through which p leaves on a route, and the next hop; nil if
// there is none.
func (s *Switch) nextHop(now units.Time, route uint16, p *packet.Packet) (*port.Port, router.Hop) {
	t := s.router.Table
	r := &t.Routes[route]
	out, index := s.pickPort(now, nil, r.Group, p)
	if r.Direct || out == nil {
		return out, router.Hop(t.Addresses[p.To])
	}
	return out, r.Via[index]
}

// sendToHop sends a packet to a neighbour, from the port's Ethernet address to the
// neighbour's.
func (s *Switch) sendToHop(now units.Time, out *port.Port, hop router.Hop, p *packet.Packet) {
	p.Dest, p.Dst, p.Src = hop.Endpoint, hop.MAC, s.router.MACs[out.Index]
	if p.Frame != nil {
		p.Dst.EncodeTo(p.Frame)
		p.Src.EncodeTo(p.Frame[wire.MACLen:])
	}
	out.Send(now, p)
}

// refusePacket drops a packet that cannot be forwarded, and informs its sender.
func (s *Switch) refusePacket(now units.Time, in *port.Port, p *packet.Packet, fate packet.Fate, problem router.Problem, mtu units.Bytes) {
	if !p.BadFCS {
		s.sendICMP(now, in, p, problem, mtu)
	}
	s.dropPacket(now, in, p, fate)
}

// dropPacket drops a packet that came in through in. A damaged packet got this far by
// cut-through; as it is not forwarded, the router receives all of it and detects
// the damage.
func (s *Switch) dropPacket(now units.Time, in *port.Port, p *packet.Packet, fate packet.Fate) {
	if p.BadFCS {
		fate = packet.BadFCS
	}
	in.DiscardPacket(now, p, fate)
}

// sendICMP sends an ICMP message about a packet to its sender, if that is permitted.
// Messages for path MTU discovery are not rate-limited: without them the sender
// would wait in vain.
func (s *Switch) sendICMP(now units.Time, in *port.Port, p *packet.Packet, problem router.Problem, mtu units.Bytes) {
	r := s.router
	if !p.HasBytes() {
		return // it is modelled
	}
	from := r.Sources[in.Index][0]
	if p.Version == 6 {
		from = r.Sources[in.Index][1]
	}
	if !from.IsValid() {
		return
	}
	b := router.AppendProblem(r.made[:wire.EthernetHeader], s.wireBytes(p)[p.L3:], problem, from, mtu, r.ip)
	if b == nil || problem != router.TooBig && !r.limit.AllowMessage(now) {
		return
	}
	s.originateIP(now, in, b)
}

// receiveOwn handles a packet to one of the router's addresses.
func (s *Switch) receiveOwn(now units.Time, in *port.Port, p *packet.Packet) {
	r := s.router
	switch {
	case p.BadFCS:
		s.dropPacket(now, in, p, packet.BadFCS)
		return
	case !p.HasBytes():
	case p.Proto == wire.ProtoICMPv6 && s.answerARP(now, in, p):
	case p.Proto == wire.ProtoICMP || p.Proto == wire.ProtoICMPv6:
		if b := router.AppendEchoReply(r.made[:wire.EthernetHeader], s.wireBytes(p)[p.L3:], r.ip); b != nil {
			s.originateIP(now, in, b)
		}
	case p.Proto == wire.ProtoUDP:
		s.sendICMP(now, in, p, router.PortUnreachable, 0)
	}
	s.consumePacket(p)
}

// handleUnrouted handles a frame that the router does not forward: broadcast, multicast, to
// another station, or not IP.
func (s *Switch) handleUnrouted(now units.Time, in *port.Port, p *packet.Packet) {
	if p.BadFCS {
		s.dropPacket(now, in, p, packet.BadFCS)
		return
	}
	s.answerARP(now, in, p)
	s.consumePacket(p)
}

// answerARP answers a request for the router's Ethernet address, through the port that
// the request came in through. It returns false if p is not such a request.
func (s *Switch) answerARP(now units.Time, in *port.Port, p *packet.Packet) bool {
	r := s.router
	if p.Frame == nil || p.L3 != wire.EthernetHeader || p.Ether == wire.EtherTypeIPv6 && p.Proto != wire.ProtoICMPv6 {
		return false
	}
	b := r.Table.AppendAnswer(r.made[:0], p.Frame, int(p.L3), p.Ether, r.MACs[in.Index])
	if b == nil {
		return false
	}
	q := s.wrapFrame(now, in, b)
	q.Dest = p.Origin
	if wire.ReadMAC(b).IsMulticast() {
		q.Dest = packet.Flood
	}
	s.originated++
	in.Send(now, q)
	return true
}

// consumePacket frees a packet that was for the switch.
func (s *Switch) consumePacket(p *packet.Packet) {
	s.consumed++
	s.pool.Free(p)
}

// originateIP sends an IP packet that the router generates in response to a packet
// that came in through in. b has room for an Ethernet header in front.
func (s *Switch) originateIP(now units.Time, in *port.Port, b []byte) {
	r := s.router
	ether := uint16(wire.EtherTypeIPv4)
	if b[wire.EthernetHeader]>>4 == 6 {
		ether = wire.EtherTypeIPv6
	}
	binary.BigEndian.PutUint16(b[2*wire.MACLen:], ether)
	r.ip++
	p := s.wrapFrame(now, in, b)
	p.To = r.Number(router.DestinationOf(b[wire.EthernetHeader:]))
	s.originateRouted(now, p)
}

// wrapFrame returns a packet with a frame that the router generated.
func (s *Switch) wrapFrame(now units.Time, in *port.Port, frame []byte) *packet.Packet {
	r := s.router
	p := s.pool.NewFrame(len(frame))
	copy(p.Frame, frame)
	p.Parse()
	r.count++
	p.Origin, p.Created = r.Ends[in.Index], now
	p.ID = uint64(r.Ends[0])<<40 | r.count
	s.classifyOwn(p)
	return p
}

// originateRouted sends a packet that the router generated towards its To.
func (s *Switch) originateRouted(now units.Time, p *packet.Packet) {
	s.originated++
	n, fate, _ := s.router.findRoute(p)
	var out *port.Port
	var hop router.Hop
	if fate == packet.Fine && n != router.Local {
		out, hop = s.nextHop(now, n, p)
	}
	if out == nil {
		s.unsent++
		s.pool.Free(p)
		return
	}
	if mtu := out.Link().MTU(); p.Layer3() > mtu && s.mayCut(p, mtu) {
		s.sendFragments(now, out, hop, p, mtu)
		return
	}
	s.sendToHop(now, out, hop, p)
}

// sendFragments sends a packet for which mayCut is true in fragments. The router generates
// them, but they use its buffer as the packet would.
func (s *Switch) sendFragments(now units.Time, out *port.Port, hop router.Hop, p *packet.Packet, mtu units.Bytes) {
	r := s.router
	b := s.wireBytes(p)
	f, _ := router.NewFragmenter(b[p.L3:], mtu)
	front := append(r.made[:0], b[:p.L3]...)
	var parts packet.List
	for part := f.Next(front); part != nil; part = f.Next(front) {
		q := s.pool.NewFrame(len(part))
		copy(q.Frame, part)
		q.Parse()
		r.count++
		q.Origin, q.Created, q.To = p.Origin, p.Created, p.To
		q.In, q.Prio, q.Tail = p.In, p.Prio, p.Tail
		q.ID = uint64(r.Ends[0])<<40 | r.count
		parts.Push(q)
	}
	s.consumePacket(p)
	// Send only now: a sent packet may make the router generate another before the
	// next is sent.
	for q := parts.Pop(); q != nil; q = parts.Pop() {
		s.originated++
		s.sendToHop(now, out, hop, q)
	}
}

// mayCut reports whether a packet that is longer than the MTU may be fragmented.
// Packets of NICs may not: in IPv4 they also say so.
func (s *Switch) mayCut(p *packet.Packet, mtu units.Bytes) bool {
	if p.Version != 4 || p.Ethernet() == nil || p.BadFCS {
		return false
	}
	_, ok := router.NewFragmenter(s.wireBytes(p)[p.L3:], mtu)
	return ok
}

// wireBytes returns the complete wire bytes of a packet that HasBytes, valid until the
// next call.
func (s *Switch) wireBytes(p *packet.Packet) []byte {
	if p.Frame != nil && p.Sum == 0 {
		return p.Frame
	}
	s.router.rendered = s.pool.Render(p, s.router.rendered)
	return s.router.rendered
}

// foreseeRoute returns what route would do with p.
func (s *Switch) foreseeRoute(in *port.Port, p *packet.Packet) packet.Fate {
	fate, sent := s.foreseeWay(in, p)
	if p.BadFCS && !sent {
		return packet.BadFCS
	}
	return fate
}

// foreseeWay also reports whether p is forwarded.
func (s *Switch) foreseeWay(in *port.Port, p *packet.Packet) (fate packet.Fate, sent bool) {
	r := s.router
	if !r.isTo(in, p) || p.Version == 0 {
		return packet.Fine, false
	}
	if p.L3 != wire.EthernetHeader {
		return packet.Tagged, false
	}
	n, fate, _ := r.findRoute(p)
	switch {
	case fate != packet.Fine || n == router.Local:
		return fate, false
	case p.TTL <= 1:
		return packet.TTLExpired, false
	}
	fate = s.foreseeSize(r.Table.Routes[n].Group, p)
	return fate, fate == packet.Fine
}

// foreseeSize reports whether p is too big for its path. If that cannot be known
// without choosing the path, p is assumed to fit.
func (s *Switch) foreseeSize(group uint16, p *packet.Packet) packet.Fate {
	fits := func(out *port.Port) bool {
		mtu := out.Link().MTU()
		return p.Layer3() <= mtu || s.mayCut(p, mtu)
	}
	good, bad := false, false
	for _, out := range s.nextHops(group) {
		if fits(out) {
			good = true
		} else {
			bad = true
		}
	}
	switch {
	case !good && !bad:
		return packet.NoRoute
	case bad && !good:
		return packet.TooBig
	case bad && !s.chooser.IsStateful(): // the choice matters only if there are both
		if out, _ := s.pickPort(0, nil, group, p); !fits(out) {
			return packet.TooBig
		}
	}
	return packet.Fine
}
