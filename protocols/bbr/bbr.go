// Package bbr is BBR's congestion control at the sender, version 1: Cardwell, Cheng,
// Gunn, Hassas Yeganeh and Jacobson, "BBR: Congestion-Based Congestion Control", ACM Queue
// 2016, and draft-cardwell-iccrg-bbr-congestion-control-00. It measures the bandwidth of
// the bottleneck and the RTT without queues, paces at the one and keeps the window at a
// small multiple of their product.
//
// The names are those of the draft; rates are of payload, and paced on the wire. As in
// Linux the rate is a hundredth less than the draft's (Config.Margin), and the window has
// room for three bursts more, of which the sender here has none longer than two packets.
// Not modelled are Linux's detector of policers and its allowance for aggregated
// acknowledgements.
package bbr

import (
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("bbr", cc.Method{
		Summary: "BBR v1 (Cardwell et al., ACM Queue 2016): bandwidth and RTT of the path, as measured, set rate and window",
		Presets: Presets,
		Preset: func(name string, _ units.Rate) cc.Settings {
			c := Preset(name)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "btlbw", Unit: gauge.BitsPerSecond, Help: "BtlBw: largest delivery rate of late, in payload", Brief: true},
			{Name: "rtprop", Unit: gauge.Seconds, Help: "RTprop: least RTT of late"},
			{Name: "cwnd", Unit: gauge.Bytes, Help: "congestion window, in payload"},
			{Name: "state", Help: "0 is Startup, 1 Drain, 2 ProbeBW, 3 ProbeRTT"},
			{Name: "pacing_gain", Help: "gain of the rate"},
		},
	})
}

// state is what a flow does.
type state uint8

// The states.
const (
	startup state = iota
	drain
	probeBW
	probeRTT
)

// gains are those of the rate in the phases of ProbeBW.
var gains = [...]float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}

const (
	minWindow  = 4    // packets: BBRMinPipeCwnd
	spare      = 6    // packets: three bursts of two
	fullGrowth = 1.25 // by which BtlBw grows in a round while the pipe is not full
	fullRounds = 3    // without that, and it is
)

// Control is the state of one flow.
type Control struct {
	cc.Deaf
	config      *Config
	mtu, packet units.Bytes
	line        units.Rate
	rand        *rand.Rand

	state      state
	phase      uint8
	roundStart bool
	filled     bool // the pipe is, or was
	fullCount  uint8
	held       bool // packet conservation: the first round of a recovery
	recovering bool
	idle       bool       // the flow begins again after it had nothing to send
	episode    cc.Episode // of losses
	lost       units.Bytes

	rounds    uint32
	delivered units.Bytes // at which the round ends
	btlbw     maxFilter
	fullBW    units.Rate

	rtprop   units.Time // 0 before the first
	rtpropAt units.Time // when it was measured
	cycleAt  units.Time // when the phase of ProbeBW began
	doneAt   units.Time // when ProbeRTT may end; 0 before its flight is small
	doneOf   bool       // a round has passed since

	cwnd, prior units.Bytes // prior is the window before recovery or ProbeRTT
	rate        units.Rate  // on the wire
}

var _ cc.Undoer = (*Control)(nil)

// New makes the control of a flow. c has passed Validate and is shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	b := &Control{config: c, mtu: f.MTU, packet: f.Packet, line: f.Line, rand: f.Rand, cwnd: units.Bytes(c.InitialCwnd) * f.MTU}
	b.btlbw.rounds = uint32(c.BtlBwRounds)
	return b
}

// Active notes that the flow begins again.
func (b *Control) Active(_ units.Time, active bool) {
	if active && b.rounds > 0 {
		b.idle = true
	}
}

// Line holds the rate to the port's.
func (b *Control) Line(_ units.Time, r units.Rate) { b.line = r }

// Acked takes an acknowledgement.
func (b *Control) Acked(now units.Time, a *cc.Ack) {
	b.round(a)
	b.conserve(a)
	d := &a.Delivery
	if r := d.Rate(); r > 0 && (!d.Limited || r >= b.btlbw.max()) {
		b.btlbw.add(b.rounds, r)
	}
	b.cycle(now, a)
	b.checkFull(d)
	if b.state == startup && b.filled {
		b.state = drain
	}
	if b.state == drain && a.InFlight <= b.inflight(1) {
		b.enterProbeBW(now)
	}
	b.checkRTT(now, a)
	b.pace()
	b.size(a)
	b.lost = 0
}

// round finds out whether a round trip is over.
func (b *Control) round(a *cc.Ack) {
	b.roundStart = a.Delivery.Prior >= b.delivered
	if b.roundStart {
		b.delivered = a.Delivery.Total
		b.rounds++
	}
}

// conserve is BBRModulateCwndForRecovery: in the first round after a loss as much is sent
// as arrives, and afterwards the window is again what it was.
func (b *Control) conserve(a *cc.Ack) {
	b.episode.Acked(a)
	if b.recovering && !b.episode.On() {
		b.recovering, b.held = false, false
		b.cwnd = max(b.cwnd, b.prior)
	}
	if b.held && b.roundStart {
		b.held = false
	}
	if b.lost > 0 {
		b.cwnd = max(b.cwnd-b.lost, b.mtu)
	}
	if b.held {
		b.cwnd = max(b.cwnd, a.InFlight+a.Newly)
	}
}

// checkFull is BBRCheckFullPipe.
func (b *Control) checkFull(d *cc.Delivery) {
	if b.filled || !b.roundStart || d.Limited {
		return
	}
	if bw := b.btlbw.max(); float64(bw) >= float64(b.fullBW)*fullGrowth {
		b.fullBW, b.fullCount = bw, 0
		return
	}
	b.fullCount++
	b.filled = b.fullCount >= fullRounds
}

// enterProbeBW begins ProbeBW in any phase but the one that drains.
func (b *Control) enterProbeBW(now units.Time) {
	b.state = probeBW
	if b.phase = uint8(b.rand.IntN(len(gains) - 1)); b.phase >= 1 {
		b.phase++
	}
	b.cycleAt = now
}

// cycle is BBRCheckCyclePhase.
func (b *Control) cycle(now units.Time, a *cc.Ack) {
	if b.state != probeBW {
		return
	}
	over := now-b.cycleAt > b.rtprop
	before := a.InFlight + a.Newly // when the acknowledgement came
	switch g := gains[b.phase]; {
	case g > 1:
		over = over && (b.lost > 0 || before >= b.inflight(g))
	case g < 1:
		over = over || before <= b.inflight(1)
	}
	if over {
		b.phase = (b.phase + 1) % uint8(len(gains))
		b.cycleAt = now
	}
}

// checkRTT is BBRUpdateRTprop and BBRCheckProbeRTT.
func (b *Control) checkRTT(now units.Time, a *cc.Ack) {
	expired := b.rtprop > 0 && now > b.rtpropAt+b.config.RTpropFilter
	if a.RTT > 0 && (b.rtprop == 0 || a.RTT <= b.rtprop || expired) {
		b.rtprop, b.rtpropAt = a.RTT, now
	}
	if b.state != probeRTT && expired && !b.idle {
		b.state, b.doneAt = probeRTT, 0
		b.save()
	}
	if b.state == probeRTT {
		b.probe(now, a)
	}
	b.idle = false
}

// probe keeps the flight small for a while (BBRHandleProbeRTT).
func (b *Control) probe(now units.Time, a *cc.Ack) {
	if b.doneAt == 0 {
		if a.InFlight <= minWindow*b.mtu {
			b.doneAt, b.doneOf = now+b.config.ProbeRTT, false
			b.delivered = a.Delivery.Total
		}
		return
	}
	b.doneOf = b.doneOf || b.roundStart
	if !b.doneOf || now < b.doneAt {
		return
	}
	b.rtpropAt = now
	b.cwnd = max(b.cwnd, b.prior)
	if b.filled {
		b.enterProbeBW(now)
	} else {
		b.state = startup
	}
}

// save keeps the window for after a recovery or ProbeRTT.
func (b *Control) save() {
	if b.recovering || b.state == probeRTT {
		b.prior = max(b.prior, b.cwnd)
	} else {
		b.prior = b.cwnd
	}
}

// pacingGain and cwndGain are those of the state.
func (b *Control) pacingGain() float64 {
	switch b.state {
	case startup:
		return b.config.HighGain
	case drain:
		return 1 / b.config.HighGain
	case probeBW:
		return gains[b.phase]
	}
	return 1
}

func (b *Control) cwndGain() float64 {
	switch b.state {
	case startup, drain:
		return b.config.HighGain
	case probeBW:
		return b.config.CwndGain
	}
	return 1
}

// inflight is so many BDPs, with room for bursts (BBRInflight).
func (b *Control) inflight(gain float64) units.Bytes {
	bw := b.btlbw.max()
	if b.rtprop == 0 || bw == 0 {
		return units.Bytes(b.config.InitialCwnd) * b.mtu
	}
	n := units.Bytes(float64(bw) / 8 * b.rtprop.Seconds() * gain)
	n += spare * b.mtu
	if b.state == probeBW && gains[b.phase] > 1 {
		n += 2 * b.mtu
	}
	return n
}

// pace sets the rate (BBRSetPacingRate): in Startup it does not fall.
func (b *Control) pace() {
	if b.rate == 0 && b.rtprop > 0 {
		// No round has passed: the initial window in an RTT (BBRInitPacingRate).
		wire := b.config.HighGain * float64(b.config.InitialCwnd) * float64(b.packet) * 8 / b.rtprop.Seconds()
		b.rate = min(b.line, max(1, units.Rate(wire)))
	}
	bw := b.btlbw.max()
	if bw == 0 {
		return
	}
	wire := float64(bw) * b.pacingGain() * (1 - float64(b.config.Margin)) * float64(b.packet) / float64(b.mtu)
	if r := min(b.line, max(1, units.Rate(wire))); b.filled || r > b.rate {
		b.rate = r
	}
}

// size sets the window (BBRSetCwnd).
func (b *Control) size(a *cc.Ack) {
	target := b.inflight(b.cwndGain())
	switch {
	case b.held:
	case b.filled:
		b.cwnd = min(b.cwnd+a.Newly, target)
	case b.cwnd < target || a.Delivery.Total < units.Bytes(b.config.InitialCwnd)*b.mtu:
		b.cwnd += a.Newly
	}
	b.cwnd = max(b.cwnd, minWindow*b.mtu)
	if b.state == probeRTT {
		b.cwnd = min(b.cwnd, minWindow*b.mtu)
	}
}

// Lost begins a recovery: the window stays at what is under way for a round. After a
// timeout it is a packet.
func (b *Control) Lost(_ units.Time, l cc.Loss) {
	if !b.recovering {
		b.save()
	}
	if l.Timeout {
		b.cwnd, b.held, b.fullBW = b.mtu, false, 0
		b.recovering = true
		b.episode.Begin()
		return
	}
	b.lost += l.Payload
	if !b.recovering {
		b.recovering, b.held = true, true
		b.episode.Begin()
		b.delivered = 0 // a round begins with the next acknowledgement
	}
}

// Undo takes the last recovery back.
func (b *Control) Undo(units.Time) {
	b.fullBW, b.fullCount = 0, 0
	b.cwnd = max(b.cwnd, b.prior)
	b.recovering, b.held = false, false
	b.episode.End()
}

// Rate is the pacing rate.
func (b *Control) Rate() units.Rate { return b.rate }

// Window is the congestion window.
func (b *Control) Window() units.Bytes { return b.cwnd }

// Gauges implements cc.Control.
func (b *Control) Gauges(_ units.Time, values []float64) []float64 {
	bw, rtprop := gauge.None, gauge.None
	if r := b.btlbw.max(); r > 0 {
		bw = gauge.Rate(r)
	}
	if b.rtprop > 0 {
		rtprop = gauge.Span(b.rtprop)
	}
	return append(values, bw, rtprop, gauge.Size(b.cwnd), float64(b.state), b.pacingGain())
}
