// Package router is what a router knows and says, beside the switch that
// carries it out: the table of its ways, the answers to those who look for it
// (ARP, neighbour discovery, echo), the ICMP messages about what it cannot
// forward, and the cutting of IPv4 packets into fragments. It has no clock, no
// ports and no pool.
//
// Not done: redirects, source routes and the other options of IPv4, putting
// fragments together, and whatever a router would say of its own accord
// (router advertisements, routing protocols).
package router

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/packet"
)

// Indices of Table.Routes that are the same for every router.
const (
	NoRoute uint16 = iota // there is no way
	Local                 // the router itself is the destination
	Routes                // the first of the others
)

// Table is what a router knows of its ways.
type Table struct {
	Own    []netip.Addr // its addresses: those of the router itself, then those of its ports
	Routes []Route

	// Known gives the index of the route to each address that the fabric
	// knows, by packet.To. Known[0] is NoRoute.
	Known []uint16
	// Addresses tells who has those addresses. All routers share it.
	Addresses []Address

	// Subnets numbers the prefixes of the fabric, for addresses that nobody is
	// known to have; all routers share it. Ways gives the index of the route to
	// each by that number.
	Subnets *Prefixes
	Ways    []uint16
	// Static has the indices of routes that go before those of Subnets, except
	// where a subnet is longer and there is a way to it.
	Static Prefixes
}

// Address is the station or the port of a router that has an address. Those of
// a router itself have neither, and Endpoint is negative.
type Address struct {
	Endpoint packet.Endpoint
	MAC      wire.MAC
}

// Route is one way.
type Route struct {
	Group  uint16 // of the switch's ports, in switches.Table
	Direct bool   // the destination itself is behind these ports
	Via    []Hop  // else who is next, by the ways of the group
	Static bool   // the lab file says so
}

// Hop is a port of the next router.
type Hop struct {
	Endpoint packet.Endpoint
	MAC      wire.MAC
}

// Owns tells whether a is an address of the router.
func (t *Table) Owns(a netip.Addr) bool { return slices.Contains(t.Own, a) }

// Find gives the index of the route to an address by the longest prefix that
// covers it.
func (t *Table) Find(a netip.Addr) uint16 {
	if t.Owns(a) {
		return Local
	}
	index, bits := NoRoute, -1
	if n, length := t.Subnets.Find(a); length >= 0 && t.Ways[n] != NoRoute {
		index, bits = t.Ways[n], length
	}
	if s, length := t.Static.Find(a); length >= max(bits, 0) {
		return uint16(s)
	}
	return index
}

// Destination is where the IP packet ip goes. It is not valid when ip is no IP
// packet, or when routers do not forward to that address: to groups, to
// everybody, to nobody, and to what is on one link or in one host only
// (RFC 1812 §5.3.7, RFC 4291 §2.5.6).
func Destination(ip []byte) netip.Addr {
	_, dst, ok := addresses(ip)
	if !ok || !dst.IsGlobalUnicast() || dst.Is4() && dst.As4()[0] == 0 {
		return netip.Addr{}
	}
	return dst
}

// addresses reads source and destination of an IP packet.
func addresses(ip []byte) (src, dst netip.Addr, ok bool) {
	switch {
	case len(ip) >= wire.IPv4Header && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), true
	case len(ip) >= wire.IPv6Header && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40])), true
	}
	return src, dst, false
}

// trim cuts what is behind the end of an IP packet, such as the padding of a
// short frame. It reports false when the packet is not whole.
func trim(ip []byte) ([]byte, wire.IP, bool) {
	h, ok := wire.ParseIP(ip)
	if !ok {
		return nil, h, false
	}
	n := 0
	if h.Version == 4 {
		n = int(binary.BigEndian.Uint16(ip[2:]))
	} else {
		n = wire.IPv6Header + int(binary.BigEndian.Uint16(ip[4:]))
	}
	if n < h.Header || n > len(ip) {
		return nil, h, false
	}
	return ip[:n], h, true
}
