package loop

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

func gains(alpha, beta float64) Settings {
	s := AnalysisSettings()
	s.Alpha, s.Beta = alpha, beta
	return s
}

// TestTransfer evaluates Eq. 6 as it is written, in complex numbers.
func TestTransfer(t *testing.T) {
	s := gains(0.3, 3)
	const T, kappa, n = 40e-6, 10e6 / (8 * 600.0), 2.0
	k, z1 := kappa*n*s.Alpha/T, s.Alpha/((s.Beta+s.Alpha/2)*T)
	l := s.Loop(2)
	for _, w := range []float64{100, 2e3, 13333, 5e4} {
		jw := complex(0, w)
		delay := complex(math.Cos(w*T), -math.Sin(w*T))
		g := complex(k, 0) * (1 + jw/complex(z1, 0)) / (jw * jw) * delay
		near(t, "gain", l.Gain(w)/math.Hypot(real(g), imag(g)), 1, 1e-12)
		phase := math.Atan2(imag(g), real(g)) * 180 / math.Pi
		turns := (l.Phase(w) - phase) / 360
		near(t, "phase, in turns from the wrapped one", turns, math.Round(turns), 1e-9)
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v within %v", what, got, want, tolerance)
	}
}

// TestPaper compares margins with those of §5.2.
func TestPaper(t *testing.T) {
	near(t, "the margin of 0.3:3, N = 2 (paper: 50)", AnalysisSettings().Loop(2).Margin(), 49.3, 0.1)
	// The paper prints -50. Its figure and its formula differ, or its ΔF/ΔQ is different.
	near(t, "the margin of 0.3:3, N = 10", AnalysisSettings().Loop(10).Margin(), -62.6, 0.1)
	smallest := gains(0.0093, 0.0937)
	near(t, "the margin of 0.0093:0.0937, N = 128", smallest.Loop(128).Margin(), 24.6, 0.1)
	for n := 2; n <= 128; n++ {
		if m := smallest.Loop(n).Margin(); m <= 20 {
			t.Errorf("0.0093:0.0937, N = %d: a margin of %v, and the paper's is above 20", n, m)
		}
	}
	near(t, "the bandwidth of 0.3:3, N = 2", AnalysisSettings().Loop(2).Crossover(), 13332, 5)
	near(t, "κ", AnalysisSettings().Kappa(), 2083.33, 0.01)
}

// TestTheGreatestMargin: the greatest margin depends only on β/α, by the formula of FlowsAt.
func TestTheGreatestMargin(t *testing.T) {
	r := 0.5 + 3/0.3
	formula := toDegrees(math.Atan(math.Sqrt(r-1)) - math.Sqrt(r-1)/r)
	greatest := -180.0
	for a := 1e-4; a < 1; a *= 1.01 {
		greatest = max(greatest, gains(a, 10*a).Loop(2).Margin())
	}
	near(t, "the greatest margin", greatest, formula, 0.01)
	if n := AnalysisSettings().FlowsAt(formula - 1e-6); n <= 0 {
		t.Error("no number of flows has the greatest margin")
	}
	if n := AnalysisSettings().FlowsAt(formula + 1e-6); n != 0 {
		t.Errorf("%v flows have more than the greatest margin", n)
	}
}

// TestUnstableGains: with β up to α/2 nothing is stable.
func TestUnstableGains(t *testing.T) {
	s := gains(0.3, 0.15)
	if s.MaxFlows() != 0 || s.MaxTunedFlows() != 0 {
		t.Errorf("%d and %d flows are stable", s.MaxFlows(), s.MaxTunedFlows())
	}
	if m := s.Loop(1).Margin(); m >= 0 {
		t.Errorf("a margin of %v", m)
	}
	if n := s.FlowsAt(-10); !(n > 0) {
		t.Errorf("a margin of -10 with %v flows", n)
	}
}

func TestGains(t *testing.T) {
	alpha, beta := GainsFor(Interval, DeltaF, DeltaQ)
	near(t, "α of the paper's settings", alpha, 0.3, 1e-12)
	near(t, "β of the paper's settings", beta, 1.5, 1e-12)
	// §6.2 has T = 100 µs.
	alpha, beta = GainsFor(100*units.Microsecond, DeltaF, DeltaQ)
	near(t, "α at 100 µs", alpha, 0.12, 1e-12)
	near(t, "β at 100 µs", beta, 0.6, 1e-12)
}

func TestMaxFlows_IsWhereTheMarginEnds(t *testing.T) {
	for _, c := range []struct {
		s            Settings
		fixed, tuned int
	}{{AnalysisSettings(), 5, 183}, {Evaluation40G(), 10, 333}, {Evaluation100G(), 6, 222}, {gains(3, 30), 0, 0}, {gains(1e-10, 1e-9), math.MaxInt32, math.MaxInt32}} {
		if fixed, tuned := c.s.MaxFlows(), c.s.MaxTunedFlows(); fixed != c.fixed || tuned != c.tuned {
			t.Errorf("%v:%v: %d flows, tuned %d, want %d and %d", c.s.Alpha, c.s.Beta, fixed, tuned, c.fixed, c.tuned)
		}
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct{ n, want int }{
		{1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {8, 4}, {9, 8}, {10, 8}, {16, 8}, {17, 16}, {32, 16}, {33, 32}, {64, 32}, {65, 32}, {100, 32}, {128, 32}, {1000, 32},
	} {
		if got := GainRatio(c.n); got != c.want {
			t.Errorf("%d flows: %d, want %d", c.n, got, c.want)
		}
		// Algorithm 1 to the letter, with F of 100 Gb/s in a resolution that leaves it whole.
		const maxFrequency = 1e12
		level, f := 2.0, maxFrequency/float64(c.n)
		for f < maxFrequency/level && level < 64 {
			level *= 2
		}
		if got := GainRatio(c.n); got != int(level/2) {
			t.Errorf("%d flows: %d, AUTO_TUNE gives %v", c.n, got, level/2)
		}
	}
	if s := Evaluation40G().TunedFor(10); s.Alpha != 0.3/8 || s.Beta != 1.5/8 || s.Interval != Interval {
		t.Errorf("tuned for 10 flows: %+v", s)
	}
}

func draw(t *rapid.T) Settings {
	s := Settings{
		Alpha:    math.Pow(10, rapid.Float64Range(-4, 1).Draw(t, "log α")),
		Interval: units.Time(rapid.Int64Range(int64(units.Microsecond), int64(10*units.Millisecond)).Draw(t, "T")),
		DeltaF:   units.Rate(rapid.Int64Range(1e5, 1e9).Draw(t, "ΔF")),
		DeltaQ:   units.Bytes(rapid.Int64Range(1, 1e5).Draw(t, "ΔQ")),
	}
	s.Beta = s.Alpha * rapid.Float64Range(0.1, 50).Draw(t, "β/α")
	if err := s.Validate(); err != nil && s.Beta <= 1000 {
		t.Fatal(err)
	}
	return s
}

// TestCrossover compares the closed form with bisection.
func TestCrossover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := draw(t).Loop(rapid.IntRange(1, 1000).Draw(t, "N"))
		w := l.Crossover()
		if g := l.Gain(w); math.Abs(g-1) > 1e-9 {
			t.Fatalf("the gain at the crossover is %v", g)
		}
		low, high := 1e-9*w, 1e9*w
		for range 200 {
			if middle := math.Sqrt(low * high); l.Gain(middle) > 1 {
				low = middle
			} else {
				high = middle
			}
		}
		if math.Abs(low/w-1) > 1e-9 {
			t.Fatalf("the crossover is %v, bisection finds %v", w, low)
		}
		if m := l.Phase(w) + 180; math.Abs(m-l.Margin()) > 1e-9 {
			t.Fatalf("a margin of %v, and the phase is %v above -180", l.Margin(), m)
		}
	})
}

// TestMoreFlows: with more flows the loop is faster, and once the margin falls it keeps
// falling. It passes 0 at MaxFlows.
func TestMoreFlows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		n := rapid.IntRange(1, 1000).Draw(t, "N")
		a, b, c := s.Loop(n), s.Loop(n+1), s.Loop(n+2)
		if b.Crossover() <= a.Crossover() {
			t.Fatalf("the bandwidth of %d flows is %v, of one more %v", n, a.Crossover(), b.Crossover())
		}
		if b.Margin() < a.Margin() && c.Margin() >= b.Margin() {
			t.Fatalf("margins of %d flows and more: %v, %v, %v", n, a.Margin(), b.Margin(), c.Margin())
		}
		if stable := a.Margin() > 1e-9; stable && n > s.MaxFlows() || a.Margin() < -1e-9 && n <= s.MaxFlows() {
			t.Fatalf("%d flows have a margin of %v, and %d are stable", n, a.Margin(), s.MaxFlows())
		}
		if n := min(s.MaxTunedFlows(), 5000); n > 0 {
			for i := 1; i <= n; i++ {
				if m := s.TunedFor(i).Loop(i).Margin(); m < -1e-9 {
					t.Fatalf("%d tuned flows have a margin of %v, and %d are stable", i, m, n)
				}
			}
		}
		if n := s.MaxTunedFlows() + 1; n < math.MaxInt32 && s.TunedFor(n).Loop(n).Margin() > 1e-9 {
			t.Fatalf("%d tuned flows are stable too", n)
		}
	})
}

// TestFlowsAt: at that many flows the margin is the given one.
func TestFlowsAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		want := rapid.Float64Range(-300, 60).Draw(t, "margin")
		n := s.FlowsAt(want)
		if n == 0 {
			return
		}
		// Gains times n have the same effect as n flows.
		s.Alpha, s.Beta = s.Alpha*n, s.Beta*n
		if got := s.Loop(1).Margin(); math.Abs(got-want) > 1e-5 {
			t.Fatalf("the margin of %v flows is %v, not %v", n, got, want)
		}
	})
}

// TestSameMargins: gains for another interval and other resolutions have the margins of the
// paper's gains, and a bandwidth that scales with 1/T.
func TestSameMargins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		s.Alpha, s.Beta = GainsFor(s.Interval, s.DeltaF, s.DeltaQ)
		n := rapid.IntRange(1, 100).Draw(t, "N")
		mine, papers := s.Loop(n), Evaluation40G().Loop(n)
		if math.Abs(mine.Margin()-papers.Margin()) > 1e-6 {
			t.Fatalf("a margin of %v, the paper's is %v", mine.Margin(), papers.Margin())
		}
		if r := mine.Crossover() * s.Interval.Seconds() / (papers.Crossover() * Interval.Seconds()); math.Abs(r-1) > 1e-9 {
			t.Fatalf("ωT is %v of the paper's", r)
		}
	})
}

func TestValidate(t *testing.T) {
	for _, s := range []Settings{AnalysisSettings(), Evaluation40G(), Evaluation100G()} {
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
	}
	for want, change := range map[string]func(*Settings){
		"alpha is 0: choose a gain above 0":       func(s *Settings) { s.Alpha = 0 },
		"beta is NaN: choose a gain above 0":      func(s *Settings) { s.Beta = math.NaN() },
		"alpha is +Inf: choose":                   func(s *Settings) { s.Alpha = math.Inf(1) },
		"the interval is 0s: choose a time":       func(s *Settings) { s.Interval = 0 },
		"the interval is 2s: choose a time":       func(s *Settings) { s.Interval = 2 * units.Second },
		"ΔF is 0 b/s: choose a rate above 0":      func(s *Settings) { s.DeltaF = 0 },
		"ΔQ is -1 B: choose a size above 0, such": func(s *Settings) { s.DeltaQ = -1 },
	} {
		s := AnalysisSettings()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := (Settings{}).Validate(); strings.Count(err.Error(), "choose") != 5 {
		t.Errorf("not all that is wrong: %v", err)
	}
}
