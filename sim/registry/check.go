package registry

import (
	"errors"
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// RangeError reports a parameter of a system that is out of range.
type RangeError struct {
	Key   string // as in the lab file
	Value any
	Fix   string // what would be valid, such as "a number from 0 to 15"
}

// Error returns a message with the key, its value and what would be valid.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: %v is out of range: give %s", e.Key, e.Value, e.Fix)
}

// UnfitError reports a parameter whose value is valid elsewhere but not here.
type UnfitError struct {
	Key string // as in the lab file
	Why string
	Fix string // how to fix it, as an imperative: "write ..."
}

// Error returns the reason and the fix.
func (e *UnfitError) Error() string { return e.Why + ": " + e.Fix }

// maxTime limits times, so that adding one to an instant does not overflow.
const maxTime = units.Hour

// Check collects the parameters of a system that are out of range. The zero Check is
// ready for use.
type Check struct{ errs []error }

// AddRange records a parameter that is out of range, and what would be valid.
func (c *Check) AddRange(key string, value any, fix string, args ...any) {
	c.errs = append(c.errs, &RangeError{key, value, fmt.Sprintf(fix, args...)})
}

// AddUnfit records a parameter whose value is not valid here, the reason, and the fix.
func (c *Check) AddUnfit(key, why, fix string) { c.errs = append(c.errs, &UnfitError{key, why, fix}) }

// AddError records an error that does not concern a single parameter.
func (c *Check) AddError(err error) { c.errs = append(c.errs, err) }

// CheckNumber checks that a number is in low..high.
func (c *Check) CheckNumber(key string, v, low, high int) {
	if v < low || v > high {
		c.AddRange(key, v, "a number from %d to %d", low, high)
	}
}

// CheckShare checks that a share is in low..high; NaN is outside.
func (c *Check) CheckShare(key string, v, low, high units.Fraction) {
	if !(v >= low && v <= high) {
		c.AddRange(key, v, "a share from %v to %v", low, high)
	}
}

// CheckTime checks that a time is in low..1 h. A low of one picosecond means "above 0".
func (c *Check) CheckTime(key string, v, low units.Time) {
	if v >= low && v <= maxTime {
		return
	}
	from := fmt.Sprintf("from %v", low)
	switch low {
	case 0:
		from = "from 0"
	case units.Picosecond:
		from = "above 0, up"
	}
	c.AddRange(key, v, "a time %s to %v, such as 50us", from, maxTime)
}

// CheckRate checks that a rate is above 0 and, if line is known, at most line.
func (c *Check) CheckRate(key string, v, line units.Rate, example string) {
	switch {
	case v <= 0:
		c.AddRange(key, int64(v), "a rate above 0, such as %s", example)
	case line > 0 && v > line:
		c.AddRange(key, v, "a rate up to the link's, %v", line)
	}
}

// Err joins the recorded errors, such as a RangeError for each parameter out of
// range; nil if there are none.
func (c *Check) Err() error { return errors.Join(c.errs...) }
