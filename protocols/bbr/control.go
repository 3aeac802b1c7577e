// Package bbr implements the sender's side of BBR congestion control, version 1: Cardwell,
// Cheng, Gunn, Hassas Yeganeh and Jacobson, "BBR: Congestion-Based Congestion Control", ACM
// Queue 2016, and draft-cardwell-iccrg-bbr-congestion-control-00. It measures the bandwidth of
// the bottleneck and the RTT without queues, paces at that bandwidth and keeps the window at a
// small multiple of their product.
//
// Names follow the draft; rates count payload, and are paced on the wire. Where Linux adds to
// the draft or differs from it, this package follows Linux (net/ipv4/tcp_bbr.c): the rate is a
// hundredth less (Config.Margin), packets leave in bursts (Config.SendQuantum) for which the
// window has room, acknowledgements that arrive together widen it (Config.AckAggregation), the
// rate of a policer is detected and kept to (Config.LongTerm), and samples of ProbeRTT do not
// lower BtlBw. Linux's longer bursts on paths below 16 ms (tcp_tso_rtt_log) are not
// implemented.
package bbr

import (
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("bbr", cc.Method{
		Summary: "BBR v1 (Cardwell et al., ACM Queue 2016): the measured bandwidth and RTT of the path set rate and window",
		Presets: Presets,
		Preset: func(name string, _ units.Rate) cc.Settings {
			c := Preset(name)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "btlbw", Unit: gauge.BitsPerSecond, Help: "BtlBw: largest recent delivery rate, in payload", Brief: true},
			{Name: "rtprop", Unit: gauge.Seconds, Help: "RTprop: lowest recent RTT"},
			{Name: "cwnd", Unit: gauge.Bytes, Help: "congestion window, in payload"},
			{Name: "state", Help: "0 is Startup, 1 Drain, 2 ProbeBW, 3 ProbeRTT"},
			{Name: "pacing_gain", Help: "gain of the rate"},
			{Name: "extra_acked", Unit: gauge.Bytes, Help: "added to the window for aggregated acknowledgements"},
			{Name: "lt_bw", Unit: gauge.BitsPerSecond, Help: "rate of a policer, in payload, while it is in use"},
		},
	})
}

// state is the state of a flow.
type state uint8

// The states.
const (
	startup state = iota
	drain
	probeBW
	probeRTT
)

// gains are the pacing gains of the phases of ProbeBW.
var gains = [...]float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}

const (
	minWindow  = 4    // packets: BBRMinPipeCwnd
	bursts     = 3    // for which the window has room: at the sender, in its NIC, at the receiver
	fullGrowth = 1.25 // least growth of BtlBw in a round while the pipe is not full
	fullRounds = 3    // rounds without that growth after which the pipe is full
)

// Control is the state of one flow.
type Control struct {
	cc.NopControl
	config      *Config
	mtu, packet units.Bytes
	line        units.Rate
	rand        *rand.Rand

	state      state
	phase      uint8
	roundStart bool
	filled     bool // the pipe is or was full
	fullCount  uint8
	entering   bool // a recovery begins with the next acknowledgement
	held       bool // packet conservation: the first round of a recovery
	recovering bool
	idle       bool        // the flow restarts after it was idle
	episode    cc.Episode  // of losses
	lost       units.Bytes // since the last acknowledgement

	rounds    uint32
	delivered units.Bytes // at which the round ends
	total     units.Bytes // delivered as of the last sample
	totalAt   units.Time
	btlbw     maxFilter
	fullBW    units.Rate
	extra     aggregation
	long      longTerm

	rtprop   units.Time     // 0 before the first
	rtpropAt units.Time     // when it was measured
	cycleAt  units.Time     // when the phase of ProbeBW began
	doneAt   units.Time     // when ProbeRTT may end; 0 until its flight is small
	doneOf   bool           // a round has passed since
	few      [2]units.Bytes // delivered totals, first to last, at which packets left in ProbeRTT

	cwnd, prior units.Bytes // prior is the window before recovery or ProbeRTT
	rate        units.Rate  // on the wire
	departs     units.Time  // when pacing lets the next packet go
}

var (
	_ cc.Undoer  = (*Control)(nil)
	_ cc.Burster = (*Control)(nil)
)

// New returns the control of a flow. c must have passed Validate and is shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	b := &Control{config: c, mtu: f.MTU, packet: f.Packet, line: f.Line, rand: f.Rand, cwnd: units.Bytes(c.InitialCwnd) * f.MTU}
	b.btlbw.rounds = uint32(c.BtlBwRounds)
	b.few[1] = -1
	return b
}

// SetActive notes that an idle flow restarts.
func (b *Control) SetActive(now units.Time, active bool) {
	if active && b.rounds > 0 {
		b.idle = true
		b.extra.beginEpoch(now)
	}
}

// SetLineRate limits the rate to the port's.
func (b *Control) SetLineRate(_ units.Time, r units.Rate) { b.line = r }

// OnPacketSent tracks the sender's pacing.
func (b *Control) OnPacketSent(now units.Time, n units.Bytes) {
	if b.rate > 0 {
		b.departs = max(b.departs, now) + b.rate.TimeOf(n)
	}
}

// OnAck handles an acknowledgement.
func (b *Control) OnAck(now units.Time, a *cc.Ack) {
	b.sampleDelivery(now, a)
	b.checkCyclePhase(now, a)
	b.checkFull(&a.Delivery)
	if b.state == startup && b.filled {
		b.state = drain
	}
	if b.state == drain && b.inNetwork(now, a.InFlight) <= b.targetInflight(b.btlbw.maxRate(), 1) {
		b.enterProbeBW(now)
	}
	b.checkRTT(now, a)
	b.setPacingRate()
	if a.Newly > 0 {
		b.setWindow(a)
	}
	if b.state == probeRTT {
		b.cwnd = min(b.cwnd, minWindow*b.mtu)
	}
	b.lost = 0
}

// sampleDelivery handles the delivery rate sample.
func (b *Control) sampleDelivery(now units.Time, a *cc.Ack) {
	d := &a.Delivery
	b.roundStart = false
	r := d.Rate()
	if r == 0 {
		return
	}
	if b.roundStart = d.Prior >= b.delivered; b.roundStart {
		b.delivered = d.Total
		b.rounds++
		b.held = false
	}
	limited := b.isAppLimited(d)
	b.total, b.totalAt = d.Total, now
	b.longTerm(b.roundStart, limited)
	if !limited || r >= b.btlbw.maxRate() {
		b.btlbw.addSample(b.rounds, r)
	}
	if b.config.AckAggregation {
		b.extra.addAcked(now, a.Newly, b.estimateBandwidth(), b.cwnd, b.mtu, b.roundStart)
	}
}

// longTerm looks for a policer.
func (b *Control) longTerm(round, limited bool) {
	if b.config.LongTerm && b.long.addAcked(b.totalAt, b.total, b.lost, round, limited, b.state == probeBW) {
		b.enterProbeBW(b.totalAt)
	}
}

// isAppLimited reports whether a sample comes from packets that were sent in ProbeRTT or when there
// was nothing more to send.
func (b *Control) isAppLimited(d *cc.Delivery) bool {
	return d.Limited || d.Prior >= b.few[0] && d.Prior <= b.few[1]
}

// estimateBandwidth returns the path's estimated bandwidth: BtlBw, or what a policer lets through.
func (b *Control) estimateBandwidth() units.Rate {
	if b.long.use {
		return b.long.rate
	}
	return b.btlbw.maxRate()
}

// checkFull implements BBRCheckFullPipe.
func (b *Control) checkFull(d *cc.Delivery) {
	if b.filled || !b.roundStart || d.Limited {
		return
	}
	if bw := b.btlbw.maxRate(); float64(bw) >= float64(b.fullBW)*fullGrowth {
		b.fullBW, b.fullCount = bw, 0
		return
	}
	b.fullCount++
	b.filled = b.fullCount >= fullRounds
}

// enterProbeBW starts ProbeBW in a random phase other than the one that drains.
func (b *Control) enterProbeBW(now units.Time) {
	b.state = probeBW
	if b.phase = uint8(b.rand.IntN(len(gains) - 1)); b.phase >= 1 {
		b.phase++
	}
	b.cycleAt = now
}

// checkCyclePhase implements BBRCheckCyclePhase. It does not probe a policer's rate.
func (b *Control) checkCyclePhase(now units.Time, a *cc.Ack) {
	if b.state != probeBW {
		return
	}
	over := now-b.cycleAt > b.rtprop
	before := b.inNetwork(now, a.InFlight+a.Newly+b.lost) // when the acknowledgement came
	switch g := b.pacingGain(); {
	case g > 1:
		over = over && (b.lost > 0 || before >= b.targetInflight(b.btlbw.maxRate(), g))
	case g < 1:
		over = over || before <= b.targetInflight(b.btlbw.maxRate(), 1)
	}
	if over {
		b.phase = (b.phase + 1) % uint8(len(gains))
		b.cycleAt = now
	}
}

// inNetwork returns how much of an amount in flight will be in the network when pacing releases
// the next packet. It includes the burst that leaves then if the flight is to grow.
func (b *Control) inNetwork(now units.Time, flight units.Bytes) units.Bytes {
	if b.pacingGain() > 1 {
		flight += b.sendQuantum()
	}
	return max(0, flight-b.estimateBandwidth().BytesIn(max(0, b.departs-now)))
}

// checkRTT implements BBRUpdateRTprop and BBRCheckProbeRTT.
func (b *Control) checkRTT(now units.Time, a *cc.Ack) {
	if minRTT := a.Delivery.MinRTT; b.rtprop == 0 && minRTT > 0 {
		b.rtprop, b.rtpropAt = minRTT, now // the handshake's
	}
	expired := b.rtprop > 0 && now > b.rtpropAt+b.config.RTpropFilter
	if a.RTT > 0 && (b.rtprop == 0 || a.RTT <= b.rtprop || expired) {
		b.rtprop, b.rtpropAt = a.RTT, now
	}
	if b.state != probeRTT && expired && !b.idle {
		b.saveWindow()
		b.state, b.doneAt, b.few[0] = probeRTT, 0, a.Delivery.Total
	}
	if b.state == probeRTT {
		b.handleProbeRTT(now, a)
	}
	b.idle = false
}

// handleProbeRTT keeps the flight small for a while (BBRHandleProbeRTT).
func (b *Control) handleProbeRTT(now units.Time, a *cc.Ack) {
	b.few[1] = a.Delivery.Total + a.InFlight
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

// saveWindow saves the window, which is restored after a recovery or ProbeRTT.
func (b *Control) saveWindow() {
	if b.recovering || b.state == probeRTT {
		b.prior = max(b.prior, b.cwnd)
	} else {
		b.prior = b.cwnd
	}
}

// pacingGain and cwndGain return the gains of the state.
func (b *Control) pacingGain() float64 {
	switch b.state {
	case startup:
		return b.config.HighGain
	case drain:
		return 1 / b.config.HighGain
	case probeBW:
		if !b.long.use {
			return gains[b.phase]
		}
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

// bdp returns gain bandwidth-delay products.
func (b *Control) bdp(bw units.Rate, gain float64) units.Bytes {
	if b.rtprop == 0 || bw == 0 {
		return units.Bytes(b.config.InitialCwnd) * b.mtu
	}
	return units.Bytes(math.Ceil(float64(bw) / 8 * b.rtprop.Seconds() * gain))
}

// targetInflight returns gain BDPs, with room for bursts (BBRInflight).
func (b *Control) targetInflight(bw units.Rate, gain float64) units.Bytes {
	return b.quantizeInflight(b.bdp(bw, gain))
}

// quantizeInflight adds room for bursts to an amount in flight. The result is an even number of packets,
// so that no acknowledgement of the last one is delayed, and two more while probing for
// bandwidth.
func (b *Control) quantizeInflight(n units.Bytes) units.Bytes {
	packets := (n + bursts*b.sendQuantum() + b.mtu - 1) / b.mtu
	packets += packets % 2
	if b.state == probeBW && b.phase == 0 {
		packets += 2
	}
	return packets * b.mtu
}

// BurstSize returns how much leaves at once.
func (b *Control) BurstSize() units.Bytes {
	if b.config.SendQuantum == 0 {
		return 0
	}
	return b.sendQuantum()
}

// Bounds of a burst: below slowest it has at least one packet, otherwise at least two. At most
// it is an IP packet with segmentation offload, less room for headers.
const (
	slowest      = 1200 * units.Kbps
	longestBurst = 65215
)

// sendQuantum returns the length of a burst (BBRSetSendQuantum), in whole packets.
func (b *Control) sendQuantum() units.Bytes {
	minPackets := units.Bytes(2)
	payload := float64(b.rate) * float64(b.mtu) / float64(b.packet)
	switch {
	case b.config.SendQuantum == 0:
		return b.mtu
	case payload < float64(slowest):
		minPackets = 1
	}
	n := units.Bytes(min(longestBurst, payload/8*b.config.SendQuantum.Seconds()))
	return max(n/b.mtu, minPackets) * b.mtu
}

// setPacingRate sets the rate (BBRSetPacingRate): in Startup it does not fall.
func (b *Control) setPacingRate() {
	if b.rate == 0 && b.rtprop > 0 {
		// No round has passed: the initial window in an RTT (BBRInitPacingRate).
		wire := b.config.HighGain * float64(b.config.InitialCwnd) * float64(b.packet) * 8 / b.rtprop.Seconds()
		b.rate = min(b.line, max(1, units.Rate(wire)))
	}
	bw := b.estimateBandwidth()
	if bw == 0 {
		return
	}
	wire := float64(bw) * b.pacingGain() * (1 - float64(b.config.Margin)) * float64(b.packet) / float64(b.mtu)
	if r := min(b.line, max(1, units.Rate(wire))); b.filled || r > b.rate {
		b.rate = r
	}
}

// setWindow sets the window (BBRSetCwnd).
func (b *Control) setWindow(a *cc.Ack) {
	b.conservePackets(a)
	if b.held {
		return
	}
	target := b.bdp(b.estimateBandwidth(), b.cwndGain())
	if b.filled {
		target += b.extra.extraWindow(b.estimateBandwidth())
	}
	target = b.quantizeInflight(target)
	switch {
	case b.filled:
		b.cwnd = min(b.cwnd+a.Newly, target)
	case b.cwnd < target || a.Delivery.Total < units.Bytes(b.config.InitialCwnd)*b.mtu:
		b.cwnd += a.Newly
	}
	b.cwnd = max(b.cwnd, minWindow*b.mtu)
}

// conservePackets implements BBRModulateCwndForRecovery: in the first round after a loss the flow
// sends as much as arrives, and after the recovery the window is what it was before.
func (b *Control) conservePackets(a *cc.Ack) {
	b.episode.OnAck(a)
	b.cwnd = max(b.cwnd-b.lost, b.mtu)
	switch {
	case b.entering:
		b.entering, b.held = false, true
		b.delivered = a.Delivery.Total // a round begins
		b.cwnd = max(a.InFlight+a.Newly, b.mtu)
	case b.recovering && !b.episode.IsActive():
		b.recovering, b.held = false, false
		b.cwnd = max(b.cwnd, b.prior)
	}
	if b.held {
		b.cwnd = max(b.cwnd, a.InFlight+a.Newly)
	}
}

// OnLoss starts a recovery: for a round the window stays at the bytes in flight. After a timeout
// it is one packet.
func (b *Control) OnLoss(_ units.Time, l cc.Loss) {
	if !b.recovering || l.Timeout || l.Again {
		b.saveWindow()
	}
	b.lost += l.Payload
	b.long.lost += l.Payload
	if l.Timeout {
		b.cwnd, b.entering, b.fullBW = b.mtu, false, 0
		b.longTerm(true, false) // as if a round were over
	} else if !b.recovering {
		b.entering = true
	}
	if !b.recovering || l.Timeout || l.Again {
		b.recovering = true
		b.episode.Begin()
	}
}

// UndoReduction reverts the last recovery.
func (b *Control) UndoReduction(units.Time) {
	b.fullBW, b.fullCount = 0, 0
	b.long.restartSampling()
	b.cwnd = max(b.cwnd, b.prior)
	b.entering, b.recovering, b.held = false, false, false
	b.episode.End()
}

// Rate returns the pacing rate.
func (b *Control) Rate() units.Rate { return b.rate }

// Window returns the congestion window.
func (b *Control) Window() units.Bytes { return b.cwnd }

// AppendGauges implements cc.Control.
func (b *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	bw, rtprop := gauge.None, gauge.None
	if r := b.btlbw.maxRate(); r > 0 {
		bw = gauge.RateValue(r)
	}
	if b.rtprop > 0 {
		rtprop = gauge.TimeValue(b.rtprop)
	}
	policed := gauge.None
	if b.long.use {
		policed = gauge.RateValue(b.long.rate)
	}
	return append(values, bw, rtprop, gauge.SizeValue(b.cwnd), float64(b.state), b.pacingGain(), gauge.SizeValue(b.extra.extraWindow(b.estimateBandwidth())), policed)
}
