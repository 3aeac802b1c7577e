package rocc

import (
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Params holds the parameters of a congestion point under the paper's symbols (Table 2).
type Params struct {
	// Interval is T, the time between two computations. 1us to 1h.
	Interval units.Time `yaml:"t,omitempty" json:"t" jsonschema_description:"T, the time between two computations of the fair rate, once or twice the RTT"`
	// DeltaQ is the resolution of queue lengths, in bytes of frames. Above 0.
	DeltaQ units.Bytes `yaml:"delta_q,omitempty" json:"delta_q" jsonschema_description:"resolution of queue lengths"`
	// DeltaF is the resolution of rates, a multiple of 1 kb/s.
	DeltaF units.Rate `yaml:"delta_f,omitempty" json:"delta_f" jsonschema_description:"resolution of rates in messages, whole kilobits per second"`
	// QRef is the target length of the queue. Growth by QMid in an interval halves the
	// rate; a length of QMax sets it to FMin. 0 < QRef < QMid < QMax.
	QRef units.Bytes `yaml:"q_ref,omitempty" json:"q_ref" jsonschema_description:"target length of the queue"`
	QMid units.Bytes `yaml:"q_mid,omitempty" json:"q_mid" jsonschema_description:"growth of the queue in an interval at which the rate is halved"`
	QMax units.Bytes `yaml:"q_max,omitempty" json:"q_max" jsonschema_description:"length of the queue at which the rate falls to f_min"`
	// FMin and FMax bound the fair rate. FMin is DeltaF or more, FMax at most 65535 times
	// DeltaF.
	FMin units.Rate `yaml:"f_min,omitempty" json:"f_min" jsonschema_description:"minimum fair rate"`
	FMax units.Rate `yaml:"f_max,omitempty" json:"f_max" jsonschema_description:"maximum fair rate; default the rate of the link"`
	// FStart is the fair rate before the first computation, FMin to FMax; 0 means FMax.
	FStart units.Rate `yaml:"f_start,omitempty" json:"f_start,omitempty" jsonschema_description:"fair rate at the start; default f_max"`
	// Rule is how the rate follows from the queue.
	Rule Rule `yaml:"rule,omitempty" json:"rule" jsonschema:"enum=auto-tuned,enum=proportional" jsonschema_description:"how the rate follows from the queue: auto-tuned is Algorithm 1 of the paper, proportional the authors' older rule, whose gains are full while the queue is nearly empty; default auto-tuned"`
	// Alpha and Beta are the static gains, in DeltaF for each DeltaQ. They are stored with
	// 16 fractional bits. Alpha is above 0; both are at most 1000.
	Alpha float64 `yaml:"alpha,omitempty" json:"alpha" jsonschema_description:"static gain of the queue's distance from q_ref, in delta_f for each delta_q"`
	Beta  float64 `yaml:"beta,omitempty" json:"beta" jsonschema_description:"static gain of the queue's growth, in delta_f for each delta_q"`
	// FractionBits is the number of fractional bits of the fair rate between two
	// computations, 0 to 16. With 0, steps of less than DeltaF are lost.
	FractionBits int `yaml:"fraction_bits,omitempty" json:"fraction_bits" jsonschema:"minimum=0,maximum=16" jsonschema_description:"fractional bits of the fair rate between two computations, 0 to 16; 0 loses steps of less than delta_f"`
}

// Rule is how a congestion point computes the fair rate from the length of the queue.
type Rule string

// The rules. Proportional is the rule that the authors' simulator has beside Algorithm 1 (SwitchEtherQueue.cc,
// lines 147 to 162 and 207 to 258, in github.com/danushkam/rocc): the gains are divided by F_max/2 over the
// rate, to no less than a 64th, but not while the queue and its mean with the last are below an
// eighth of Q_ref. The rate is halved, or set to F_min, for growth alone, whatever the rate is.
const (
	AutoTuned    Rule = "auto-tuned"
	Proportional Rule = "proportional"
)

// maxF is the highest fair rate in units of DeltaF, maxGain the largest gain.
const (
	maxF    = 1<<16 - 1
	maxGain = 1000
)

// PaperParams returns the parameters of §6 for a link at a rate. The paper prints them for 40
// and 100 Gb/s. For other rates Q_ref is 0.6·T·C, as it is at 100 Gb/s and in §6.2 at 10
// Gb/s, Q_mid twice that and Q_max 60 KB more, as in all three. Below 10 Gb/s T grows so
// that T·C is 50 KB, and Δ^F is a thousandth of the rate. The gains are those of 40 Gb/s:
// they depend on T·Δ^F/Δ^Q (§5), which is the same for all of them.
func PaperParams(line units.Rate) Params {
	p := Params{
		Interval: 40 * units.Microsecond, DeltaQ: 600, DeltaF: 10 * units.Mbps, FMin: 100 * units.Mbps, FMax: line, Rule: AutoTuned,
		Alpha: 0.3, Beta: 1.5, FractionBits: 16,
	}
	switch {
	case line == 40*units.Gbps:
		p.QRef, p.QMid, p.QMax = 150*units.KB, 300*units.KB, 360*units.KB
		return p
	case line == 100*units.Gbps:
		p.Alpha, p.Beta = 0.45, 2.25
	case line > 0 && line < 10*units.Gbps:
		p.Interval = line.TimeOf(50 * units.KB)
		p.DeltaF = max(1, line/1000/units.Kbps) * units.Kbps
		p.FMin = min(line, 10*p.DeltaF)
	}
	p.QRef = line.BytesIn(p.Interval) * 6 / 10
	p.QMid = 2 * p.QRef
	p.QMax = p.QMid + 60*units.KB
	return p
}

// Validate checks p for a queue of at most limit bytes; 0 means no bound. The error joins
// a registry.RangeError for each invalid parameter.
func (p *Params) Validate(limit units.Bytes) error {
	var c registry.Check
	c.CheckTime("t", p.Interval, units.Microsecond)
	if p.DeltaQ <= 0 {
		c.AddRange("delta_q", p.DeltaQ, "an amount above 0, such as 600B")
	}
	if p.DeltaF < units.Kbps || p.DeltaF%units.Kbps != 0 {
		c.AddRange("delta_f", p.DeltaF, "whole kilobits per second, such as 10Mbps")
	}
	switch {
	case p.FMax <= 0:
		c.AddRange("f_max", int64(p.FMax), "a rate above 0, such as 40Gbps, or give the link a rate")
	case p.DeltaF > 0 && p.FMax/p.DeltaF > maxF:
		c.AddRange("f_max", p.FMax, "at most %d times delta_f, %v: raise delta_f", maxF, p.DeltaF)
	}
	if p.FMin < p.DeltaF || p.FMin > p.FMax {
		c.AddRange("f_min", p.FMin, "a rate from delta_f, %v, to f_max, %v", p.DeltaF, p.FMax)
	}
	if p.FStart != 0 && (p.FStart < p.FMin || p.FStart > p.FMax) {
		c.AddRange("f_start", p.FStart, "a rate from f_min, %v, to f_max, %v", p.FMin, p.FMax)
	}
	if p.Rule != AutoTuned && p.Rule != Proportional {
		c.AddRange("rule", p.Rule, "%s or %s", AutoTuned, Proportional)
	}
	if p.QRef < p.DeltaQ {
		c.AddRange("q_ref", p.QRef, "at least delta_q, %v, such as 150KB", p.DeltaQ)
	}
	if p.QMid <= p.QRef {
		c.AddRange("q_mid", p.QMid, "more than q_ref, %v", p.QRef)
	}
	switch {
	case p.QMax <= p.QMid:
		c.AddRange("q_max", p.QMax, "more than q_mid, %v", p.QMid)
	case limit > 0 && p.QMax >= limit:
		c.AddRange("q_max", p.QMax, "less than %v, as the queue never grows beyond that", limit)
	}
	if !(p.Alpha > 0 && p.Alpha <= maxGain) {
		c.AddRange("alpha", p.Alpha, "a number above 0, up to %d, such as 0.3: it brings the queue to q_ref", maxGain)
	}
	if !(p.Beta >= 0 && p.Beta <= maxGain) {
		c.AddRange("beta", p.Beta, "a number from 0 to %d, such as 1.5", maxGain)
	}
	c.CheckNumber("fraction_bits", p.FractionBits, 0, gainBits)
	return c.Err()
}
