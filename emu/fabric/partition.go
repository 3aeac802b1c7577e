package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// minLookahead is the shortest delay of a link that may join two shards. With
// less the shards would wait for each other more than they work.
const minLookahead = 100 * units.Nanosecond

// CheckShards tells why a plan cannot be cut into as many shards as it asks
// for, nil when it can.
func CheckShards(p *plan.Plan) error {
	_, err := partition(p, p.Engine.Shards)
	return err
}

// partition gives each node one of n shards. Nodes that are joined by links
// shorter than minLookahead stay together. Hosts are dealt out in their order,
// as many to each shard; then every switch joins the shard that most of its
// neighbours are in, from the hosts upwards, and the less loaded one where that
// is undecided. So the pods of a fat-tree and the leaves of a leaf-spine fabric
// stay whole.
func partition(p *plan.Plan, n int) ([]int, error) {
	shardOf := make([]int, len(p.Nodes))
	if n == 1 {
		return shardOf, nil
	}
	if n < 1 || n > 256 {
		return nil, fmt.Errorf("%d shards: there are 1 to 256", n)
	}
	g := group(p)
	if len(g.weight) < n {
		if len(p.Nodes) < n {
			return nil, fmt.Errorf("%d shards: the lab has only %d nodes", n, len(p.Nodes))
		}
		return nil, fmt.Errorf("%d shards: links with a delay below %v keep this lab in %d parts; give the links between switches a delay, or ask for fewer shards", n, minLookahead, len(g.weight))
	}
	shard := g.deal(n)
	for node := range shardOf {
		shardOf[node] = shard[g.of[node]]
	}
	for s := range n {
		if !slices.Contains(shardOf, s) {
			return nil, errors.New("a shard would be empty; ask for fewer shards")
		}
	}
	return shardOf, nil
}

// groups are sets of nodes that cannot be parted.
type groups struct {
	of     []int         // by node
	weight []int         // by group: its ports
	hosts  []int         // by group
	ties   []map[int]int // by group: links to other groups
}

// group finds the sets of nodes that short links hold together.
func group(p *plan.Plan) groups {
	parent := make([]int, len(p.Nodes))
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for l := range p.Links {
		ends := p.Links[l].Ends
		if min(p.ShortestDelay(l, 0), p.ShortestDelay(l, 1)) < minLookahead {
			parent[find(ends[1].Node)] = find(ends[0].Node)
		}
	}
	g := groups{of: make([]int, len(p.Nodes))}
	number := map[int]int{}
	for n := range p.Nodes {
		root := find(n)
		i, ok := number[root]
		if !ok {
			i = len(g.weight)
			number[root] = i
			g.weight, g.hosts, g.ties = append(g.weight, 0), append(g.hosts, 0), append(g.ties, map[int]int{})
		}
		g.of[n] = i
		g.weight[i] += len(p.Nodes[n].Ports)
		if p.Nodes[n].Kind == plan.Host {
			g.hosts[i]++
		}
	}
	for _, l := range p.Links {
		a, b := g.of[l.Ends[0].Node], g.of[l.Ends[1].Node]
		if a != b {
			g.ties[a][b]++
			g.ties[b][a]++
		}
	}
	return g
}

// deal gives each group a shard.
func (g *groups) deal(n int) []int {
	shard := make([]int, len(g.weight))
	load := make([]int, n)
	for i := range shard {
		shard[i] = -1
	}
	give := func(group, to int) {
		shard[group] = to
		load[to] += g.weight[group]
	}
	total, dealt := 0, 0
	for _, h := range g.hosts {
		total += h
	}
	for i, h := range g.hosts {
		if h > 0 {
			give(i, dealt*n/total)
			dealt += h
		}
	}
	// The switches that are nearest to what is dealt come first, those with
	// the most neighbours there before others, so that each joins its own.
	for {
		var ready []int
		for i := range shard {
			if shard[i] < 0 && g.known(i, shard) > 0 {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			break
		}
		slices.SortStableFunc(ready, func(a, b int) int { return cmp.Compare(g.known(b, shard), g.known(a, shard)) })
		// All of one layer are judged by the layer below.
		below := slices.Clone(shard)
		for _, i := range ready {
			votes := make([]int, n)
			for j, links := range g.ties[i] {
				if below[j] >= 0 {
					votes[below[j]] += links
				}
			}
			best := 0
			for s := range n {
				if votes[s] > votes[best] || votes[s] == votes[best] && load[s] < load[best] {
					best = s
				}
			}
			give(i, best)
		}
	}
	// Switches without any way to a host.
	for i := range shard {
		if shard[i] < 0 {
			give(i, slices.Index(load, slices.Min(load)))
		}
	}
	return shard
}

// known is how many links of a group lead to groups that have a shard.
func (g *groups) known(i int, shard []int) (n int) {
	for j, links := range g.ties[i] {
		if shard[j] >= 0 {
			n += links
		}
	}
	return n
}
