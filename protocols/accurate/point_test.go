package accurate

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

const (
	gbps = units.Gbps
	us   = units.Microsecond
)

// newPoint returns a contention point of a 10 Gb/s link with α and an initial FSR.
func newPoint(alpha units.Fraction, fsr units.Rate, change ...func(*PointConfig)) *Point {
	c := PaperPoint(10 * gbps)
	c.Alpha = alpha
	for _, f := range change {
		f(&c)
	}
	p := NewPoint(&c, c.Clocks.New(nil))
	p.now.FSR, p.old.FSR = fsr, fsr
	return &p
}

// passed gives an FRP to a point and returns CR and DR as they leave it.
func passed(p *Point, now units.Time, k Kind, cr, dr units.Rate) string {
	f := FRP{Kind: k, Period: uint16(p.clock.Period(now)), Counted: k == Stop, CR: cr, DR: dr}
	short := p.ProcessFRP(now, &f)
	return strings.TrimSuffix(fmt.Sprintf("%v %v %v", f.CR, f.DR, short), " false")
}

// TestFig2 is the paper's example: FSR begins at 3 Gb/s, two flows are bottlenecked here, and
// flows bottlenecked elsewhere have 5 Gb/s; so FSR becomes 2.5 Gb/s.
func TestFig2(t *testing.T) {
	p := newPoint(0, 3*gbps)
	for i, c := range []struct {
		cr   units.Rate
		want string
	}{
		{4 * gbps, "3Gbps 3Gbps"},
		{2 * gbps, "2Gbps 3Gbps"},
		{3 * gbps, "3Gbps 3Gbps"}, // FSR <= CR: bottlenecked here
		{2900 * units.Mbps, "2.9Gbps 3Gbps"},
		{100 * units.Mbps, "100Mbps 3Gbps"},
	} {
		if got := passed(p, units.Time(i+1)*us, Regular, c.cr, 10*gbps); got != c.want {
			t.Errorf("CR %v leaves as %s, want %s", c.cr, got, c.want)
		}
	}
	now, _ := p.Registers(19 * us)
	if want := (Registers{FSR: 3 * gbps, M: 2, B: 5 * gbps, BMax: 2900 * units.Mbps, N: 5}); now != want {
		t.Errorf("at the end of the period: %+v, want %+v", now, want)
	}
	now, old := p.Registers(20 * us)
	if now != (Registers{FSR: 2500 * units.Mbps}) || old.M != 2 || old.B != 5*gbps {
		t.Errorf("in the next period: %+v, %+v", now, old)
	}
	if got := passed(p, 21*us, Regular, 2400*units.Mbps, 10*gbps); got != "2.4Gbps 2.5Gbps" {
		t.Errorf("a slow flow in the next period leaves as %s", got)
	}
}

// TestEquation1 checks Eq. 1 and the corner cases of §IV-A, with a capacity C(1-α) of 9.5 Gb/s.
func TestEquation1(t *testing.T) {
	for _, c := range []struct {
		what  string
		r     Registers
		floor bool
		want  units.Rate
	}{
		{"Eq. 1", Registers{M: 2, B: 5500 * units.Mbps, N: 3}, false, 2 * gbps},
		{"no flow: M = 0, B = 0", Registers{}, false, 9500 * units.Mbps},
		{"M = 0: the fastest flow counts as bottlenecked here", Registers{B: 6 * gbps, BMax: 4 * gbps, N: 2}, false, 7500 * units.Mbps},
		{"negative: all flows alike", Registers{M: 1, B: 12 * gbps, N: 5}, false, 1900 * units.Mbps},
		{"M = 0 and negative", Registers{B: 20 * gbps, BMax: 5 * gbps, N: 5}, false, 1900 * units.Mbps},
		{"zero would stop all flows", Registers{M: 1, B: 9500 * units.Mbps, N: 5}, false, 1900 * units.Mbps},
		{"less than that of all alike", Registers{M: 1, B: 9 * gbps, N: 5}, false, 500 * units.Mbps},
		{"the same with floor", Registers{M: 1, B: 9 * gbps, N: 5}, true, 1900 * units.Mbps},
		{"floor leaves Eq. 1 alone", Registers{M: 2, B: 500 * units.Mbps, N: 5}, true, 4500 * units.Mbps},
	} {
		if got := c.r.computeShare(9500*units.Mbps, c.floor); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// TestInit: a flow that begins gets a rate at once, from the old registers, and lowers the rate
// of the FRPs behind it (§IV); it counts in this period too.
func TestInit(t *testing.T) {
	p := newPoint(0.05, 9500*units.Mbps)
	play(t, p, []played{
		{1 * us, Init, 10 * gbps, "9.5Gbps 9.5Gbps"},
		{2 * us, Init, 10 * gbps, "4.75Gbps 4.75Gbps true"}, // more than twice FSR
		{21 * us, Regular, 4750 * units.Mbps, "4.75Gbps 4.75Gbps"},
		{22 * us, Init, 10 * gbps, "3166666.666Kbps 3166666.666Kbps true"},
		{23 * us, Regular, 4750 * units.Mbps, "3166666.666Kbps 3166666.666Kbps"},
	})
	now, old := p.Registers(24 * us)
	if now.M != 3 || now.N != 3 || old.M != 3 {
		t.Errorf("%+v, %+v", now, old)
	}
}

// TestInitThatComesLate: a flow-init that arrives after the period in which it was sent does
// not count in this one: the flow's FRP is still to come.
func TestInitThatComesLate(t *testing.T) {
	p := newPoint(0.05, 9500*units.Mbps)
	f := FRP{Kind: Init, Period: 0, CR: 10 * gbps, DR: 10 * gbps}
	p.ProcessFRP(21*us, &f)
	if now, old := p.Registers(21 * us); now.N != 0 || old.N != 1 {
		t.Errorf("%+v, %+v", now, old)
	}
	passed(p, 22*us, Regular, 9500*units.Mbps, 10*gbps)
	if now, _ := p.Registers(22 * us); now.N != 1 || now.M != 1 {
		t.Errorf("%+v", now)
	}
}

// TestStop: the rate of a flow that stops is available to others from the next period on
// (§II-B), whether its FRP of this period has arrived or not, and at once to flows that begin.
func TestStop(t *testing.T) {
	for _, counted := range []bool{false, true} {
		p := newPoint(0, 5*gbps)
		passed(p, 1*us, Regular, 5*gbps, 10*gbps)
		passed(p, 2*us, Regular, 5*gbps, 10*gbps)
		passed(p, 21*us, Regular, 5*gbps, 10*gbps)
		f := FRP{Kind: Stop, Period: 1, Counted: counted, CR: 5 * gbps}
		if counted {
			passed(p, 22*us, Regular, 5*gbps, 10*gbps)
		}
		if p.ProcessFRP(23*us, &f) {
			t.Error("a flow-stop has a short-circuit reply")
		}
		if now, old := p.Registers(23 * us); now.FSR != 5*gbps || now.M != 1 || now.N != 1 || old.M != 1 {
			t.Errorf("counted %v: %+v, %+v", counted, now, old)
		}
		if now, _ := p.Registers(40 * us); now.FSR != 10*gbps {
			t.Errorf("counted %v: FSR %v in the next period", counted, now.FSR)
		}
		if got := passed(p, 24*us, Init, 5*gbps, 5*gbps); got != "5Gbps 5Gbps" {
			t.Errorf("counted %v: a flow that begins has %s", counted, got)
		}
	}
}

// TestStopOfElsewhere: B shrinks by what the flow had, and never below 0.
func TestStopOfElsewhere(t *testing.T) {
	p := newPoint(0, 5*gbps)
	play(t, p, []played{
		{1 * us, Regular, 2 * gbps, "2Gbps 5Gbps"},
		{2 * us, Regular, 1 * gbps, "1Gbps 5Gbps"},
		{3 * us, Stop, 2 * gbps, "2Gbps 5Gbps"},
		{4 * us, Stop, 3 * gbps, "3Gbps 5Gbps"}, // of a flow that was not counted
	})
	if now, _ := p.Registers(4 * us); now != (Registers{FSR: 5 * gbps}) {
		t.Errorf("%+v", now)
	}
}

// TestShortCircuit: a flow is told at once if its CR exceeds FSR by more than the factor, but
// not if it is at the limit.
func TestShortCircuit(t *testing.T) {
	p := newPoint(0, 3*gbps)
	play(t, p, []played{{1 * us, Regular, 6 * gbps, "3Gbps 3Gbps"}, {2 * us, Regular, 6*gbps + 1, "3Gbps 3Gbps true"}})
	p = newPoint(0, 3*gbps, func(c *PointConfig) { c.ShortCircuit = 0 })
	play(t, p, []played{{1 * us, Regular, 10 * gbps, "3Gbps 3Gbps"}})
}

// TestPeriodsWithoutFRPs: a point forgets flows that send no FRPs, and needs no timer for it.
func TestPeriodsWithoutFRPs(t *testing.T) {
	p := newPoint(0, 5*gbps)
	passed(p, 1*us, Regular, 5*gbps, 10*gbps)
	passed(p, 2*us, Regular, 5*gbps, 10*gbps)
	for _, c := range []struct {
		at  units.Time
		fsr units.Rate
		old int
	}{{19 * us, 5 * gbps, 0}, {20 * us, 5 * gbps, 2}, {40 * us, 10 * gbps, 0}, {units.Second, 10 * gbps, 0}} {
		if now, old := p.Registers(c.at); now.FSR != c.fsr || old.M != c.old {
			t.Errorf("at %v: %+v, %+v", c.at, now, old)
		}
	}
	if now, _ := p.Registers(19 * us); now.N != 2 {
		t.Error("looking has changed something")
	}
}

// TestMeasuredOverhead: 25 FRPs of 100 bytes in 20 us are 1 Gb/s.
func TestMeasuredOverhead(t *testing.T) {
	for overhead, want := range map[Overhead]units.Rate{ReserveOverhead: 9500 * units.Mbps, MeasureOverhead: 8500 * units.Mbps} {
		p := newPoint(0.05, 9500*units.Mbps, func(c *PointConfig) { c.Overhead = overhead })
		for i := range 25 {
			p.CountFRP(units.Time(i)*us/2, 100)
		}
		if got := p.FlowCapacity(20 * us); got != want {
			t.Errorf("%v: capacity %v, want %v", overhead, got, want)
		}
		if got := p.FlowCapacity(40 * us); got != 9500*units.Mbps {
			t.Errorf("%v: capacity %v in a period without FRPs", overhead, got)
		}
	}
}

type played struct {
	at   units.Time
	kind Kind
	cr   units.Rate
	want string
}

func play(t *testing.T, p *Point, script []played) {
	t.Helper()
	for _, c := range script {
		if got := passed(p, c.at, c.kind, c.cr, 10*gbps); got != c.want {
			t.Errorf("at %v a %v with CR %v leaves as %q, want %q", c.at, c.kind, c.cr, got, c.want)
		}
	}
}

// TestPointsAreSound: for any FRPs, FSR is above 0 and at most the capacity, CR and DR never
// grow, and registers are consistent.
func TestPointsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := PaperPoint(10 * gbps)
		c.Floor = rapid.Bool().Draw(t, "floor")
		p := NewPoint(&c, c.Clocks.New(nil))
		now := units.Time(0)
		for range 100 {
			now += units.Time(rapid.IntRange(0, 30).Draw(t, "wait")) * us / 3
			in := FRP{
				Kind: Kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), Counted: rapid.Bool().Draw(t, "counted"),
				Period: uint16(int64(now/(20*us)) - rapid.Int64Range(0, 2).Draw(t, "late")),
				CR:     units.Rate(rapid.Int64Range(0, int64(100*gbps)).Draw(t, "CR")), DR: units.Rate(rapid.Int64Range(0, int64(100*gbps)).Draw(t, "DR")),
			}
			out := in
			p.ProcessFRP(now, &out)
			r, old := p.Registers(now)
			if r.FSR <= 0 || r.FSR > p.FlowCapacity(now) || out.CR != min(in.CR, r.FSR) || out.DR != min(in.DR, r.FSR) {
				t.Fatalf("%+v leaves as %+v; %+v", in, out, r)
			}
			for _, r := range []Registers{r, old} {
				if r.M < 0 || r.B < 0 || r.BMax < 0 || r.BMax > r.B || r.N < r.M {
					t.Fatalf("%+v", r)
				}
			}
		}
	})
}
