package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
)

func parsePlan(t testing.TB, text string) *plan.Plan {
	t.Helper()
	p, err := Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// addressesOf returns the IPv4 addresses of all interfaces of hosts, by name.
func addressesOf(p *plan.Plan) map[string]string {
	all := map[string]string{}
	for n := range p.Nodes {
		for i, port := range p.Nodes[n].Ports {
			for _, a := range port.Addresses {
				if a.Addr().Is4() {
					all[p.PortName(n, i)] = a.String()
				}
			}
		}
	}
	return all
}

const fullMesh = `
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 200Gbps, delay: 5us, mtu: 4200}}
  nodes: {h0: {kind: host}, h1: {kind: host}, h2: {kind: host}, h3: {kind: host}}
  links:
    - {endpoints: ["h0:e1", "h1:e0"]}
    - {endpoints: ["h0:e2", "h2:e0"]}
    - {endpoints: ["h0:e3", "h3:e0"]}
    - {endpoints: ["h1:e2", "h2:e1"]}
    - {endpoints: ["h1:e3", "h3:e1"]}
    - {endpoints: ["h2:e3", "h3:e2"]}
`

// TestAddresses_AMeshOfLinksHasASubnetPerLink: among hosts that are connected by direct links
// each link has a subnet, and every host reaches every other by its routes.
func TestAddresses_AMeshOfLinksHasASubnetPerLink(t *testing.T) {
	p := parsePlan(t, fullMesh)
	got := addressesOf(p)
	for link, want := range [][2]string{
		{"10.0.0.1/24", "10.0.0.2/24"}, {"10.0.1.1/24", "10.0.1.2/24"}, {"10.0.2.1/24", "10.0.2.2/24"},
		{"10.0.3.1/24", "10.0.3.2/24"}, {"10.0.4.1/24", "10.0.4.2/24"}, {"10.0.5.1/24", "10.0.5.2/24"},
	} {
		for side, e := range p.Links[link].Ends {
			if name := p.PortName(e.Node, e.Port); got[name] != want[side] {
				t.Errorf("%s has %s, want %s", name, got[name], want[side])
			}
		}
	}
	r := p.Reach()
	for from := range p.Nodes {
		for to := range p.Nodes {
			for _, ipv6 := range []bool{false, true} {
				if from == to {
					continue
				}
				path, err := r.Path(plan.Pair{From: from, To: to, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: ipv6})
				if err != nil || path.NoReturn != nil || p.Nodes[from].Ports[path.From.Port].Name != fmt.Sprintf("e%d", to) || path.First != path.To {
					t.Errorf("from h%d to h%d: %+v, %v", from, to, path, err)
				}
			}
		}
	}
}

// TestAddresses_AreCountedWhereTheNthInterfacesMeet: two rails, two interfaces at one switch,
// and parts of a lab that are apart keep the addresses that are counted over all hosts.
func TestAddresses_AreCountedWhereTheNthInterfacesMeet(t *testing.T) {
	for name, links := range map[string]string{
		"rails":       "[h1:eth0, s1:1], [h2:eth0, s1:2], [h1:eth1, s2:1], [h2:eth1, s2:2]",
		"one switch":  "[h1:eth0, s1:1], [h2:eth0, s1:2], [h1:eth1, s1:3], [h2:eth1, s1:4]",
		"one more":    "[h1:eth0, s1:1], [h2:eth0, s1:2], [h1:eth1, s2:1], [s2:2, s3:1], [h2:eth1, s3:2]",
		"apart":       "[h1:eth0, s1:1], [h2:eth0, s2:1], [h1:eth1, s1:2], [h2:eth1, s2:2]",
		"one of each": "[h1:eth0, s1:1], [h2:eth0, s1:2], [h1:eth1, s2:1], [h2:eth1, s3:1]",
	} {
		var b strings.Builder
		for _, l := range strings.Split(links, ", [") {
			a, z, _ := strings.Cut(strings.Trim(l, "[]"), ", ")
			fmt.Fprintf(&b, "    - {endpoints: [%q, %q]}\n", a, z)
		}
		got := addressesOf(parsePlan(t, "topology:\n  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}, s3: {kind: switch}}\n  links:\n"+b.String()))
		want := map[string]string{"h1:eth0": "10.0.0.1/16", "h2:eth0": "10.0.0.2/16", "h1:eth1": "10.1.0.1/16", "h2:eth1": "10.1.0.2/16"}
		if name == "one of each" { // the second interfaces do not meet
			want = map[string]string{"h1:eth0": "10.0.0.1/24", "h2:eth0": "10.0.0.2/24", "h1:eth1": "10.0.1.1/24", "h2:eth1": "10.0.2.1/24"}
		}
		for port, a := range want {
			if got[port] != a {
				t.Errorf("%s: %s has %s, want %s", name, port, got[port], a)
			}
		}
	}
}

// TestLookup_IsTheKernelsChoice compares with a list of all routes, of which the longest wins,
// and of equal ones the first.
func TestLookup_IsTheKernelsChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) netip.Prefix {
			a := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 1).Draw(t, what)), byte(rapid.IntRange(0, 2).Draw(t, what)), byte(rapid.IntRange(1, 9).Draw(t, what))})
			return netip.PrefixFrom(a, rapid.SampledFrom([]int{8, 15, 16, 23, 24, 29, 32}).Draw(t, "bits of "+what))
		}
		p := &plan.Plan{Nodes: []plan.Node{{Name: "h1"}, {Name: "s", Kind: plan.Switch}}}
		h := &p.Nodes[0]
		for i := range rapid.IntRange(1, 3).Draw(t, "interfaces") {
			port := plan.Port{Name: fmt.Sprintf("eth%d", i), Link: i}
			for range rapid.IntRange(0, 2).Draw(t, "addresses") {
				port.Addresses = append(port.Addresses, draw("address"))
			}
			h.Ports = append(h.Ports, port)
			p.Nodes[1].Ports = append(p.Nodes[1].Ports, plan.Port{Link: i, End: 1})
			p.Links = append(p.Links, plan.Link{Ends: [2]plan.End{{Node: 0, Port: i}, {Node: 1, Port: i}}})
		}
		for range rapid.IntRange(0, 2).Draw(t, "routes") {
			h.Routes = append(h.Routes, plan.Route{To: draw("route").Masked(), Via: draw("gateway").Addr()})
		}
		type route struct {
			to   netip.Prefix
			port int
			via  netip.Addr
		}
		longest := func(all []route, to netip.Addr) (best *route) {
			for i := range all {
				if r := &all[i]; r.to.Contains(to) && (best == nil || r.to.Bits() > best.to.Bits()) {
					best = r
				}
			}
			return best
		}
		var direct []route
		for i, port := range h.Ports {
			for _, a := range port.Addresses {
				direct = append(direct, route{to: a.Masked(), port: i})
			}
		}
		all := slices.Clone(direct)
		for _, r := range h.Routes {
			if out := longest(direct, r.Via); out != nil {
				all = append(all, route{r.To, out.port, r.Via})
			}
		}
		port := rapid.IntRange(plan.AnyPort, len(h.Ports)-1).Draw(t, "bound to")
		if port != plan.AnyPort {
			all = slices.DeleteFunc(all, func(r route) bool { return r.port != port })
		}
		to := draw("destination").Addr()
		want := longest(all, to)
		out, next, ok := p.Reach().Lookup(0, port, to)
		switch {
		case ok != (want != nil):
			t.Fatalf("found: %v, want %+v", ok, want)
		case !ok:
		case out != want.port || next != want.via && (want.via.IsValid() || next != to):
			t.Fatalf("by port %d to %v, want %+v", out, next, want)
		}
	})
}

// TestPaths_GroupsOfHostsChangeNothing: with and without groups the same patterns are good, and
// use the same interfaces.
func TestPaths_GroupsOfHostsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes strings.Builder
		n := rapid.IntRange(2, 6).Draw(t, "hosts")
		for i := range n {
			fmt.Fprintf(&nodes, "    h%d: {kind: host, address: 10.0.%d.%d/%d}\n", i, rapid.IntRange(0, 1).Draw(t, "subnet"), 10+i, rapid.SampledFrom([]int{16, 24, 28, 29}).Draw(t, "bits"))
		}
		text := "addressing: {ipv6: none}\ntopology:\n  nodes:\n    s: {kind: switch}\n" + nodes.String() + "  links:\n"
		for i := range n {
			text += fmt.Sprintf("    - {endpoints: [\"h%d:eth0\", \"s:%d\"]}\n", i, i)
		}
		p, err := Parse("lab.yaml", []byte(text))
		if err != nil {
			t.Skip(err) // such as the address of a network
		}
		r := p.Reach()
		k := newPathKinds(p, r, false)
		for a := range p.Nodes {
			for b := range p.Nodes {
				if a == b || p.Nodes[a].Kind != plan.Host || p.Nodes[b].Kind != plan.Host {
					continue
				}
				path, err := r.Path(plan.Pair{From: a, To: b, FromPort: plan.AnyPort, ToPort: plan.AnyPort})
				good := err == nil && path.NoReturn == nil
				if k.isKnown(a, b) && !good {
					t.Fatalf("%s to %s: taken for good: %v, %v", p.Nodes[a].Name, p.Nodes[b].Name, err, path.NoReturn)
				}
				if good {
					k.learn(a, b)
				}
			}
		}
	})
}

// TestUnreached_NamesAddressesWithoutARoute: only an address to which no neighbour has a route is
// named, not one that a gateway or a router leads to, nor that of a host without neighbours.
func TestUnreached_NamesAddressesWithoutARoute(t *testing.T) {
	const two = "  links:\n    - {endpoints: [\"h1:eth0\", \"s1:1\"]}\n    - {endpoints: [\"h2:eth0\", \"s1:2\"]}\n"
	for name, c := range map[string]struct {
		text string
		want []string // the ports that are named
	}{
		"apart":   {"topology:\n  nodes: {h1: {kind: host, address: 10.0.1.1/24}, h2: {kind: host, address: 192.168.7.1/24}, s1: {kind: switch}}\n" + two, []string{"h1:eth0", "h2:eth0"}},
		"one way": {"topology:\n  nodes: {h1: {kind: host, address: 10.0.0.1/8}, h2: {kind: host, address: 10.9.0.1/24}, s1: {kind: switch}}\n" + two, []string{"h1:eth0"}},
		"route": {"topology:\n  nodes: {h1: {kind: host, address: 10.0.1.1/24, routes: [{to: default, via: 10.0.1.2}]}, h2: {kind: host, address: [10.0.2.1/24, 10.0.1.2/24]}, s1: {kind: switch}}\n" + two,
			nil},
		"router": {"topology:\n  nodes: {h1: {kind: host, address: 10.0.1.1/24}, h2: {kind: host, address: 192.168.7.1/24}, s1: {kind: switch, address: auto, ports: {\"1\": {address: 10.0.1.9/24}, \"2\": {address: 192.168.7.9/24}}}}\n" + two,
			nil},
		"alone":      {"topology:\n  nodes: {h1: {kind: host}, s1: {kind: switch}}\n  links:\n    - {endpoints: [\"h1:eth0\", \"s1:1\"]}\n", nil},
		"two to one": {"topology:\n  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}\n" + two + "    - {endpoints: [\"h1:eth1\", \"s1:3\"]}\n", []string{"h1:eth1"}},
	} {
		got := parsePlan(t, "addressing: {ipv6: none}\n"+c.text).Unreached()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want notes of %v", name, got, c.want)
			continue
		}
		for i, port := range c.want {
			if !strings.Contains(got[i], "on the links of "+port+" has") {
				t.Errorf("%s: %q, want a note of %s", name, got[i], port)
			}
		}
	}
}
