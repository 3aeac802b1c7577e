package resolve

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
)

// switchRoutes resolves the static routes of switches and routers.
type switchRoutes struct {
	*base
	domain [][]int // broadcast domain of each port of each node
	routed bool    // whether there are routers
}

// maxWeights bounds the sum of the weights of a static route, which is the
// number of its entries in the table.
const maxWeights = 16_384

// resolveSwitchRoutes adds the routes to the plan.
func (v *switchRoutes) resolveSwitchRoutes() {
	for i := range v.plan.Nodes {
		if n, file := &v.plan.Nodes[i], v.nodeFileOf(i); n.Kind == plan.Switch && len(file.Routes) > 0 {
			v.staticRoutes(i, file.Routes)
		}
	}
}

// located is a static route and its entry in the file.
type located struct {
	plan.StaticRoute
	file *labfile.Route
}

// routeRank returns the precedence of a route: named interfaces rank above hosts,
// hosts above prefixes, longer prefixes above shorter ones, and those above
// default.
func (l *located) routeRank(hasPort bool) int {
	const host, port = 1000, 1001
	switch {
	case l.file.To.Any:
		return -1
	case l.file.To.Name == "":
		return l.file.To.Prefix.Bits()
	case hasPort:
		return port
	}
	return host
}

func (v *switchRoutes) staticRoutes(node int, files []labfile.Route) {
	n := &v.plan.Nodes[node]
	var routes []located
	ranks := map[string]int{}
	for j := range files {
		f := &files[j]
		l := located{plan.StaticRoute{To: f.To.String()}, f}
		if n.Router != nil {
			l.Prefixes = f.To.Prefixes()
		}
		if _, twice := ranks[l.To]; twice {
			v.ReportFault(&f.To, "write all its ports as a list: via: [...]", "%s already has a route to %s", n.Name, l.To)
			continue
		}
		var hasPort, ok bool
		if l.Stations, hasPort, ok = v.stationsOf(node, &f.To); !ok {
			continue
		}
		ranks[l.To] = l.routeRank(hasPort)
		if !v.checkTo(node, &l) {
			continue
		}
		if l.Via, ok = v.nextHops(node, f); ok {
			routes = append(routes, l)
		}
	}
	slices.SortStableFunc(routes, func(a, b located) int { return cmp.Compare(ranks[a.To], ranks[b.To]) })
	if n.Router != nil {
		v.checkRouted(node, routes)
	} else {
		v.checkStatic(node, routes)
	}
	for _, l := range routes {
		n.Static = append(n.Static, l.StaticRoute)
	}
}

// checkTo checks the destination of a switch's route.
func (v *switchRoutes) checkTo(node int, l *located) bool {
	n := &v.plan.Nodes[node]
	switch {
	case n.Router != nil:
		return v.checkRoutedTo(node, l)
	case len(l.Stations) == 0:
		v.ReportFault(&l.file.To, "a prefix does not cover hosts at the switch itself: name them", "%s matches no host elsewhere in the lab", l.To)
		return false
	}
	for _, s := range l.Stations {
		if !v.seesStation(node, s) {
			v.ReportFault(&l.file.To, "give the route to a router", "%s is behind a router, and %s only sees frames to that router", v.plan.PortName(s.Node, s.Port), n.Name)
			return false
		}
	}
	return true
}

// seesStation reports whether traffic to a station passes through a switch: in a lab
// with routers, a plain switch only sees frames for stations in its own domain.
func (v *switchRoutes) seesStation(node int, s plan.End) bool {
	return !v.routed || v.plan.Nodes[node].Router != nil || len(v.domain[node]) > 0 && v.domain[node][0] == v.domain[s.Node][s.Port]
}

// stationsOf returns the host interfaces that a switch's route leads to.
// Prefixes and default exclude hosts at the switch itself, as on a router they
// exclude what is directly connected. HasPort reports whether the route names
// an interface.
func (v *switchRoutes) stationsOf(node int, to *labfile.Destination) (found []plan.End, hasPort, ok bool) {
	if to.Name != "" {
		return v.namedStations(to)
	}
	for i, n := range v.plan.Nodes {
		if n.Kind != plan.Host {
			continue
		}
		for p, port := range n.Ports {
			if port.Link >= 0 && v.plan.Links[port.Link].Ends[1-port.End].Node == node || !v.seesStation(node, plan.End{Node: i, Port: p}) {
				continue
			}
			if to.Any || slices.ContainsFunc(port.Addresses, func(a netip.Prefix) bool { return to.Prefix.Contains(a.Addr()) }) {
				found = append(found, plan.End{Node: i, Port: p})
			}
		}
	}
	return found, false, true
}

func (v *switchRoutes) namedStations(to *labfile.Destination) (found []plan.End, hasPort, ok bool) {
	if ip, err := netip.ParseAddr(to.Name); err == nil {
		v.ReportFault(to, fmt.Sprintf("write %s/%d", ip, ip.BitLen()), "%q lacks its prefix length", to.Name)
		return nil, false, false
	}
	if _, _, err := plan.SplitEndpoint(to.Name); err == nil {
		end, ok := v.ports[to.Name]
		if !ok {
			v.failName(to, func() error { _, _, err := v.plan.Endpoint(to.Name); return err })
			return nil, true, false
		}
		return []plan.End{end}, true, v.isHost(to, end.Node)
	}
	node, ok := v.findNode(to, to.Name)
	if !ok || !v.isHost(to, node) {
		return nil, false, false
	}
	for p := range v.plan.Nodes[node].Ports {
		found = append(found, plan.End{Node: node, Port: p})
	}
	return found, false, true
}

// isHost checks that a route leads to a host.
func (v *switchRoutes) isHost(place *labfile.Destination, node int) bool {
	n := &v.plan.Nodes[node]
	if n.Kind != plan.Host {
		v.ReportFault(place, "name a host, or write a prefix or default", "%s is a %v", n.Name, n.Kind)
	}
	return n.Kind == plan.Host
}

// nextHops returns the next hops of a route of a switch.
func (v *switchRoutes) nextHops(node int, f *labfile.Route) (hops []plan.NextHop, ok bool) {
	ok = true
	sum := 0
	for i := range f.Via {
		s := &f.Via[i]
		name := string(s.Port)
		end, known := v.ports[v.plan.Nodes[node].Name+":"+name]
		switch {
		case !known:
			v.failName(s, func() error { return v.plan.NoPort(node, name) })
			ok = false
			continue
		case slices.ContainsFunc(hops, func(h plan.NextHop) bool { return h.Port == end.Port }):
			v.ReportFault(s, `to give it a larger share, write a weight: {port: "`+name+`", weight: 2}`, "the port %s is listed twice", name)
			ok = false
		}
		hops = append(hops, plan.NextHop{Port: end.Port, Weight: int(s.Weight)})
		sum += int(s.Weight)
	}
	switch {
	case len(f.Via) == 0:
		v.ReportFault(&f.Via, `write for example via: "3"`, "the route has no port")
		return nil, false
	case sum > maxWeights:
		v.ReportFault(&f.Via, "only their proportion counts: divide them all", "the weights add up to %d, more than %d", sum, maxWeights)
		return nil, false
	}
	return hops, ok
}

// checkStatic reports routes of a switch that cannot do what they seem to say.
func (v *switchRoutes) checkStatic(node int, routes []located) {
	best := map[plan.End]*located{} // the route that is used while its links are up
	for i := range routes {
		l := &routes[i]
		for _, s := range l.Stations {
			// The tables know stations, not addresses. If two prefixes match
			// one station, the longer wins if it lies within the other;
			// otherwise neither means what it says.
			other := best[s]
			if other != nil && other.file.To.Prefix.IsValid() && l.file.To.Prefix.IsValid() &&
				!coversPrefix(other.file.To.Prefix, l.file.To.Prefix) && !slices.Equal(other.Via, l.Via) && v.namesNone(routes[i+1:], s) {
				v.ReportFault(&l.file.To, "a switch uses one route for all packets to an interface: name the host, with its port if needed",
					"%s and %s are both prefixes of %s but have different ports", other.To, l.To, v.plan.PortName(s.Node, s.Port))
				return
			}
			best[s] = l
		}
	}
	for i := range routes {
		l := &routes[i]
		for k, w := range l.Via {
			host, ok := v.hostBehind(node, w.Port)
			if !ok {
				continue
			}
			for _, s := range l.Stations {
				if s != host {
					v.ReportFault(&l.file.Via[k], "a host does not forward packets", "the port %s leads to %s, but the route is also to %s",
						v.plan.Nodes[node].Ports[w.Port].Name, v.plan.PortName(host.Node, host.Port), v.plan.PortName(s.Node, s.Port))
					break
				}
			}
		}
	}
}

// namesNone reports whether none of the routes names a station or its host.
func (v *switchRoutes) namesNone(routes []located, s plan.End) bool {
	return !slices.ContainsFunc(routes, func(l located) bool { return l.file.To.Name != "" && slices.Contains(l.Stations, s) })
}

func coversPrefix(wide, narrow netip.Prefix) bool {
	return wide.Bits() <= narrow.Bits() && wide.Contains(narrow.Addr())
}

// hostBehind returns the host interface that a port leads to.
func (v *switchRoutes) hostBehind(node, port int) (plan.End, bool) {
	p := v.plan.Nodes[node].Ports[port]
	if p.Link < 0 {
		return plan.End{}, false
	}
	far := v.plan.Links[p.Link].Ends[1-p.End]
	return far, v.plan.Nodes[far.Node].Kind == plan.Host
}

// parseGateway reads the address of a route's next hop, such as 10.0.0.254.
func parseGateway(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Is4In6() || ip.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is not a gateway address: write for example 10.0.0.254", text)
	}
	return ip, nil
}
