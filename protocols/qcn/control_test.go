package qcn

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/protocols/cc/cctest"
	"github.com/weftlab/weft/sim/units"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestRecoveryTakesFiveCycles: after any cut, five counts of the byte counter bring the
// rate to within a 32nd of the cut of its target, whatever the jitter, and the target
// has not moved: that is fast recovery.
func TestRecoveryTakesFiveCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := 10 * units.Gbps
		c := Preset("standard", line)
		r := New(&c, line, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		r.OnMessage(0, &CNM{Fb: uint8(rapid.IntRange(1, MaxFb).Draw(t, "feedback"))})
		cut := line - r.Rate()
		sent := units.Bytes(0)
		for r.byteStage < 5 {
			r.OnPacketSent(1, 1500)
			sent += 1500
		}
		if r.target != line || line-r.Rate() > cut/32+1 {
			t.Fatalf("after a cut by %v the rate is %v, with a target of %v", cut, r.Rate(), r.target)
		}
		if low, high := 5*150*units.KB*85/100, 5*150*units.KB*115/100+5*1500; sent < low || sent > high {
			t.Fatalf("five cycles were of %v", sent)
		}
	})
}

// TestRecovery_TakesAsLongAsComputedApart: a flow that is told to slow down to a rate, and then gets
// no more messages, is back at 95% of its link when the standard's counters and stages say so.
// They are computed here without the reaction point.
func TestRecovery_TakesAsLongAsComputedApart(t *testing.T) {
	const line, frame, beyond = 10 * units.Gbps, 1082, 24
	c := Preset("standard", line)
	c.Jitter = 0
	for _, from := range []units.Rate{500 * units.Mbps, 2 * units.Gbps} {
		r := New(&c, line, seeded())
		now := units.Time(0)
		r.OnMessage(now, &CNM{Fb: 1})
		// As after a hot spot that lasts: the target is the rate.
		r.current, r.target = from, from
		start := now
		for r.Rate() < line*95/100 {
			now += units.Time(float64(units.Second) * (frame + beyond) * 8 / float64(r.Rate()))
			r.OnPacketSent(now, frame)
			r.OnTimer(now)
		}
		got, want := (now - start).Seconds(), recovery(float64(from), float64(line), frame, beyond)
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("from %v it takes %.4gs, computed %.4gs", from, got, want)
		}
	}
}

// recovery returns how many seconds a flow takes from one rate to 95% of another when the last
// message has just arrived, with the standard's parameters and timers that do not vary. An
// increase happens whenever 150 KB are sent or 15 ms have passed, or half of that beyond the
// fifth of its kind, and goes half of the way to the target. The target grows by 5 Mb/s when
// one of the two is beyond five, and by 50 Mb/s times the smaller excess when both are.
func recovery(from, to, frame, beyond float64) float64 {
	const bytes, period, threshold = 150e3, 15e-3, 5
	stage := func(n int, full float64) float64 {
		if n >= threshold {
			return full / 2
		}
		return full
	}
	rate, target, now := from, from, 0.0
	left, timer := bytes, period
	counted, timed := 0, 0
	for rate < 0.95*to {
		sending := left * (1 + beyond/frame) * 8 / rate
		step := min(sending, timer)
		now, left, timer = now+step, left-left*step/sending, timer-step
		if step == sending {
			counted++
			left = stage(counted, bytes)
		} else {
			timed++
			timer = stage(timed, period)
		}
		switch {
		case min(counted, timed) > threshold:
			target += 50e6 * float64(min(counted, timed)-threshold)
		case max(counted, timed) > threshold:
			target += 5e6
		}
		target = min(target, to)
		rate += (target - rate) / 2
	}
	return now
}

// TestLazyIsPunctual: a reaction point behaves the same if OnTimer is called late, or if
// its gauges are read in between. Rates stay within their bounds.
func TestLazyIsPunctual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]units.Rate{units.Mbps, 10 * units.Gbps, 100_000 * units.Tbps}).Draw(t, "line")
		c := Preset("standard", line)
		c.RPGMinRate = min(c.RPGMinRate, line/10)
		c.RPGAIRate = rapid.SampledFrom([]units.Rate{c.RPGAIRate, line, math.MaxInt64}).Draw(t, "rpg_ai_rate")
		c.RPGHAIRate = rapid.SampledFrom([]units.Rate{c.RPGHAIRate, line, math.MaxInt64}).Draw(t, "rpg_hai_rate")
		c.RPGMaxRate = rapid.SampledFrom([]units.Rate{0, line / 2, 2 * line}).Draw(t, "rpg_max_rate")
		c.RPGGD = rapid.SampledFrom([]int{0, 4, 7, 31}).Draw(t, "rpg_gd")
		c.RPGMinDecFac = rapid.SampledFrom([]units.Fraction{0, 0.5, 1}).Draw(t, "rpg_min_dec_fac")
		c.Jitter = rapid.SampledFrom([]units.Fraction{0, 0.15, 1}).Draw(t, "jitter")
		c.RPGTimeReset = rapid.SampledFrom([]units.Time{100 * units.Microsecond, 15 * ms}).Draw(t, "rpg_time_reset")
		if err := c.Validate(line); err != nil {
			t.Fatal(err)
		}
		punctual, lax := New(&c, line, seeded()), New(&c, line, seeded())
		now := units.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "inputs") {
			now += units.Time(rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 30_000)).Draw(t, "us")) * units.Microsecond
			for punctual.NextTimer() <= now {
				at := punctual.NextTimer()
				punctual.OnTimer(at)
				if next := punctual.NextTimer(); next <= at {
					t.Fatalf("Tick at %v leaves the timer at %v", at, next)
				}
				punctual.AppendGauges(at, nil)
			}
			punctual.OnTimer(now)
			input := rapid.IntRange(0, 3).Draw(t, "input")
			n := rapid.Int64Range(1, 400_000).Draw(t, "amount")
			for _, r := range []*Control{punctual, lax} {
				switch input {
				case 0:
					r.OnMessage(now, &CNM{Fb: uint8(n)})
				case 1, 2:
					r.OnPacketSent(now, units.Bytes(n))
				case 3:
					r.SetLineRate(now, line/units.Rate(1+n%3))
				}
				if r.Rate() < min(c.RPGMinRate, r.maxRate()) || r.Rate() > r.target || r.target > r.line {
					t.Fatalf("rate %v, target %v, line %v", r.Rate(), r.target, r.line)
				}
			}
			if *punctual != *lax {
				t.Fatalf("%v: punctual %+v\nlax %+v", now, *punctual, *lax)
			}
			if n := len(lax.AppendGauges(now, nil)); n != 5 {
				t.Fatalf("%d gauges", n)
			}
		}
	})
}

// TestConfigAsText: the preset is valid at all line rates, and survives YAML and JSON.
func TestConfigAsText(t *testing.T) {
	cctest.CheckPresets(t, "qcn", units.Mbps, units.Gbps, 40*units.Gbps, 1_600*units.Gbps)
}

// TestStateIsSmall: a NIC has many flows.
func TestStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Control{}); n > 128 {
		t.Errorf("a reaction point is %d bytes", n)
	}
}

func TestAPacketDoesNotAllocate(t *testing.T) {
	f := newTraffic()
	if n := testing.AllocsPerRun(1000, f.packet); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

func BenchmarkPacket(b *testing.B) {
	f := newTraffic()
	b.ReportAllocs()
	for b.Loop() {
		f.packet()
	}
}

// traffic models a flow of packets through a queue that is too long, with messages.
type traffic struct {
	c  Config
	rp cc.Control
	cp *CP
	f  CNM
	at units.Time
}

func newTraffic() *traffic {
	f := &traffic{c: Preset("standard", 100*units.Gbps), cp: NewCP(StandardCP(), seeded())}
	f.rp = f.c.New(cc.Flow{Line: 100 * units.Gbps, Rand: seeded()})
	return f
}

func (f *traffic) packet() {
	for f.rp.NextTimer() <= f.at {
		f.rp.OnTimer(f.rp.NextTimer())
	}
	f.rp.OnPacketSent(f.at, 1500)
	if s, ok := f.cp.CountFrame(1500, 40*units.KB); ok {
		f.f.Fb = s.Fb
		f.rp.OnMessage(f.at, &f.f)
	}
	f.at += f.rp.Rate().TimeOf(1500)
}
