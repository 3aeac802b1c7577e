package resolve

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/traffic/pattern"
)

// findPath finds the path of modelled packets between two ends, and fails at place if there is
// none. With answered replies have to come back too.
func (v *traffic) findPath(p hostPair, ipv6, answered bool, place any) (plan.Path, bool) {
	path, err := v.reach.Path(plan.Pair{From: p.from.host, To: p.to.host, FromPort: p.from.port.Port(), ToPort: p.to.port.Port(), IPv6: ipv6})
	if err == nil && answered && path.NoReturn != nil {
		v.failPath(place, hostPair{p.to, p.from}, path.NoReturn)
		return path, false
	}
	if err != nil {
		v.failPath(place, p, err)
		return path, false
	}
	return path, true
}

// failPath reports that no path leads from one end to the other. It makes the message only
// if it will be shown.
func (v *traffic) failPath(place any, p hostPair, why error) {
	if bad := (*plan.PathError)(nil); !v.HasEnoughFaults() && errors.As(why, &bad) {
		v.FailOnce(place, bad.Hint(), "there is no path from %s to %s: %v", v.endName(p.from), v.endName(p.to), bad)
	}
}

// checkPaths resolves the version of IP of the flows of a pattern, and checks that they arrive and
// that answers come back, if flows are answered. It returns the interfaces that they use, none
// after a fault.
func (e *patternEntry) checkPaths(p pattern.Pattern, file *labfile.IPVersion, answered bool) (ipv6 bool, used []plan.End) {
	before := e.Faults()
	ipv6 = e.chooseIPVersion(p.Hosts(), file)
	if e.Faults() > before {
		return ipv6, nil
	}
	k := newPathKinds(e.plan, e.reach, ipv6)
	added := make([][]bool, len(e.plan.Nodes))
	add := func(x plan.End) {
		if added[x.Node] == nil {
			added[x.Node] = make([]bool, len(e.plan.Nodes[x.Node].Ports))
		}
		if !added[x.Node][x.Port] {
			added[x.Node][x.Port] = true
			used = append(used, x)
		}
	}
	for from, to := range pattern.Pairs(p) {
		if k.isKnown(from, to) {
			add(plan.End{Node: from, Port: k.port[from]})
			add(plan.End{Node: to, Port: k.port[to]})
			continue
		}
		path, ok := e.findPath(hostPair{hostEnd{host: from}, hostEnd{host: to}}, ipv6, answered, e.place)
		if !ok {
			return ipv6, nil
		}
		k.learn(from, to)
		add(path.From)
		add(path.To)
	}
	return ipv6, used
}

// pathKinds groups hosts whose packets go the same way and that are reached the same way:
// if a path leads from one of a group to one of another, paths lead between all of these.
// Patterns may have millions of pairs.
type pathKinds struct {
	part  []int // by node: what routers join to it (plan.Reach.RoutedPart); 0 for a host with other routes, and for a switch
	of    []int // by node: the number of a group; -1 for a host with several addresses, and for a switch
	port  []int // by node: the interface of a host in a group
	count int
	dense []bool          // by groups from and to: a path leads there; nil if there are too many
	known map[[2]int]bool // likewise
}

// maxDense is the number of groups up to which a table of all pairs is small.
const maxDense = 2048

func newPathKinds(p *plan.Plan, r *plan.Reach, ipv6 bool) *pathKinds {
	k := &pathKinds{part: make([]int, len(p.Nodes)), of: make([]int, len(p.Nodes)), port: make([]int, len(p.Nodes)), known: map[[2]int]bool{}}
	only := make([]netip.Prefix, len(p.Nodes)) // of hosts with one address
	var routes []netip.Prefix
	for n := range p.Nodes {
		node := &p.Nodes[n]
		if node.Kind != plan.Host {
			continue
		}
		found := 0
		for i := range node.Ports {
			for _, a := range node.Ports[i].Addresses {
				if node.Ports[i].Link >= 0 && a.Addr().Is6() == ipv6 {
					found++
					only[n], k.port[n] = a.Masked(), i
					routes = append(routes, a.Masked())
				}
			}
		}
		for _, x := range node.Routes {
			routes = append(routes, x.To.Masked())
		}
		if found != 1 {
			only[n] = netip.Prefix{}
		} else if part, ok := r.RoutedPart(n, k.port[n], ipv6); ok {
			k.part[n] = part
		}
	}
	// If a longer prefix lies in the prefix of a host, routes to it differ from address to
	// address.
	divided := map[netip.Prefix]bool{}
	for _, o := range only {
		divided[o] = !o.IsValid()
	}
	for _, x := range routes {
		for bits := x.Bits() - 1; bits >= 0; bits-- {
			wide, _ := x.Addr().Prefix(bits)
			if _, there := divided[wide]; there {
				divided[wide] = true
			}
		}
	}
	groups := map[string]int{}
	for n := range p.Nodes {
		k.of[n] = -1
		if divided[only[n]] {
			continue
		}
		key := fmt.Sprint(r.Domain[n][k.port[n]], only[n], p.Nodes[n].Routes)
		g, there := groups[key]
		if !there {
			g = len(groups)
			groups[key] = g
		}
		k.of[n] = g
	}
	if k.count = len(groups); k.count <= maxDense {
		k.dense = make([]bool, k.count*k.count)
	}
	return k
}

// isKnown reports whether a path from one host to another is known to exist.
func (k *pathKinds) isKnown(from, to int) bool {
	a, b := k.of[from], k.of[to]
	switch {
	case k.part[from] > 0 && k.part[from] == k.part[to]:
		return true
	case a < 0 || b < 0:
		return false
	case k.dense != nil:
		return k.dense[a*k.count+b]
	}
	return k.known[[2]int{a, b}]
}

// learn records that a path leads from one host to another.
func (k *pathKinds) learn(from, to int) {
	a, b := k.of[from], k.of[to]
	switch {
	case a < 0 || b < 0:
	case k.dense != nil:
		k.dense[a*k.count+b] = true
	default:
		k.known[[2]int{a, b}] = true
	}
}
