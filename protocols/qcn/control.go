// Package qcn implements Quantized Congestion Notification, IEEE Std 802.1Q (clauses 30
// to 33, first published as 802.1Qau-2010): the reaction point at a sender, the
// congestion point of a queue, and the message between them. It works on layer 2:
// messages go to the source MAC address of a frame, so they do not cross routers.
//
// Names are the standard's, defaults come from its module IEEE8021-CN-MIB. The state
// machine, the table of samples and the jitter of 15% follow Pan's pseudo-code of QCN,
// on which the standard is built. They are from memory: the text of neither was
// available.
package qcn

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"math/rand/v2"
)

func init() {
	cc.Methods.Register("qcn", cc.Method{
		Summary: "QCN (IEEE 802.1Q): congestion notification messages of switches lower the rate by their quantized feedback",
		Presets: Presets, Feedback: Protocol,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "limited", Unit: gauge.YesNo, Help: "whether a message has arrived"},
			{Name: "target_rate", Unit: gauge.BitsPerSecond, Help: "rate that increases approach"},
			{Name: "feedback", Help: "quantized feedback of the last message, 1 to 63", Brief: true},
			{Name: "time_stage", Help: "increases by the timer since the last decrease"},
			{Name: "byte_stage", Help: "increases by the byte counter since the last decrease"},
		},
	})
}

// Control is the reaction point (RP) of one flow. A flow is not limited until its
// first message. From then on
//
//   - a message takes Fb·2^-rpg_gd of the rate, and makes the previous rate the target,
//     unless the byte counter has not expired since the last message;
//   - whenever the timer or the byte counter expires, there is an increase. It first
//     raises the target: by nothing while neither has had more than rpg_threshold
//     increases (fast recovery), by rpg_hai_rate for each increase beyond that which
//     both have had (hyper increase), by rpg_ai_rate otherwise (active increase). While
//     either counter is at its first increase, a target of more than ten times the rate
//     is divided by eight instead. Then the increase halves the distance to the target.
//
// Beyond rpg_threshold the periods are half as long. All periods vary, by 15% up and
// down. A flow that reaches rpg_max_rate is no longer limited.
type Control struct {
	cc.NopControl
	config *Config
	line   units.Rate
	// rand belongs to the flow, so that it does not matter when OnTimer is called.
	rand rand.PCG

	enabled              bool       // rpEnabled: a message has arrived
	current, target      units.Rate // rpCurrentRate, rpTargetRate; line while not enabled
	bytes                units.Bytes
	byteStage, timeStage uint32
	timerAt              units.Time // when RpWhile expires
	fb                   uint8      // of the last message
}

var _ cc.Control = (*Control)(nil)

// New returns the reaction point of a flow at a port with line rate line. c has passed
// Validate(line) and is shared, not copied. random seeds the flow's random numbers.
func New(c *Config, line units.Rate, random *rand.Rand) *Control {
	r := &Control{config: c, line: line, current: line, target: line}
	r.rand.Seed(random.Uint64(), random.Uint64())
	return r
}

// Rate returns rpCurrentRate, or the line rate while the flow is not limited.
func (r *Control) Rate() units.Rate { return r.current }

// NextTimer returns when the timer expires.
func (r *Control) NextTimer() units.Time {
	if !r.enabled {
		return units.Never
	}
	return r.timerAt
}

// maxRate returns the highest rate of a limited flow, least the lowest.
func (r *Control) maxRate() units.Rate {
	if m := r.config.RPGMaxRate; m > 0 && m < r.line {
		return m
	}
	return r.line
}

func (r *Control) minRate() units.Rate { return min(r.config.RPGMinRate, r.maxRate()) }

// OnTimer applies the timer's increases up to now.
func (r *Control) OnTimer(now units.Time) {
	for r.enabled && r.timerAt <= now {
		r.timeStage = nextStage(r.timeStage)
		r.timerAt += r.timerRun()
		r.raiseRate()
	}
}

// OnPacketSent counts n bytes in the byte counter.
func (r *Control) OnPacketSent(now units.Time, n units.Bytes) {
	r.OnTimer(now)
	if !r.enabled {
		return
	}
	for r.bytes -= n; r.enabled && r.bytes <= 0; {
		r.byteStage = nextStage(r.byteStage)
		r.bytes += r.byteRun()
		r.raiseRate()
	}
}

// OnMessage handles a CNM (the standard's procedure ProcessCnm). It ignores messages
// without feedback and messages that are not CNMs.
func (r *Control) OnMessage(now units.Time, m cc.Feedback) {
	r.OnTimer(now)
	cnm, ok := m.(*CNM)
	if !ok || cnm.Fb == 0 {
		return
	}
	c := r.config
	if !r.enabled || r.byteStage > 0 {
		r.enabled = true
		r.current = min(r.current, r.maxRate())
		r.target = r.current
		r.byteStage = 0
		r.bytes = r.byteRun()
	}
	r.timeStage = 0
	r.fb = min(cnm.Fb, MaxFb)
	floor := max(r.minRate(), units.Rate(float64(r.current)*float64(c.RPGMinDecFac)))
	cut := r.current * units.Rate(r.fb) >> c.RPGGD
	r.current = min(r.current, max(floor, r.current-cut))
	r.timerAt = now + r.timerRun()
}

// raiseRate raises the rate after the stage of a counter has grown (AdjustRates). It
// rounds up, so that the rate reaches its target.
func (r *Control) raiseRate() {
	c := r.config
	f := uint32(c.RPGThreshold)
	low, high := min(r.timeStage, r.byteStage), max(r.timeStage, r.byteStage)
	switch {
	case (r.timeStage == 1 || r.byteStage == 1) && r.target > 10*r.current:
		r.target /= 8
	case low > f:
		r.raiseTarget(c.RPGHAIRate, units.Rate(low-f))
	case high > f:
		r.raiseTarget(c.RPGAIRate, 1)
	}
	r.current += (r.target - r.current + 1) / 2
	if r.current == r.maxRate() {
		r.enabled, r.current, r.target = false, r.line, r.line
	}
}

// raiseTarget adds times by to the target.
func (r *Control) raiseTarget(by, times units.Rate) {
	room := r.maxRate() - r.target
	if times > room/by {
		r.target = r.maxRate()
		return
	}
	r.target += times * by
}

// byteRun returns what the byte counter counts to next, timerRun how long the timer
// runs.
func (r *Control) byteRun() units.Bytes {
	return max(1, units.Bytes(r.jitterThreshold(float64(r.config.RPGByteReset), r.byteStage)))
}

func (r *Control) timerRun() units.Time {
	return max(1, units.Time(r.jitterThreshold(float64(r.config.RPGTimeReset), r.timeStage)))
}

// jitterThreshold returns n with jitter, or half of n with jitter beyond fast recovery.
func (r *Control) jitterThreshold(n float64, stage uint32) float64 {
	if stage >= uint32(r.config.RPGThreshold) {
		n /= 2
	}
	return n * varyBy(float64(r.config.Jitter), float64(r.rand.Uint64()>>11)/(1<<53))
}

// varyBy turns a random number from 0 to 1 into a factor from 1-share to 1+share.
func varyBy(share, random float64) float64 { return 1 + float64(share*(2*random-1)) }

// SetLineRate caps the rates at the new line rate. A flow without a limit gets the new rate.
func (r *Control) SetLineRate(now units.Time, line units.Rate) {
	r.OnTimer(now)
	r.line = line
	if !r.enabled {
		r.current, r.target = line, line
		return
	}
	r.current, r.target = min(r.current, r.maxRate()), min(r.target, r.maxRate())
}

// nextStage returns the stage after stage. It stops far beyond rpg_threshold, where increases
// are large enough.
func nextStage(stage uint32) uint32 { return min(stage+1, 1000) }

// AppendGauges implements cc.Control.
func (r *Control) AppendGauges(now units.Time, values []float64) []float64 {
	x := *r // a copy, so that reading gauges changes nothing
	x.OnTimer(now)
	if !x.enabled {
		return append(values, 0, gauge.None, gauge.None, gauge.None, gauge.None)
	}
	return append(values, 1, gauge.RateValue(x.target), float64(x.fb), float64(x.timeStage), float64(x.byteStage))
}
