package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// outcome returns everything about a run that may not depend on the number of workers.
func outcome(f *Fabric) []any {
	return []any{f.Trace(), f.Accounts(), f.Status(), f.Results(), f.Log(), f.Outages()}
}

// TestWorkers_DoNotChangeResults: the same file with one, two, three and four workers, stopped
// at several times, gives the same trace, counters, queues and flow records. Releasing memory
// between runs changes nothing.
func TestWorkers_DoNotChangeResults(t *testing.T) { checkWorkers(t, drawAny, func(*Fabric) {}) }

// TestWorkers_ThatComeAndGoDoNotChangeResults: results are the same if the number of workers
// keeps changing.
func TestWorkers_ThatComeAndGoDoNotChangeResults(t *testing.T) {
	checkWorkers(t, drawAny, func(f *Fabric) {
		n := 0
		f.workers.Choose = func(time.Duration, uint64) int {
			n++
			return 1 + n*n%7%len(f.Shards)
		}
	})
}

// withWorkers makes a fabric for virtual time; 0 workers means one engine for all nodes.
func withWorkers(t rapid.TB, p *plan.Plan, n int) *Fabric {
	t.Helper()
	if n == 0 {
		return New(p)
	}
	f, err := NewWithWorkers(p, n)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// checkWorkers checks random labs made by draw. begin is called before each run.
func checkWorkers(t *testing.T, draw func(*rapid.T) string, begin func(f *Fabric)) {
	fabrictest.Check(t, 20, func(rt *rapid.T) {
		text := draw(rt)
		p, err := resolve.Parse("lab.yaml", []byte(text))
		if err != nil {
			rt.Skip("a generator with too few hosts")
		}
		cut := links.Down
		stops := []units.Time{300 * units.Microsecond, 600 * units.Microsecond, 2 * units.Millisecond}
		var want []any
		for n := range 5 { // workers; 0 means one engine for all nodes
			f := withWorkers(rt, p, n)
			begin(f)
			var got []any
			for i, until := range stops {
				if err := f.Run(context.Background(), until); err != nil {
					rt.Fatal(err)
				}
				got = append(got, outcome(f)...)
				if n%2 > 0 {
					f.Shrink()
				}
				if i == 0 { // by hand, as in a running lab
					if err := f.Set(len(p.Links)-1, [2]bool{true, false}, change.LinkPatch{State: &cut}); err != nil {
						rt.Fatal(err)
					}
				}
			}
			live := 0
			for _, s := range f.Shards {
				live += s.Pool.LivePackets()
			}
			if a := f.Accounts(); !a.Balanced() || a.Held != uint64(live) {
				rt.Fatalf("%d workers: %d live, %+v", n, live, a)
			}
			if n == 0 {
				want = got
			} else if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%d workers (-one engine +%d):\n%s\n%s", n, n, diff, text)
			}
		}
	})
}

// drawAny makes a random lab of either kind.
func drawAny(t *rapid.T) string {
	if !rapid.Bool().Draw(t, "several ways") {
		return fabrictest.DrawLab(t)
	}
	text := drawPaths(t)
	if _, err := resolve.Parse("lab.yaml", []byte(text)); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return text
}

// drawPaths makes a leaf-spine fabric or a fat-tree whose switches choose in all
// ways, have static routes, and react to links that fail. All links are alike,
// without random settings, so that packets meet at one instant.
func drawPaths(t *rapid.T) string {
	generator, switchNames := "fat-tree: {k: 4, %s}", []string{"edge", "agg"}
	links := []string{"edge1:agg1", "agg2:edge2", "agg4:core3", "core1:agg5", "edge3:agg3"}
	if rapid.Bool().Draw(t, "leaf-spine") {
		generator, switchNames = "leaf-spine: {spines: 3, leaves: 4, hosts-per-leaf: 2, %s}", []string{"leaf", "leaf"}
		links = []string{"leaf1:spine1", "leaf2:spine1", "spine2:leaf1", "leaf3:spine3", "h5:eth0"}
	}
	mode := func() string {
		return rapid.SampledFrom([]string{"ecmp", "random", "round-robin", "{flowlet: {gap: 20us, table: 4}}", "{flowlet: {gap: 3us}}",
			"{entropy: {field: udp-source-port}}", "{entropy: {field: flow-label, divide: 2}}"}).Draw(t, "mode")
	}
	var nodes, events strings.Builder
	for i := 1; i <= 3; i++ {
		to := rapid.SampledFrom([]string{"h3", "h8", "10.0.0.0/29", "default", "fd00::/120"}).Draw(t, "to")
		via := map[string]string{"leaf": "[spine3, {port: spine1, weight: 2}]", "edge": "[agg%d]", "agg": "[{port: edge%d, weight: 3}, core1]"}[switchNames[i%2]]
		if strings.Contains(via, "%d") {
			via = strings.ReplaceAll(via, "%d", fmt.Sprint((i-1)/2*2+1))
		}
		fmt.Fprintf(&nodes, "    %s%d: {forwarding: %s, routes: [{to: \"%s\", via: %s}]}\n", switchNames[i%2], i, mode(), to, via)
	}
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		fmt.Fprintf(&events, "  - {at: %dus, %s: \"%s\", set: {state: %s}}\n", 50*rapid.IntRange(0, 30).Draw(t, "at"),
			rapid.SampledFrom([]string{"link", "from"}).Draw(t, "direction"), rapid.SampledFrom(links).Draw(t, "link"), rapid.SampledFrom([]string{"up", "down"}).Draw(t, "state"))
	}
	return fmt.Sprintf(`
seed: %d
clock: %s
duration: 2ms
topology:
  reroute: %s
  kinds: {switch: {forwarding: %s, queue: {limit: 20KB}}}
  generate: {%s}
  nodes:
%sevents:
%s  - {at: 1900us, link: "h1:eth0", set: {loss: 1%%}}
workload:
  - {cbr: {from: [h1, h3, h4], to: [h2, h5, h7, h8], rate: %dMbps, size: 500B}}
  - {cbr: {from: [h2, h8], to: [h1, h3], rate: 200Mbps, size: 500B, ip: 6}}
`, rapid.IntRange(1, 1000).Draw(t, "seed"), fabrictest.DrawClock(t), rapid.SampledFrom([]string{"never", "{after: 0}", "{after: 100us}", "{after: 333us}"}).Draw(t, "reroute"), mode(),
		fmt.Sprintf(generator, fmt.Sprintf("rate: 1Gbps, delay: %s", rapid.SampledFrom([]string{"1us", "5us", "0"}).Draw(t, "delay"))), nodes.String(), events.String(),
		rapid.IntRange(1, 300).Draw(t, "offered"))
}

// BenchmarkWorkers runs the fat-tree of BenchmarkFabric with one and two workers.
func BenchmarkWorkers(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			f, err := NewWithWorkers(fabrictest.Permutation(b, 8, 40), n)
			if err != nil {
				b.Fatal(err)
			}
			measure(b, f)
		})
	}
}
