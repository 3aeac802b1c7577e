package fabric

import (
	"net/netip"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire"
)

// newPoint makes a congestion point; tests replace it.
var newPoint = congestion.New

// pointEnv returns the environment of a congestion point of a node's port, or of a class of
// it.
func (f *Fabric) pointEnv(n, i int, class string, wake func(units.Time)) congestion.Env {
	shard, name := f.ShardOf(n), f.Plan.PortName(n, i)
	if class != "" {
		name += " " + class
	}
	b := &pointHost{fabric: f, node: n, port: i, pool: shard.Pool}
	return congestion.Env{
		Name: name, ID: sim.HashName(name), Rand: sim.NewRand(f.Plan.Seed, "mark "+name), Pool: shard.Pool,
		Wake: wake, Agent: b.agent, ReplyTo: b.replyTo, Ends: f.flowAddresses, Send: b.send,
	}
}

// pointHost is the switch or host of a congestion point, as the point sees it.
type pointHost struct {
	fabric     *Fabric
	node, port int
	pool       *packet.Pool
}

// AgentAddress returns the source address of messages from a plain switch, of IPv4 or
// IPv6. It identifies the switch by its number in the plan, and cannot be reached: it
// is from the blocks for benchmarks of networks (RFC 2544, RFC 5180).
func AgentAddress(node int, version uint8) netip.Addr {
	if version == 6 {
		return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 3: 0x02, 13: byte(node >> 16), 14: byte(node >> 8), 15: byte(node)})
	}
	return netip.AddrFrom4([4]byte{198, 18 + byte(node>>16&1), byte(node >> 8), byte(node)})
}

// agent implements congestion.Env.Agent.
func (h *pointHost) agent(version uint8) netip.Addr {
	f := h.fabric
	if sw := f.Switches[h.node]; sw != nil {
		if r := sw.Routing(); r != nil && r.Sources[h.port][version/6].IsValid() {
			return r.Sources[h.port][version/6]
		}
	} else if a, ok := plan.AddressOf(&f.Plan.Nodes[h.node].Ports[h.port], version == 6); ok {
		return a
	}
	return AgentAddress(h.node, version)
}

// replyTo implements congestion.Env.ReplyTo.
func (h *pointHost) replyTo(to congestion.Sender, m *packet.MessageProtocol) *packet.Packet {
	f := h.fabric
	iface := f.interfaceOf(to.Origin)
	if iface == nil || to.Version == 0 && m.Ether == 0 || m.Ether != 0 && !h.isOnLink(iface) {
		return nil
	}
	p := h.pool.NewMessage(m)
	p.Dest, p.Dst, p.Src = iface.ID, iface.MAC, f.controlMAC(h.node, h.port)
	if m.Ether == 0 {
		p.Message.From = h.agent(to.Version)
		if p.Message.To = to.From; !p.Message.To.IsValid() {
			p.Message.To, _ = plan.AddressOf(&f.Plan.Nodes[iface.Node].Ports[iface.Index], to.Version == 6)
		}
	}
	return p
}

// isOnLink reports whether frames reach an interface without routers.
func (h *pointHost) isOnLink(iface *hosts.Interface) bool {
	return h.fabric.topology.OnLink(plan.End{Node: h.node, Port: h.port}, endOf(iface))
}

// send implements congestion.Env.Send.
func (h *pointHost) send(p *packet.Packet) {
	f, sw := h.fabric, h.fabric.Switches[h.node]
	now := f.nowAt(h.node)
	sound := h.sound(p)
	if sw == nil {
		iface := f.interfaces[h.node][h.port]
		if !sound {
			iface.Malformed(now, p)
			return
		}
		if p.Dest == iface.ID { // it stays in the host
			iface.Admit(now, p)
			iface.InputPacket(now, iface.Port, p)
			return
		}
		iface.OriginatePacket(now, p)
		return
	}
	if !sound {
		sw.RefusePacket(p)
		return
	}
	if p.ID == 0 {
		p.ID = uint64(len(f.topology.Endpoints)+h.node)<<40 | sw.OriginatedPackets() + 1
	}
	f.topology.SetFirstHop(h.node, p)
	sw.OriginatePacket(now, p)
}

// sound reports whether a packet that a point sends is like all others: its wire bytes
// exist or can be made, for captures, devices, trimming and ICMP, and it has a
// destination.
func (h *pointHost) sound(p *packet.Packet) bool {
	f := h.fabric
	switch {
	case p.Dest != packet.Flood && (p.Dest < 0 || int(p.Dest) >= len(f.topology.Endpoints)):
		return false
	case p.Kind == packet.Protocol:
		if p.Message.Protocol.Ether == 0 && (!p.Message.From.IsValid() || p.Message.From.Is4() != p.Message.To.Is4()) {
			return false
		}
		p.SetFields()
		return p.Size <= packet.MaxFrame
	case p.Size > packet.MaxFrame:
		return false
	case p.Kind == packet.Modelled:
		return p.Flow >= 0 && int(p.Flow) < len(f.flowEnds) && (p.Trimmed || fits(p))
	case p.Kind == packet.NIC && (p.RoCE == nil || p.RoCE.Addresses == nil):
		p.Kind = packet.Real // otherwise the pool takes it for a NIC's packet
		return false
	case p.Kind == packet.NIC:
		more := p.Size - headersOf(p.Version) - units.Bytes(p.RoCE.Len())
		return fits(p) && hasVersion(p.RoCE.From, p.Version) && hasVersion(p.RoCE.To, p.Version) &&
			(p.Trimmed || more == 0 || more > 0 && p.Telemetry() != nil)
	case p.Piece.Of != nil:
		return true
	}
	return p.Frame != nil && (p.L3 != 0 || p.Parse())
}

// headersOf returns the length of the Ethernet, IP and UDP headers.
func headersOf(version uint8) units.Bytes {
	if version == 6 {
		return wire.EthernetHeader + wire.IPv6Header + wire.UDPHeader
	}
	return wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader
}

// fits reports whether a UDP packet has room for its headers.
func fits(p *packet.Packet) bool {
	return (p.Version == 4 || p.Version == 6) && p.Size >= headersOf(p.Version)
}

func hasVersion(a netip.Addr, version uint8) bool {
	return a.Is4() && version == 4 || a.Is6() && version == 6
}

// pointGauges returns the gauges of a congestion point; nil if it has none.
func pointGauges(c congestion.Choice, values []float64) []gauge.Value {
	if len(values) == 0 {
		return nil
	}
	return gauge.Read(congestion.KindOf(c).Gauges, values)
}
