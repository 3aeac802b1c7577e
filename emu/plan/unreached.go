package plan

import "fmt"

// maxUnreached is how many addresses Unreached lists.
const maxUnreached = 10

// Unreached returns notes about addresses of hosts to which no other host on the same links
// has a route, at most ten. It says nothing of links with a router, which knows them all, nor
// of hosts without others on their links.
func (p *Plan) Unreached() (notes []string) {
	r := p.Reach()
	hosts := map[int][]int{} // by domain
	routed := map[int]bool{}
	for n := range p.Nodes {
		for i := range p.Nodes[n].Ports {
			switch d := r.Domain[n][i]; {
			case p.Nodes[n].Router != nil:
				routed[d] = true
			case p.Nodes[n].Kind == Host:
				hosts[d] = append(hosts[d], n)
			}
		}
	}
	for n := range p.Nodes {
		if p.Nodes[n].Kind != Host {
			continue
		}
		for i := range p.Nodes[n].Ports {
			d := r.Domain[n][i]
			if routed[d] {
				continue
			}
			for _, a := range p.Nodes[n].Ports[i].Addresses {
				other, found := -1, false
				for _, h := range hosts[d] {
					if h == n {
						continue
					}
					if _, _, found = r.Lookup(h, AnyPort, a.Addr()); found {
						break
					}
					if other < 0 {
						other = h
					}
				}
				if found || other < 0 {
					continue
				}
				if len(notes) == maxUnreached {
					return append(notes, "and more addresses of this kind")
				}
				notes = append(notes, fmt.Sprintf("no other host on the links of %s has a route to its address %s, not even %s: give them one prefix, join their prefixes by a router (a switch with addresses), or write routes:",
					p.PortName(n, i), a, p.Nodes[other].Name))
			}
		}
	}
	return notes
}
