package pattern

import (
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
)

// named returns a distribution used in papers.
func named(name string) sizes.Dist {
	d, err := sizes.FindNamed(name)
	if err != nil {
		panic(err)
	}
	return d
}

func law(l Law, err error) Law {
	if err != nil {
		panic(err)
	}
	return l
}

var stream = Stream{Seed: 7, Name: "web"}

// openLoops returns patterns that do not depend on the outcome of their flows.
func openLoops() map[string]Pattern {
	h := hosts(12)
	arrivals := func(a Arrivals) Pattern {
		a.Stream, a.Hosts, a.Sizes, a.Rate, a.Stop = stream, h, named("websearch"), 10*units.Gbps, 100*units.Millisecond
		return must(a)
	}
	requests := func(q Requests) Pattern {
		q.Stream, q.Workers, q.Response, q.Every, q.Stop = stream, h, named("fb-hadoop"), units.Millisecond, 50*units.Millisecond
		return must(q)
	}
	weights := make([][]float64, len(h))
	for i := range weights {
		weights[i] = make([]float64, 3)
		weights[i][(i+1)%3] = float64(i)
		weights[i][(i+2)%3] = 1
	}
	return map[string]Pattern{
		"poisson":         arrivals(Arrivals{}),
		"lognormal":       arrivals(Arrivals{Gaps: law(LognormalLaw(2))}),
		"weibull":         arrivals(Arrivals{Gaps: law(WeibullLaw(0.5))}),
		"constant, pairs": arrivals(Arrivals{Gaps: ConstantLaw(), To: Partners{}}),
		"weights":         arrivals(Arrivals{To: Weights{To: []int{1, 2, 4}, Matrix: weights}}),
		"counted":         arrivals(Arrivals{Flows: 100}),
		"incast":          requests(Requests{Aggregators: h[:1], Fanout: 5, Total: true}),
		"incasts":         requests(Requests{Aggregators: h, Fanout: 5, Times: PoissonLaw()}),
		"roaming incast":  requests(Requests{Aggregators: h, Fanout: 5, Roaming: true, Count: 30}),
		"incast of all":   requests(Requests{Aggregators: []int{1, 2}}),
		"incasts in step": requests(Requests{Aggregators: h[:3], Fanout: 2}),
		"list": must(List{Hosts: h, Flows: []Listed{
			{From: 3, To: 1, Size: 5, At: 50}, {From: 0, To: 1, Size: 10, At: 30}, {From: 0, To: 2, Size: 20, At: 20},
		}}),
	}
}

// TestOpenLoopsDoNotDependOnWhatBecomesOfFlows: two networks, and none at all, see the
// same flows.
func TestOpenLoopsDoNotDependOnWhatBecomesOfFlows(t *testing.T) {
	for name, p := range openLoops() {
		one, two := run(t, p, 1, 1e6), run(t, p, 2, 1e6)
		if len(one.started) < 3 {
			t.Errorf("%s: %d flows", name, len(one.started))
		}
		equal(t, name, one.started, two.started)
		equal(t, name+" without a network", one.started, slices.Collect(PlayFlows(p, units.Never)))
	}
}

// alone is a pattern with only one of its hosts running.
type alone struct {
	Pattern
	host int
}

func (a alone) Hosts() []int { return []int{a.host} }

// TestAHostAloneIsThatAmongAll: the flows that a host starts do not need the other
// hosts' agents, nor depend on which agents were made before.
func TestAHostAloneIsThatAmongAll(t *testing.T) {
	fresh := openLoops()
	for name, p := range openLoops() {
		all := slices.Collect(PlayFlows(p, units.Never))
		for _, h := range slices.Backward(p.Hosts()) {
			own := slices.DeleteFunc(slices.Clone(all), func(f Flow) bool { return f.From != h })
			equal(t, name, own, slices.Collect(PlayFlows(alone{fresh[name], h}, units.Never)))
		}
	}
}

// TestPlayIsInOrder: flows are in order of time, and of hosts at one instant.
func TestPlayIsInOrder(t *testing.T) {
	for name, p := range openLoops() {
		flows := slices.Collect(PlayFlows(p, 20*units.Millisecond))
		if !slices.IsSortedFunc(flows, func(a, b Flow) int { return int(a.At - b.At) }) {
			t.Errorf("%s: out of order", name)
		}
		if n := len(flows); n > 0 && flows[n-1].At >= 20*units.Millisecond {
			t.Errorf("%s: a flow at %v", name, flows[n-1].At)
		}
		for range PlayFlows(p, units.Never) {
			break // must end the iteration
		}
	}
}

// TestSeedAndNameMatter: different seeds and names give different flows, and nothing
// else does.
func TestSeedAndNameMatter(t *testing.T) {
	make := func(s Stream) []Flow {
		return slices.Collect(PlayFlows(must(Arrivals{
			Stream: s, Hosts: hosts(4), Sizes: named("websearch"), Rate: units.Gbps, Stop: units.Second,
		}), units.Never))
	}
	equal(t, "the same", make(stream), make(stream))
	for _, other := range []Stream{{8, "web"}, {7, "background"}} {
		if a, b := make(stream), make(other); a[0].At == b[0].At || a[0].Size == b[0].Size {
			t.Errorf("%v gives the flows of %v", other, stream)
		}
	}
}

// TestHosts: a pattern lists all participating hosts, and makes no agents for others.
func TestHosts(t *testing.T) {
	for name, p := range openLoops() {
		for f := range PlayFlows(p, units.Never) {
			if !slices.Contains(p.Hosts(), f.From) || !slices.Contains(p.Hosts(), f.To) {
				t.Errorf("%s: %d to %d, hosts are %v", name, f.From, f.To, p.Hosts())
				break
			}
		}
		if !slices.IsSorted(p.Hosts()) {
			t.Errorf("%s: hosts %v", name, p.Hosts())
		}
		if p.Agent(99) != nil {
			t.Errorf("%s has an agent for a host that takes no part", name)
		}
	}
}

// TestBadPatterns: errors say what is wrong.
func TestBadPatterns(t *testing.T) {
	h := hosts(4)
	size := sizes.Fixed(1000)
	matrix := func(rows ...[]float64) Arrivals {
		return Arrivals{Hosts: h[:2], Sizes: size, Rate: 1, To: Weights{Matrix: rows}}
	}
	listed := func(f Listed) List { return List{Hosts: h, Flows: []Listed{f}} }
	for _, c := range []struct {
		p    interface{ Make() (Pattern, error) }
		want string
	}{
		{Arrivals{Sizes: size, Rate: 1}, "arrivals: 0 hosts"},
		{Arrivals{Hosts: []int{1, 1}, Sizes: size, Rate: 1}, "duplicate host 1"},
		{Arrivals{Hosts: []int{-1, 1}, Sizes: size, Rate: 1}, "-1 is not a host"},
		{Arrivals{Hosts: h, Rate: 1}, "without sizes"},
		{Arrivals{Hosts: h, Sizes: size}, "rate must be above 0"},
		{Arrivals{Hosts: h, Sizes: size, Rate: 1, Flows: -1}, "-1 flows"},
		{Arrivals{Hosts: h, Sizes: size, Rate: 1, Start: 5, Stop: 5}, "stop at 5ps is not after start"},
		{Arrivals{Hosts: h[:1], Sizes: size, Rate: 1}, "no other host"},
		{Arrivals{Hosts: h, Sizes: size, Rate: 1, To: Partners{Stride: 4}}, "stride of 4 among 4"},
		{matrix([]float64{0, 1}), "1 rows for 2 sending hosts"},
		{matrix([]float64{0, 1}, []float64{1}), "row 2 of the matrix has 1 weights"},
		{matrix([]float64{0, 1}, []float64{1, 1}), "row 2, column 2 of the matrix: host 103 would send to itself"},
		{matrix([]float64{0, -1}, []float64{1, 0}), "row 1, column 2 of the matrix: -1 is not a weight"},
		{matrix([]float64{0, 0}, []float64{0, 0}), "add up to 0"},
		{Permutation{Hosts: h[:1], Sizes: size}, "1 hosts, at least 2"},
		{Permutation{Hosts: h}, "without sizes"},
		{Permutation{Hosts: h, Sizes: size, Flows: -1}, "negative"},
		{AllToAll{Hosts: h}, "without sizes"},
		{AllToAll{Hosts: h[:1], Sizes: size}, "at least 2"},
		{AllToAll{Hosts: h, Sizes: size, Window: -1}, "window of -1"},
		{OnOff{Hosts: h, Sizes: size}, "either a number of flows or a time on"},
		{OnOff{Hosts: h, Sizes: size, Burst: 1, On: 1}, "either a number of flows or a time on"},
		{OnOff{Hosts: h, Burst: 1}, "without sizes"},
		{OnOff{Hosts: h[:2], Sizes: size, Burst: 1, To: Weights{Matrix: [][]float64{{0, 1}, {0, 0}}}}, "host 103 has no weight"},
		{Collective{Hosts: h, Size: 3}, "chunks need at least 1B"},
		{Collective{Hosts: h[:1], Size: 3}, "at least 2"},
		{Collective{Hosts: h, Size: 4, Operation: 9}, "collective 9"},
		{Collective{Hosts: h, Size: 4, Compute: -1}, "compute"},
		{Requests{Workers: h, Response: size, Every: 1}, "aggregators: 0 hosts"},
		{Requests{Aggregators: h[:1], Workers: h[:1], Response: size, Every: 1}, "aggregator 100 has no worker but itself"},
		{Requests{Aggregators: h[:1], Workers: h, Fanout: 4, Response: size, Every: 1}, "aggregator 100 has only 3"},
		{Requests{Aggregators: h[:1], Workers: h, Every: 1}, "size of a response"},
		{Requests{Aggregators: h[:1], Workers: h, Response: size}, "needs a size of the request message"},
		{Requests{Aggregators: h[:1], Workers: h, Response: size, Every: 1, Think: 1}, "do not wait for answers"},
		{Requests{Aggregators: h[:1], Workers: h, Response: size, Request: size, Roaming: true}, "roam"},
		{List{Hosts: h}, "an empty list of flows"},
		{listed(Listed{From: 0, To: 4, Size: 1}), "flow 1: there is no host 4: hosts are 0 to 3"},
		{listed(Listed{From: 0, To: 0, Size: 1, Line: 17}), "line 17: host 0 would send to itself"},
		{listed(Listed{From: 0, To: 1}), "0 bytes"},
		{listed(Listed{From: 0, To: 1, Size: 1, At: -1}), "before the run"},
		{listed(Listed{From: 0, To: 1, Size: 1, Trigger: 1}), "no trigger 1"},
	} {
		_, err := c.p.Make()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.p, err, c.want)
		}
	}
	for _, l := range []func(float64) (Law, error){LognormalLaw, WeibullLaw} {
		for _, bad := range []float64{0, -1, 11} {
			if _, err := l(bad); err == nil {
				t.Errorf("a law with %v", bad)
			}
		}
	}
}
