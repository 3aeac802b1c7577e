package resolve

import (
	"fmt"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/labfile"
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

// generatorOf returns the generator that the file asks for.
func generatorOf(g *labfile.Generate) generator {
	switch {
	case g.Star != nil:
		return (*star)(g.Star)
	case g.Dumbbell != nil:
		return (*dumbbell)(g.Dumbbell)
	case g.ParkingLot != nil:
		return (*parkingLot)(g.ParkingLot)
	case g.LeafSpine != nil:
		return (*leafSpine)(g.LeafSpine)
	default:
		return (*fatTree)(g.FatTree)
	}
}

type (
	star       labfile.Star
	dumbbell   labfile.Dumbbell
	parkingLot labfile.ParkingLot
	leafSpine  labfile.LeafSpine
	fatTree    labfile.FatTree
)

func (g *star) size() (nodes, links int) { return int(g.Hosts) + 1, int(g.Hosts) }

func (g *star) build(b *builder) {
	s := b.switches("s", 1)
	b.hosts(s[0], int(g.Hosts), g.LinkPatch)
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
	t     *topology
	place any // of the generator
	made  int // number of hosts so far
}

// switches adds n switches called name1, name2, ...
func (b *builder) switches(name string, n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = b.t.addNode(fmt.Sprintf("%s%d", name, i+1), plan.Switch)
	}
	return nodes
}

// hosts adds n hosts to a switch.
func (b *builder) hosts(at, n int, patch change.LinkPatch) {
	for range n {
		b.made++
		host := b.t.addNode(fmt.Sprintf("h%d", b.made), plan.Host)
		b.join(plan.End{Node: host, Port: b.t.addPort(host, "eth0")}, plan.End{Node: at, Port: b.t.addPort(at, b.t.plan.Nodes[host].Name)}, patch)
	}
}

// link connects two switches.
func (b *builder) link(one, two int, patch change.LinkPatch) {
	nodes := b.t.plan.Nodes
	b.join(plan.End{Node: one, Port: b.t.addPort(one, nodes[two].Name)}, plan.End{Node: two, Port: b.t.addPort(two, nodes[one].Name)}, patch)
}

func (b *builder) join(one, two plan.End, patch change.LinkPatch) {
	b.t.connect([2]plan.End{one, two}, [2]change.LinkPatch{patch, patch}, b.place)
}
