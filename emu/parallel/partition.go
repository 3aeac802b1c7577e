package parallel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// minLookahead is the shortest delay of a link that may join two processes or
// shards. With less, they would spend more time waiting for each other than
// working.
const minLookahead = 100 * units.Nanosecond

// Partition assigns each node to one of n shards. Nodes that are joined by
// links shorter than minLookahead stay together. Hosts are dealt out in order,
// the same number to each shard. Then, from the hosts upwards, every switch
// joins the shard that contains most of its neighbours, or in a tie the less
// loaded one. This keeps the pods of a fat-tree and the leaves of a leaf-spine
// fabric whole.
func Partition(p *plan.Plan, n int) ([]int, error) {
	shardOf := make([]int, len(p.Nodes))
	if n == 1 {
		return shardOf, nil
	}
	if n < 1 || n > MaxWorkers {
		return nil, fmt.Errorf("%d workers: must be 1 to %d", n, MaxWorkers)
	}
	g := group(p)
	if len(g.weight) < n {
		if len(p.Nodes) < n {
			return nil, fmt.Errorf("%d workers: the lab has only %d nodes", n, len(p.Nodes))
		}
		return nil, fmt.Errorf("%d workers: links with a delay below %v, or triggers of flows, keep this lab in %d parts; give the links between switches a delay, or use fewer workers", n, minLookahead, len(g.weight))
	}
	shard := g.deal(n)
	for node := range shardOf {
		shardOf[node] = shard[g.of[node]]
	}
	for s := range n {
		if !slices.Contains(shardOf, s) {
			return nil, errors.New("a worker would have nothing to do; use fewer workers")
		}
	}
	return shardOf, nil
}

// MaxWorkers is the maximum number of threads that run a network.
const MaxWorkers = 64

// Processes assigns each node to a logical process, and each process to one of at
// most n shards. There are fewer if links without a delay leave fewer processes.
func Processes(p *plan.Plan, n int) (processOf, shardOf []int, shards int) {
	g := group(p)
	n = min(n, len(g.weight))
	if n == 1 {
		return g.of, make([]int, len(g.weight)), 1
	}
	shardOf = g.deal(n)
	// Some shards may have got nothing.
	number := map[int]int{}
	for i, s := range shardOf {
		if _, ok := number[s]; !ok {
			number[s] = len(number)
		}
		shardOf[i] = number[s]
	}
	return g.of, shardOf, len(number)
}

// groups are sets of nodes that cannot be separated.
type groups struct {
	of     []int         // by node
	weight []int         // by group: its ports
	hosts  []int         // by group
	ties   []map[int]int // by group: links to other groups
}

// group finds the sets of nodes that short links hold together, or triggers of flows, which act at
// once.
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
	for i := range p.Traffic {
		for _, set := range pattern.Together(p.Traffic[i].Pattern) {
			for _, n := range set[1:] {
				parent[find(n)] = find(set[0])
			}
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

// deal assigns each group to a shard.
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
	// Switches next to dealt groups come first, those with the most dealt
	// neighbours before others, so that each joins its own.
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
		// All switches of one layer are judged by the layer below.
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
	// Switches without a path to a host.
	for i := range shard {
		if shard[i] < 0 {
			give(i, slices.Index(load, slices.Min(load)))
		}
	}
	return shard
}

// known counts the links of a group that lead to groups with a shard.
func (g *groups) known(i int, shard []int) (n int) {
	for j, links := range g.ties[i] {
		if shard[j] >= 0 {
			n += links
		}
	}
	return n
}

// Colours gives each process one of two colours so that no link joins two of the same;
// nil if that is impossible.
func Colours(p *plan.Plan, processOf []int) []int {
	n := 0
	for _, i := range processOf {
		n = max(n, i+1)
	}
	ties := make([][]int, n)
	for l := range p.Links {
		a, b := processOf[p.Links[l].Ends[0].Node], processOf[p.Links[l].Ends[1].Node]
		if a != b {
			ties[a], ties[b] = append(ties[a], b), append(ties[b], a)
		}
	}
	colour := make([]int, n)
	for i := range colour {
		colour[i] = -1
	}
	for i := range colour {
		if colour[i] >= 0 {
			continue
		}
		colour[i] = 0
		next := []int{i}
		for len(next) > 0 {
			at := next[len(next)-1]
			next = next[:len(next)-1]
			for _, to := range ties[at] {
				switch {
				case colour[to] < 0:
					colour[to] = 1 - colour[at]
					next = append(next, to)
				case colour[to] == colour[at]:
					return nil
				}
			}
		}
	}
	return colour
}
