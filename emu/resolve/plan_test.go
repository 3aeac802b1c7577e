package resolve

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/links"
)

// checkPlan checks a plan against its doc comments.
func checkPlan(t rapid.TB, p *plan.Plan) {
	t.Helper()
	nodes, macs, addresses := map[string]bool{}, map[[6]byte]bool{}, map[netip.Addr]bool{}
	for i, n := range p.Nodes {
		if nodes[n.Name] {
			t.Errorf("two nodes %s", n.Name)
		}
		nodes[n.Name] = true
		checkQoS(t, p, &n)
		checkNIC(t, p, &n)
		ports := map[string]bool{}
		for j, port := range n.Ports {
			if ports[port.Name] {
				t.Errorf("two ports %s", p.PortName(i, j))
			}
			ports[port.Name] = true
			if port.Link >= 0 && p.Links[port.Link].Ends[port.End] != (plan.End{Node: i, Port: j}) {
				t.Errorf("%s and link %d disagree", p.PortName(i, j), port.Link)
			}
			if bounds := n.Kind == plan.Host || n.Router != nil; bounds == (port.MAC == [6]byte{}) || bounds && macs[port.MAC] {
				t.Errorf("%s has the MAC %v", p.PortName(i, j), port.MAC)
			}
			macs[port.MAC] = true
			for _, a := range port.Addresses {
				if addresses[a.Addr()] {
					t.Errorf("%s shares the address %v", p.PortName(i, j), a)
				}
				addresses[a.Addr()] = true
			}
			if port.Queue.Limit <= 0 {
				t.Errorf("%s has a queue of %v", p.PortName(i, j), port.Queue.Limit)
			}
			if len(p.Nodes) > 500 {
				continue // names are searched one by one
			}
			if node, at, err := p.Endpoint(p.PortName(i, j)); node != i || at != j || err != nil {
				t.Errorf("%s is found at %d, %d, %v", p.PortName(i, j), node, at, err)
			}
		}
	}
	for i, l := range p.Links {
		for d, end := range l.Ends {
			port := p.Nodes[end.Node].Ports[end.Port]
			if port.Link != i || port.End != d {
				t.Errorf("link %d and %s disagree", i, p.PortName(end.Node, end.Port))
			}
			checkSettings(t, l.Dir[d])
		}
	}
	for i, e := range p.Events {
		if e.At < 0 || i > 0 && e.At < p.Events[i-1].At {
			t.Errorf("event %d is out of order", i)
		}
	}
	names := map[string]bool{}
	for _, f := range p.Flows {
		if f.Name == "" || names[f.Name] || f.From == f.To || f.Rate <= 0 || f.Size <= 0 || f.At < 0 || f.For < 0 {
			t.Errorf("flow %+v", f)
		}
		names[f.Name] = true
	}
	checkTransfers(t, p, names)
	for i := range p.Traffic {
		x := &p.Traffic[i]
		if x.Name == "" || names[x.Name] || x.Pattern == nil {
			t.Errorf("traffic %+v", x)
		}
		names[x.Name] = true
		if err := x.Check(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
		for _, h := range x.Pattern.Hosts() {
			if n := &p.Nodes[h]; n.Kind != plan.Host || x.RDMA != nil && n.NIC == nil {
				t.Errorf("%s takes part in %s", n.Name, x.Name)
			}
		}
	}
}

func checkSettings(t rapid.TB, s links.Settings) {
	if s.MTU < change.MinMTU || s.MTU > change.MaxMTU || s.Delay < 0 || s.Jitter < 0 || s.Reorder > 0 && s.ReorderBy <= 0 {
		t.Errorf("settings %+v", s)
	}
}

// TestGeneratorCounts compares with the formulas of the literature.
func TestGeneratorCounts(t *testing.T) {
	for generator, want := range map[string][3]int{ // hosts, switches, links
		"star: {hosts: 5}":                                      {5, 1, 5},
		"dumbbell: {left: 3, right: 2}":                         {5, 2, 6},
		"parking-lot: {hops: 3}":                                {8, 4, 11},
		"leaf-spine: {spines: 2, leaves: 3, hosts-per-leaf: 4}": {12, 5, 18},
		"fat-tree: {k: 4}":                                      {16, 20, 48},
		"fat-tree: {k: 8}":                                      {128, 80, 384},
	} {
		p, err := Parse("lab.yaml", []byte("topology: {generate: {"+generator+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		var got [3]int
		for _, n := range p.Nodes {
			got[n.Kind]++
		}
		got[2] = len(p.Links)
		if got != want {
			t.Errorf("%s makes %v hosts, switches, links, not %v", generator, got, want)
		}
	}
}

// TestFatTreePorts checks that every switch of a fat-tree has k ports.
func TestFatTreePorts(t *testing.T) {
	p, err := Parse("lab.yaml", []byte("topology: {generate: {fat-tree: {k: 6}}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range p.Nodes {
		if n.Kind == plan.Switch && len(n.Ports) != 6 {
			t.Errorf("%s has %d ports", n.Name, len(n.Ports))
		}
	}
}

// TestGeneratorsMakeSoundPlans tries generators with small numbers: the plan is
// sound, as large as announced, and connects everything.
func TestGeneratorsMakeSoundPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string) int { return rapid.IntRange(1, 6).Draw(t, name) }
		generator := rapid.SampledFrom([]string{
			fmt.Sprintf("star: {hosts: %d}", n("hosts")),
			fmt.Sprintf("dumbbell: {left: %d, right: %d}", n("left"), n("right")),
			fmt.Sprintf("parking-lot: {hops: %d}", n("hops")),
			fmt.Sprintf("leaf-spine: {spines: %d, leaves: %d, hosts-per-leaf: %d}", n("spines"), n("leaves"), n("per leaf")),
			fmt.Sprintf("fat-tree: {k: %d}", 2*n("half k")),
		}).Draw(t, "generator")
		p, err := Parse("lab.yaml", []byte("topology: {generate: {"+generator+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, p)
		for n, ports := range p.Domains() {
			for i, domain := range ports {
				if domain != 1 {
					t.Errorf("%s is apart", p.PortName(n, i))
				}
			}
		}
		for i, n := range p.Nodes {
			for j, port := range n.Ports {
				if n.Kind == plan.Host && len(port.Addresses) != 2 {
					t.Errorf("%s has %v", p.PortName(i, j), port.Addresses)
				}
			}
		}
	})
}
