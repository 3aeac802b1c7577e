package dcqcn

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// eager is a reaction point that handles each expiry of each timer and computes
// with numbers of unlimited size. Control must agree with it bit for bit.
type eager struct {
	c              Config
	line           units.Rate
	rate, target   units.Rate
	limited        bool
	alpha          int64 // of 1<<30
	heard, pending bool
	alphaAt        units.Time
	periodAt       units.Time // never for the paper's reaction point
	raiseAt        units.Time
	bytes          units.Bytes
	t, b           int64
}

func (e *eager) maxRate() units.Rate {
	if e.c.RPGMaxRate > 0 {
		return min(e.c.RPGMaxRate, e.line)
	}
	return e.line
}

func (e *eager) advance(now units.Time) {
	for e.limited {
		at := min(e.alphaAt, e.periodAt, e.raiseAt)
		if at > now {
			return
		}
		switch at {
		case e.alphaAt:
			e.update(e.heard)
			e.heard = false
			e.alphaAt += e.c.DCETCPRTT
		case e.periodAt:
			e.periodAt += e.c.RateReduceMonitorPeriod
			if e.pending {
				e.pending = false
				e.cut(at)
			}
		default:
			e.raiseAt += e.c.RPGTimeReset
			e.increase()
			e.t++
			e.release()
		}
	}
}

func (e *eager) update(heard bool) {
	e.alpha = e.alpha * int64(e.c.DCETCPG) / 1024
	if heard {
		e.alpha += 1<<30 - int64(e.c.DCETCPG)<<20
	}
}

func (e *eager) cut(now units.Time) {
	if e.c.ClampTgtRate || e.b > 0 || e.t > 0 && e.c.ClampTgtRateAfterTimeInc {
		e.target = e.rate
	}
	share := big.NewInt(int64(e.rate))
	share.Mul(share, big.NewInt(e.alpha)).Rsh(share, uint(20+e.c.RPGGD))
	left := new(big.Int).Sub(big.NewInt(int64(e.rate)), share)
	floor := units.Rate(float64(e.rate) * float64(e.c.RPGMinDecFac))
	floor = min(e.rate, max(floor, min(e.c.RPGMinRate, e.maxRate())))
	if left.Cmp(big.NewInt(int64(floor))) < 0 {
		left.SetInt64(int64(floor))
	}
	e.rate = units.Rate(left.Int64())
	e.t, e.b, e.bytes, e.raiseAt = 0, 0, 0, now+e.c.RPGTimeReset
}

func (e *eager) increase() {
	f := int64(e.c.RPGThreshold)
	if e.c.RPGByteReset == 0 {
		e.b = e.t
		defer func() { e.b = 0 }()
	}
	if max(e.t, e.b) >= f {
		if min(e.t, e.b) > f {
			e.target += e.c.RPGHAIRate
		} else {
			e.target += e.c.RPGAIRate
		}
	}
	e.target = min(e.target, e.maxRate())
	e.rate = e.target - (e.target-e.rate)/2
}

func (e *eager) release() {
	if e.c.ReleaseAtMaxRate && !e.pending && e.rate == e.maxRate() {
		e.limited, e.rate, e.target = false, e.line, e.line
	}
}

func (e *eager) sent(n units.Bytes) {
	if !e.limited || e.c.RPGByteReset == 0 {
		return
	}
	for e.bytes += n; e.limited && e.bytes >= e.c.RPGByteReset; e.release() {
		e.bytes -= e.c.RPGByteReset
		e.increase()
		e.b++
	}
}

func (e *eager) cnp(now units.Time) {
	paper := e.c.RateReduceMonitorPeriod == 0
	spent := false
	if !e.limited {
		*e = eager{c: e.c, line: e.line, limited: true, alpha: int64(e.c.InitialAlphaValue) << 20,
			alphaAt: now + e.c.DCETCPRTT, periodAt: now + e.c.RateReduceMonitorPeriod, raiseAt: now + e.c.RPGTimeReset}
		if paper {
			e.periodAt = units.Never
		}
		set := e.c.RateToSetOnFirstCNP
		if set == 0 {
			set = units.Rate(float64(e.line) * 0.85)
		}
		spent = set < e.line
		e.rate = min(max(set, min(e.c.RPGMinRate, e.maxRate())), e.maxRate())
		e.target = e.rate
	} else {
		e.heard = !paper
	}
	switch {
	case spent:
	case paper:
		e.cut(now)
		e.update(true)
		e.alphaAt = now + e.c.DCETCPRTT
	default:
		e.pending = true
	}
}

func (e *eager) setLine(r units.Rate) {
	e.line = r
	if !e.limited {
		e.rate, e.target = r, r
		return
	}
	e.rate, e.target = min(e.rate, e.maxRate()), min(e.target, e.maxRate())
}

// drawConfig draws a preset with some of its keys changed.
func drawConfig(t *rapid.T, line units.Rate) Config {
	c := Preset(rapid.SampledFrom(Presets).Draw(t, "preset"), line)
	few := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, "change "+name) == 0 }
	us := func(name string, low int64) units.Time {
		return units.Time(rapid.Int64Range(low, 400).Draw(t, name)) * units.Microsecond / 4
	}
	rate := func(name string, low units.Rate) units.Rate {
		return units.Rate(rapid.Int64Range(int64(low), int64(line)*5/4).Draw(t, name))
	}
	c.RPGMinRate = min(c.RPGMinRate, line/2)
	if few("g") {
		c.DCETCPG = rapid.IntRange(0, 1023).Draw(t, "g")
	}
	if few("rtt") {
		c.DCETCPRTT = us("rtt", 1)
	}
	if few("alpha") {
		c.InitialAlphaValue = rapid.IntRange(1, 1024).Draw(t, "alpha")
	}
	if few("first") {
		c.RateToSetOnFirstCNP = rapid.SampledFrom([]units.Rate{0, line, line / 2, 2 * line}).Draw(t, "first")
	}
	if few("gd") {
		c.RPGGD = rapid.IntRange(0, 15).Draw(t, "gd")
	}
	if few("dec") {
		c.RPGMinDecFac = units.Fraction(rapid.IntRange(0, 100).Draw(t, "dec")) / 100
	}
	if few("period") {
		c.RateReduceMonitorPeriod = us("period", 0)
	}
	if few("clamp") {
		c.ClampTgtRate, c.ClampTgtRateAfterTimeInc = rapid.Bool().Draw(t, "clamp"), rapid.Bool().Draw(t, "clamp after time")
	}
	if few("timer") {
		c.RPGTimeReset = us("timer", 4)
	}
	if few("bytes") {
		c.RPGByteReset = units.Bytes(rapid.Int64Range(0, 20_000).Draw(t, "bytes"))
	}
	if few("threshold") {
		c.RPGThreshold = rapid.IntRange(0, 6).Draw(t, "threshold")
	}
	if few("most") {
		c.RPGMaxRate = rate("most", c.RPGMinRate)
	}
	if few("release") {
		c.ReleaseAtMaxRate = !c.ReleaseAtMaxRate
	}
	if few("steep") {
		c.RPGAIRate, c.RPGHAIRate = rate("ai", 1), rate("hai", 1)
	}
	if err := c.Validate(line); err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return c
}

// TestLazyIsEager: for any input, a reaction point that catches up on timers
// agrees with one that handles them all. So does one whose OnTimer is called late
// or only by its inputs, and one whose state is read in between. Rates and
// alpha keep their bounds.
func TestLazyIsEager(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]units.Rate{100 * units.Gbps, 40 * units.Gbps, units.Gbps, 999_999_937, 100_000 * units.Tbps}).Draw(t, "line")
		c := drawConfig(t, line)
		punctual, lax := New(&c, line), New(&c, line)
		all := []*Control{punctual, lax}
		model := &eager{c: c, line: line, rate: line, target: line}
		now := units.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "inputs") {
			now += units.Time(rapid.OneOf(rapid.Int64Range(0, 8), rapid.Int64Range(0, 2000)).Draw(t, "quarters of a microsecond")) * units.Microsecond / 4
			for punctual.NextTimer() <= now {
				at := punctual.NextTimer()
				punctual.OnTimer(at)
				if next := punctual.NextTimer(); next <= at {
					t.Fatalf("Tick at %v leaves the timer at %v", at, next)
				}
				punctual.State(at)
			}
			punctual.OnTimer(now)
			model.advance(now)
			switch rapid.IntRange(0, 4).Draw(t, "input") {
			case 0, 1:
				for _, r := range all {
					r.OnCNP(now)
				}
				model.cnp(now)
			case 2, 3:
				n := units.Bytes(rapid.Int64Range(64, 9000).Draw(t, "sent"))
				for _, r := range all {
					r.OnPacketSent(now, n)
				}
				model.sent(n)
			case 4:
				line := rapid.SampledFrom([]units.Rate{line, line / 2, line / 4, line * 2}).Draw(t, "new line rate")
				for _, r := range all {
					r.SetLineRate(now, line)
				}
				model.setLine(line)
			}
			want := State{Limited: model.limited, Rate: model.rate, Target: model.target}
			if model.limited {
				want.Alpha, want.TimeStage, want.ByteStage = units.Fraction(float64(model.alpha)/one), int(model.t), int(model.b)
			}
			for i, r := range all {
				got := r.State(now)
				if !got.Limited {
					got = State{Rate: got.Rate, Target: got.Target}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%v, %d of punctual and lax (-eager +lazy):\n%s", now, i, diff)
				}
				low := min(c.RPGMinRate, r.maxRate())
				if got.Rate < low || got.Rate > got.Target || got.Target > r.line || got.Alpha < 0 || got.Alpha > 1 {
					t.Fatalf("%v: %+v leaves %v to %v", now, got, low, r.line)
				}
			}
		}
	})
}

// TestRecovery: without CNPs a rate only rises, and reaches the line rate, or
// rpg_max_rate if that does not end the limit; then nothing needs a timer.
func TestRecovery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := 40 * units.Gbps
		c := drawConfig(t, line)
		c.RPGAIRate, c.RPGHAIRate = max(c.RPGAIRate, units.Gbps), max(c.RPGHAIRate, units.Gbps)
		r := New(&c, line)
		now := units.Time(0)
		for range rapid.IntRange(1, 10).Draw(t, "CNPs") {
			now += units.Time(rapid.Int64Range(0, 200).Draw(t, "gap")) * units.Microsecond
			r.OnTimer(now)
			r.OnCNP(now)
		}
		if r.cutting {
			r.OnTimer(r.cutAt)
		}
		want := r.maxRate()
		if c.ReleaseAtMaxRate {
			want = line
		}
		before := r.Rate()
		for range 1000 {
			next := r.NextTimer()
			if next == units.Never {
				break
			}
			r.OnTimer(next)
			if r.Rate() < before {
				t.Fatalf("from %v down to %v", before, r.Rate())
			}
			before = r.Rate()
		}
		if r.Rate() != want || r.NextTimer() != units.Never {
			t.Fatalf("comes to %v with a timer at %v, want %v and none", r.Rate(), r.NextTimer(), want)
		}
	})
}
