package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/plan"
)

// A generator makes a topology from a few parameters. Its hosts are called h1,
// h2, ...; a host's interface is eth0, and a switch's ports are named after the
// node at the other end.
type generator interface {
	// size returns the number of nodes and links that it makes.
	size() (nodes, links int)
	// build makes the nodes and links.
	build(b *builder)
}

// chosen returns the generator that the file asks for.
func (g *generateFile) chosen() generator {
	switch {
	case g.Star != nil:
		return g.Star
	case g.Dumbbell != nil:
		return g.Dumbbell
	case g.ParkingLot != nil:
		return g.ParkingLot
	case g.LeafSpine != nil:
		return g.LeafSpine
	default:
		return g.FatTree
	}
}

// star is hosts around the switch s1.
type star struct {
	Hosts          count `yaml:"hosts" jsonschema_description:"number of hosts"`
	plan.LinkPatch `yaml:",inline"`
}

func (g *star) size() (nodes, links int) { return int(g.Hosts) + 1, int(g.Hosts) }

func (g *star) build(b *builder) {
	s := b.switches("s", 1)
	b.hosts(s[0], int(g.Hosts), g.LinkPatch)
}

// dumbbell is the switches s1 and s2 with hosts on both sides; the hosts on the
// left come first.
type dumbbell struct {
	Left           count          `yaml:"left" jsonschema_description:"number of hosts at s1"`
	Right          count          `yaml:"right" jsonschema_description:"number of hosts at s2"`
	Bottleneck     plan.LinkPatch `yaml:"bottleneck,omitempty" jsonschema_description:"settings of the link between the switches; default the settings of the hosts' links"`
	plan.LinkPatch `yaml:",inline"`
}

func (g *dumbbell) size() (nodes, links int) {
	hosts := int(g.Left + g.Right)
	return hosts + 2, hosts + 1
}

func (g *dumbbell) build(b *builder) {
	s := b.switches("s", 2)
	b.hosts(s[0], int(g.Left), g.LinkPatch)
	b.hosts(s[1], int(g.Right), g.LinkPatch)
	b.link(s[0], s[1], g.Bottleneck.Over(g.LinkPatch))
}

// parkingLot is a chain of Hops+1 switches s1, s2, ... with a bottleneck
// between neighbours. h1 and h2 are at the two ends of the chain; for each
// bottleneck i from 1, h(2i+1) is at s(i) and h(2i+2) is at s(i+1).
type parkingLot struct {
	Hops           count          `yaml:"hops" jsonschema_description:"number of bottleneck links"`
	Bottleneck     plan.LinkPatch `yaml:"bottleneck,omitempty" jsonschema_description:"settings of the links between switches; default the settings of the hosts' links"`
	plan.LinkPatch `yaml:",inline"`
}

func (g *parkingLot) size() (nodes, links int) {
	hops := int(g.Hops)
	return hops + 1 + 2*hops + 2, hops + 2*hops + 2
}

func (g *parkingLot) build(b *builder) {
	hops := int(g.Hops)
	s := b.switches("s", hops+1)
	b.hosts(s[0], 1, g.LinkPatch)
	b.hosts(s[hops], 1, g.LinkPatch)
	for i := range hops {
		b.hosts(s[i], 1, g.LinkPatch)
		b.hosts(s[i+1], 1, g.LinkPatch)
	}
	for i := range hops {
		b.link(s[i], s[i+1], g.Bottleneck.Over(g.LinkPatch))
	}
}

// leafSpine is leaves with hosts, and spines; each leaf is connected to every
// spine. The hosts of leaf1 come first.
type leafSpine struct {
	Spines         count          `yaml:"spines" jsonschema_description:"number of spines"`
	Leaves         count          `yaml:"leaves" jsonschema_description:"number of leaves"`
	HostsPerLeaf   count          `yaml:"hosts-per-leaf" jsonschema_description:"number of hosts at each leaf"`
	Uplink         plan.LinkPatch `yaml:"uplink,omitempty" jsonschema_description:"settings of the links between leaves and spines; default the settings of the hosts' links"`
	plan.LinkPatch `yaml:",inline"`
}

func (g *leafSpine) size() (nodes, links int) {
	hosts := int(g.Leaves) * int(g.HostsPerLeaf)
	return hosts + int(g.Leaves+g.Spines), hosts + int(g.Leaves)*int(g.Spines)
}

func (g *leafSpine) build(b *builder) {
	leaves := b.switches("leaf", int(g.Leaves))
	spines := b.switches("spine", int(g.Spines))
	for _, leaf := range leaves {
		b.hosts(leaf, int(g.HostsPerLeaf), g.LinkPatch)
	}
	for _, leaf := range leaves {
		for _, spine := range spines {
			b.link(leaf, spine, g.Uplink.Over(g.LinkPatch))
		}
	}
}

// fatTree is the k-ary fat-tree (Al-Fares et al., SIGCOMM 2008, §3): k pods of
// k/2 edge and k/2 aggregation switches, (k/2)² core switches, k³/4 hosts. Each
// edge switch has k/2 hosts and is connected to the aggregation switches of its
// pod; the i-th aggregation switch of each pod is connected to the i-th k/2
// core switches.
type fatTree struct {
	K              radix          `yaml:"k" jsonschema_description:"number of ports of each switch, even; makes k*k*k/4 hosts"`
	Uplink         plan.LinkPatch `yaml:"uplink,omitempty" jsonschema_description:"settings of the links between switches; default the settings of the hosts' links"`
	plan.LinkPatch `yaml:",inline"`
}

func (g *fatTree) size() (nodes, links int) {
	k := int(g.K)
	return k*k*k/4 + k*k + k*k/4, 3 * k * k * k / 4
}

func (g *fatTree) build(b *builder) {
	k, half := int(g.K), int(g.K)/2
	edges := b.switches("edge", k*half)
	aggs := b.switches("agg", k*half)
	cores := b.switches("core", half*half)
	for _, edge := range edges {
		b.hosts(edge, half, g.LinkPatch)
	}
	uplink := g.Uplink.Over(g.LinkPatch)
	for e, edge := range edges {
		for i := range half {
			b.link(edge, aggs[e/half*half+i], uplink)
		}
	}
	for a, agg := range aggs {
		for i := range half {
			b.link(agg, cores[a%half*half+i], uplink)
		}
	}
}

// builder makes the nodes and links of a generator.
type builder struct {
	r     *resolver
	place any // of the generator
	made  int // number of hosts so far
}

// switches adds n switches called name1, name2, ...
func (b *builder) switches(name string, n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = b.r.addNode(fmt.Sprintf("%s%d", name, i+1), plan.Switch)
	}
	return nodes
}

// hosts adds n hosts to a switch.
func (b *builder) hosts(at, n int, patch plan.LinkPatch) {
	for range n {
		b.made++
		host := b.r.addNode(fmt.Sprintf("h%d", b.made), plan.Host)
		b.join(plan.End{Node: host, Port: b.r.addPort(host, "eth0")}, plan.End{Node: at, Port: b.r.addPort(at, b.r.plan.Nodes[host].Name)}, patch)
	}
}

// link connects two switches.
func (b *builder) link(one, two int, patch plan.LinkPatch) {
	nodes := b.r.plan.Nodes
	b.join(plan.End{Node: one, Port: b.r.addPort(one, nodes[two].Name)}, plan.End{Node: two, Port: b.r.addPort(two, nodes[one].Name)}, patch)
}

func (b *builder) join(one, two plan.End, patch plan.LinkPatch) {
	b.r.connect([2]plan.End{one, two}, [2]plan.LinkPatch{patch, patch}, b.place)
}
