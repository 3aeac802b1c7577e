// Package addr counts in IP addresses and prefixes.
package addr

import "net/netip"

// IsUnicast reports whether ip can be the address of a host on a link.
func IsUnicast(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// Nth returns the i-th address of a prefix, or the zero Addr beyond its hosts.
func Nth(p netip.Prefix, i uint64) netip.Addr {
	if !p.IsValid() {
		return netip.Addr{}
	}
	ip := add(p.Addr(), i)
	if !p.Contains(ip) || ip.Is4() && p.Bits() < 31 && ip == Last(p) {
		return netip.Addr{}
	}
	return ip
}

// add returns the address i after ip, or the zero Addr beyond the last.
func add(ip netip.Addr, i uint64) netip.Addr {
	b := ip.AsSlice()
	for at := len(b) - 1; at >= 0 && i > 0; at-- {
		i += uint64(b[at])
		b[at] = byte(i)
		i >>= 8
	}
	if i > 0 {
		return netip.Addr{}
	}
	sum, _ := netip.AddrFromSlice(b)
	return sum
}

// Last returns the last address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// Following returns the next prefix of equal size, or the zero Prefix after the last.
func Following(p netip.Prefix) netip.Prefix {
	if !p.IsValid() {
		return netip.Prefix{}
	}
	next := Last(p).Next()
	if !next.IsValid() || !IsUnicast(next) {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(next, p.Bits())
}
