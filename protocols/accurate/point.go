package accurate

import (
	"errors"
	"math"

	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// PointConfig holds the parameters of a contention point.
type PointConfig struct {
	Clocks `yaml:",inline"`
	// Capacity is C of Eq. 1. Above 0.
	Capacity units.Rate `yaml:"capacity,omitempty" json:"capacity" jsonschema_description:"C, the capacity of the link; default its rate"`
	// Alpha is the share of C that flows do not get. 0 to 0.9.
	Alpha units.Fraction `yaml:"alpha,omitempty" json:"alpha" jsonschema_description:"α, the share of the capacity withheld from flows; 0 to 90%"`
	// Overhead selects where the capacity for FRPs comes from.
	Overhead Overhead `yaml:"overhead,omitempty" json:"overhead" jsonschema_description:"where capacity for FRPs comes from: α (reserve), or the bytes measured in the last period (measure); default reserve"`
	// Floor always bounds FSR from below by C(1-α)/N, and not only where Eq. 1 is negative.
	Floor bool `yaml:"floor,omitempty" json:"floor,omitempty" jsonschema_description:"FSR is never below the equal share of all flows, not only where Eq. 1 is negative; default false, as in the paper"`
	// ShortCircuit is the multiple of the fair share rate above which a flow gets an immediate
	// reply. 1 or more; 0 disables such replies.
	ShortCircuit float64 `yaml:"short_circuit,omitempty" json:"short_circuit" jsonschema:"minimum=0" jsonschema_description:"multiple of the fair share rate above which a flow gets a short-circuit reply, 1 or more; 0 disables them"`
}

// PaperPoint returns the parameters of §III for a link of rate line. The paper does not give
// the threshold of short-circuit notifications; 2 is this project's.
func PaperPoint(line units.Rate) PointConfig {
	return PointConfig{Clocks: Clocks{RRP: paperRRP}, Capacity: line, Alpha: 0.05, ShortCircuit: 2}
}

const (
	paperRRP = 20 * units.Microsecond
	maxAlpha = 0.9
	maxShort = 1000
)

// Validate checks c. The error joins a registry.RangeError for each parameter that is wrong.
func (c *PointConfig) Validate() error {
	var check registry.Check
	if c.Capacity <= 0 {
		check.AddError(errors.New("ACCurate needs the rate of the link, which it shares out: give the link a rate"))
	}
	c.checkRanges(&check)
	check.CheckShare("alpha", c.Alpha, 0, maxAlpha)
	if c.ShortCircuit != 0 && !(c.ShortCircuit >= 1 && c.ShortCircuit <= maxShort) {
		check.AddRange("short_circuit", c.ShortCircuit, "a number from 1 to %d, or 0 for no short-circuit replies", maxShort)
	}
	return check.Err()
}

// Registers is what a contention point knows about the flows of a period (§II, §IV). It has no
// per-flow state.
type Registers struct {
	FSR  units.Rate // fair share rate, which the flows of the period are compared with
	M    int        // flows that are bottlenecked here
	B    units.Rate // sum of the rates of flows that are bottlenecked elsewhere
	BMax units.Rate // largest of these
	N    int        // all flows
}

// Point is a contention point (§II, §IV) without its link.
//
// Periods are rolled lazily: the point has no timer, and finds out at the next FRP how many
// periods have passed.
type Point struct {
	config *PointConfig
	clock  Clock
	period int64
	now    Registers // of this period
	old    Registers // of the last one, updated by flows that began or stopped since
	frps   units.Bytes
	spent  units.Rate // what FRPs took in the last period, with MeasureOverhead
}

// NewPoint returns a contention point that has seen no flow. c must have passed Validate.
func NewPoint(c *PointConfig, clock Clock) Point {
	p := Point{config: c, clock: clock}
	p.period = clock.Period(0)
	p.now.FSR = p.flowCapacity()
	p.old.FSR = p.now.FSR
	return p
}

// flowCapacity returns the rate available to flows: C(1-α), less spent.
func (p *Point) flowCapacity() units.Rate {
	c := units.Rate(float64(p.config.Capacity) * (1 - float64(p.config.Alpha)))
	return max(1, c-p.spent)
}

// computeShare computes Eq. 1 with the corner cases of §IV-A. A negative rate becomes an equal share
// for all flows. The paper divides C there; dividing C(1-α) keeps what α reserves.
//
// With floor, so does any rate below that share. No link's max-min fair share is less, so Eq. 1
// can only give less while B contains rates that are about to fall. Without floor, some sets of
// flows never settle: the package's tests show one.
func (r *Registers) computeShare(capacity units.Rate, floor bool) units.Rate {
	m, b := r.M, r.B
	alike := max(1, capacity/units.Rate(max(1, r.N)))
	switch {
	case m == 0 && b == 0:
		return capacity // no flow is active
	case m == 0:
		m, b = 1, b-r.BMax
	}
	rate := (capacity - b) / units.Rate(m)
	if rate <= 0 || floor && rate < alike {
		return alike
	}
	return rate
}

// countFlow counts a flow by its CR and reports whether it is bottlenecked here.
func (r *Registers) countFlow(cr units.Rate) bool {
	r.N++
	if r.FSR <= cr {
		r.M++
		return true
	}
	r.B += cr
	r.BMax = max(r.BMax, cr)
	return false
}

// discountFlow removes a flow that was counted with rate cr. If FSR has changed since, the flow may
// have been counted the other way; that error ends with the period.
func (r *Registers) discountFlow(cr units.Rate) {
	r.N = max(0, r.N-1)
	if r.FSR <= cr && r.M > 0 {
		r.M--
	} else {
		r.B = max(0, r.B-cr)
		r.BMax = min(r.BMax, r.B)
	}
	r.M = min(r.M, r.N)
}

// RollPeriod advances the point to the period that contains now.
func (p *Point) RollPeriod(now units.Time) {
	period := p.clock.Period(now)
	if period <= p.period {
		return
	}
	p.endPeriod()
	if period > p.period+1 { // periods without any FRP
		p.endPeriod()
	}
	p.period = period
}

// endPeriod ends a period.
func (p *Point) endPeriod() {
	p.spent = 0
	if p.config.Overhead == MeasureOverhead {
		p.spent = rateOf(p.frps, p.config.RRP)
	}
	p.frps = 0
	p.old = p.now
	p.now = Registers{FSR: p.now.computeShare(p.flowCapacity(), p.config.Floor)}
}

// rateOf returns the rate of n bytes in time t.
func rateOf(n units.Bytes, t units.Time) units.Rate {
	return units.Rate(math.Round(float64(n) * 8 / t.Seconds()))
}

// CountFRP records that an FRP of any kind leaves on the link, as n bytes on the wire.
func (p *Point) CountFRP(now units.Time, n units.Bytes) {
	p.RollPeriod(now)
	p.frps += n
}

// ProcessFRP handles an FRP on its way to its flow's destination: it counts the flow, and limits
// CR and DR to the fair share rate. It reports whether to send a short-circuit reply. f must
// not be a response.
func (p *Point) ProcessFRP(now units.Time, f *FRP) (short bool) {
	p.RollPeriod(now)
	cr := f.CR
	switch f.Kind {
	case Init:
		// The registers of this period do not know all flows yet; the old ones do (§IV).
		p.old.countFlow(cr)
		p.now.FSR = p.old.computeShare(p.flowCapacity(), p.config.Floor)
		// A late init belongs to the old period: the flow's FRP of this one follows.
		if f.Period != uint16(p.period-1) {
			p.now.countFlow(cr)
		}
	case Stop:
		p.old.discountFlow(cr)
		if f.Counted && f.Period == uint16(p.period) {
			p.now.discountFlow(cr)
		}
	default:
		p.now.countFlow(cr)
	}
	f.CR = min(cr, p.now.FSR)
	f.DR = min(f.DR, p.now.FSR)
	k := p.config.ShortCircuit
	return k > 0 && f.Kind != Stop && float64(cr) > k*float64(p.now.FSR)
}

// Registers returns the registers of the period that contains now, and the old ones. It does
// not change the point.
func (p *Point) Registers(now units.Time) (current, old Registers) {
	x := *p
	x.RollPeriod(now)
	return x.now, x.old
}

// FlowCapacity returns the rate available to flows in the period that contains now. It does not
// change the point.
func (p *Point) FlowCapacity(now units.Time) units.Rate {
	x := *p
	x.RollPeriod(now)
	return x.flowCapacity()
}
