// Package timely implements TIMELY, which slows a flow down while its round-trip time
// grows: Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter",
// SIGCOMM 2015, Algorithm 1. With the parameter patched it is the variant of Zhu et
// al., "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016,
// Algorithm 2.
//
// The paper's RTT is that of a segment of up to 64 KB, minus the time that the segment
// takes to leave the NIC (§4.1). Here the NIC measures the RTT of a packet from when
// it begins to leave, so there is nothing to subtract: earlier packets of the segment
// have already left.
package timely

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("timely", cc.Method{
		Summary: "TIMELY (Mittal et al., SIGCOMM 2015): the gradient of RTTs sets the rate; the preset patched is the version of Zhu et al. (CoNEXT 2016)",
		Presets: Presets,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "rtt", Unit: gauge.Seconds, Help: "RTT at the last completion event", Brief: true},
			{Name: "gradient", Help: "smoothed difference of RTTs, in units of min_rtt", Brief: true},
			{Name: "min_rtt", Unit: gauge.Seconds, Help: "divisor of RTT differences"},
			{Name: "falling", Help: "completion events in a row without a rising RTT; with hai_always, increases in a row"},
		},
	})
}

// Control is the rate of one flow. It is updated at completion events: whenever another
// seg bytes have been acknowledged. Rates and times are floating-point numbers as in
// the paper's pseudo-code, in b/s and picoseconds; products are rounded before an
// addition, so that all machines compute the same.
type Control struct {
	cc.NopControl
	config *Config
	line   units.Rate
	rate   float64

	minRTT   float64 // 0 while it is not known
	learning bool    // minRTT is the lowest measured RTT
	prevRTT  float64 // 0 before the first
	rttDiff  float64
	falling  int // completion events in a row without a rising RTT; with hai_always, increases

	segment units.Bytes // acknowledged bytes of the current segment
	mark    units.Bytes // with seg 0: bytes sent by the last update
	updated units.Time  // the last update; Never before the first
}

var _ cc.Control = (*Control)(nil)

// New returns the rate control of a flow. c has passed Validate(f.Line) and is shared,
// not copied.
func New(c *Config, f cc.Flow) *Control {
	t := &Control{config: c, line: f.Line, rate: float64(f.Line), minRTT: float64(c.MinRTT), updated: units.Never}
	if c.InitialRate > 0 {
		t.rate = float64(c.InitialRate)
	}
	if c.MinRTT == 0 {
		t.minRTT, t.learning = float64(f.Path.RTT), f.Path.RTT == 0
	}
	t.boundRate()
	return t
}

// Rate returns the current rate.
func (t *Control) Rate() units.Rate { return units.Rate(t.rate) }

// SetLineRate bounds the rate by the new line rate. The rate does not rise with it at once,
// because TIMELY does not use the line rate.
func (t *Control) SetLineRate(_ units.Time, line units.Rate) {
	t.line = line
	t.boundRate()
}

func (t *Control) boundRate() {
	t.rate = min(max(t.rate, float64(t.config.MinRate)), float64(t.line))
}

// OnAck updates the rate if the acknowledgement completes a segment.
func (t *Control) OnAck(now units.Time, a *cc.Ack) {
	if t.learning && a.RTT > 0 && (t.minRTT == 0 || float64(a.RTT) < t.minRTT) {
		t.minRTT = float64(a.RTT)
	}
	if t.completesSegment(a) && a.RTT > 0 {
		t.updateRate(now, float64(a.RTT))
	}
}

// completesSegment reports whether an acknowledgement is a completion event: for a segment,
// or with seg 0 for the first packet sent after the last update.
func (t *Control) completesSegment(a *cc.Ack) bool {
	seg := t.config.Seg
	if seg == 0 {
		if a.Acked <= t.mark {
			return false
		}
		t.mark = a.Sent
		return true
	}
	if t.segment += a.Newly; t.segment < seg {
		return false
	}
	t.segment %= seg
	return true
}

// updateRate implements Algorithm 1 of the paper, or with patched Algorithm 2 of Zhu et
// al. It uses their names.
func (t *Control) updateRate(now units.Time, newRTT float64) {
	c := t.config
	if t.prevRTT == 0 {
		t.prevRTT = newRTT
	}
	newRTTDiff := newRTT - t.prevRTT
	t.prevRTT = newRTT
	alpha, beta := float64(c.Alpha), float64(c.Beta)
	t.rttDiff = float64((1-alpha)*t.rttDiff) + float64(alpha*newRTTDiff)
	gradient := t.rttGradient()
	falls := gradient <= 0
	if c.HAIAlways {
		falls = newRTT < float64(c.TLow) || falls && newRTT <= float64(c.THigh)
	}
	if falls {
		t.falling++
	} else {
		t.falling = 0
	}

	scale := t.updateScale(now)
	t.updated = now
	tLow, tHigh, delta := float64(c.TLow), float64(c.THigh), float64(scale*float64(c.Delta))
	beta = float64(scale * beta)
	rate := t.rate
	switch {
	case newRTT < tLow && !c.HAIAlways:
		rate += delta
	case newRTT > tHigh:
		rate *= 1 - float64(beta*(1-tHigh/newRTT))
	case c.Patched:
		weight, ref := gradientWeight(gradient), c.refRTT()
		failure := (newRTT - ref) / ref
		rate = float64(delta*(1-weight)) + float64(rate*(1-float64(beta*weight*failure)))
	case newRTT < tLow || gradient <= 0:
		n := 1.0
		if t.falling >= c.HAIAfter {
			n = float64(c.HAITimes)
		}
		rate += float64(n * delta)
	default:
		rate *= 1 - float64(beta*gradient)
	}
	t.rate = max(rate, float64(t.rate*(1-float64(c.MaxDecrease))))
	t.boundRate()
}

// rttGradient returns the smoothed increase of the RTT from one round trip to the next,
// in units of minRTT.
func (t *Control) rttGradient() float64 {
	if t.minRTT == 0 {
		return 0
	}
	return t.rttDiff / t.minRTT
}

// updateScale returns the share of an update's effect for a completion event at now. With
// scale_updates, events less than minRTT apart have proportionally less effect.
func (t *Control) updateScale(now units.Time) float64 {
	if !t.config.ScaleUpdates || t.updated == units.Never || t.minRTT == 0 {
		return 1
	}
	return min(1, float64(now-t.updated)/t.minRTT)
}

// gradientWeight returns w(g) of Zhu et al. (§4.3): the share of the decrease in an update.
func gradientWeight(gradient float64) float64 {
	switch {
	case gradient <= -0.25:
		return 0
	case gradient >= 0.25:
		return 1
	}
	return float64(2*gradient) + 0.5
}

// AppendGauges implements cc.Control.
func (t *Control) AppendGauges(_ units.Time, values []float64) []float64 {
	minRTT := gauge.None
	if t.minRTT > 0 {
		minRTT = gauge.TimeValue(units.Time(t.minRTT))
	}
	if t.prevRTT == 0 {
		return append(values, gauge.None, gauge.None, minRTT, gauge.None)
	}
	return append(values, gauge.TimeValue(units.Time(t.prevRTT)), t.rttGradient(), minRTT, float64(t.falling))
}
