package systems

import (
	"fmt"
	"math"
	"strings"

	"pgregory.net/rapid"
)

// tree is a random fabric of switches in a tree, so that there is one path between any
// two hosts, and flows between them.
type tree struct {
	parent []int // of each switch; -1 of the first
	home   []int // switch of each host
	// up are the rates in Gb/s of the links from switches to their parents, host those
	// of the links to hosts.
	up, host []int
	flows    [][2]int // hosts
}

// drawTree draws a tree with links of some rates in Gb/s.
func drawTree(t *rapid.T, rates []int) tree {
	var x tree
	rate := rapid.SampledFrom(rates)
	for i := range rapid.IntRange(1, 4).Draw(t, "switches") {
		parent := -1
		if i > 0 {
			parent = rapid.IntRange(0, i-1).Draw(t, "parent")
		}
		x.parent = append(x.parent, parent)
		x.up = append(x.up, rate.Draw(t, "uplink"))
	}
	for range rapid.IntRange(3, 8).Draw(t, "hosts") {
		x.home = append(x.home, rapid.IntRange(0, len(x.parent)-1).Draw(t, "home"))
		x.host = append(x.host, rate.Draw(t, "rate"))
	}
	for range rapid.IntRange(1, 10).Draw(t, "flows") {
		from := rapid.IntRange(0, len(x.home)-1).Draw(t, "from")
		to := (from + rapid.IntRange(1, len(x.home)-1).Draw(t, "to")) % len(x.home)
		x.flows = append(x.flows, [2]int{from, to})
	}
	return x
}

// addIdleHosts adds hosts without flows until the fabric has so many ports.
func (x *tree) addIdleHosts(ports int) {
	for 2*(len(x.home)+len(x.parent)-1) < ports {
		x.home = append(x.home, len(x.home)%len(x.parent))
		x.host = append(x.host, 10)
	}
}

// lab returns the tree as a lab file. The text before it says which kinds of hosts and
// switches it has.
func (x *tree) lab(kinds string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "duration: 1s\ntopology:\n%s  nodes:\n", kinds)
	for i := range x.parent {
		fmt.Fprintf(&b, "    s%d: {kind: switch}\n", i)
	}
	for i := range x.home {
		fmt.Fprintf(&b, "    h%d: {kind: host}\n", i)
	}
	b.WriteString("  links:\n")
	for i, p := range x.parent {
		if p >= 0 {
			fmt.Fprintf(&b, "    - {endpoints: [\"s%d:s%d\", \"s%d:s%d\"], rate: %dGbps}\n", i, p, p, i, x.up[i])
		}
	}
	for i, s := range x.home {
		fmt.Fprintf(&b, "    - {endpoints: [\"h%d:eth0\", \"s%d:h%d\"], rate: %dGbps}\n", i, s, i, x.host[i])
	}
	b.WriteString("workload:\n")
	for i, f := range x.flows {
		fmt.Fprintf(&b, "  - {write: {name: f%d, from: h%d, to: h%d, size: 1MB, count: unlimited}}\n", i, f[0], f[1])
	}
	return b.String()
}

// way returns the directed links of a flow, by name, with their rates in Gb/s.
func (x *tree) way(flow int) map[string]int {
	from, to := x.flows[flow][0], x.flows[flow][1]
	links := map[string]int{fmt.Sprintf("h%d>", from): x.host[from], fmt.Sprintf(">h%d", to): x.host[to]}
	above := func(s int) (path []int) { // from the first switch down to s
		for ; s >= 0; s = x.parent[s] {
			path = append([]int{s}, path...)
		}
		return path
	}
	a, b := above(x.home[from]), above(x.home[to])
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for _, s := range a {
		links[fmt.Sprintf("s%d^", s)] = x.up[s]
	}
	for _, s := range b {
		links[fmt.Sprintf("s%dv", s)] = x.up[s]
	}
	return links
}

// maxMin returns the max-min fair rate of each flow in Gb/s, by water-filling (Bertsekas
// and Gallager, Data Networks, §6.5.2): the link with the least for each of its open flows
// fixes their rates, until no flow is open.
func (x *tree) maxMin() []float64 {
	rates := make([]float64, len(x.flows))
	left, open := map[string]float64{}, map[string]map[int]bool{}
	for i := range x.flows {
		for name, r := range x.way(i) {
			left[name] = float64(r)
			if open[name] == nil {
				open[name] = map[int]bool{}
			}
			open[name][i] = true
		}
	}
	for {
		tightest, minShare := "", math.Inf(1)
		for name, flows := range open {
			if share := left[name] / float64(len(flows)); len(flows) > 0 && (share < minShare || share == minShare && name < tightest) {
				tightest, minShare = name, share
			}
		}
		if tightest == "" {
			return rates
		}
		for i := range open[tightest] {
			rates[i] = minShare
			for name := range x.way(i) {
				if name != tightest {
					delete(open[name], i)
					left[name] -= minShare
				}
			}
		}
		delete(open, tightest)
	}
}
