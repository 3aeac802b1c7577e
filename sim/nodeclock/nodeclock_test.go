package nodeclock

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

func drawClock(t *rapid.T) *Clock {
	return New(Settings{Error: PPB(rapid.Int64Range(-int64(MaxError), int64(MaxError)).Draw(t, "error")), Jitter: Jitter{Time: 1}}, 1, "h1")
}

// TestReachedAt_IsTheFirstTime: a clock shows a time from the instant that ReachedAt returns, and not
// before.
func TestReachedAt_IsTheFirstTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, at := drawClock(t), units.Time(rapid.Int64Range(1, int64(1_000_000*units.Second)).Draw(t, "time"))
		first := c.ReachedAt(at)
		if c.ReadAt(first) < at || c.ReadAt(first-1) >= at {
			t.Fatalf("%v: %d is shown from %d, when the clock shows %d, and before %d", c.Error, at, first, c.ReadAt(first), c.ReadAt(first-1))
		}
		if c.ReadAt(at) > c.ReadAt(at+1) {
			t.Fatalf("%v goes back at %d", c.Error, at)
		}
	})
}

// TestReadAt_KnownValues: after a second, 100 ppm are 100 us. Never stays never.
func TestReadAt_KnownValues(t *testing.T) {
	fast, slow := New(Settings{Error: 100 * PPM}, 1, ""), New(Settings{Error: -100 * PPM}, 1, "")
	for _, c := range []struct {
		clock    *Clock
		at, want units.Time
	}{
		{nil, units.Second, units.Second},
		{fast, units.Second, units.Second + 100*units.Microsecond},
		{slow, units.Second, units.Second - 100*units.Microsecond},
		{fast, 0, 0},
		{fast, units.Never, units.Never},
		{slow, 9999, 9998},
	} {
		if got := c.clock.ReadAt(c.at); got != c.want {
			t.Errorf("%+v at %d shows %d, want %d", c.clock, c.at, got, c.want)
		}
	}
	if at := fast.ReachedAt(units.Never); at != units.Never {
		t.Errorf("never is reached at %v", at)
	}
	if r := fast.TrueRate(10 * units.Gbps); r != 10_001_000_000 {
		t.Errorf("10 Gb/s are %v", r)
	}
	if r := fast.TrueRate(0); r != 0 {
		t.Errorf("no limit is %v", r)
	}
}

// TestTrueTime_HasAnExactMean: the sum of a thousand times is within five picoseconds of the exact one.
func TestTrueTime_HasAnExactMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawClock(t)
		one := units.Time(rapid.Int64Range(1, int64(units.Second)).Draw(t, "time"))
		const n = 1000
		var sum float64
		for i := range uint64(n) {
			sum += float64(c.TrueTime(one, i))
		}
		want := n * float64(one) / (1 + float64(c.Error)/1e9)
		if d := sum - want; d < -5-want/1e12 || d > 5+want/1e12 {
			t.Fatalf("%v: %d times %d take %.0f, want %.0f", c.Error, n, one, sum, want)
		}
	})
}

// TestDelayOf_FillsTheBound: delays are within the bound, evenly, and depend on the seed and the name.
func TestDelayOf_FillsTheBound(t *testing.T) {
	c := New(Real, 1, "h1:eth0")
	const n, bound = 100_000, 100 * units.Nanosecond
	var tenths [10]int
	for i := range uint64(n) {
		d := c.DelayOf(i, bound)
		if d < 0 || d > bound {
			t.Fatalf("delay %d of packet %d", d, i)
		}
		tenths[min(d*10/bound, 9)]++
	}
	for i, k := range tenths {
		if k < n/10*9/10 || k > n/10*11/10 {
			t.Errorf("%d of %d delays are in tenth %d of the bound", k, n, i)
		}
	}
	for _, o := range []*Clock{New(Real, 2, "h1:eth0"), New(Real, 1, "h1:eth1")} {
		if o.DelayOf(7, bound) == c.DelayOf(7, bound) && o.DelayOf(8, bound) == c.DelayOf(8, bound) {
			t.Error("another seed or name gives the same delays")
		}
	}
	if c.DelayOf(7, bound) != New(Real, 1, "h1:eth0").DelayOf(7, bound) {
		t.Error("the same seed and name give other delays")
	}
}

// TestDrawError_IsWithinTheBound: errors fill the range, and depend on the seed and the name alone.
func TestDrawError_IsWithinTheBound(t *testing.T) {
	fast, slow := 0, 0
	for seed := range uint64(1000) {
		switch e := DrawError(seed, "h1", 50*PPM); {
		case e < -50*PPM || e > 50*PPM:
			t.Fatalf("error %v", e)
		case e > 25*PPM:
			fast++
		case e < -25*PPM:
			slow++
		}
	}
	if fast < 150 || slow < 150 {
		t.Errorf("of 1000 clocks %d are faster than 25 ppm and %d slower: of both there should be a quarter", fast, slow)
	}
	if first := DrawError(1, "h1", 50*PPM); first == DrawError(1, "h2", 50*PPM) || first == DrawError(2, "h1", 50*PPM) {
		t.Error("another name or seed gives the same error")
	}
}

func TestText(t *testing.T) {
	for s, want := range map[Settings]string{
		{}:                                      "exact",
		{Error: 37_500}:                         "+37.5 ppm",
		{Error: -50 * PPM, Jitter: Real.Jitter}: "-50 ppm, jitter packet",
		{Jitter: Jitter{Time: 100 * units.Nanosecond}}: "0 ppm, jitter 100ns",
	} {
		if got := s.String(); got != want {
			t.Errorf("%#v is %q, want %q", s, got, want)
		}
	}
	if New(Settings{}, 1, "h1") != nil {
		t.Error("an exact clock is not nil")
	}
}
