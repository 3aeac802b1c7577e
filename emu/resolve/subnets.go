package resolve

import (
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/addr"
	"github.com/weftlab/weft/emu/plan"
)

// segment is a broadcast domain with hosts.
type segment struct {
	routers, hosts []plan.End
}

// findSegments returns the domains that have hosts, in the order of their first
// host.
func (v *addressing) findSegments(hosts, routers []int) (all []*segment) {
	of := map[int]*segment{}
	for _, h := range hosts {
		for p, domain := range v.domain[h] {
			if of[domain] == nil {
				of[domain] = &segment{}
				all = append(all, of[domain])
			}
			of[domain].hosts = append(of[domain].hosts, plan.End{Node: h, Port: p})
		}
	}
	for _, r := range routers {
		for p, domain := range v.domain[r] {
			if s := of[domain]; s != nil {
				s.routers = append(s.routers, plan.End{Node: r, Port: p})
			}
		}
	}
	return all
}

// endsWithoutAddress returns the ports of a segment without an address of a version of IP,
// ports of routers first.
func (v *addressing) endsWithoutAddress(s *segment, ipv6 bool) (ends []plan.End) {
	for _, e := range slices.Concat(s.routers, s.hosts) {
		if !plan.HasFamily(v.plan.Nodes[e.Node].Ports[e.Port].Addresses, ipv6) {
			ends = append(ends, e)
		}
	}
	return ends
}

// assignSubnets gives each segment a subnet, and the next free address to every
// interface in it that has none of the pool's family, ports of routers first. A
// segment with an address in the file uses the subnet of that address; each of
// the others gets a part of the pool. Place is where the pool is set.
func (v *addressing) assignSubnets(hosts, routers []int, pool netip.Prefix, taken map[netip.Addr]any, place any) {
	ipv6 := pool.Addr().Is6()
	reserved := v.reservedPrefixes(ipv6)
	var carved []*segment
	var bits []int
	for _, s := range v.findSegments(hosts, routers) {
		lack := v.endsWithoutAddress(s, ipv6)
		if len(lack) == 0 {
			continue
		}
		if subnet, ok := v.explicitSubnet(s, len(lack), ipv6, taken); ok {
			v.assignAddresses(subnet, lack, taken)
			continue
		}
		carved = append(carved, s)
		n := 2
		for 1<<n-2 < len(lack) {
			n++
		}
		bits = append(bits, n)
	}
	parts, ok := carveSubnets(pool, bits, reserved)
	if !ok {
		v.ReportFault(place, "write a larger pool under addressing:, or smaller subnets where the file gives addresses",
			"the pool %v is too small for subnets for %d broadcast domains", pool, len(carved))
		return
	}
	for i, s := range carved {
		v.assignAddresses(parts[i], v.endsWithoutAddress(s, ipv6), taken)
	}
}

// explicitSubnet returns the subnet of the first router port in a segment with
// an address in the file. Without one, it returns the subnet of the first host
// that has room for all ports that lack an address.
func (v *addressing) explicitSubnet(s *segment, lack int, ipv6 bool, taken map[netip.Addr]any) (netip.Prefix, bool) {
	for i, e := range slices.Concat(s.routers, s.hosts) {
		for _, a := range v.plan.Nodes[e.Node].Ports[e.Port].Addresses {
			if a.Addr().Is6() != ipv6 {
				continue
			}
			if i < len(s.routers) || hasRoom(a, lack, taken) {
				return a.Masked(), true
			}
		}
	}
	return netip.Prefix{}, false
}

// hasRoom reports whether n addresses of a prefix are free.
func hasRoom(p netip.Prefix, n int, taken map[netip.Addr]any) bool {
	for i := uint64(1); n > 0; i++ {
		ip := addr.Nth(p.Masked(), i)
		if !ip.IsValid() {
			return false
		}
		if taken[ip] == nil {
			n--
		}
	}
	return true
}

// assignAddresses gives ports the free addresses of a subnet in order.
func (v *addressing) assignAddresses(subnet netip.Prefix, ends []plan.End, taken map[netip.Addr]any) {
	next := uint64(0)
	for _, e := range ends {
		next++
		ip := addr.Nth(subnet, next)
		for taken[ip] != nil {
			next++
			ip = addr.Nth(subnet, next)
		}
		if !ip.IsValid() {
			var first netip.Addr // lowest address in the file
			for a := range taken {
				if subnet.Contains(a) && (!first.IsValid() || a.Less(first)) {
					first = a
				}
			}
			v.ReportFault(taken[first], "write a shorter prefix, or give every interface in it an address", "the subnet %v has no address left for %s",
				subnet, v.plan.PortName(e.Node, e.Port))
			return
		}
		port := &v.plan.Nodes[e.Node].Ports[e.Port]
		port.Addresses = append(port.Addresses, netip.PrefixFrom(ip, subnet.Bits()))
	}
}

// reservedPrefixes returns the subnets that the file uses and the own addresses of
// routers.
func (v *addressing) reservedPrefixes(ipv6 bool) (prefixes []netip.Prefix) {
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		for j := range n.Ports {
			for _, a := range n.Ports[j].Addresses {
				if a.Addr().Is6() == ipv6 {
					prefixes = append(prefixes, a.Masked())
				}
			}
		}
		if n.Router == nil {
			continue
		}
		for _, a := range n.Router.Addresses {
			if a.Is6() == ipv6 {
				prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return slices.Compact(prefixes)
}

// carveSubnets cuts subnets with at least the given bits for hosts out of a pool, and
// skips what is reserved. All get one byte (IPv4) or two (IPv6) for hosts if
// the pool has room for that, so that they are easy to read; otherwise less,
// down to what each needs.
func carveSubnets(pool netip.Prefix, bits []int, reserved []netip.Prefix) ([]netip.Prefix, bool) {
	wish := 8
	if pool.Addr().Is6() {
		wish = 16
	}
	for ; wish >= 2; wish-- {
		if parts, ok := carveAt(pool, wish, bits, reserved); ok {
			return parts, true
		}
	}
	return nil, len(bits) == 0
}

func carveAt(pool netip.Prefix, wish int, bits []int, reserved []netip.Prefix) (parts []netip.Prefix, ok bool) {
	next := pool.Addr()
	for _, n := range bits {
		length := pool.Addr().BitLen() - max(n, wish)
		if length < pool.Bits() {
			return nil, false
		}
		for {
			if !next.IsValid() || !pool.Contains(next) {
				return nil, false
			}
			part := netip.PrefixFrom(next, length).Masked()
			if part.Addr() != next {
				next = addr.Last(part).Next()
				continue
			}
			at := slices.IndexFunc(reserved, part.Overlaps)
			if at < 0 {
				parts = append(parts, part)
				next = addr.Last(part).Next()
				break
			}
			if wide := reserved[at]; wide.Bits() < length {
				part = wide
			}
			next = addr.Last(part).Next()
		}
	}
	return parts, true
}

// checkSubnets reports overlapping subnets of separate domains: an interface in
// one would take an address in the other for a neighbour.
func (v *addressing) checkSubnets(taken map[netip.Addr]any) {
	type owner struct {
		domain  int
		name    string
		address netip.Addr
	}
	routed := map[int]bool{}
	for n, domains := range v.domain {
		for _, d := range domains {
			routed[d] = routed[d] || v.plan.Nodes[n].Router != nil
		}
	}
	owners := map[netip.Prefix]owner{}
	var order []netip.Prefix
	add := func(p netip.Prefix, o owner) {
		if old, there := owners[p]; there && old.domain != o.domain {
			v.reportOverlap(p, o.name, o.address, p, old.name, old.address, taken)
		} else if !there {
			owners[p] = o
			order = append(order, p)
		}
	}
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		for j := range n.Ports {
			for _, a := range n.Ports[j].Addresses {
				if d := v.domain[i][j]; routed[d] {
					add(a.Masked(), owner{d, v.plan.PortName(i, j), a.Addr()})
				}
			}
		}
		if n.Router != nil {
			for _, a := range n.Router.Addresses {
				add(netip.PrefixFrom(a, a.BitLen()), owner{-1 - i, n.Name, a})
			}
		}
	}
	for _, p := range order {
		for bits := p.Bits() - 1; bits >= 0; bits-- {
			wide, _ := p.Addr().Prefix(bits)
			if in, there := owners[wide]; there && in.domain != owners[p].domain {
				o := owners[p]
				v.reportOverlap(p, o.name, o.address, wide, in.name, in.address, taken)
				break
			}
		}
	}
}

// reportOverlap reports that the subnet of one lies in the subnet of another.
func (v *addressing) reportOverlap(p netip.Prefix, name string, address netip.Addr, in netip.Prefix, other string, otherAddress netip.Addr, taken map[netip.Addr]any) {
	place := taken[address]
	if place == nil {
		place = taken[otherAddress]
	}
	if place == nil {
		place = v.file
	}
	v.ReportFault(place, "broadcast domains need separate subnets: write other addresses, or a longer prefix",
		"%v of %s lies in %v of %s, which is another broadcast domain", p, name, in, other)
}
