package labfile

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/weftlab/weft/emu/addr"
)

// Prefixes returns the prefixes that a destination stands for; nil for a name.
func (d *Destination) Prefixes() []netip.Prefix {
	switch {
	case d.Any:
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	case d.Name == "":
		return []netip.Prefix{d.Prefix}
	}
	return nil
}

// Address is the address of an interface with its prefix length.
type Address netip.Prefix

// UnmarshalText reads a unicast address with a length, such as 10.0.9.1/24.
func (a *Address) UnmarshalText(b []byte) error {
	text := string(b)
	if ip, err := netip.ParseAddr(text); err == nil {
		length := 24
		if ip.Is6() {
			length = 64
		}
		return fmt.Errorf("%q lacks its prefix length: write for example %s/%d", text, text, length)
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return fmt.Errorf("%q is not an address: write for example 10.0.9.1/24 or fd00::1/64", text)
	}
	ip := p.Addr()
	switch {
	case !addr.IsUnicast(ip):
		return fmt.Errorf("%s is not a host address", ip)
	case p.Bits() < ip.BitLen()-1 && ip == p.Masked().Addr():
		return fmt.Errorf("%s is the network address of %s: write for example %s/%d", ip, p, ip.Next(), p.Bits())
	case ip.Is4() && p.Bits() < 31 && ip == addr.Last(p):
		return fmt.Errorf("%s is the broadcast address of %s: write for example %s/%d", ip, p.Masked(), ip.Prev(), p.Bits())
	}
	*a = Address(p)
	return nil
}

// NodeAddress is the address of a node: of a host with its prefix length, of a
// router without one, or auto or none.
type NodeAddress struct {
	Word   string       // auto or none
	Prefix netip.Prefix // otherwise
	Bare   bool         // without a prefix length
}

// UnmarshalText reads an address such as 10.0.9.1/24 or 10.255.0.1, or auto or
// none.
func (a *NodeAddress) UnmarshalText(b []byte) error {
	if text := string(b); text == "auto" || text == "none" {
		*a = NodeAddress{Word: text}
		return nil
	}
	if ip, err := netip.ParseAddr(string(b)); err == nil && ip.Zone() == "" && !ip.Is4In6() {
		if !addr.IsUnicast(ip) {
			return fmt.Errorf("%s is not a host address", ip)
		}
		*a = NodeAddress{Prefix: netip.PrefixFrom(ip, ip.BitLen()), Bare: true}
		return nil
	}
	var with Address
	err := with.UnmarshalText(b)
	*a = NodeAddress{Prefix: netip.Prefix(with)}
	return err
}

// AutoAddress says whether switches are routers.
type AutoAddress bool

// UnmarshalText reads auto or none.
func (a *AutoAddress) UnmarshalText(b []byte) error {
	switch string(b) {
	case "auto":
		*a = true
	case "none":
		*a = false
	default:
		return fmt.Errorf("%q must be one of auto, none: write the address of a single router at its node", b)
	}
	return nil
}

// Pool is the pool of addresses for hosts that name none; the zero pool means
// none.
type Pool netip.Prefix

// UnmarshalText reads a prefix such as 10.0.0.0/16, or none.
func (p *Pool) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "none" {
		*p = Pool{}
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return fmt.Errorf("%q is not a pool of addresses: write for example 10.0.0.0/16 or fd00::/64, or none", text)
	}
	if prefix.Masked() != prefix {
		return fmt.Errorf("%s is not the start of its network: write %s", text, prefix.Masked())
	}
	if !addr.IsUnicast(prefix.Addr()) {
		return fmt.Errorf("%s has no host addresses", text)
	}
	*p = Pool(prefix)
	return nil
}

// Destination is the destination of a route. Any is the default route; that of a
// host is of the family of its gateway. Name is set if it is neither the default
// nor a prefix.
type Destination struct {
	Any    bool
	Prefix netip.Prefix
	Name   string
}

// UnmarshalText reads a prefix such as 10.9.0.0/16, default, or a name.
func (d *Destination) UnmarshalText(b []byte) error {
	if string(b) == "default" {
		*d = Destination{Any: true}
		return nil
	}
	p, err := netip.ParsePrefix(string(b))
	if err != nil || p.Addr().Is4In6() {
		*d = Destination{Name: string(b)}
		return nil
	}
	if p.Masked() != p {
		return fmt.Errorf("%s is not the start of its network: write %s", p, p.Masked())
	}
	*d = Destination{Prefix: p}
	return nil
}

// String returns d as it is written in a file.
func (d Destination) String() string {
	switch {
	case d.Any:
		return "default"
	case d.Name != "":
		return d.Name
	}
	return d.Prefix.String()
}

// MAC is the Ethernet address of an interface.
type MAC [6]byte

// UnmarshalText reads a unicast address such as 02:00:00:00:00:01.
func (m *MAC) UnmarshalText(b []byte) error {
	hw, err := net.ParseMAC(string(b))
	if err != nil || len(hw) != len(m) {
		return fmt.Errorf("%q is not an Ethernet address: write for example 02:00:00:00:00:01", b)
	}
	*m = MAC(hw)
	if m[0]&1 != 0 || *m == (MAC{}) {
		return fmt.Errorf("%s is not the address of an interface: its first byte must be even, and not all bytes may be 0", hw)
	}
	return nil
}

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }
