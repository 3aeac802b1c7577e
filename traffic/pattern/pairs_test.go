package pattern

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestPairs_CoverTheFlowsOfEachPattern: each flow that a pattern starts is between a pair that
// Pairs yields, and no pattern with few receivers yields all pairs.
func TestPairs_CoverTheFlowsOfEachPattern(t *testing.T) {
	ring := must(Collective{Stream: Stream{Seed: 1, Name: "ring"}, Operation: AllReduce, Hosts: hosts(5), Size: 1000, Iterations: 2})
	exchange := must(Collective{Stream: Stream{Seed: 1, Name: "exchange"}, Operation: Exchange, Hosts: hosts(5), Size: 1000, Iterations: 2})
	shuffle := must(AllToAll{Stream: Stream{Seed: 1, Name: "all"}, Hosts: hosts(5), Sizes: named("websearch")})
	partners := must(Permutation{Stream: Stream{Seed: 1, Name: "partners"}, Hosts: hosts(5), Sizes: named("websearch"), Flows: 3})
	matrix := must(Arrivals{
		Stream: Stream{Seed: 1, Name: "matrix"}, Hosts: hosts(3), Sizes: named("websearch"), Rate: units.Gbps, Stop: units.Second, Flows: 30,
		To: Weights{Matrix: [][]float64{{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}},
	})
	all := openLoops()
	for name, p := range map[string]Pattern{"ring": ring, "exchange": exchange, "shuffle": shuffle, "partners": partners, "matrix": matrix} {
		all[name] = p
	}
	for name, p := range all {
		may := map[[2]int]bool{}
		for from, to := range Pairs(p) {
			if from == to {
				t.Errorf("%s: host %d with itself", name, from)
			}
			may[[2]int{from, to}] = true
		}
		for range Pairs(p) {
			break // must end the iteration
		}
		for _, f := range run(t, p, 1, 1e6).started {
			if !may[[2]int{f.From, f.To}] {
				t.Errorf("%s: a flow from %d to %d is between no pair", name, f.From, f.To)
			}
		}
		if want, ok := map[string]int{"ring": 5, "exchange": 20, "shuffle": 20, "partners": 5, "matrix": 3}[name]; ok && len(may) != want {
			t.Errorf("%s: %d pairs, want %d: %v", name, len(may), want, may)
		}
	}
	// A pattern that does not know its pairs may use all of them.
	n := 0
	for range Pairs(alone{ring, 0}) {
		n++
	}
	if n != 0 {
		t.Errorf("a host alone has %d pairs", n)
	}
	unknown := struct{ Pattern }{ring}
	for range Pairs(unknown) {
		n++
	}
	if n != 20 {
		t.Errorf("a pattern of 5 hosts that does not know its pairs has %d, want 20", n)
	}
}
