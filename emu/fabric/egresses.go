package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
)

// egresses are the interfaces and addresses that hosts' flows of a traffic use, by host, in the
// order of interfaces and addresses.
type egresses map[int][]egress

type egress struct {
	iface   *hosts.Interface
	address netip.Addr
}

// interfaces returns the interfaces of a host's egresses.
func (w egresses) interfaces(node int) (all []*hosts.Interface) {
	for _, x := range w[node] {
		if len(all) == 0 || all[len(all)-1] != x.iface {
			all = append(all, x.iface)
		}
	}
	return all
}

// findEgresses finds the egresses of a traffic's hosts. A host with one interface and one address
// needs no search.
func (b *trafficBuilder) findEgresses(t *plan.Traffic) (egresses, error) {
	v6, found := t.IPv6(), egresses{}
	several := map[int]bool{}
	for _, n := range t.Pattern.Hosts() {
		all := b.egressesOf(n, v6)
		switch len(all) {
		case 0:
			return nil, fmt.Errorf("%s has no connected interface with an address of IPv%c", b.Plan.Nodes[n].Name, "46"[btoi(v6)])
		case 1:
			found[n] = all
		default:
			several[n] = true
		}
	}
	if len(several) == 0 {
		return found, nil
	}
	used := map[egress]bool{}
	for from, to := range pattern.Pairs(t.Pattern) {
		if !several[from] && !several[to] {
			continue
		}
		path, err := b.pathOf(t, from, to)
		if err != nil {
			return nil, err
		}
		used[egress{b.interfaceAt(path.From), path.Source}] = true
		used[egress{b.interfaceAt(path.To), path.Destination}] = true
	}
	for n := range several {
		all := b.egressesOf(n, v6)
		if found[n] = slices.DeleteFunc(slices.Clone(all), func(w egress) bool { return !used[w] }); len(found[n]) == 0 {
			found[n] = all[:1] // it sends and gets nothing
		}
	}
	return found, nil
}

// egressesOf returns the connected interfaces and addresses of a host.
func (f *Fabric) egressesOf(node int, v6 bool) (all []egress) {
	for i, iface := range f.interfaces[node] {
		p := &f.Plan.Nodes[node].Ports[i]
		for _, a := range p.Addresses {
			if p.Link >= 0 && a.Addr().Is6() == v6 {
				all = append(all, egress{iface, a.Addr()})
			}
		}
	}
	return all
}

// pathOf returns the path of a traffic's flows between two hosts, from the one that starts
// them. With READs that is the one that gets the data.
func (f *Fabric) pathOf(t *plan.Traffic, from, to int) (plan.Path, error) {
	if t.RDMA != nil && t.RDMA.Verb == workload.Read {
		from, to = to, from
	}
	return f.topology.TryPath(plan.Pair{From: from, To: to, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: t.IPv6()})
}
