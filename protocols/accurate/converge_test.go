package accurate

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// settling returns how many periods begin, after a change, until all flows have their fair
// rates and keep them.
func (w *network) settling() int {
	const looks, every = 10, paperRRP / 10
	const longest = 40
	last, from := 0, w.now
	for k := 1; k <= longest*looks; k++ {
		w.run(from + units.Time(k)*every)
		if w.off() > 0.001 {
			last = k
		}
	}
	return (last + looks - 1) / looks
}

// TestConverges: on random links, when one flow begins or ends, all get what water-filling of
// C(1-α) gives. One level of bottlenecks takes two periods for a flow that begins (§III-B: 40
// us), and four for one that ends: DR raises all flows of a link at once by what b_max leaves,
// and the next period corrects it. With more levels, each takes up to four.
func TestConverges(t *testing.T) {
	var longest [2][8]int // begins and ends, by levels
	for seed := range 600 {
		w := rapid.Custom(drawNetwork).Example(seed)
		w.floor(true)
		random := w.begin(uint64(seed))
		w.settling()
		if off := w.off(); off > 0.001 {
			t.Fatalf("example %d: has not settled, the worst flow is %.3f off", seed, off)
		}
		w.run(w.now + units.Time(random.IntN(20_000))*units.Nanosecond)
		f := w.flows[random.IntN(len(w.flows))]
		kind := 0
		if f.active {
			kind = 1
		}
		f.set(!f.active)
		_, levels := w.fair()
		n := w.settling()
		longest[kind][levels] = max(longest[kind][levels], n)
		if limit := 4 * levels; n > limit || kind == 0 && levels == 1 && n > 2 {
			t.Errorf("example %d: %d levels of bottlenecks took %d periods", seed, levels, n)
		}
	}
	t.Logf("periods by levels, for a flow that begins and one that ends: %v", longest)
}

// TestManyChanges: when flows begin and end in quick succession, the last change counts.
func TestManyChanges(t *testing.T) {
	longest := map[int]int{}
	for seed := range 300 {
		w := rapid.Custom(drawNetwork).Example(seed)
		w.floor(true)
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		for range 30 {
			f := w.flows[random.IntN(len(w.flows))]
			f.set(!f.active)
			w.run(w.now + units.Time(random.IntN(30_000))*units.Nanosecond)
		}
		_, levels := w.fair()
		n := w.settling()
		longest[levels] = max(longest[levels], n)
		if limit := 4*levels + 1; n > limit {
			t.Errorf("example %d: %d levels of bottlenecks took %d periods", seed, levels, n)
		}
	}
	t.Logf("periods by levels: %v", longest)
}
