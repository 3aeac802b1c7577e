package fabric

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// sentBy returns the packets sent by a switch's ports with links to nodes of
// the given names.
func (f *Fabric) sentBy(t testing.TB, sw, to string, n int) (counts []uint64) {
	t.Helper()
	for i := 1; i <= n; i++ {
		node, index, err := f.Plan.Endpoint(fmt.Sprintf("%s:%s%d", sw, to, i))
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, f.PortStatus(node, index).TxPackets)
	}
	return counts
}

// TestForwardingModes_UseThePathsAsIntended: one flow of either IP version over four spines,
// which are switches or routers: each mode uses them as intended.
func TestForwardingModes_UseThePathsAsIntended(t *testing.T) {
	const packets = 10_000
	for mode, judge := range map[string]func(counts []uint64) bool{
		"ecmp": func(c []uint64) bool { return used(c) == 1 },
		"random": func(c []uint64) bool {
			for _, n := range c {
				if math.Abs(float64(n)-packets/4) > 4*math.Sqrt(packets*3./16) {
					return false
				}
			}
			return true
		},
		"round-robin":                         func(c []uint64) bool { return used(c) == 4 && c[0] == packets/4 && c[1] == c[0] && c[2] == c[0] },
		"{flowlet: {gap: 2us}}":               func(c []uint64) bool { return used(c) == 4 }, // packets are 10 us apart
		"{flowlet: {gap: 11us}}":              func(c []uint64) bool { return used(c) == 1 },
		"{entropy: {field: udp-source-port}}": func(c []uint64) bool { return used(c) == 1 && c[49152%4] == packets },
		"{entropy: {field: flow-label}}":      func(c []uint64) bool { return used(c) == 1 },
	} {
		for i, ip := range []int{4, 6, 4, 6} {
			routers := []string{"none", "auto"}[i/2]
			f := run(t, parse(t, fmt.Sprintf(`
duration: 101ms
topology:
  kinds: {switch: {forwarding: %s, address: %s}}
  generate: {leaf-spine: {spines: 4, leaves: 2, hosts-per-leaf: 1, rate: 10Gbps, delay: 1us}}
workload: [{cbr: {from: h1, to: h2, rate: 800Mbps, size: 1000B, ip: %d, for: 100ms}}]
`, mode, routers, ip)))
			counts := f.sentBy(t, "leaf1", "spine", 4)
			if sum := counts[0] + counts[1] + counts[2] + counts[3]; sum != packets || !judge(counts) {
				t.Errorf("%s, IPv%d, address %s: the spines carried %v", mode, ip, routers, counts)
			}
			if r := f.Results()[0]; r.Received != packets || r.Reordered > 0 {
				t.Errorf("%s, IPv%d, address %s: %d received, %d out of order over ways of one length", mode, ip, routers, r.Received, r.Reordered)
			}
		}
	}
}

func used(counts []uint64) (n int) {
	for _, c := range counts {
		if c > 0 {
			n++
		}
	}
	return n
}

// TestEntropy_UsesAllPathsOfAFatTreeEqually: in a fat-tree, consecutive source ports use all
// paths between two pods, each equally often.
func TestEntropy_UsesAllPathsOfAFatTreeEqually(t *testing.T) {
	for _, k := range []int{4, 8} {
		m := k / 2
		nodes := ""
		for i := 1; i <= k*m; i++ {
			nodes += fmt.Sprintf("    agg%d: {forwarding: {entropy: {field: udp-source-port, divide: %d}}}\n", i, m)
		}
		text := fmt.Sprintf(`
duration: 20ms
topology:
  kinds: {switch: {forwarding: {entropy: {field: udp-source-port}}}}
  generate: {fat-tree: {k: %d, rate: 10Gbps, delay: 1us}}
  nodes:
%sworkload:
`, k, nodes)
		for i := range m * m {
			text += fmt.Sprintf("  - {cbr: {name: f%d, from: h1, to: h%d, rate: 8Mbps, size: 1000B, ip: %d, for: 10ms}}\n", i, k*k*k/4, 4+i%2*2)
		}
		f := run(t, parse(t, text))
		for agg := 1; agg <= m; agg++ {
			for core := range m {
				node, index, err := f.Plan.Endpoint(fmt.Sprintf("agg%d:core%d", agg, (agg-1)*m+core+1))
				if err != nil {
					t.Fatal(err)
				}
				if n := f.PortStatus(node, index).TxPackets; n != 10 {
					t.Errorf("k=%d: agg%d sent %d packets to its core %d, want those of one flow, 10", k, agg, n, core+1)
				}
			}
		}
	}
}

// TestFlowlets_KeepOrderOverUnequalPaths: over paths of different delay, flowlets with a gap
// beyond the difference keep the order of bursty flows, which use all paths.
func TestFlowlets_KeepOrderOverUnequalPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delays := [3]int{}
		for i := range delays {
			delays[i] = rapid.IntRange(0, 100).Draw(t, "delay in us")
		}
		// 20 us for queueing where flows meet.
		gap := max(delays[0], delays[1], delays[2]) - min(delays[0], delays[1], delays[2]) + 20
		f := New(parse(t, fmt.Sprintf(`
seed: %d
duration: 30ms
topology:
  kinds: {link: {rate: 10Gbps}, switch: {forwarding: {flowlet: {gap: %dus, table: %d}}}}
  nodes: {s1: {kind: switch}, s2: {kind: switch}, h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, h4: {kind: host}}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["h2:eth0", "s1:h2"]}
    - {endpoints: ["h3:eth0", "s2:h3"]}
    - {endpoints: ["h4:eth0", "s2:h4"]}
    - {endpoints: ["s1:w1", "s2:w1"], delay: %dus}
    - {endpoints: ["s1:w2", "s2:w2"], delay: %dus}
    - {endpoints: ["s1:w3", "s2:w3"], delay: %dus}
workload:
  - {on-off: {from: h1, to: h3, rate: 800Mbps, size: 1000B, on: 200us, off: 500us, phases: exponential}}
  - {poisson: {from: h2, to: h4, rate: 80Mbps, size: 1000B, ip: 6}}
`, rapid.IntRange(1, 1000).Draw(t, "seed"), gap, rapid.SampledFrom([]int{1, 2, 4096}).Draw(t, "table"), delays[0], delays[1], delays[2])))
		if err := f.Run(context.Background(), 30*units.Millisecond); err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Results() {
			if r.Reordered > 0 || r.Received == 0 {
				t.Errorf("%s: %d of %d packets out of order", r.Flow, r.Reordered, r.Received)
			}
		}
	})
}

// TestCaptures_ChangeNoPaths: random draws and turns depend on the order of packets at one
// instant, and that order does not depend on captures.
func TestCaptures_ChangeNoPaths(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := parse(t, drawPaths(rt))
		seen, unseen := New(p), New(p)
		for n, node := range seen.ports {
			for i := range node {
				if rapid.Bool().Draw(rt, "watch") {
					seen.Port(n, i).SetObserver(0, observe(func(*packet.Packet) {}))
				}
			}
		}
		for _, f := range []*Fabric{seen, unseen} {
			if err := f.Run(context.Background(), p.Duration); err != nil {
				rt.Fatal(err)
			}
		}
		if diff := cmp.Diff(outcome(unseen), outcome(seen)); diff != "" {
			rt.Fatalf("unseen and seen:\n%s", diff)
		}
	})
}
