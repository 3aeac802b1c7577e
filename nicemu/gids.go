package nicemu

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/wire"
)

// gids is the GID table of the port, as addresses. An entry keeps its index until it is removed,
// and leaves a gap, which the next entry fills (drivers/infiniband/core/cache.c of Linux).
type gids struct {
	table []netip.Addr // the zero Addr is a gap
	own   []netip.Addr // of table: all but the default GID and gaps
	first netip.Addr   // the default GID; the zero Addr if there is none
}

// LinkLocal returns the link-local address that IPv6 makes of an Ethernet address (RFC 4291
// appendix A). It is the default GID of a port.
func LinkLocal(m wire.MAC) netip.Addr {
	m ^= 2 << 40 // universal or local
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80, 8: byte(m >> 40), 9: byte(m >> 32), 10: byte(m >> 24), 11: 0xff, 12: 0xfe, 13: byte(m >> 16), 14: byte(m >> 8), 15: byte(m),
	})
}

// isLinkLocal reports whether an address is of IPv6 and for one link only.
func isLinkLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }

func (g *gids) setTable(own []netip.Addr, first netip.Addr) {
	g.own, g.first, g.table = slices.Clone(own), first, slices.Clone(own)
	if first.IsValid() && !slices.Contains(own, first) {
		g.table = append(g.table, first)
	}
}

func (g *gids) updateOwn() {
	g.own = nil // callers may have the old one
	for _, a := range g.table {
		if a.IsValid() && a != g.first {
			g.own = append(g.own, a)
		}
	}
}

// AddAddress adds an address of the interface to the GID table, and raises EventGIDChange. Without
// room it changes nothing, as if the table of a real NIC is full.
func (d *Device) AddAddress(a netip.Addr) {
	g := &d.gids
	if !a.IsValid() || slices.Contains(g.table, a) {
		return
	}
	switch i := slices.Index(g.table, netip.Addr{}); {
	case i >= 0:
		g.table[i] = a
	case len(g.table) < d.settings.Limits.GIDs:
		g.table = append(g.table, a)
	default:
		return
	}
	g.updateOwn()
	d.raiseGIDChange()
}

// RemoveAddress removes an address of the interface from the GID table, and raises EventGIDChange.
// The default GID stays. Queue pairs that use the address continue, as they hold their entry on
// Linux; they get no datagrams for it.
func (d *Device) RemoveAddress(a netip.Addr) {
	g := &d.gids
	i := slices.Index(g.table, a)
	if i < 0 || !a.IsValid() || a == g.first {
		return
	}
	g.table[i] = netip.Addr{}
	g.updateOwn()
	d.raiseGIDChange()
}

func (d *Device) raiseGIDChange() {
	d.dropEvents(func(e AsyncEvent) bool { return e.Kind == qp.GIDChange })
	d.raiseEvent(AsyncEvent{Kind: qp.GIDChange, Port: 1})
}

// Addresses returns the addresses of the port's GID table, without its default GID. Do not modify
// the list.
func (d *Device) Addresses() []netip.Addr { return d.gids.own }

// GIDs returns the port's GID table, as addresses; the zero Addr is an empty entry. Do not modify
// it.
func (d *Device) GIDs() []netip.Addr { return d.gids.table }

// addressAt returns the address of an entry of the GID table. EINVAL: there is none.
func (d *Device) addressAt(index int) (netip.Addr, error) {
	if index < 0 || index >= len(d.gids.table) || !d.gids.table[index].IsValid() {
		return netip.Addr{}, fmt.Errorf("%w: %s has no GID %d: it has %v", syscall.EINVAL, d.env.Name, index, d.gids.table)
	}
	return d.gids.table[index], nil
}

// QueryGID returns an entry of the port's GID table (ibv_query_gid(3)). EINVAL: there is no such
// entry.
func (d *Device) QueryGID(index int) (qp.GID, error) {
	a, err := d.addressAt(index)
	if err != nil {
		return qp.GID{}, err
	}
	return GID(a), nil
}

// GIDIndex returns the index of an address in the GID table. EADDRNOTAVAIL: it is not there.
func (d *Device) GIDIndex(a netip.Addr) (uint8, error) {
	if i := slices.Index(d.gids.table, a); i >= 0 && a.IsValid() {
		return uint8(i), nil
	}
	return 0, fmt.Errorf("%w: %v is not an address of %s", syscall.EADDRNOTAVAIL, a, d.env.Name)
}

// ownsAddress reports whether an address is the port's.
func (d *Device) ownsAddress(a netip.Addr) bool { return slices.Contains(d.gids.table, a) }

// sourceFor returns the device's first address of the same IP version as to. Link-local addresses
// reach each other only.
func (d *Device) sourceFor(to netip.Addr) (netip.Addr, error) {
	for _, a := range d.gids.table {
		if a.IsValid() && a.Is4() == to.Is4() && isLinkLocal(a) == isLinkLocal(to) {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: %s has no address of the IP version of %v", syscall.EADDRNOTAVAIL, d.env.Name, to)
}

// EthernetOf returns the Ethernet address that LinkLocal makes a link-local address of; false for
// other addresses.
func EthernetOf(a netip.Addr) (m wire.MAC, ok bool) {
	b := a.As16()
	for _, i := range [...]int{8, 9, 10, 13, 14, 15} {
		m = m<<8 | wire.MAC(b[i])
	}
	m ^= 2 << 40
	return m, isLinkLocal(a) && a.WithZone("") == LinkLocal(m)
}
