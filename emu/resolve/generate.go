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
	// countParts returns the number of nodes and links that it makes.
	countParts() (nodes, links int)
	// buildTopology makes the nodes and links.
	buildTopology(b *builder)
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

func (g *star) countParts() (nodes, links int) { return int(g.Hosts) + 1, int(g.Hosts) }

func (g *star) buildTopology(b *builder) {
	s := b.addSwitches("s", 1)
	b.addHosts(s[0], int(g.Hosts), g.LinkPatch)
}

func (g *dumbbell) countParts() (nodes, links int) {
	hosts := int(g.Left + g.Right)
	return hosts + 2, hosts + 1
}

func (g *dumbbell) buildTopology(b *builder) {
	s := b.addSwitches("s", 2)
	b.addHosts(s[0], int(g.Left), g.LinkPatch)
	b.addHosts(s[1], int(g.Right), g.LinkPatch)
	b.linkSwitches(s[0], s[1], g.Bottleneck.Over(g.LinkPatch))
}

func (g *parkingLot) countParts() (nodes, links int) {
	hops := int(g.Hops)
	return hops + 1 + 2*hops + 2, hops + 2*hops + 2
}

func (g *parkingLot) buildTopology(b *builder) {
	hops := int(g.Hops)
	s := b.addSwitches("s", hops+1)
	b.addHosts(s[0], 1, g.LinkPatch)
	b.addHosts(s[hops], 1, g.LinkPatch)
	for i := range hops {
		b.addHosts(s[i], 1, g.LinkPatch)
		b.addHosts(s[i+1], 1, g.LinkPatch)
	}
	for i := range hops {
		b.linkSwitches(s[i], s[i+1], g.Bottleneck.Over(g.LinkPatch))
	}
}

func (g *leafSpine) countParts() (nodes, links int) {
	hosts := int(g.Leaves) * int(g.HostsPerLeaf)
	return hosts + int(g.Leaves+g.Spines), hosts + int(g.Leaves)*int(g.Spines)
}

func (g *leafSpine) buildTopology(b *builder) {
	leaves := b.addSwitches("leaf", int(g.Leaves))
	spines := b.addSwitches("spine", int(g.Spines))
	for _, leaf := range leaves {
		b.addHosts(leaf, int(g.HostsPerLeaf), g.LinkPatch)
	}
	for _, leaf := range leaves {
		for _, spine := range spines {
			b.linkSwitches(leaf, spine, g.Uplink.Over(g.LinkPatch))
		}
	}
}

func (g *fatTree) countParts() (nodes, links int) {
	k := int(g.K)
	return k*k*k/4 + k*k + k*k/4, 3 * k * k * k / 4
}

func (g *fatTree) buildTopology(b *builder) {
	k, half := int(g.K), int(g.K)/2
	edges := b.addSwitches("edge", k*half)
	aggs := b.addSwitches("agg", k*half)
	cores := b.addSwitches("core", half*half)
	for _, edge := range edges {
		b.addHosts(edge, half, g.LinkPatch)
	}
	uplink := g.Uplink.Over(g.LinkPatch)
	for e, edge := range edges {
		for i := range half {
			b.linkSwitches(edge, aggs[e/half*half+i], uplink)
		}
	}
	for a, agg := range aggs {
		for i := range half {
			b.linkSwitches(agg, cores[a%half*half+i], uplink)
		}
	}
}

// builder makes the nodes and links of a generator.
type builder struct {
	t     *topology
	place any // of the generator
	made  int // number of hosts so far
}

// addSwitches adds n switches called name1, name2, ...
func (b *builder) addSwitches(name string, n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = b.t.addNode(fmt.Sprintf("%s%d", name, i+1), plan.Switch)
	}
	return nodes
}

// addHosts adds n hosts to a switch.
func (b *builder) addHosts(at, n int, patch change.LinkPatch) {
	for range n {
		b.made++
		host := b.t.addNode(fmt.Sprintf("h%d", b.made), plan.Host)
		b.joinPorts(plan.End{Node: host, Port: b.t.addPort(host, "eth0")}, plan.End{Node: at, Port: b.t.addPort(at, b.t.plan.Nodes[host].Name)}, patch)
	}
}

// linkSwitches connects two switches.
func (b *builder) linkSwitches(one, two int, patch change.LinkPatch) {
	nodes := b.t.plan.Nodes
	b.joinPorts(plan.End{Node: one, Port: b.t.addPort(one, nodes[two].Name)}, plan.End{Node: two, Port: b.t.addPort(two, nodes[one].Name)}, patch)
}

func (b *builder) joinPorts(one, two plan.End, patch change.LinkPatch) {
	b.t.connectEnds([2]plan.End{one, two}, [2]change.LinkPatch{patch, patch}, b.place)
}
