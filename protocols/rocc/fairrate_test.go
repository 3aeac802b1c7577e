package rocc

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// TestAlgorithm1 checks each line of the algorithm, computed by hand with the paper's
// parameters for 40 Gb/s: Q_ref 250, Q_mid 500 and Q_max 600 ΔQ; F_min 10 and F_max 4000
// ΔF.
func TestAlgorithm1(t *testing.T) {
	p := PaperParams(40 * units.Gbps)
	integer := p
	integer.FractionBits = 0
	for _, c := range []struct {
		what       string
		params     *Params
		f, q, qOld int64 // ΔF, ΔQ
		want       float64
	}{
		{"at the reference", &p, 2000, 250, 250, 2000},
		{"line 3: long and fast", &p, 501, 600, 600, 10},
		{"line 2: long, but slow already", &p, 500, 600, 600, 500 - 0.3/4*350}, // 500 = F_max/8: level 8
		{"line 5: grown", &p, 2001, 500, 0, 1000.5},
		{"line 4: grown by less", &p, 2001, 499, 0, 2001 - 0.3*249 - 1.5*499},
		{"line 3 before line 5", &p, 4000, 700, 0, 10},
		{"line 8, level 2: no division", &p, 2000, 350, 300, 2000 - 0.3*100 - 1.5*50},
		{"level 4", &p, 1999, 350, 300, 1999 - (0.3*100+1.5*50)/2},
		{"level 8", &p, 999, 350, 300, 999 - (0.3*100+1.5*50)/4},
		{"level 16", &p, 499, 350, 300, 499 - (0.3*100+1.5*50)/8},
		{"level 32", &p, 249, 350, 300, 249 - (0.3*100+1.5*50)/16},
		{"level 64", &p, 124, 350, 300, 124 - (0.3*100+1.5*50)/32},
		{"no level above 64", &p, 20, 350, 300, 20 - (0.3*100+1.5*50)/32},
		{"it rises where the queue is short", &p, 100, 0, 0, 100 + 0.3*250/32},
		{"line 10", &p, 3990, 0, 0, 4000},
		{"line 12", &p, 11, 550, 300, 10},
		{"whole numbers: a small rise is lost", &integer, 100, 240, 240, 100},
		{"whole numbers: a small fall is one", &integer, 100, 260, 260, 99},
		{"whole numbers: the same rise with fractions", &p, 100, 240, 240, 100 + 0.3*10/32},
	} {
		law := c.params.Law()
		got := float64(law.Next(c.f<<gainBits, c.q, c.qOld)) / (1 << gainBits)
		if d := got - c.want; d < -0.01 || d > 0.01 {
			t.Errorf("%s: F %v, want %v", c.what, got, c.want)
		}
	}
}

// TestProportional checks the authors' older rule, computed by hand with Q_ref 250, Q_mid 500 and
// Q_max 600 ΔQ and F_max 4000 ΔF: half of that, 2000, has the full gains.
func TestProportional(t *testing.T) {
	p := PaperParams(40 * units.Gbps)
	p.Rule, p.Alpha, p.Beta = Proportional, 0.328125, 0.65625
	for _, c := range []struct {
		what       string
		f, q, qOld int64 // ΔF, ΔQ
		want       float64
	}{
		{"at the reference", 2000, 250, 250, 2000},
		{"grown by more than Q_max", 200, 601, 0, 10},
		{"grown by more than Q_mid, at any rate", 200, 501, 0, 100},
		{"long, but not grown", 2000, 700, 700, 2000 - 0.328125*450},
		{"half of the gains", 1000, 350, 300, 1000 - (0.328125*100+0.65625*50)/2},
		{"no more than the gains", 4000, 350, 300, 4000 - (0.328125*100 + 0.65625*50)},
		{"no less than a 64th", 15, 350, 350, 15 - 0.328125*100/64},
		{"nearly empty: all of the gains", 10, 0, 0, 10 + 0.328125*250},
		{"nearly empty, but not before", 100, 0, 100, 100 + (0.328125*250+0.65625*100)/20},
		{"F_min", 11, 450, 10, 10},
		{"F_max", 3999, 0, 0, 4000},
	} {
		law := p.Law()
		got := float64(law.Next(c.f<<gainBits, c.q, c.qOld)) / (1 << gainBits)
		if d := got - c.want; d < -0.05 || d > 0.05 {
			t.Errorf("%s: F %v, want %v", c.what, got, c.want)
		}
	}
}

// TestPoint_StartsAtFStart: the rate before the first computation is a parameter.
func TestPoint_StartsAtFStart(t *testing.T) {
	p := PaperParams(40 * units.Gbps)
	for start, want := range map[units.Rate]units.Rate{0: p.FMax, p.FMax: p.FMax, p.FMin: p.FMin} {
		p.FStart = start
		if point := NewPoint(&p); point.FairRate() != want {
			t.Errorf("f_start %v: it starts at %v", start, point.FairRate())
		}
	}
}

// TestWholeNumbersStall: with whole numbers and 100 flows' rate, a queue that is 40% too
// short does not make the rate rise, as 0.3/32 of 100 is less than 1: the dead zone in
// which an implementation without fractions would stay.
func TestWholeNumbersStall(t *testing.T) {
	for bits, rises := range map[int]bool{0: false, 16: true} {
		p := PaperParams(40 * units.Gbps)
		p.FractionBits = bits
		law := p.Law()
		f := int64(40) << gainBits
		for range 100 {
			f = law.Next(f, 150, 150)
		}
		if (f > 40<<gainBits) != rises {
			t.Errorf("%d bits: F %v after 100 intervals", bits, float64(f)/(1<<gainBits))
		}
	}
}

// TestHostsComputeTheSame (§3.6): a host that computes the rate, from a message with all
// inputs or with a registry, gets the same rate as the switch.
func TestHostsComputeTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := PaperParams(rapid.SampledFrom([]units.Rate{units.Gbps, 10 * units.Gbps, 40 * units.Gbps, 100 * units.Gbps}).Draw(t, "line"))
		p.FractionBits = rapid.IntRange(0, 16).Draw(t, "bits")
		c := Preset("paper", p.FMax)
		if rapid.Bool().Draw(t, "own parameters") {
			p.QRef *= 2
			p.QMid *= 3
			p.QMax *= 3
			p.Alpha /= 2
			c.Registry = []Known{{FMax: 3 * units.Gbps}, {FMax: p.FMax, FMin: p.FMin, QRef: p.QRef, QMid: p.QMid, QMax: p.QMax, Alpha: p.Alpha, Beta: p.Beta}}
		}
		point, law := NewPoint(&p), p.Law()
		for range 50 {
			in := point.UpdateRate(units.Bytes(rapid.Int64Range(0, int64(2*p.QMax)).Draw(t, "queue")))
			for _, code := range []Compute{AtSwitch, AtHost, ByRegistry} {
				sent := Feedback{Flow: drawFlow(t), Code: code, DeltaF: p.DeltaF}
				if code == AtSwitch {
					sent.Rate = point.Rate()
				} else {
					sent.Inputs, sent.DeltaQ, sent.Law = in, p.DeltaQ, law
				}
				var got Feedback
				if err := got.Parse(sent.CP.Agent, written(&sent)); err != nil {
					t.Fatal(err)
				}
				if r := c.rateOf(&got); r != point.FairRate() {
					t.Fatalf("computed at %v: %v, and the switch has %v", code, r, point.FairRate())
				}
			}
		}
	})
}

// TestParams checks the paper's parameters for 40, 100 and, except T and the gains, §6.2's
// 10 Gb/s, and that parameters are valid at every rate.
func TestParams(t *testing.T) {
	for _, c := range []struct {
		line             units.Rate
		qRef, qMid, qMax units.Bytes
		alpha, beta      float64
	}{
		{40 * units.Gbps, 150 * units.KB, 300 * units.KB, 360 * units.KB, 0.3, 1.5},
		{100 * units.Gbps, 300 * units.KB, 600 * units.KB, 660 * units.KB, 0.45, 2.25},
	} {
		p := PaperParams(c.line)
		if p.QRef != c.qRef || p.QMid != c.qMid || p.QMax != c.qMax || p.Alpha != c.alpha || p.Beta != c.beta ||
			p.Interval != 40*units.Microsecond || p.DeltaF != 10*units.Mbps || p.DeltaQ != 600 || p.FMin != 100*units.Mbps || p.FMax != c.line {
			t.Errorf("%v: %+v", c.line, p)
		}
	}
	for _, line := range []units.Rate{units.Mbps, 3 * units.Mbps, 100 * units.Mbps, units.Gbps, 10 * units.Gbps, 25 * units.Gbps, 400 * units.Gbps} {
		p := PaperParams(line)
		if err := p.Validate(0); err != nil {
			t.Errorf("%v: %v", line, err)
		}
		if ratio := float64(p.QRef) / float64(line.BytesIn(p.Interval)); ratio < 0.59 || ratio > 0.61 {
			t.Errorf("%v: Q_ref is %v of T·C", line, ratio)
		}
	}
}
