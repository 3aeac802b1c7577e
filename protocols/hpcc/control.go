// Package hpcc implements HPCC: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM
// 2019. Switch ports write how much they have sent and how long their queue is into every
// packet; its acknowledgement brings that back (packages telemetry and cc), and the sender sets
// its window so that the busiest link of the path carries a share η of its rate.
//
// The parts of Algorithm 1 are methods of Control, with the paper's names. What the paper
// leaves open:
//
//   - U begins at 1, as in the authors' simulator. The first acknowledgement has
//     nothing to be compared with: it only becomes L.
//   - W is at most W_init. It counts bytes on the wire, as links do. What may be in
//     flight is counted in payload, so the window that Control.Window returns is W
//     without the headers of full-size packets.
//   - A port whose two records do not differ in time, or lie so far apart that its
//     byte counter can have wrapped, is ignored. If all ports are ignored, the
//     window stays.
//   - When packets take another path, L is measured again (§4.1) and the window stays.
//   - If neither the path's RTT nor base_rtt is known, T is the least RTT of an
//     acknowledgement so far; until the first one the flow has the line rate.
//   - Loss changes nothing: HPCC is for lossless fabrics.
package hpcc

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

func init() {
	cc.Methods.Register("hpcc", cc.Method{
		Summary: "HPCC (Li et al., SIGCOMM 2019): switch ports write their load into packets, which sets the window of the flow",
		Presets: Presets,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "u", Help: "U: load of the busiest link, where 1 is a link's rate times T", Brief: true},
			{Name: "w", Unit: gauge.Bytes, Help: "W: window in bytes on the wire"},
			{Name: "w_c", Unit: gauge.Bytes, Help: "W_c: the reference window"},
			{Name: "inc_stage", Help: "incStage: additive increases since the window was last set by U"},
			{Name: "base_rtt", Unit: gauge.Seconds, Help: "T: the RTT without queues"},
			{Name: "rtt", Unit: gauge.Seconds, Help: "RTT of the last acknowledgement"},
			{Name: "hops", Help: "switch ports in the last acknowledgement's telemetry", Brief: true},
		},
	})
}

// Control is the state of one flow (Algorithm 1).
type Control struct {
	cc.NopControl
	config *Config
	line   units.Rate // B_NIC
	t      units.Time // T; 0 if not known yet
	learn  bool       // T is the least RTT so far

	w, wc         float64     // W and W_c, bytes on the wire
	u             float64     // U
	incStage      int         // incStage
	lastUpdateSeq units.Bytes // lastUpdateSeq: payload from the flow's start

	hops  [telemetry.MaxHops]telemetry.Hop // L: the links of the last acknowledgement
	count uint8                            // number of hops; 0 before the first
	path  uint16                           // path of the hops
	seen  units.Time                       // when they arrived

	payload float64 // payload per byte on the wire
	rtt     units.Time
	rate    units.Rate  // W/T
	window  units.Bytes // W as payload
}

var _ cc.Control = (*Control)(nil)

// New returns the control of a flow. c must have passed Validate for the flow's line and is
// shared, not copied.
func New(c *Config, f cc.Flow) *Control {
	h := &Control{config: c, line: f.Line, t: c.BaseRTT, u: 1, payload: float64(f.MTU) / float64(f.Packet)}
	if h.t == 0 {
		h.t = f.Path.RTT
	}
	h.learn = h.t == 0
	h.w = h.initialWindow()
	h.wc = h.w
	h.applyWindow()
	return h
}

// initialWindow returns W_init, what the line carries in T.
func (h *Control) initialWindow() float64 { return float64(h.line) / 8 * h.t.Seconds() }

// additiveIncrease returns W_AI.
func (h *Control) additiveIncrease() float64 {
	if h.config.WAI > 0 {
		return float64(h.config.WAI)
	}
	return h.initialWindow() * (1 - float64(h.config.Eta)) / float64(h.config.N)
}

// OnAck implements NewAck of Algorithm 1.
func (h *Control) OnAck(now units.Time, ack *cc.Ack) {
	if ack.RTT > 0 {
		h.rtt = ack.RTT
	}
	if len(ack.Hops) == 0 || len(ack.Hops) > len(h.hops) {
		return
	}
	if h.learn && ack.RTT > 0 && (h.t == 0 || ack.RTT < h.t) {
		h.setBaseRTT(ack.RTT)
	}
	if h.t == 0 {
		return
	}
	update := ack.Acked > h.lastUpdateSeq
	switch {
	case h.count == 0:
		h.lastUpdateSeq = ack.Sent
	case int(h.count) != len(ack.Hops) || h.path != ack.Path:
	case h.config.Reaction == PerRTT && !update:
		return
	default:
		if h.measureInflight(now, ack) {
			h.w = h.computeWind(update || h.config.Reaction == PerACK)
			h.applyWindow()
		}
		if update {
			h.lastUpdateSeq = ack.Sent
		}
	}
	h.count, h.path, h.seen = uint8(copy(h.hops[:], ack.Hops)), ack.Path, now
}

// measureInflight implements MeasureInflight: it moves U towards the load of the busiest link,
// further the longer the measurement took. It reports whether any link could be measured.
//
// Products are converted explicitly so that no compiler fuses them with a sum, and the result
// is the same on every processor (Go specification, "Floating-point operators").
func (h *Control) measureInflight(now units.Time, ack *cc.Ack) bool {
	u, tau := 0.0, units.Time(0)
	for i, link := range ack.Hops {
		before := h.hops[i]
		elapsed, sent, ok := link.Between(before, now-h.seen)
		if !ok {
			continue
		}
		b := float64(link.Rate()) / 8 // bytes a second
		txRate := float64(sent) / elapsed.Seconds()
		qlen := float64(min(link.Queue(), before.Queue()))
		if v := qlen/(b*h.t.Seconds()) + txRate/b; v > u || tau == 0 {
			u, tau = v, elapsed
		}
	}
	if tau == 0 {
		return false
	}
	weight := float64(min(tau, h.t)) / float64(h.t)
	h.u = float64((1-weight)*h.u) + float64(weight*u)
	return true
}

// computeWind implements ComputeWind: it computes the window from the reference window W_c, by
// U or by W_AI alone. With update, the window becomes the reference.
func (h *Control) computeWind(update bool) float64 {
	c := h.config
	w, stage := h.wc, h.incStage
	if eta := float64(c.Eta); h.u >= eta || stage >= c.MaxStage {
		w, stage = w/(h.u/eta), 0
	} else {
		stage++
	}
	w = h.boundWindow(w + h.additiveIncrease())
	if update {
		h.wc, h.incStage = w, stage
	}
	return w
}

// boundWindow limits a window to what min_rate and the line rate carry in T.
func (h *Control) boundWindow(w float64) float64 {
	minWindow := float64(h.config.MinRate) / 8 * h.t.Seconds()
	return max(min(w, h.initialWindow()), minWindow)
}

// applyWindow sets rate and window from W.
func (h *Control) applyWindow() {
	if h.t == 0 {
		h.rate, h.window = h.line, 0
		return
	}
	h.rate = h.line
	if h.w < h.initialWindow() {
		h.rate = min(h.line, max(1, units.Rate(h.w*8/h.t.Seconds())))
	}
	h.window = max(1, units.Bytes(h.w*h.payload))
}

// setBaseRTT makes rtt the base RTT, without changing the rate.
func (h *Control) setBaseRTT(rtt units.Time) {
	if h.t == 0 {
		h.t = rtt
		h.w = h.initialWindow()
		h.wc = h.w
	} else {
		by := float64(rtt) / float64(h.t)
		h.t = rtt
		h.w, h.wc = h.boundWindow(h.w*by), h.boundWindow(h.wc*by)
	}
	h.applyWindow()
}

// SetLineRate bounds the window by the new line rate. A flow that had all of the old rate gets all of
// the new one.
func (h *Control) SetLineRate(_ units.Time, r units.Rate) {
	all := h.wc >= h.initialWindow()
	h.line = r
	if all {
		h.w, h.wc = h.initialWindow(), h.initialWindow()
	}
	h.w, h.wc = h.boundWindow(h.w), h.boundWindow(h.wc)
	h.applyWindow()
}

// Rate returns R = W/T.
func (h *Control) Rate() units.Rate { return h.rate }

// Window returns W in payload.
func (h *Control) Window() units.Bytes { return h.window }

// AppendGauges implements cc.Control.
func (h *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	if h.count == 0 {
		return append(values, gauge.None, h.w, h.wc, 0, gauge.TimeValue(h.t), h.lastRTT(), 0)
	}
	return append(values, h.u, h.w, h.wc, float64(h.incStage), gauge.TimeValue(h.t), h.lastRTT(), float64(h.count))
}

func (h *Control) lastRTT() float64 {
	if h.rtt == 0 {
		return gauge.None
	}
	return gauge.TimeValue(h.rtt)
}
