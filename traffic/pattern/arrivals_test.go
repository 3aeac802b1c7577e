package pattern

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/sizes"
	"pgregory.net/rapid"
)

// TestLaws: the mean of each law is 1, and its variance is the textbook value.
func TestLaws(t *testing.T) {
	for name, c := range map[string]struct {
		law      Law
		variance float64
		off      float64 // relative tolerance; larger for heavy tails
	}{
		"constant":       {ConstantLaw(), 0, 0.01},
		"poisson":        {PoissonLaw(), 1, 0.01},
		"lognormal 1":    {law(LognormalLaw(1)), math.E - 1, 0.05},
		"weibull 1":      {law(WeibullLaw(1)), 1, 0.01},
		"weibull 1/2":    {law(WeibullLaw(0.5)), 5, 0.05},
		"weibull 3":      {law(WeibullLaw(3)), math.Gamma(5./3)/math.Pow(math.Gamma(4./3), 2) - 1, 0.01},
		"lognormal 0.01": {law(LognormalLaw(0.01)), math.Expm1(1e-4), 0.01},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		const n = 1_000_000
		sum, squares := 0.0, 0.0
		for range n {
			x := c.law.draw(r)
			sum += x
			squares += x * x
		}
		mean := sum / n
		if math.Abs(mean-1) > 0.01 {
			t.Errorf("%s: mean %v", name, mean)
		}
		if v := squares/n - mean*mean; math.Abs(v-c.variance) > c.off*c.variance+1e-9 {
			t.Errorf("%s: variance %v, want %v", name, v, c.variance)
		}
	}
}

// TestLoad: the total load offered by all hosts is within 1% of the requested load.
func TestLoad(t *testing.T) {
	irn, err := sizes.NewUniform(32, 3*units.MB)
	if err != nil {
		t.Fatal(err)
	}
	weights := [][]float64{{0, 3, 1, 0}, {1, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 0, 0}}
	for name, c := range map[string]struct {
		to   Destinations
		gaps Law
		size sizes.Dist
		n    int
	}{
		"poisson":   {AnyOther{}, Law{}, named("websearch"), 32},
		"lognormal": {Partners{}, law(LognormalLaw(1)), irn, 32},
		"constant":  {Partners{Stride: 5}, ConstantLaw(), named("alistorage"), 32},
		"weights":   {Weights{Matrix: weights}, PoissonLaw(), sizes.Fixed(1000), 4},
	} {
		const rate = 30 * units.Gbps
		h := hosts(c.n)
		stop := units.Time(float64(units.Second) * 400_000 * c.size.MeanSize() * 8 / float64(rate) / float64(c.n))
		p := must(Arrivals{Stream: stream, Hosts: h, To: c.to, Sizes: c.size, Rate: rate, Gaps: c.gaps, Start: units.Second, Stop: units.Second + stop})
		sum, n := 0.0, 0
		pairs := map[[2]int]float64{}
		for f := range PlayFlows(p, units.Never) {
			sum += float64(f.Size)
			n++
			pairs[[2]int{f.From, f.To}] += float64(f.Size)
			if f.At < units.Second || f.At >= units.Second+stop {
				t.Fatalf("%s: a flow at %v", name, f.At)
			}
		}
		if got := sum * 8 / stop.Seconds() / float64(rate) / float64(c.n); math.Abs(got-1) > 0.01 {
			t.Errorf("%s: %v of the load, in %d flows", name, got, n)
		}
		if c.n > 4 {
			continue
		}
		for i, row := range weights {
			for j, w := range row {
				if got := pairs[[2]int{h[i], h[j]}] / sum * 7; math.Abs(got-w) > 0.02*w {
					t.Errorf("%d to %d has weight %v, want %v", i, j, got, w)
				}
			}
		}
	}
}

// TestPoissonGaps: the gaps between one host's flows are exponentially distributed,
// by the Kolmogorov-Smirnov test.
func TestPoissonGaps(t *testing.T) {
	p := must(Arrivals{Stream: stream, Hosts: hosts(2)[:1], To: AnyOther{Among: []int{1}}, Sizes: sizes.Fixed(1000), Rate: 8 * units.Mbps, Flows: 100_000})
	var gaps []float64
	last := units.Time(0)
	for f := range PlayFlows(p, units.Never) {
		gaps = append(gaps, (f.At-last).Seconds()*1000)
		last = f.At
	}
	slices.Sort(gaps)
	n := float64(len(gaps))
	worst := 0.0
	for i, g := range gaps {
		worst = max(worst, math.Abs(float64(i)/n-(1-math.Exp(-g))))
	}
	if limit := 1.95 / math.Sqrt(n); worst > limit { // exceeded once in a thousand times
		t.Errorf("%v from the exponential distribution, limit %v", worst, limit)
	}
}

// TestConstantGaps: gaps are equal, and hosts are not in step.
func TestConstantGaps(t *testing.T) {
	p := must(Arrivals{Stream: stream, Hosts: hosts(8), Sizes: sizes.Fixed(1250), Rate: units.Gbps, Gaps: ConstantLaw(), Stop: units.Millisecond})
	last := map[int]units.Time{}
	phases := map[units.Time]bool{}
	for f := range PlayFlows(p, units.Never) {
		if at, ok := last[f.From]; ok && f.At-at != 10*units.Microsecond {
			t.Fatalf("a gap of %v", f.At-at)
		}
		last[f.From] = f.At
		phases[f.At%(10*units.Microsecond)] = true
	}
	if len(phases) != 8 {
		t.Errorf("%d phases of 8 hosts", len(phases))
	}
}

// TestDestinationsAreEven: each other host gets an equal share, the sender none.
func TestDestinationsAreEven(t *testing.T) {
	for name, among := range map[string][]int{"all": nil, "others": {1, 2, 4}, "some": {1, 100, 103, 4}} {
		p := must(Arrivals{Stream: stream, Hosts: hosts(3), To: AnyOther{among}, Sizes: sizes.Fixed(1), Rate: 1, Flows: 300_000})
		count := map[[2]int]int{}
		for f := range PlayFlows(p, units.Never) {
			count[[2]int{f.From, f.To}]++
		}
		if among == nil {
			among = hosts(3)
		}
		for _, h := range hosts(3) {
			n := len(among)
			if slices.Contains(among, h) {
				n--
			}
			for _, to := range among {
				want := 100_000 / float64(n)
				if to == h {
					want = 0
				}
				if got := float64(count[[2]int{h, to}]); math.Abs(got-want) > 5*math.Sqrt(want) {
					t.Errorf("%s: %v flows from %d to %d, want %v", name, got, h, to, want)
				}
			}
		}
	}
}

// TestFlowsAreCounted: the number of flows is exactly as requested, regardless of the
// hosts' shares.
func TestFlowsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "hosts")
		a := Arrivals{Stream: stream, Hosts: hosts(n), Sizes: sizes.Fixed(10), Rate: units.Gbps,
			Flows: rapid.IntRange(1, 200).Draw(t, "flows")}
		if rapid.Bool().Draw(t, "weighted") {
			row := rapid.SliceOfN(rapid.Float64Range(0.01, 100), n, n)
			m := rapid.SliceOfN(row, n, n).Draw(t, "weights")
			for i := range m {
				m[i][i] = 0
			}
			a.To = Weights{Matrix: m}
		}
		got := 0
		for range PlayFlows(must(a), units.Never) {
			got++
		}
		if got != a.Flows {
			t.Fatalf("%d flows, want %d", got, a.Flows)
		}
	})
}

// TestPermutationsHaveNoFixedPoint: each host sends to one other host and receives from
// one.
func TestPermutationsHaveNoFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 50).Draw(t, "hosts")
		d := Partners{Stride: rapid.IntRange(0, n-1).Draw(t, "stride")}
		h := hosts(n)
		r, err := d.makeRoute(Stream{Seed: rapid.Uint64().Draw(t, "seed")}, h)
		if err != nil {
			t.Fatal(err)
		}
		to := map[int]bool{}
		for i := range n {
			partner := r.to(i)(nil)
			if partner == h[i] {
				t.Fatalf("%d sends to itself", h[i])
			}
			to[partner] = true
			if d.Stride > 0 && partner != h[(i+d.Stride)%n] {
				t.Fatalf("%d sends to %d", h[i], partner)
			}
		}
		if len(to) != n {
			t.Fatalf("%d of %d hosts receive", len(to), n)
		}
	})
}

// BenchmarkArrivals measures the cost of drawing a flow.
func BenchmarkArrivals(b *testing.B) {
	for name, a := range map[string]Arrivals{
		"websearch": {Sizes: named("websearch")},
		"fixed":     {Sizes: sizes.Fixed(1000)},
		"lognormal": {Sizes: sizes.Fixed(1000), Gaps: law(LognormalLaw(1))},
	} {
		b.Run(name, func(b *testing.B) {
			a.Stream, a.Hosts, a.Rate = stream, hosts(320), 100*units.Gbps
			g := must(a).Agent(100)
			for b.Loop() {
				g.Fire(g.NextFlow(), func(Flow) {})
			}
			b.ReportAllocs()
		})
	}
}
