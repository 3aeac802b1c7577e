package accurate

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Clocks holds the parameters of the clocks that divide time into rate re-evaluation periods.
// The paper has one clock for all (§V): Skew and Drift are 0.
type Clocks struct {
	// RRP is the length of a period. 1us to 1h.
	RRP units.Time `yaml:"rrp,omitempty" json:"rrp" jsonschema_description:"RRP, the rate re-evaluation period; the same everywhere"`
	// Skew is the most by which a clock is early or late, Drift the largest share by which it
	// is slow or fast. Each clock draws its own.
	Skew  units.Time     `yaml:"skew,omitempty" json:"skew" jsonschema_description:"maximum offset of each clock; default 0, one clock for all"`
	Drift units.Fraction `yaml:"drift,omitempty" json:"drift" jsonschema_description:"maximum drift of each clock, as a share up to 1%; default 0"`
}

const maxDrift = 0.01

// checkRanges records the parameters that are wrong.
func (c *Clocks) checkRanges(check *registry.Check) {
	check.CheckTime("rrp", c.RRP, units.Microsecond)
	check.CheckTime("skew", c.Skew, 0)
	check.CheckShare("drift", c.Drift, 0, maxDrift)
}

// New returns a clock with a random skew and drift.
func (c *Clocks) New(r *rand.Rand) Clock {
	k := Clock{length: c.RRP}
	if c.Skew > 0 {
		k.skew = units.Time(r.Int64N(int64(2*c.Skew)+1)) - c.Skew
	}
	if c.Drift > 0 {
		k.length += units.Time(float64(c.Drift) * (2*r.Float64() - 1) * float64(c.RRP))
	}
	return k
}

// Clock numbers periods.
type Clock struct{ length, skew units.Time }

// Period returns the number of the period that contains now. Without a skew, period 0 begins at
// 0. With one, the first period may be -1.
func (c Clock) Period(now units.Time) int64 {
	t := now - c.skew
	n := t / c.length
	if t%c.length < 0 {
		n--
	}
	return int64(n)
}

// Start returns the time at which a period begins.
func (c Clock) Start(period int64) units.Time { return c.skew + units.Time(period)*c.length }
