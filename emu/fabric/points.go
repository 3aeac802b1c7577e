package fabric

import (
	"net"
	"net/netip"

	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// newPoint makes a congestion point; tests have others.
var newPoint = congestion.New

// pointEnv is what a congestion point of a node's port gets; stream names its
// randomness.
func (f *Fabric) pointEnv(n, i int, stream string) congestion.Env {
	shard, sw := f.Shards[f.shardOf[n]], f.Switches[n]
	env := congestion.Env{Rand: sim.NewRand(f.Plan.Seed, stream), Pool: shard.Pool}
	if sw == nil {
		return env
	}
	d := &dresser{fabric: f, node: n, port: i, pool: shard.Pool, encode: encoder{fabric: f}}
	env.Send = func(p *packet.Packet) {
		if q := d.dress(p); q != nil {
			if q.ID == 0 {
				q.ID = uint64(len(f.endpoints)+n)<<40 | sw.Originated() + 1
			}
			f.aim(n, q)
			sw.Originate(shard.Engine.Now(), q)
			return
		}
		sw.Refuse(p)
	}
	return env
}

// dresser sees to it that what the congestion point of a port sends is a packet like
// all others: its wire bytes are there or can be made, for captures, devices,
// trimming and ICMP.
type dresser struct {
	fabric     *Fabric
	node, port int
	pool       *packet.Pool
	encode     encoder
}

// dress gives the packet to send in place of p: p itself if it has a frame, or is like
// one of a modelled flow or of a NIC, otherwise one with a frame that is made of its
// fields. It is nil if p can be no frame; then p is still the caller's.
func (d *dresser) dress(p *packet.Packet) *packet.Packet {
	ok := false
	switch {
	case p.Size > packet.MaxFrame:
	case p.Flow >= 0:
		ok = int(p.Flow) < len(d.fabric.flowEnds) && (p.Trimmed || fits(p))
	case p.Flow == packet.NIC && p.RoCE == nil:
		p.Flow = packet.Real // lest the pool take it for a NIC's
	case p.Flow == packet.NIC:
		more := p.Size - headersOf(p.Version) - units.Bytes(p.RoCE.Len())
		ok = fits(p) && hasVersion(p.RoCE.From, p.Version) && hasVersion(p.RoCE.To, p.Version) &&
			(p.Trimmed || more == 0 || more > 0 && p.Telemetry() != nil)
	case p.Piece.Of != nil:
		ok = true
	case p.Frame != nil:
		ok = p.L3 != 0 || p.Parse()
	default:
		return d.frame(p)
	}
	if !ok {
		return nil
	}
	return p
}

// headersOf is the length of Ethernet, IP and UDP headers.
func headersOf(version uint8) units.Bytes {
	if version == 6 {
		return wire.EthernetHeader + wire.IPv6Header + wire.UDPHeader
	}
	return wire.EthernetHeader + wire.IPv4Header + wire.UDPHeader
}

// fits tells whether a packet of UDP has room for its headers.
func fits(p *packet.Packet) bool {
	return (p.Version == 4 || p.Version == 6) && p.Size >= headersOf(p.Version)
}

func hasVersion(a netip.Addr, version uint8) bool {
	return a.Is4() && version == 4 || a.Is6() && version == 6
}

// experimental is the ethertype for experiments (IEEE 802, clause 9.2.4).
const experimental = 0x88b5

// frame makes a frame of the fields of a packet that is nothing but fields: UDP, or
// another protocol of IP, from the router's address or none to that of the station
// that it is for; or an Ethernet frame. What is behind the headers is zeros. It is nil
// if the packet can be no frame; otherwise p is freed.
func (d *dresser) frame(p *packet.Packet) *packet.Packet {
	dst, to, ok := d.destination(p)
	if !ok || p.Size < wire.EthernetHeader {
		return nil
	}
	p.Src, p.Dst = d.fabric.controlMAC(d.node, d.port), dst
	if p.TTL == 0 {
		p.TTL = modelledTTL
	}
	var b []byte
	switch p.Version {
	case 0:
		if p.Ether == 0 {
			p.Ether = experimental
		}
		b = d.encode.ethernet(p)
	case 4, 6:
		if !fits(p) {
			return nil
		}
		if p.Ether = wire.EtherTypeIPv4; p.Version == 6 {
			p.Ether = wire.EtherTypeIPv6
		}
		if p.Proto == 0 {
			p.Proto = wire.ProtoUDP
		}
		b = d.encode.ip(p, d.source(p.Version), to)
	default:
		return nil
	}
	q := d.pool.NewFrame(len(b))
	copy(q.Frame, b)
	q.Parse()
	if p.Hash != 0 {
		q.Hash = p.Hash
	}
	q.ID, q.Dest, q.To, q.Origin, q.Born = p.ID, p.Dest, p.To, p.Origin, p.Born
	d.pool.Free(p)
	return q
}

// source is the address of a router's port, unspecified for a plain switch.
func (d *dresser) source(version uint8) net.IP {
	if r := d.fabric.Switches[d.node].Routing(); r != nil {
		if a := r.Sources[d.port][version/6]; a.IsValid() {
			return asIP(a)
		}
	}
	return unspecified(version)
}

func unspecified(version uint8) net.IP {
	if version == 6 {
		return net.IPv6unspecified
	}
	return net.IPv4zero
}

// destination gives the addresses of the endpoint that a packet is for; those of
// everybody for Flood. It is false if there is none.
func (d *dresser) destination(p *packet.Packet) (wire.MAC, net.IP, bool) {
	switch e := p.Dest; {
	case e == packet.Flood && p.Version == 6:
		return wire.Broadcast, net.IPv6linklocalallnodes, true
	case e == packet.Flood:
		return wire.Broadcast, net.IPv4bcast, true
	case e < 0 || int(e) >= len(d.fabric.endpoints):
		return 0, nil, false
	default:
		end := d.fabric.endpoints[e]
		if a, ok := spec.AddressOf(&d.fabric.Plan.Nodes[end.Node].Ports[end.Port], p.Version == 6); ok {
			return d.fabric.mac(end), asIP(a), true
		}
		return d.fabric.mac(end), unspecified(p.Version), true
	}
}
