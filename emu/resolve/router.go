package resolve

import (
	"net/netip"

	"github.com/weftlab/weft/emu/addr"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
)

// Default pools for the routers' own addresses.
const (
	routerPool4 = "10.255.0.0/16"
	routerPool6 = "fd00:ffff::/64"
)

// findRouters finds the switches that are routers.
func (v *addressing) findRouters() (routers []int) {
	kind := v.auto
	for i := range v.plan.Nodes {
		n, file := &v.plan.Nodes[i], v.nodeFileOf(i)
		if n.Kind != plan.Switch {
			continue
		}
		is := kind != nil && bool(*kind)
		if len(file.Address) > 0 {
			is = file.Address[0].Word != "none"
		}
		for j := range file.Ports {
			port := &file.Ports[j].Value
			if len(port.Address) == 0 {
				continue
			}
			if len(file.Address) > 0 && !is {
				v.ReportFault(&port.Address, "leave out either address: none or this", "%s has address: none, but an address at a port makes it a router", n.Name)
			}
			is = true
		}
		if is {
			n.Router = &plan.Router{}
			routers = append(routers, i)
		}
	}
	return routers
}

// hostAddresses checks the key address of a host.
func (v *addressing) hostAddresses(list yamlfile.OneOrMore[labfile.NodeAddress]) (out []placed) {
	for i := range list {
		a := &list[i]
		switch {
		case a.Word != "":
			v.ReportFault(a, "leave address out to get one from the pools", "address: %s is for switches", a.Word)
		case a.Bare:
			ip, length := a.Prefix.Addr(), 24
			if ip.Is6() {
				length = 64
			}
			v.ReportFault(a, "", "the address %s lacks its prefix length: write for example %s/%d", ip, ip, length)
		default:
			out = append(out, placed{a.Prefix, a})
		}
	}
	return out
}

// routerAddresses checks the key address of a switch.
func (v *addressing) routerAddresses(list yamlfile.OneOrMore[labfile.NodeAddress]) (out []placed) {
	for i := range list {
		a := &list[i]
		switch {
		case a.Word != "" && len(list) > 1:
			v.ReportFault(a, "missing addresses come from the pools", "%s must be the only entry", a.Word)
		case a.Word != "":
		case a.Prefix.Bits() < a.Prefix.Addr().BitLen():
			v.ReportFault(a, "write it under ports: to give it to a port",
				"the router's own address must not have a prefix length: write %s", a.Prefix.Addr())
		default:
			out = append(out, placed{a.Prefix, a})
		}
	}
	return out
}

// automaticRouters gives every router its own address for each version of IP in
// the lab, as for hosts: router number i in the order of the plan gets the i-th
// address of the pool.
func (v *addressing) automaticRouters(routers []int, taken map[netip.Addr]any) {
	file := v.file
	for _, family := range []struct {
		hosts, file *labfile.Pool
		standard    string
		ipv6        bool
	}{{file.IPv4, file.Routers.IPv4, routerPool4, false}, {file.IPv6, file.Routers.IPv6, routerPool6, true}} {
		prefix := netip.MustParsePrefix(family.standard)
		if family.hosts != nil && *family.hosts == (labfile.Pool{}) {
			prefix = netip.Prefix{} // the lab does not use this version
		}
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
		spare := uint64(len(routers))
		for i, n := range routers {
			r := v.plan.Nodes[n].Router
			if speaksOwn(r, family.ipv6) {
				continue
			}
			ip := addr.Nth(prefix, uint64(i+1))
			for taken[ip] != nil {
				spare++
				ip = addr.Nth(prefix, spare)
			}
			if !ip.IsValid() {
				v.ReportFault(family.file, "write a larger pool under addressing: {routers: ...}, or none",
					"the pool %v has no address for the router %s", prefix, v.plan.Nodes[n].Name)
				break
			}
			r.Addresses = append(r.Addresses, ip)
		}
	}
}

// speaksOwn reports whether a router has its own address of a version of IP.
func speaksOwn(r *plan.Router, ipv6 bool) bool {
	for _, a := range r.Addresses {
		if a.Is6() == ipv6 {
			return true
		}
	}
	return false
}
