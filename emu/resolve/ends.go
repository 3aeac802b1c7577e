package resolve

import (
	"path"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/traffic/workload"
)

// hostEnd is a host at an end of flows or transfers, and the interface that they use, if the
// file names one.
type hostEnd struct {
	host int
	port workload.Interface
}

// hostPair is the ends of a flow or transfer.
type hostPair struct{ from, to hostEnd }

func flowPair(f *workload.Flow) hostPair {
	return hostPair{hostEnd{f.From, f.FromPort}, hostEnd{f.To, f.ToPort}}
}

func transferPair(t *workload.Transfer) hostPair {
	return hostPair{hostEnd{t.From, t.FromPort}, hostEnd{t.To, t.ToPort}}
}

// endName returns the name of an end, such as h1 or h1:eth0.
func (v *traffic) endName(e hostEnd) string {
	if e.port == 0 {
		return v.plan.Nodes[e.host].Name
	}
	return v.plan.PortName(e.host, e.port.Port())
}

// pairName returns a name for two ends, such as h1-h2 or h1.eth0-h2.
func (v *traffic) pairName(p hostPair) string {
	return strings.ReplaceAll(v.endName(p.from)+"-"+v.endName(p.to), ":", ".")
}

// pairHosts pairs every end in from with every end in to on another host. The places are those
// of the two lists.
func (v *traffic) pairHosts(from, to []hostEnd, atFrom, atTo any) (pairs []hostPair) {
	if !v.checkRoom(len(from)*len(to), atFrom) {
		return nil
	}
	for _, f := range from {
		for _, t := range to {
			if f.host != t.host {
				pairs = append(pairs, hostPair{f, t})
			}
		}
	}
	if len(pairs) == 0 && len(from) > 0 && len(to) > 0 {
		v.ReportFault(atTo, "", "%s cannot send to itself", v.plan.Nodes[from[0].host].Name)
	}
	return pairs
}

// ends finds the hosts that an entry of the workload names, by name or by pattern, each
// possibly with an interface. With nic all of them must have a NIC.
func (v *traffic) ends(names yamlfile.OneOrMore[string], place any, nic bool) (all []hostEnd, ok bool) {
	ok = true
	there := map[hostEnd]bool{}
	for i := range names {
		found, good := v.matchEnds(&names[i])
		ok = ok && good
		for _, e := range found {
			switch {
			case there[e] && names[i] == v.endName(e):
				v.ReportFault(&names[i], "write another entry to send twice as much", "%s is listed twice", names[i])
				ok = false
			case there[e]:
			case nic && !v.hasNIC(e.host, &names[i]):
				ok = false
			default:
				all = append(all, e)
			}
			there[e] = true
		}
	}
	if len(names) == 0 {
		v.ReportFault(place, "name at least one host", "the list is empty")
		ok = false
	}
	return all, ok
}

// findHosts is ends for entries whose flows choose their interfaces by the hosts' routes.
func (v *traffic) findHosts(names yamlfile.OneOrMore[string], place any, nic bool) (hosts []int, ok bool) {
	ends, ok := v.ends(names, place, nic)
	for _, e := range ends {
		if e.port != 0 {
			v.ReportFault(place, "write "+v.plan.Nodes[e.host].Name+": the routes of the hosts choose; only from: and to: of flows of packets and RDMA transfers take interfaces",
				"%s is an interface, and here hosts take part", v.endName(e))
			return nil, false
		}
		hosts = append(hosts, e.host)
	}
	return hosts, ok
}

// wildcards are what makes a name a pattern of names.
const wildcards = `*?[\`

// matchEnds finds the end with a name, or those that a pattern matches.
func (v *traffic) matchEnds(name *string) (found []hostEnd, ok bool) {
	host, port, bound := strings.Cut(*name, ":")
	if !strings.ContainsAny(*name, wildcards) {
		e, ok := v.hostEnd(name)
		if !ok {
			return nil, false
		}
		return []hostEnd{e}, true
	}
	for _, p := range []string{host, port} {
		if _, err := path.Match(p, ""); err != nil {
			v.ReportFault(name, "a [ needs its ]: write for example h[12]", "%q is not a pattern", *name)
			return nil, false
		}
	}
	for i := range v.plan.Nodes {
		n := &v.plan.Nodes[i]
		if match, _ := path.Match(host, n.Name); !match || n.Kind != plan.Host {
			continue
		}
		if !bound {
			found = append(found, hostEnd{host: i})
			continue
		}
		for j := range n.Ports {
			if match, _ := path.Match(port, n.Ports[j].Name); match {
				found = append(found, hostEnd{i, workload.Interface(j + 1)})
			}
		}
	}
	switch {
	case len(found) > 0:
		return found, true
	case bound:
		v.ReportFault(name, "write host:interface, such as h1:eth0", "no interface of a host matches %q", *name)
	default:
		v.ReportFault(name, "the nodes are "+suggest.List(v.plan.NodeNames()), "no host matches %q", *name)
	}
	return nil, false
}

// hostEnd finds the host, or the interface of a host, with a name.
func (v *traffic) hostEnd(name *string) (hostEnd, bool) {
	var e hostEnd
	if _, port, bound := strings.Cut(*name, ":"); bound && port != "" {
		end, ok := v.findEnd(name)
		if !ok {
			return e, false
		}
		e = hostEnd{end.Node, workload.Interface(end.Port + 1)}
	} else {
		n, ok := v.findNode(name, *name)
		if !ok {
			return e, false
		}
		e.host = n
	}
	if v.plan.Nodes[e.host].Kind != plan.Host {
		v.ReportFault(name, "modelled traffic runs between hosts", "%s is a switch", v.plan.Nodes[e.host].Name)
		return e, false
	}
	return e, true
}

// chooseIPVersion chooses the version of IP between two ends, unless the file does. Place is where
// the file names the hosts.
func (v *traffic) chooseIPVersion(p hostPair, file *labfile.IPVersion, place any) (ipv6, ok bool) {
	ipv6 = !(v.hasIPVersion(p.from, false) && v.hasIPVersion(p.to, false))
	if file == nil {
		if ok = v.hasIPVersion(p.from, ipv6) && v.hasIPVersion(p.to, ipv6); !ok {
			v.ReportFault(place, "", "%s and %s have no IP version in common", v.endName(p.from), v.endName(p.to))
		}
		return ipv6, ok
	}
	ipv6 = *file == 6
	for _, e := range []hostEnd{p.from, p.to} {
		if !v.hasIPVersion(e, ipv6) {
			v.ReportFault(file, "", "%s has no IPv%d address", v.endName(e), *file)
			return ipv6, false
		}
	}
	return ipv6, true
}

// hasIPVersion reports whether an end has an address of a version of IP.
func (v *traffic) hasIPVersion(e hostEnd, ipv6 bool) bool {
	ports := v.plan.Nodes[e.host].Ports
	if e.port != 0 {
		ports = ports[e.port.Port():][:1]
	}
	return slices.ContainsFunc(ports, func(p plan.Port) bool { return plan.HasFamily(p.Addresses, ipv6) })
}
