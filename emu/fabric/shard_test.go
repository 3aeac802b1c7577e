package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/spec"
	"github.com/weftlab/weft/emu/units"
)

// outcome is everything about a run that may not depend on the number of
// shards.
func outcome(f *Fabric) []any {
	return []any{f.Trace(), f.Accounts(), f.Status(), f.Results()}
}

// TestShardsDoNotChangeResults: the same file in one, two, three and four
// shards, stopped at several times, gives the same trace, counters, queues and
// flow records.
func TestShardsDoNotChangeResults(t *testing.T) { checkShards(t, drawLab, func(*Fabric) {}) }

// checkShards runs labs that draw makes. Begin is called before each run.
func checkShards(t *testing.T, draw func(*rapid.T) string, begin func(f *Fabric)) {
	rapid.Check(t, func(rt *rapid.T) {
		text := draw(rt)
		p, err := spec.Parse("lab.yaml", []byte(text))
		if err != nil {
			rt.Skip("a generator with too few hosts")
		}
		stops := []units.Time{300 * units.Microsecond, 600 * units.Microsecond, 2 * units.Millisecond}
		var want []any
		for n := 1; n <= 4; n++ {
			f, err := NewSharded(p, n)
			if err != nil {
				continue // links that are too short to be cut
			}
			begin(f)
			var got []any
			for _, until := range stops {
				if err := f.Run(context.Background(), until); err != nil {
					rt.Fatal(err)
				}
				got = append(got, outcome(f)...)
			}
			live := 0
			for _, s := range f.Shards {
				live += s.Pool.Live()
			}
			if a := f.Accounts(); !a.Balanced() || n == 1 && a.Held != uint64(live) {
				rt.Fatalf("%d shards: %d live, %+v", n, live, a)
			}
			if n == 1 {
				want = got
			} else if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%d shards (-one +%d):\n%s\n%s", n, n, diff, text)
			}
		}
	})
}

// TestPartition: pods and leaves stay whole, loads are even, and what cannot
// be cut is refused with the reason.
func TestPartition(t *testing.T) {
	p := parse(t, "duration: 1s\ntopology: {generate: {fat-tree: {k: 4, rate: 1Gbps, delay: 1us}}}\n")
	shardOf, err := partition(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	count := [2]int{}
	for n, s := range shardOf {
		count[s]++
		_ = n
	}
	if count[0] != count[1] {
		t.Errorf("%d nodes in one shard, %d in the other", count[0], count[1])
	}
	for _, l := range p.Links {
		a, b := p.Nodes[l.Ends[0].Node].Name, p.Nodes[l.Ends[1].Node].Name
		if shardOf[l.Ends[0].Node] != shardOf[l.Ends[1].Node] && !strings.HasPrefix(a, "core") && !strings.HasPrefix(b, "core") {
			t.Errorf("the link from %s to %s is cut", a, b)
		}
	}
	for text, want := range map[string]string{
		"{star: {hosts: 6}}":                 "delay below 100ns",
		"{star: {hosts: 2, delay: 1us}}":     "only 3 nodes",
		"{dumbbell: {left: 2, right: 2}}":    "give the links between switches a delay",
		"{fat-tree: {k: 4, delay: 99999ps}}": "delay below 100ns",
	} {
		p := parse(t, "duration: 1s\ntopology: {generate: "+text+"}\n")
		if _, err := partition(p, 5); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s in 5 shards: %v, want an error with %q", text, err, want)
		}
	}
}

// BenchmarkShards is the fat-tree of BenchmarkFabric on one and two shards.
func BenchmarkShards(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprintf("shards=%d", n), func(b *testing.B) {
			f, err := NewSharded(permutation(b, 8, 40), n)
			if err != nil {
				b.Fatal(err)
			}
			measure(b, f)
		})
	}
}
