// Package router implements the parts of a router that do not depend on the switch:
// the routing table, the answers to requests (ARP, neighbour discovery, echo), the
// ICMP messages about packets that it cannot forward, and the fragmentation of IPv4
// packets. It has no clock, no ports and no pool.
//
// Not implemented: redirects, source routes and the other options of IPv4,
// reassembly of fragments, and unsolicited messages of routers (router
// advertisements, routing protocols).
package router

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// Indices of Table.Routes that every router shares.
const (
	NoRoute uint16 = iota // there is no route
	Local                 // the router itself is the destination
	Routes                // the first other route
)

// Table is the routing table of a router.
type Table struct {
	Own    []netip.Addr // addresses of the router itself, then of its ports
	Routes []Route

	// Known has the index of the route to each address that the fabric knows, by
	// packet.To. Known[0] is NoRoute.
	Known []uint16
	// Addresses has the owners of those addresses. All routers share it.
	Addresses []Address

	// Subnets numbers the prefixes of the fabric, for addresses without a known
	// owner; all routers share it. Ways has the index of the route to each prefix,
	// by that number.
	Subnets *Prefixes
	Ways    []uint16
	// Static has the indices of static routes. They precede those of Subnets,
	// except where the prefix of a subnet is longer and there is a route to it.
	Static Prefixes
}

// Address is the station or router port that has an address. Addresses of a router
// itself have neither, and Endpoint is negative.
type Address struct {
	Endpoint packet.Endpoint
	MAC      wire.MAC
}

// Route is one route.
type Route struct {
	Group  uint16 // of the switch's ports, in switches.Table
	Direct bool   // the destination is directly connected to these ports
	Via    []Hop  // otherwise the next hops, by the ports of the group
	Static bool   // it comes from the lab file
}

// Hop is a port of the next router.
type Hop struct {
	Endpoint packet.Endpoint
	MAC      wire.MAC
}

// OwnsAddress reports whether a is an address of the router.
func (t *Table) OwnsAddress(a netip.Addr) bool { return slices.Contains(t.Own, a) }

// FindRoute returns the index of the route to an address, by longest prefix match.
func (t *Table) FindRoute(a netip.Addr) uint16 {
	if t.OwnsAddress(a) {
		return Local
	}
	index, bits := NoRoute, -1
	if n, length := t.Subnets.FindPrefix(a); length >= 0 && t.Ways[n] != NoRoute {
		index, bits = t.Ways[n], length
	}
	if s, length := t.Static.FindPrefix(a); length >= max(bits, 0) {
		return uint16(s)
	}
	return index
}

// DestinationOf returns the destination of the IP packet ip. It is not valid if ip is
// not an IP packet, or if routers do not forward to that address: multicast,
// broadcast, unspecified, link-local and loopback addresses (RFC 1812 §5.3.7, RFC
// 4291 §2.5.6).
func DestinationOf(ip []byte) netip.Addr {
	_, dst, ok := addressesOf(ip)
	if !ok || !dst.IsGlobalUnicast() || dst.Is4() && dst.As4()[0] == 0 {
		return netip.Addr{}
	}
	return dst
}

// addressesOf reads source and destination of an IP packet.
func addressesOf(ip []byte) (src, dst netip.Addr, ok bool) {
	switch {
	case len(ip) >= wire.IPv4Header && ip[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20])), true
	case len(ip) >= wire.IPv6Header && ip[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40])), true
	}
	return src, dst, false
}

// trimPadding removes bytes after the end of an IP packet, such as the padding of a short
// frame. It returns false if the packet is incomplete.
func trimPadding(ip []byte) ([]byte, wire.IP, bool) {
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
