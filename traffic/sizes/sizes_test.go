package sizes

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weftlab/weft/sim/units"
	"pgregory.net/rapid"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// must returns a distribution that a test knows to be valid.
func must[T any](d T, err error) T {
	if err != nil {
		panic(err)
	}
	return d
}

// irn is the workload of the IRN paper (SIGCOMM 2018, section 4.1): half the flows are
// 32 B to 1 KB, 15% are 200 KB to 3 MB, the rest lies between.
func irn() *Mix {
	return must(NewMix([]Part{
		{0.5, must(NewUniform(32, 1*units.KB))},
		{0.15, must(NewUniform(200*units.KB, 3*units.MB))},
	}, must(NewUniform(1*units.KB, 200*units.KB))))
}

// TestMeansAreTrue: the mean of a million draws is the mean that MeanSize computes.
func TestMeansAreTrue(t *testing.T) {
	for name, d := range map[string]Dist{
		"fixed":             Fixed(1000),
		"fixed, nothing":    Fixed(0),
		"uniform":           must(NewUniform(1, 6)),
		"exponential":       must(NewExponential(100 * units.KB)),
		"exponential small": must(NewExponential(2)),
		"exponential least": must(NewExponential(1)),
		"pareto":            must(NewPareto(1.2, 1*units.KB, 1*units.MB)),
		"pareto 1":          must(NewPareto(1, 64, 1*units.MB)),
		"pareto small":      must(NewPareto(2, 1, 4)),
		"pareto fixed":      must(NewPareto(2, 7, 7)),
		"cdf from 0":        must(NewCDF([]Point{{0, 0}, {1, 50}, {3, 100}})),
		"cdf with a step":   must(NewCDF([]Point{{10, 0}, {10, 40}, {20, 60}, {30, 60}, {40, 100}})),
		"irn":               irn(),
		"websearch":         must(FindNamed("websearch")),
		"fb-hadoop":         must(FindNamed("fb-hadoop")),
		"alistorage":        must(FindNamed("alistorage")),
		"google-rpc":        must(FindNamed("google-rpc")),
		"rocc-fb":           must(FindNamed("rocc-fb")),
		"datamining":        must(FindNamed("datamining")),
	} {
		t.Run(name, func(t *testing.T) {
			r, sum, squares := random(), 0.0, 0.0
			const n = 1_000_000
			for range n {
				s := d.DrawSize(r)
				if s < 1 {
					t.Fatalf("drew %d bytes", s)
				}
				sum += float64(s)
				squares += float64(s) * float64(s)
			}
			mean := sum / n
			// Within 4 standard errors: about 1% for websearch, less for most, more only
			// for the heaviest tails.
			off := 4 * math.Sqrt(max(squares/n-mean*mean, 0)/n)
			if math.Abs(mean-d.MeanSize()) > off+1e-9*mean {
				t.Errorf("mean of the draws %v, Mean %v", mean, d.MeanSize())
			}
		})
	}
}

// TestKnownMeans: means computed by hand, or known from elsewhere.
func TestKnownMeans(t *testing.T) {
	for name, want := range map[string]float64{
		"websearch":  1_711_250, // by the CDF's straight lines, to half a byte
		"alistorage": 40_869.80, // as computed by HPCC's generator
		"fb-hadoop":  120_420.75,
		"google-rpc": 2891.6, // of the points in the file, which have 4 digits
	} {
		if got := must(FindNamed(name)).MeanSize(); math.Abs(got/want-1) > 1e-3 {
			t.Errorf("%s: mean %v, want %v", name, got, want)
		}
	}
}

// TestDrawFollowsTheCDF: the share of draws at or below each point is the point's
// percentage.
func TestDrawFollowsTheCDF(t *testing.T) {
	const n = 1_000_000
	for _, k := range All {
		c, r := must(FindNamed(k.Name)), random()
		below := make([]int, len(c.Points()))
		for range n {
			s := c.DrawSize(r)
			for i := len(below) - 1; i >= 0 && s <= c.Points()[i].Size; i-- {
				below[i]++
			}
		}
		for i, p := range c.Points() {
			// A step has two points with the same size; the upper one counts.
			if i+1 < len(below) && c.Points()[i+1].Size == p.Size || p.Percent == 0 {
				continue
			}
			// Four standard errors, plus the draws that rounding to whole bytes moves
			// across the point.
			off := 4*math.Sqrt(n*0.25) + 0.5/float64(max(p.Size, 1))*n
			if got := float64(below[i]); math.Abs(got-p.Percent/100*n) > off {
				t.Errorf("%s: %v%% at most %v, want %v%%", k.Name, got/n*100, p.Size, p.Percent)
			}
		}
	}
}

func TestQuantiles(t *testing.T) {
	web := must(FindNamed("websearch"))
	for share, want := range map[float64]units.Bytes{
		0: 1, 0.15: 10_000, 0.175: 15_000, 0.5: 73_077, 0.99: 23_333_333, 1: 30_000_000,
	} {
		if got := web.Quantile(share); got != want {
			t.Errorf("quantile %v of websearch: %d, want %d", share, got, want)
		}
	}
	if got := must(FindNamed("rocc-fb")).Quantile(0.3); got != 75 {
		t.Errorf("quantile 0.3 of rocc-fb: %v, want 75B, its step", got)
	}
	if got := must(NewCDF([]Point{{10, 0}, {20, 50}, {30, 50}, {40, 100}})).Quantile(0.5); got != 30 {
		t.Errorf("quantile above a gap: %v, want 30B", got)
	}
}

func TestGoogleRPCHasThePointsOfTheFile(t *testing.T) {
	points := must(FindNamed("google-rpc")).Points()
	if len(points) != 843 {
		t.Errorf("%d points, the file has 843", len(points))
	}
	// Some lines of the file.
	for i, want := range map[int]Point{
		3: {36, 10.8913}, 32: {512, 78.4921}, 120: {8293, 96.4806}, 500: {271_000, 99.8521}, 841: {13293619, 99.9997},
	} {
		if got := points[i]; got.Size != want.Size || math.Abs(got.Percent-want.Percent) > 1e-4 {
			t.Errorf("point %d is %v, want %v", i, got, want)
		}
	}
}

func TestReadCDF(t *testing.T) {
	c, err := ReadCDF(strings.NewReader("# web\n0 0\n\n  10000\t15 # small\n3e+07 100%\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Point{{0, 0}, {10_000, 15}, {30_000_000, 100}}
	for i, p := range c.Points() {
		if p != want[i] {
			t.Errorf("point %d: %v, want %v", i, p, want[i])
		}
	}
}

func TestReadCDFSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "line 1: 0 points",
		"0 0\n":                     "line 1: 1 points",
		"0 0\n10 x\n":               `line 2: "x" is not a percentage`,
		"0 0\n1.5 100\n":            `line 2: "1.5" is not a whole number of bytes`,
		"0 0\n1e99 100\n":           "not a whole number",
		"0 0\n10 5 7\n":             "line 2: 3 fields",
		"-3 0\n10 100\n":            "line 1: a size of -3",
		"0 0\n10 101\n":             "line 2: 101 percent",
		"0 0\n10 NaN\n":             "line 2: NaN percent",
		"75 50\n100 100\n":          `line 1: the first point has 50 percent: begin`,
		"0 0\n# x\n20 50\n10 100\n": "line 4: 10 bytes after 20: sizes must rise",
		"0 0\n20 50\n30 40\n":       "line 3: 40 percent after 50",
		"0 0\n20 50\n20 50\n":       "line 3: the same as the point before",
		"0 0\n0 50\n10 100\n":       "line 2: 50 percent of the flows would have 0 bytes",
		"0 0\n10000 0.15\n3e7 1":    "line 3: the last point has 1 percent, not 100: if these are shares, multiply",
		"0 0\n10000 15\n3e7 99":     "line 3: the last point has 99 percent",
	} {
		_, err := ReadCDF(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestBadDistributions(t *testing.T) {
	bad := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", what, err, want)
		}
	}
	_, err := NewUniform(0, 5)
	bad("uniform", err, "at least 1B")
	_, err = NewUniform(6, 5)
	bad("uniform", err, "must not be less")
	_, err = NewExponential(0)
	bad("exponential", err, "at least 1B")
	_, err = NewPareto(0, 1, 2)
	bad("Pareto", err, "shape")
	_, err = NewPareto(math.NaN(), 1, 2)
	bad("Pareto", err, "shape")
	_, err = NewPareto(1, 3, 2)
	bad("Pareto", err, "must not be less")
	_, err = NewMix(nil, nil)
	bad("mix", err, "an empty mix of sizes")
	_, err = NewMix([]Part{{0.5, Fixed(1)}, {0.4, Fixed(2)}}, nil)
	bad("mix", err, "90% of the flows, not 100%: change a share or name a rest")
	_, err = NewMix([]Part{{0.5, Fixed(1)}, {0.5, Fixed(2)}}, Fixed(3))
	bad("mix", err, "nothing is left for the rest")
	_, err = NewMix([]Part{{0, Fixed(1)}}, Fixed(3))
	bad("mix", err, "part 1")
	_, err = FindNamed("web-search")
	bad("Named", err, "there are alistorage, datamining, fb-hadoop")
}

// TestMixHasItsShares: the parts of IRN's mix are drawn according to their shares.
func TestMixHasItsShares(t *testing.T) {
	const n = 1_000_000
	d, r := irn(), random()
	small, large := 0, 0
	for range n {
		switch s := d.DrawSize(r); {
		case s < 1*units.KB:
			small++
		case s > 200*units.KB:
			large++
		}
	}
	if math.Abs(float64(small)/n-0.5) > 0.002 || math.Abs(float64(large)/n-0.15) > 0.002 {
		t.Errorf("%d small and %d large of %d", small, large, n)
	}
}

// TestDrawsStayInBounds: draws of any distribution with bounds lie within them, and so
// does the mean.
func TestDrawsStayInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := units.Bytes(rapid.Int64Range(1, 1e12).Draw(t, "low"))
		high := low + units.Bytes(rapid.Int64Range(0, 1e12).Draw(t, "more"))
		shape := rapid.Float64Range(0.01, 5).Draw(t, "shape")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		dists := []Dist{must(NewUniform(low, high)), must(NewPareto(shape, low, high))}
		if high > low {
			dists = append(dists, must(NewCDF([]Point{{low, 0}, {high, 100}})))
		}
		for _, d := range dists {
			for range 20 {
				if s := d.DrawSize(r); s < low || s > high {
					t.Fatalf("%T drew %d, outside %d to %d", d, s, low, high)
				}
			}
			if m := d.MeanSize(); m < float64(low)*(1-1e-9) || m > float64(high)*(1+1e-9) {
				t.Fatalf("%T: mean %v outside %d to %d", d, m, low, high)
			}
		}
	})
}

func FuzzReadCDF(f *testing.F) {
	f.Add("0 0\n10000 15\n30000000 100\n")
	f.Add("75 0\n75 50\n100 100\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadCDF(strings.NewReader(text))
		if err != nil {
			return
		}
		points := c.Points()
		largest := max(points[len(points)-1].Size, 1)
		for _, share := range []float64{0, 0.1, 0.5, 0.999, 1} {
			if s := c.Quantile(share); s < 1 || s > largest {
				t.Errorf("quantile %v is %d, outside 1 to %d", share, s, largest)
			}
		}
		if m := c.MeanSize(); math.IsNaN(m) || m < 0.5 || m > float64(largest)+1 {
			t.Errorf("mean %v", m)
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	for name, d := range map[string]Dist{
		"websearch": must(FindNamed("websearch")), "google-rpc": must(FindNamed("google-rpc")), "irn": irn(),
		"pareto": must(NewPareto(1.05, 1000, units.MB)),
	} {
		b.Run(name, func(b *testing.B) {
			r := random()
			for b.Loop() {
				d.DrawSize(r)
			}
		})
	}
}
