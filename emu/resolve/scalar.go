package resolve

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/weftlab/weft/emu/yamlfile"

	"github.com/weftlab/weft/emu/plan"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// count is a count of things that a generator makes.
type count int

// UnmarshalText reads a number from 1 to maxNodes.
func (c *count) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxNodes)
	*c = count(n)
	return err
}

// dilation is the factor by which a lab in the wall clock is slower than real
// time.
type dilation int

// UnmarshalText reads a number from 1 to MaxDilation.
func (d *dilation) UnmarshalText(b []byte) error {
	n, err := ParseDilation(string(b))
	*d = dilation(n)
	return err
}

// ParseDilation reads a dilation, such as "100": 1 to MaxDilation.
func ParseDilation(s string) (int, error) {
	n, err := yamlfile.ParseInt([]byte(s), 1, plan.MaxDilation)
	if err != nil {
		return n, fmt.Errorf("%w: dilation is the number of seconds of real time that one second of the lab takes", err)
	}
	return n, nil
}

// radix is the number of ports of a fat-tree's switches.
type radix int

// UnmarshalText reads an even number from 2 to maxRadix.
func (k *radix) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 2, maxRadix)
	if err == nil && n%2 != 0 {
		return fmt.Errorf("%d is odd: half of a switch's ports go up and half go down, so write %d or %d", n, n-1, n+1)
	}
	*k = radix(n)
	return err
}

// dscp is a differentiated services code point.
type dscp uint8

// UnmarshalText reads a number from 0 to 63.
func (d *dscp) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 0, 63)
	*d = dscp(n)
	return err
}

// ipVersion is 4 or 6.
type ipVersion uint8

// UnmarshalText reads 4 or 6.
func (v *ipVersion) UnmarshalText(b []byte) error {
	switch string(b) {
	case "4":
		*v = 4
	case "6":
		*v = 6
	default:
		return fmt.Errorf("%q must be one of 4, 6", b)
	}
	return nil
}

// address is the address of an interface with its prefix length.
type address netip.Prefix

// UnmarshalText reads a unicast address with a length, such as 10.0.9.1/24.
func (a *address) UnmarshalText(b []byte) error {
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
	case !isUnicast(ip):
		return fmt.Errorf("%s is not a host address", ip)
	case p.Bits() < ip.BitLen()-1 && ip == p.Masked().Addr():
		return fmt.Errorf("%s is the network address of %s: write for example %s/%d", ip, p, ip.Next(), p.Bits())
	case ip.Is4() && p.Bits() < 31 && ip == lastOf(p):
		return fmt.Errorf("%s is the broadcast address of %s: write for example %s/%d", ip, p.Masked(), ip.Prev(), p.Bits())
	}
	*a = address(p)
	return nil
}

// nodeAddress is the address of a node: of a host with its prefix length, of a
// router without one, or auto or none.
type nodeAddress struct {
	word   string       // auto or none
	prefix netip.Prefix // otherwise
	bare   bool         // without a prefix length
}

// UnmarshalText reads an address such as 10.0.9.1/24 or 10.255.0.1, or auto or
// none.
func (a *nodeAddress) UnmarshalText(b []byte) error {
	if text := string(b); text == "auto" || text == "none" {
		*a = nodeAddress{word: text}
		return nil
	}
	if ip, err := netip.ParseAddr(string(b)); err == nil && ip.Zone() == "" && !ip.Is4In6() {
		if !isUnicast(ip) {
			return fmt.Errorf("%s is not a host address", ip)
		}
		*a = nodeAddress{prefix: netip.PrefixFrom(ip, ip.BitLen()), bare: true}
		return nil
	}
	var with address
	err := with.UnmarshalText(b)
	*a = nodeAddress{prefix: netip.Prefix(with)}
	return err
}

// autoAddress says whether switches are routers.
type autoAddress bool

// UnmarshalText reads auto or none.
func (a *autoAddress) UnmarshalText(b []byte) error {
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

// isUnicast reports whether ip can be the address of a host on a link.
func isUnicast(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// pool is the pool of addresses for hosts that name none; the zero pool means
// none.
type pool netip.Prefix

// UnmarshalText reads a prefix such as 10.0.0.0/16, or none.
func (p *pool) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "none" {
		*p = pool{}
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return fmt.Errorf("%q is not a pool of addresses: write for example 10.0.0.0/16 or fd00::/64, or none", text)
	}
	if prefix.Masked() != prefix {
		return fmt.Errorf("%s is not the start of its network: write %s", text, prefix.Masked())
	}
	if !isUnicast(prefix.Addr()) {
		return fmt.Errorf("%s has no host addresses", text)
	}
	*p = pool(prefix)
	return nil
}

// destination is the destination of a route. Any is the default route; that of a
// host is of the family of its gateway. Name is set if it is neither the default
// nor a prefix.
type destination struct {
	any    bool
	prefix netip.Prefix
	name   string
}

// UnmarshalText reads a prefix such as 10.9.0.0/16, default, or a name.
func (d *destination) UnmarshalText(b []byte) error {
	if string(b) == "default" {
		*d = destination{any: true}
		return nil
	}
	p, err := netip.ParsePrefix(string(b))
	if err != nil || p.Addr().Is4In6() {
		*d = destination{name: string(b)}
		return nil
	}
	if p.Masked() != p {
		return fmt.Errorf("%s is not the start of its network: write %s", p, p.Masked())
	}
	*d = destination{prefix: p}
	return nil
}

// String returns d as it is written in a file.
func (d destination) String() string {
	switch {
	case d.any:
		return "default"
	case d.name != "":
		return d.name
	}
	return d.prefix.String()
}

// parseGateway reads the address of a route's next hop, such as 10.0.0.254.
func parseGateway(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Is4In6() || ip.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not a gateway address: write for example 10.0.0.254", text)
	}
	return ip, nil
}

// mac is the Ethernet address of an interface.
type mac [6]byte

// UnmarshalText reads a unicast address such as 02:00:00:00:00:01.
func (m *mac) UnmarshalText(b []byte) error {
	hw, err := net.ParseMAC(string(b))
	if err != nil || len(hw) != len(m) {
		return fmt.Errorf("%q is not an Ethernet address: write for example 02:00:00:00:00:01", b)
	}
	*m = mac(hw)
	if m[0]&1 != 0 || *m == (mac{}) {
		return fmt.Errorf("%s is not the address of an interface: its first byte must be even, and not all bytes may be 0", hw)
	}
	return nil
}

func (m mac) String() string { return net.HardwareAddr(m[:]).String() }

// privateDir is a directory of which a host has its own copy.
type privateDir string

// UnmarshalText reads a path, such as /tmp.
func (d *privateDir) UnmarshalText(b []byte) error {
	*d = privateDir(b)
	return netnslab.CheckPrivate(string(b))
}

// checkSysctl checks a kernel setting by its key. The key becomes a path below
// /proc/sys, where only net. is specific to one host.
func checkSysctl(key, value string) error {
	parts := strings.Split(key, ".")
	for _, p := range parts {
		if !wordPattern.MatchString(p) {
			return fmt.Errorf("%q is not a sysctl: write for example net.ipv4.tcp_ecn", key)
		}
	}
	if parts[0] != "net" || len(parts) < 3 {
		return fmt.Errorf("%q is not specific to a host: only sysctls that begin with net. are, such as net.ipv4.tcp_ecn", key)
	}
	if value == "" || len(value) > 256 || strings.ContainsAny(value, "\n\x00") {
		return errors.New("the value of a sysctl must be one line of at most 256 characters")
	}
	return nil
}
