package rocc

import (
	_ "embed" // rocc.lua
	"slices"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

//go:embed rocc.lua
var lua string

func init() {
	registry.Dissectors.Register("rocc", lua)
	cc.Methods.Register("rocc", cc.Method{
		Summary: "RoCC (CoNEXT 2020): switches with mark: rocc compute the fair rate and send it to the senders",
		Presets: Presets, Feedback: Protocol,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "limited", Unit: gauge.YesNo, Help: "whether a congestion point limits the flow", Brief: true},
			{Name: "fair_rate", Unit: gauge.BitsPerSecond, Help: "rate of the last accepted message, including doublings since"},
			{Name: "accepted", Help: "messages that set the rate"},
			{Name: "refused", Help: "messages from other congestion points with higher rates"},
			{Name: "rises", Help: "times that the rate doubled because no message came"},
		},
	})
}

// Control is the reaction point of one flow (Algorithm 2).
//
// A flow is not limited until its first message. A message is accepted if it comes from the
// same congestion point as the last accepted message, or if its rate is not above the
// flow's. Its rate then becomes the flow's rate. After each Rise without an accepted
// message the rate doubles. Once it is above R_max, the line rate, the flow is no longer
// limited and its congestion point is forgotten.
//
// The paper keeps a limiter that is no longer needed until its queue is empty. That would
// make no difference: such a limiter passes as much as the line does.
type Control struct {
	cc.NopControl
	config *Config
	line   units.Rate // R_max

	limited bool
	rate    units.Rate // R_cur, of a limited flow
	cp      CP         // CP_cur
	riseAt  units.Time

	// waiting has the messages that the NIC has not reacted to yet, oldest first.
	waiting []notice

	accepted, refused uint64
	rises             uint64
}

// notice is a rate that takes effect at a time.
type notice struct {
	at   units.Time
	rate units.Rate
	cp   CP
}

// maxWaiting limits the messages that wait for a flow flooded with messages. Beyond it the
// latest replaces the one before.
const maxWaiting = 64

var _ cc.Control = (*Control)(nil)

// New returns the reaction point of a flow at a port with line rate line. c has passed
// Validate(line) and is shared, not copied.
func New(c *Config, line units.Rate) *Control {
	return &Control{config: c, line: line, riseAt: units.Never}
}

// Rate returns R_cur, or the line rate if that is lower.
func (r *Control) Rate() units.Rate {
	if !r.limited {
		return r.line
	}
	return min(r.rate, r.line)
}

// NextTimer returns when a message takes effect or the rate doubles.
func (r *Control) NextTimer() units.Time {
	if len(r.waiting) > 0 {
		return min(r.waiting[0].at, r.riseAt)
	}
	return r.riseAt
}

// OnMessage handles a Feedback, which takes effect after the NIC's delay. It ignores other
// messages.
func (r *Control) OnMessage(now units.Time, m cc.Feedback) {
	r.OnTimer(now)
	f, ok := m.(*Feedback)
	if !ok {
		return
	}
	n := notice{now + r.config.Delay, r.config.rateOf(f), f.CP}
	switch {
	case r.config.Delay == 0:
		r.applyFeedback(n)
	case len(r.waiting) == maxWaiting:
		n.at = r.waiting[maxWaiting-1].at
		r.waiting[maxWaiting-1] = n
	default:
		r.waiting = append(r.waiting, n)
	}
}

// OnTimer processes all events up to now, in time order.
func (r *Control) OnTimer(now units.Time) {
	for r.NextTimer() <= now {
		if len(r.waiting) > 0 && r.waiting[0].at <= r.riseAt {
			n := r.waiting[0]
			r.waiting = slices.Delete(r.waiting, 0, 1)
			r.applyFeedback(n)
		} else {
			r.timerExpired()
		}
	}
}

// applyFeedback implements PROCESS_CNP.
func (r *Control) applyFeedback(n notice) {
	current := r.rate
	if !r.limited {
		current = r.line
	}
	if n.rate > current && (!r.limited || n.cp != r.cp) {
		r.refused++
		return
	}
	r.accepted++
	r.limited = true
	r.rate = max(n.rate, r.config.RMin)
	r.cp = n.cp
	r.riseAt = n.at + r.config.Rise
}

// timerExpired implements TIMER_EXPIRED.
func (r *Control) timerExpired() {
	if r.rate > r.line {
		r.limited, r.riseAt = false, units.Never
		r.cp = CP{}
		return
	}
	r.rises++
	r.rate *= 2
	r.riseAt += r.config.Rise
}

// SetLineRate sets a new rate of the port, and so a new R_max.
func (r *Control) SetLineRate(now units.Time, line units.Rate) {
	r.OnTimer(now)
	r.line = line
}

// AppendGauges implements cc.Control.
func (r *Control) AppendGauges(now units.Time, values []float64) []float64 {
	x := *r // a copy, so that reading gauges changes nothing
	x.waiting = append([]notice(nil), r.waiting...)
	x.OnTimer(now)
	limited, rate := 0.0, gauge.None
	if x.limited {
		limited, rate = 1, float64(x.rate)
	}
	return append(values, limited, rate, float64(x.accepted), float64(x.refused), float64(x.rises))
}
