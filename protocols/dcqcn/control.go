// Package dcqcn implements the congestion control of RoCEv2 NICs: Zhu et al.,
// "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, with the
// parameters and the timing of ConnectX or with those of the paper. Its
// congestion point is RED in package congestion; this package has the
// notification point at the receiver and the reaction point at the sender.
package dcqcn

import (
	"math/bits"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("dcqcn", cc.Method{
		Summary: "DCQCN (Zhu et al., SIGCOMM 2015): receivers answer marks with CNPs, which lower the rate of the flow",
		Presets: Presets,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "limited", Unit: gauge.YesNo, Help: "whether a CNP has arrived"},
			{Name: "target_rate", Unit: gauge.BitsPerSecond, Help: "rate that increases approach"},
			{Name: "alpha", Unit: gauge.Share, Help: "estimate of congestion", Brief: true},
			{Name: "time_stage", Help: "increases by the timer since the last decrease"},
			{Name: "byte_stage", Help: "increases by the byte counter since the last decrease"},
		},
	})
}

// Control is the reaction point of one flow (§3.1, Algorithm 1 and Fig. 7). A
// flow is not limited until its first CNP. From then on
//
//   - alpha, an estimate of congestion, moves towards 1 at every update before
//     which a CNP came, and towards 0 at the others;
//   - a decrease takes a share of the rate that grows with alpha;
//   - an increase comes whenever the timer has run or the byte counter has
//     counted full since the last decrease. It halves the distance to the target
//     rate, after it has raised the target: by nothing while neither has had
//     rpg_threshold increases yet (fast recovery), by rpg_hai_rate once both have
//     had more than those (hyper increase), by rpg_ai_rate otherwise.
//
// Updates of alpha and increases that change nothing need no timer: they are
// computed later, when something depends on them. At one instant alpha is
// updated first, then comes a decrease, then an increase, then the inputs of
// that instant.
//
// Rates are whole b/s, alpha has 30 binary digits. The precision of a NIC is
// not published.
type Control struct {
	cc.NopControl
	config       *Config
	line         units.Rate // of the port
	rate, target units.Rate // line if not limited; rate <= target
	limited      bool       // a CNP came

	heard   bool       // a CNP came since alpha's last update
	alpha   uint32     // of 1<<30
	alphaAt units.Time // its next update

	cutting bool       // a CNP came that has not decreased the rate yet
	cutAt   units.Time // the end of a monitor period: the next one while cutting

	raiseAt              units.Time  // when the timer expires
	bytes                units.Bytes // the byte counter
	timeStage, byteStage uint32      // increases by either since the last decrease
}

var _ cc.Control = (*Control)(nil)

const one = 1 << 30 // alpha

// New returns the reaction point of a flow at a port with line rate line. c
// must have passed Validate(line) and is shared, not copied.
func New(c *Config, line units.Rate) *Control {
	return &Control{config: c, line: line, rate: line, target: line}
}

// State is the visible state of a reaction point.
type State struct {
	Limited              bool // a CNP came; otherwise only the rates are meaningful
	Rate, Target         units.Rate
	Alpha                units.Fraction
	TimeStage, ByteStage int // increases by timer and byte counter since the last decrease
}

// State returns the state at now, which is not before the last input.
func (r *Control) State(now units.Time) State {
	c := *r // a copy, so that State changes nothing
	c.OnTimer(now)
	if c.limited {
		c.updateAlpha(now)
	}
	return State{c.limited, c.rate, c.target, units.Fraction(float64(c.alpha) / one), int(c.timeStage), int(c.byteStage)}
}

// Rate returns the current rate, or the line rate while the flow is not
// limited.
func (r *Control) Rate() units.Rate { return r.rate }

// NextTimer returns when the rate may next change without a further input.
func (r *Control) NextTimer() units.Time {
	next := units.Never
	if r.limited && !r.isSettled() {
		next = r.raiseAt
	}
	if r.cutting {
		next = min(next, r.cutAt)
	}
	return next
}

// isSettled reports whether increases change nothing.
func (r *Control) isSettled() bool {
	return r.rate == r.maxRate() && !r.config.ReleaseAtMaxRate
}

// maxRate returns the highest rate of a limited flow, least the lowest.
func (r *Control) maxRate() units.Rate {
	if m := r.config.RPGMaxRate; m > 0 && m < r.line {
		return m
	}
	return r.line
}

func (r *Control) minRate() units.Rate { return min(r.config.RPGMinRate, r.maxRate()) }

// OnTimer does the decreases and increases that are due by now.
func (r *Control) OnTimer(now units.Time) {
	for r.limited {
		until := now
		if r.cutting {
			until = min(now, r.cutAt-1)
		}
		for r.limited && r.raiseAt <= until {
			if r.isSettled() {
				n := (until - r.raiseAt) / r.config.RPGTimeReset
				r.raiseAt += n * r.config.RPGTimeReset
				r.timeStage = addStage(r.timeStage, int64(n))
			}
			r.raiseAt += r.config.RPGTimeReset
			r.raiseRate(&r.timeStage)
		}
		if !r.cutting || r.cutAt > now {
			return
		}
		r.updateAlpha(r.cutAt)
		r.cutRate(r.cutAt)
		r.cutting = false
	}
}

// OnPacketSent counts n bytes.
func (r *Control) OnPacketSent(now units.Time, n units.Bytes) {
	r.OnTimer(now)
	if !r.limited || r.config.RPGByteReset == 0 {
		return
	}
	for r.bytes += n; r.limited && r.bytes >= r.config.RPGByteReset; {
		r.bytes -= r.config.RPGByteReset
		r.raiseRate(&r.byteStage)
	}
}

// OnCNP handles a CNP.
func (r *Control) OnCNP(now units.Time) {
	r.OnTimer(now)
	sampled := r.config.RateReduceMonitorPeriod > 0
	if !r.limited {
		lower := r.limitFlow(now)
		switch {
		case lower: // that was the decrease
		case sampled:
			r.cutting = true
		default:
			r.cutOnCNP(now)
		}
		return
	}
	r.updateAlpha(now)
	if !sampled {
		r.cutOnCNP(now)
		return
	}
	r.heard = true
	if !r.cutting {
		r.cutting = true
		if p := r.config.RateReduceMonitorPeriod; r.cutAt <= now {
			r.cutAt += ((now-r.cutAt)/p + 1) * p
		}
	}
}

// SetLineRate caps the rates at the new line rate, or sets them to it if the flow is
// not limited.
func (r *Control) SetLineRate(now units.Time, line units.Rate) {
	r.OnTimer(now)
	r.line = line
	if !r.limited {
		r.rate, r.target = line, line
		return
	}
	r.rate, r.target = min(r.rate, r.maxRate()), min(r.target, r.maxRate())
}

// limitFlow limits the flow at its first CNP, and reports whether that was the
// decrease as well.
func (r *Control) limitFlow(now units.Time) bool {
	c := r.config
	rate := c.RateToSetOnFirstCNP
	if rate == 0 {
		rate = r.line * 17 / 20
	}
	r.rate = min(max(rate, r.minRate()), r.maxRate())
	r.target = r.rate
	r.limited, r.heard = true, false
	r.alpha, r.alphaAt = uint32(c.InitialAlphaValue)<<20, now+c.DCETCPRTT
	r.cutAt = now + c.RateReduceMonitorPeriod
	r.resetStages(now)
	return rate < r.line
}

// cutOnCNP implements Algorithm 1's CutRate and Eq. 1.
func (r *Control) cutOnCNP(now units.Time) {
	r.cutRate(now)
	r.alpha = r.nextAlpha(true)
	r.alphaAt = now + r.config.DCETCPRTT
}

// updateAlpha does the updates of alpha that are due by now. Updates skipped at 0
// would not change it; from 1 it takes a few thousand updates to get there.
func (r *Control) updateAlpha(now units.Time) {
	for every := r.config.DCETCPRTT; r.alphaAt <= now; r.alphaAt += every {
		if r.alpha == 0 && !r.heard {
			r.alphaAt += (now - r.alphaAt) / every * every
			continue
		}
		r.alpha = r.nextAlpha(r.heard)
		r.heard = false
	}
}

// nextAlpha returns alpha after an update with or without a CNP.
func (r *Control) nextAlpha(heard bool) uint32 {
	old := uint64(r.config.DCETCPG)
	a := uint64(r.alpha) * old >> 10
	if heard {
		a += (1024 - old) << 20
	}
	return uint32(a)
}

// cutRate decreases the rate.
func (r *Control) cutRate(now units.Time) {
	c := r.config
	if c.ClampTgtRate || r.byteStage > 0 || c.ClampTgtRateAfterTimeInc && r.timeStage > 0 {
		r.target = r.rate
	}
	floor := max(r.minRate(), units.Rate(float64(r.rate)*float64(c.RPGMinDecFac)))
	r.rate = min(r.rate, max(floor, r.rate-r.increaseShare()))
	r.resetStages(now)
}

// increaseShare returns alpha·1024/2^rpg_gd of the rate, but no more than the rate.
func (r *Control) increaseShare() units.Rate {
	high, low := bits.Mul64(uint64(r.rate), uint64(r.alpha))
	shift := 20 + uint(r.config.RPGGD)
	if high>>shift > 0 {
		return r.rate
	}
	return units.Rate(min(high<<(64-shift)|low>>shift, uint64(r.rate)))
}

// resetStages goes back to fast recovery.
func (r *Control) resetStages(now units.Time) {
	r.raiseAt = now + r.config.RPGTimeReset
	r.bytes, r.timeStage, r.byteStage = 0, 0, 0
}

// raiseRate increases the rate for the counter whose stage is given. It rounds up,
// so that the rate reaches its target.
func (r *Control) raiseRate(by *uint32) {
	c := r.config
	low, high := r.timeStage, r.timeStage
	if c.RPGByteReset > 0 {
		low, high = min(low, r.byteStage), max(high, r.byteStage)
	}
	switch f := uint32(c.RPGThreshold); {
	case low > f:
		r.target += c.RPGHAIRate
	case high >= f:
		r.target += c.RPGAIRate
	}
	r.target = min(r.target, r.maxRate())
	r.rate += (r.target - r.rate + 1) / 2
	*by = addStage(*by, 1)
	if c.ReleaseAtMaxRate && r.rate == r.maxRate() && !r.cutting {
		r.limited, r.rate, r.target = false, r.line, r.line
	}
}

// addStage adds n to a stage. Stages differ only up to rpg_threshold.
func addStage(s uint32, n int64) uint32 { return uint32(min(int64(s)+n, 1<<16)) }

// AppendGauges implements cc.Control.
func (r *Control) AppendGauges(now units.Time, values []float64) []float64 {
	s := r.State(now)
	if !s.Limited {
		return append(values, 0, gauge.None, gauge.None, gauge.None, gauge.None)
	}
	return append(values, 1, gauge.RateValue(s.Target), float64(s.Alpha), float64(s.TimeStage), float64(s.ByteStage))
}
