package resolve

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/addr"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// addressing gives nodes their Ethernet and IP addresses.
type addressing struct {
	*base
	file   *labfile.Addressing
	auto   *labfile.AutoAddress // whether switches are routers that do not say
	domain [][]int              // broadcast domain of each port of each node
}

// resolveAddresses gives every interface its Ethernet and IP addresses.
//
// Host number i, counted from 1 in the order of the plan, gets the i-th address of the pool
// on its first interface. Each further interface takes its address in the same way from the
// next pool of equal size. An address that the file assigns is never given out again; the
// host that would have got it gets the first free one after the addresses of all hosts.
//
// In a lab with routers, and in one whose hosts would not reach each other that way
// (apart), every broadcast domain gets its own subnet instead: see subnets.go.
func (v *addressing) resolveAddresses() {
	routers := v.findRouters()
	taken, takenMAC := v.explicitAddresses()
	var hosts []int
	for i := range v.plan.Nodes {
		if v.plan.Nodes[i].Kind == plan.Host {
			hosts = append(hosts, i)
		}
	}
	v.automaticMACs(slices.Concat(hosts, routers), takenMAC)

	v.domain = v.plan.Domains()
	if len(routers) > 0 {
		v.automaticRouters(routers, taken)
	}
	bySubnet := len(routers) > 0 || v.apart(hosts)
	file := v.file
	for _, family := range []struct {
		file     *labfile.Pool
		standard string
		ipv6     bool
	}{{file.IPv4, "10.0.0.0/16", false}, {file.IPv6, "fd00::/64", true}} {
		prefix := netip.MustParsePrefix(family.standard)
		if family.file != nil {
			prefix = netip.Prefix(*family.file)
		}
		if !prefix.IsValid() {
			continue
		}
		if prefix.Addr().Is6() != family.ipv6 {
			v.ReportFault(family.file, "", "%s has the wrong IP version", prefix)
			continue
		}
		if bySubnet {
			v.assignSubnets(hosts, routers, prefix, taken, family.file)
			continue
		}
		v.automaticAddresses(hosts, prefix, taken, family.file)
	}
	if len(routers) > 0 {
		v.checkSubnets(taken)
	}
}

// explicitAddresses assigns the addresses that the file gives, and returns where in the file
// each one is assigned.
func (v *addressing) explicitAddresses() (map[netip.Addr]any, map[[6]byte]any) {
	taken, takenMAC := map[netip.Addr]any{}, map[[6]byte]any{}
	give := func(p *plan.Port, list []placed) {
		for _, a := range list {
			if v.recordAddress(taken, a) {
				p.Addresses = append(p.Addresses, a.Prefix)
			}
		}
	}
	giveMAC := func(p *plan.Port, m *labfile.MAC) {
		if m == nil {
			return
		}
		if other, ok := takenMAC[*m]; ok {
			v.ReportFault(m, "every interface needs its own", "the Ethernet address %v is already used on line %d", m, v.Line(other))
			return
		}
		takenMAC[*m] = m
		p.MAC = *m
	}
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		if n.Kind != plan.Host {
			if n.Router == nil {
				continue
			}
			for _, a := range v.routerAddresses(file.Address) {
				if v.recordAddress(taken, a) {
					n.Router.Addresses = append(n.Router.Addresses, a.Addr())
				}
			}
			for j := range file.Ports {
				if end, ok := v.ports[n.Name+":"+file.Ports[j].Name]; ok {
					give(&n.Ports[end.Port], placePrefixes(file.Ports[j].Value.Address))
				}
			}
			continue
		}
		give(&n.Ports[0], v.hostAddresses(file.Address))
		giveMAC(&n.Ports[0], file.MAC)
		for j := range file.Interfaces {
			e := &file.Interfaces[j]
			end, ok := v.ports[n.Name+":"+e.Name]
			if !ok {
				continue // portSettings has reported it
			}
			if end.Port == 0 && len(file.Address) > 0 && len(e.Value.Address) > 0 {
				v.ReportFault(&e.Value.Address, "the node's address is the address of its first interface", "%s has addresses in two places", v.plan.PortName(i, 0))
			}
			if end.Port == 0 && file.MAC != nil && e.Value.MAC != nil {
				v.ReportFault(e.Value.MAC, "the node's mac is the mac of its first interface", "%s has a mac in two places", v.plan.PortName(i, 0))
			}
			give(&n.Ports[end.Port], placePrefixes(e.Value.Address))
			giveMAC(&n.Ports[end.Port], e.Value.MAC)
		}
	}
	return taken, takenMAC
}

// placed is an address in the file and its place.
type placed struct {
	netip.Prefix
	at any
}

func placePrefixes(list yamlfile.OneOrMore[labfile.Address]) (out []placed) {
	for i := range list {
		out = append(out, placed{netip.Prefix(list[i]), &list[i]})
	}
	return out
}

// recordAddress records that an address is in use, unless it is already taken.
func (v *addressing) recordAddress(taken map[netip.Addr]any, a placed) bool {
	if other, ok := taken[a.Addr()]; ok {
		v.ReportFault(a.at, "every interface needs its own", "the address %s is already used on line %d", a.Addr(), v.Line(other))
		return false
	}
	taken[a.Addr()] = a.at
	return true
}

// automaticMACs counts from 02:00:00:00:00:01 over the interfaces of all hosts and then of
// routers, and skips addresses that the file assigns. The first byte marks the address as
// locally administered (IEEE 802 §8.4).
func (v *addressing) automaticMACs(hosts []int, taken map[[6]byte]any) {
	next := uint32(0)
	for _, h := range hosts {
		for p := range v.plan.Nodes[h].Ports {
			next++
			port := &v.plan.Nodes[h].Ports[p]
			if port.MAC != [6]byte{} {
				continue
			}
			for {
				port.MAC = [6]byte{0: 2}
				binary.BigEndian.PutUint32(port.MAC[2:], next)
				if taken[port.MAC] == nil {
					break
				}
				next++
			}
		}
	}
}

// automaticAddresses gives an address to every interface that has none of the pool's family.
// Place is where the pool is set.
func (v *addressing) automaticAddresses(hosts []int, first netip.Prefix, taken map[netip.Addr]any, place any) {
	given := map[netip.Addr]bool{}
	pools := []netip.Prefix{first} // of the first interface, the second, ...
	spare := []uint64{0}           // addresses of each that replaced taken ones
	for i, h := range hosts {
		n := &v.plan.Nodes[h]
		for p := range n.Ports {
			if plan.HasFamily(n.Ports[p].Addresses, first.Addr().Is6()) {
				continue
			}
			for len(pools) <= p {
				pools, spare = append(pools, addr.Following(pools[len(pools)-1])), append(spare, 0)
			}
			ip := addr.Nth(pools[p], uint64(i+1))
			for taken[ip] != nil || given[ip] {
				spare[p]++
				ip = addr.Nth(pools[p], uint64(len(hosts))+spare[p])
			}
			if !ip.IsValid() {
				hint := "write a larger pool under addressing:, or none"
				if !pools[p].IsValid() {
					hint = "there is no pool of the same size after it for other interfaces"
				}
				v.ReportFault(place, hint, "the pool %v has no address for %s", first, v.plan.PortName(h, p))
				return
			}
			given[ip] = true
			n.Ports[p].Addresses = append(n.Ports[p].Addresses, netip.PrefixFrom(ip, pools[p].Bits()))
		}
	}
}

// apart reports whether addresses that are counted over hosts would keep hosts apart: a
// host has interfaces in several broadcast domains, and among the hosts that these domains
// join, directly or through others, the n-th interfaces, which have addresses of one pool,
// are in different domains. An example is a full mesh of links between hosts.
func (v *addressing) apart(hosts []int) bool {
	// The domains of one host, and so of all that they join, have the same root.
	root := map[int]int{}
	find := func(d int) int {
		for root[d] != 0 && root[d] != d {
			d = root[d]
		}
		return d
	}
	several := false
	for _, h := range hosts {
		for _, d := range v.domain[h][1:] {
			if a, b := find(v.domain[h][0]), find(d); a != b {
				root[b], several = a, true
			}
		}
	}
	if !several {
		return false
	}
	type place struct{ root, index int }
	found := map[place]int{}
	shared := map[int]bool{} // roots with a host in several domains
	mixed := map[int]bool{}
	for _, h := range hosts {
		for i, d := range v.domain[h] {
			at := place{find(d), i}
			shared[at.root] = shared[at.root] || d != v.domain[h][0]
			if other, there := found[at]; there && other != d {
				mixed[at.root] = true
			}
			found[at] = d
		}
	}
	for r := range mixed {
		if shared[r] {
			return true
		}
	}
	return false
}

func hasRoute(routes []plan.Route, to netip.Prefix) bool {
	return slices.ContainsFunc(routes, func(r plan.Route) bool { return r.To == to })
}

func anyContains(prefixes []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(ip) })
}
