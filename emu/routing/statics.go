package routing

import (
	"math"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/switches/router"
)

// statics adds the static routes of one router to its table.
type statics struct {
	*pathComputer
	node   int
	table  *router.Table
	groups *tableBuilder
	target []int    // places of the known addresses
	base   []uint16 // the computed routes to them
}

// unplaced stands for addresses without a place.
const unplaced = -1

// add takes the routes in the order of the plan; later ones override earlier
// ones. Longer computed routes override a prefix; nothing overrides a route to
// hosts.
func (s *statics) add() {
	for _, r := range s.topology.plan.Nodes[s.node].Static {
		made := map[int]uint16{} // by the number of a search, or unplaced
		for _, p := range r.Prefixes {
			if index := s.route(&r, 0, unplaced, made); index != router.NoRoute {
				s.table.Static.Set(p, int32(index))
			}
			for i, a := range s.numbered {
				if p.Contains(a) && p.Bits() >= s.computed(i) {
					s.set(&r, i, made)
				}
			}
		}
		for _, a := range s.named(&r) {
			s.set(&r, int(s.numbers[a]), made)
		}
	}
}

// set makes a static route lead to a known address.
func (s *statics) set(r *plan.StaticRoute, number int, made map[int]uint16) {
	if s.owners[number].Node == s.node {
		return
	}
	place := unplaced
	if at := s.target[number]; at >= 0 {
		place = s.places[at].search
	}
	if index := s.route(r, number, place, made); index != router.NoRoute {
		s.table.Known[number] = index
	}
}

// named returns the addresses of the hosts that a static route names.
func (r *routers) named(route *plan.StaticRoute) (all []netip.Addr) {
	if len(route.Prefixes) > 0 {
		return nil
	}
	for i, o := range r.owners {
		if i > 0 && slices.Contains(route.Stations, o) {
			all = append(all, r.numbered[i])
		}
	}
	return all
}

// computed returns the prefix length of the computed route to a known address,
// -1 if there is none.
func (s *statics) computed(number int) int {
	if s.base[number] == router.NoRoute {
		return -1
	}
	_, bits := s.subnets.FindPrefix(s.numbered[number])
	return bits
}

// route returns the index of a static route to a known address, or with number
// 0 to unknown addresses. It returns NoRoute if the route does not apply
// because nothing is behind its ports. search is the search for the address.
// made holds the routes to addresses that are not directly behind the ports.
func (s *statics) route(r *plan.StaticRoute, number, search int, made map[int]uint16) uint16 {
	to := unplaced
	if o := s.owners[number]; number > 0 && o.Port >= 0 {
		to = s.of[o.Node][o.Port]
	}
	ends := to >= 0 && slices.ContainsFunc(r.Via, func(h plan.NextHop) bool { return s.of[s.node][h.Port] == to })
	if index, ok := made[search]; ok && !ends {
		return index
	}
	var alive []plan.NextHop
	behind := map[uint16][]router.Hop{}
	for _, w := range r.Via {
		var hops []router.Hop
		switch at := s.of[s.node][w.Port]; {
		case at < 0:
		case at == to:
			hops = []router.Hop{router.Hop(s.addresses[number])}
		default:
			hops = s.nearest(at, search)
		}
		if len(hops) > 0 {
			alive = append(alive, w)
			behind[uint16(w.Port)] = hops
		}
	}
	index := s.index(alive, behind)
	if number == 0 && index == router.NoRoute {
		index = s.ending(r)
	}
	if !ends {
		made[search] = index
	}
	return index
}

// nearest returns the routers in an area that are nearest to the target of a
// search; all of them if search is unplaced.
func (s *statics) nearest(area, search int) (hops []router.Hop) {
	minDistance := math.MaxInt
	for _, e := range s.areas[area].routers {
		d := 0
		if search >= 0 {
			d = s.searches[search][e.Node]
		}
		if e.Node == s.node || d < 0 || d > minDistance {
			continue
		}
		if d < minDistance {
			minDistance, hops = d, nil
		}
		hops = append(hops, s.hop(e))
	}
	return hops
}

// index adds a route through ports that lead somewhere, and returns its index.
func (s *statics) index(alive []plan.NextHop, behind map[uint16][]router.Hop) uint16 {
	if len(alive) == 0 {
		return router.NoRoute
	}
	copies := 0
	for _, hops := range behind {
		copies = max(copies, len(hops))
	}
	route, ports := router.Route{Static: true}, slices.Repeat(replicate(alive), copies)
	turn := map[uint16]int{}
	for _, p := range ports {
		hops := behind[p]
		route.Via = append(route.Via, hops[turn[p]%len(hops)])
		turn[p]++
	}
	route.Group = s.groups.group(ports)
	s.table.Routes = append(s.table.Routes, route)
	return uint16(len(s.table.Routes) - 1)
}

// ending adds a route to areas without routers, and returns its index: the
// destination of a packet is there, or nowhere.
func (s *statics) ending(r *plan.StaticRoute) uint16 {
	var ports []uint16
	for _, w := range r.Via {
		if s.of[s.node][w.Port] >= 0 {
			ports = append(ports, uint16(w.Port))
		}
	}
	if len(ports) == 0 {
		return router.NoRoute
	}
	s.table.Routes = append(s.table.Routes, router.Route{Direct: true, Static: true, Group: s.groups.group(ports)})
	return uint16(len(s.table.Routes) - 1)
}
