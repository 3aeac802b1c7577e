package accurate

import (
	_ "embed" // accurate.lua
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

//go:embed accurate.lua
var lua string

func init() {
	registry.Dissectors.Register("accurate", lua)
	cc.Methods.Register("accurate", cc.Method{
		Summary: "ACCurate: flows send one FRP per period, in which contention points of switches and hosts with mark: accurate write their fair share rates",
		Presets: Presets, Feedback: Protocol,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "known", Unit: gauge.YesNo, Help: "whether contention points know the flow", Brief: true},
			{Name: "cr", Unit: gauge.BitsPerSecond, Help: "CR, the rate in the next FRP", Brief: true},
			{Name: "frps", Help: "FRPs sent, including flow-init and flow-stop"},
			{Name: "responses", Help: "responses that set the rate"},
			{Name: "shorts", Help: "short-circuit replies"},
			{Name: "stale", Help: "responses overtaken by later ones"},
		},
	})
}

// Control is the reaction point of one flow (§II, §IV-B).
//
// A flow begins at line rate and announces itself by a flow-init before its first packet. In
// each period after that it sends one FRP, and the response sets its rate. A flow-stop ends
// that; if the flow goes on, it begins as a new one.
type Control struct {
	cc.NopControl
	config *Config
	line   units.Rate
	clock  Clock
	// offset is the time within a period at which the flow sends its FRP. An FRP sent near the
	// edge could arrive at contention points in another period.
	offset units.Time

	headers units.Bytes // of a packet on the wire

	rate   units.Rate
	active bool
	known  bool        // contention points have been told of the flow
	sent   units.Bytes // payload since the flow became active, ignoring pauses shorter than Linger
	rested units.Time  // when it was last active
	frpAt  units.Time  // when the next regular FRP is due
	stopAt units.Time  // when an idle flow stops

	period  int64  // of the last FRP
	heard   uint16 // period of the last response that set the rate
	hearing bool   // there was a response since the flow-init
	due     [maxDue]notice
	waiting int // notices in due

	frps, responses, shorts, stale uint64
}

// notice is an FRP that waits to be sent.
type notice struct {
	kind    Kind
	counted bool
	period  uint16
	cr, dr  units.Rate
}

// maxDue is the largest number of FRPs that one input causes: a regular one and a flow-stop.
const maxDue = 2

var (
	_ cc.Control       = (*Control)(nil)
	_ cc.MessageSender = (*Control)(nil)
	_ cc.Sized         = (*Control)(nil)
)

// New returns the reaction point of a flow at a port with line rate line. c must have passed
// Validate(line) and is shared, not copied. FRPs are sent in the second quarter of the flow's
// periods: the rest of the period is left for delays on the path, and clocks may be a quarter
// early.
func New(c *Config, line units.Rate, random *rand.Rand) *Control {
	r := &Control{config: c, line: line, rate: line, clock: c.Clocks.New(random), frpAt: units.Never, stopAt: units.Never}
	quarter := int64(c.RRP / 4)
	r.offset = units.Time(quarter + random.Int64N(quarter))
	return r
}

// Rate returns the rate of the last response, or the line rate.
func (r *Control) Rate() units.Rate { return min(r.rate, r.line) }

// NextTimer returns the time at which an FRP is due or the flow stops.
func (r *Control) NextTimer() units.Time { return min(r.frpAt, r.stopAt) }

// OnTimer does what is due by now. If several FRPs are due, only one is sent: those of past
// periods would be counted in this one.
func (r *Control) OnTimer(now units.Time) {
	if r.stopAt <= now {
		r.announceEnd(now)
	}
	if r.frpAt <= now {
		r.queueFRP(now, Regular)
		r.scheduleFRP()
	}
}

// SetActive begins and ends a flow.
func (r *Control) SetActive(now units.Time, active bool) {
	r.OnTimer(now)
	r.active = active
	if !active {
		r.rested = now
	} else if now-r.rested >= r.config.Linger {
		r.sent = 0
	}
	switch {
	case !active && r.known:
		r.stopAt = now + r.config.Linger
		if r.config.Linger == 0 {
			r.announceEnd(now)
		}
	case active:
		r.stopAt = units.Never
		r.announceFlow(now, 0)
	}
}

// OnDataQueued implements cc.Sized.
func (r *Control) OnDataQueued(now units.Time, n units.Bytes) { r.announceFlow(now, n) }

// OnPacketSent counts a packet. The flow may now be large enough to be announced.
func (r *Control) OnPacketSent(now units.Time, n units.Bytes) {
	r.OnTimer(now)
	r.sent += max(0, n-r.headers)
	r.announceFlow(now, 0)
}

// announceFlow announces the flow to contention points if it is large enough.
func (r *Control) announceFlow(now units.Time, queued units.Bytes) {
	if !r.active || r.known || r.sent+queued < r.config.Small {
		return
	}
	r.known, r.hearing = true, false
	r.rate = r.line
	r.queueFRP(now, Init)
	r.scheduleFRP()
}

// announceEnd tells contention points that the flow is over.
func (r *Control) announceEnd(now units.Time) {
	r.stopAt, r.frpAt = units.Never, units.Never
	r.known = false
	r.queueFRP(now, Stop)
	r.rate = r.line
}

// queueFRP queues an FRP.
func (r *Control) queueFRP(now units.Time, k Kind) {
	period := r.clock.Period(now)
	n := notice{kind: k, counted: k == Stop && r.period == period, period: uint16(period), cr: r.Rate(), dr: r.line}
	if k != Stop {
		r.period = period
	}
	r.due[min(r.waiting, maxDue-1)] = n
	r.waiting = min(r.waiting+1, maxDue)
	r.frps++
}

// SendsMessages implements cc.MessageSender.
func (r *Control) SendsMessages() bool { return r.waiting > 0 }

// NextMessage implements cc.MessageSender.
func (r *Control) NextMessage(key packet.FlowKey, body packet.Body) {
	n := r.due[0]
	r.due[0] = r.due[1]
	r.waiting--
	f := body.(*FRP)
	f.Reset()
	f.Kind, f.Counted, f.Period, f.CR, f.DR, f.Flow = n.kind, n.counted, n.period, n.cr, n.dr, key
}

// scheduleFRP schedules the next regular FRP, in the period after the last one's.
func (r *Control) scheduleFRP() { r.frpAt = r.clock.Start(r.period+1) + r.offset }

// OnMessage takes a response (§II, §II-C). A short-circuit reply comes from a contention point on
// the path and can only lower the rate: others may allow less.
func (r *Control) OnMessage(now units.Time, m cc.Feedback) {
	r.OnTimer(now)
	f, ok := m.(*FRP)
	if !ok || !f.Response || !r.known {
		return
	}
	if r.hearing && int16(f.Period-r.heard) < 0 {
		r.stale++
		return
	}
	rate := f.CR
	switch {
	case f.Short:
		r.shorts++
		rate = min(rate, r.rate)
	default:
		r.responses++
		r.heard, r.hearing = f.Period, true
		rate = max(rate, f.DR)
	}
	r.rate = max(rate, r.config.RMin)
}

// SetLineRate handles a change of the port's rate.
func (r *Control) SetLineRate(now units.Time, line units.Rate) {
	r.OnTimer(now)
	r.line = line
	if !r.known {
		r.rate = line
	}
}

// AppendGauges implements cc.Control.
func (r *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	return append(values, gauge.BoolValue(r.known), float64(r.Rate()), float64(r.frps), float64(r.responses), float64(r.shorts), float64(r.stale))
}
