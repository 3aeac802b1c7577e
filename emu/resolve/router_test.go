package resolve

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/plan"
)

// TestRoutedLabs draws generated topologies in which any of the switches are
// routers. It checks that the plan is sound, that the interfaces of every
// domain are in one subnet that no other domain's overlaps, that hosts have a
// default route through a router in their domain, and that there is a path
// between any two.
func TestRoutedLabs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int { return rapid.IntRange(1, 4).Draw(t, name) }
		generator := rapid.SampledFrom([]string{
			fmt.Sprintf("star: {hosts: %d}", 1+n("hosts")),
			fmt.Sprintf("dumbbell: {left: %d, right: %d}", n("left"), n("right")),
			fmt.Sprintf("parking-lot: {hops: %d}", n("hops")),
			fmt.Sprintf("leaf-spine: {spines: %d, leaves: %d, hosts-per-leaf: %d}", n("spines"), n("leaves"), n("per leaf")),
			"fat-tree: {k: 4}",
		}).Draw(t, "generator")
		text := "topology: {generate: {" + generator + "}"
		plain, err := Parse("lab.yaml", []byte(text+"}"))
		if err != nil {
			t.Fatal(err)
		}
		var nodes []string
		for _, node := range plain.Nodes {
			if node.Kind == plan.Switch && rapid.Bool().Draw(t, node.Name) {
				nodes = append(nodes, node.Name+": {address: auto}")
			}
		}
		text += ", nodes: {" + strings.Join(nodes, ", ") + "}}\n"
		text += "addressing: {ipv4: " + rapid.SampledFrom([]string{"10.0.0.0/16", "10.0.0.0/23", "10.0.0.0/25"}).Draw(t, "pool") + "}\n"
		p, err := Parse("lab.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		checkPlan(t, p)
		if p.Routed() != (len(nodes) > 0) {
			t.Fatal("the plan is not what the file says")
		}
		if !p.Routed() {
			return
		}
		w := p.Reach()
		subnets := map[int]map[netip.Prefix]bool{}
		for i, node := range p.Nodes {
			for j, port := range node.Ports {
				for _, a := range port.Addresses {
					d := w.Domain[i][j]
					if subnets[d] == nil {
						subnets[d] = map[netip.Prefix]bool{}
					}
					subnets[d][a.Masked()] = true
				}
				if node.Kind == plan.Host && len(port.Addresses) != 2 {
					t.Fatalf("%s has %v", p.PortName(i, j), port.Addresses)
				}
			}
		}
		for d, mine := range subnets {
			if len(mine) != 2 {
				t.Errorf("the subnets of a domain: %v", mine)
			}
			for e, theirs := range subnets {
				for a := range mine {
					for b := range theirs {
						if d != e && a.Overlaps(b) {
							t.Errorf("%v and %v overlap\n%s", a, b, text)
						}
					}
				}
			}
		}
		kinds := map[bool]*pathKinds{false: newPathKinds(p, w, false), true: newPathKinds(p, w, true)}
		for i, from := range p.Nodes {
			for j, to := range p.Nodes {
				if from.Kind != plan.Host || to.Kind != plan.Host || i == j {
					continue
				}
				for _, ipv6 := range []bool{false, true} {
					path, err := w.Path(plan.Pair{From: i, To: j, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: ipv6})
					first := path.First
					if !kinds[ipv6].isKnown(i, j) {
						t.Errorf("the path from %s to %s is not known to exist", from.Name, to.Name)
					}
					if err != nil || path.NoReturn != nil || w.Domain[first.Node][first.Port] != w.Domain[i][0] || (first.Node == j) != (w.Domain[i][0] == w.Domain[j][0]) {
						t.Errorf("%s to %s: first to %v, %v, %v", from.Name, to.Name, first, err, path.NoReturn)
					}
				}
			}
		}
	})
}

// TestPathFollowsTheLongestRoute checks that a host with two interfaces sends
// to the first address of another that a path leads to, through the interface of its
// longest matching route.
func TestPathFollowsTheLongestRoute(t *testing.T) {
	p, err := Parse("lab.yaml", []byte(`
topology:
  kinds: {switch: {address: auto}}
  nodes:
    h1: {kind: host, routes: [{to: 10.9.0.0/24, via: 10.0.1.1}]}
    h2: {kind: host}
    h3: {kind: host, address: 10.9.0.9/24}
    r1: {kind: switch}
    r2: {kind: switch}
    r3: {kind: switch}
  links:
    - {endpoints: ["h1:a", "r1:1"]}
    - {endpoints: ["h1:b", "r2:1"]}
    - {endpoints: ["r1:2", "r3:1"]}
    - {endpoints: ["r2:2", "r3:2"]}
    - {endpoints: ["r3:3", "h2:a"]}
    - {endpoints: ["r3:4", "h3:a"]}
    - {endpoints: ["h2:b", "h3:b"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to            int
		ipv6                bool
		sender, at, towards string
	}{
		{0, 1, false, "h1:a", "h2:a", "r1:1"}, {0, 2, false, "h1:b", "h3:a", "r2:1"}, {0, 2, true, "h1:a", "h3:a", "r1:1"},
		{1, 2, false, "h2:a", "h3:a", "r3:3"}, {2, 0, true, "h3:a", "h1:a", "r3:4"},
	} {
		path, err := p.Reach().Path(plan.Pair{From: c.from, To: c.to, FromPort: plan.AnyPort, ToPort: plan.AnyPort, IPv6: c.ipv6})
		got := ""
		for _, e := range []plan.End{path.From, path.To, path.First} {
			got += " " + p.PortName(e.Node, e.Port)
		}
		if err != nil || got != " "+c.sender+" "+c.at+" "+c.towards {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}
