package registry

import (
	"errors"
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// RangeError is a parameter of a system that is out of its range.
type RangeError struct {
	Key   string // as in the lab file
	Value any
	Fix   string // what would be right, such as "a number from 0 to 15"
}

// Error names the key, its value and what would be right.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: %v is out of range: give %s", e.Key, e.Value, e.Fix)
}

// UnfitError is a parameter whose value is right elsewhere and not here.
type UnfitError struct {
	Key string // as in the lab file
	Why string
	Fix string // what would be right, as an order: "write ..."
}

// Error says why, and what would be right.
func (e *UnfitError) Error() string { return e.Why + ": " + e.Fix }

// maxTime bounds times, so that no sum with an instant overflows.
const maxTime = units.Hour

// Check collects the parameters of a system that are out of range. The zero Check
// is ready.
type Check struct{ errs []error }

// Bad notes a parameter that is out of range, and what would be right.
func (c *Check) Bad(key string, value any, fix string, args ...any) {
	c.errs = append(c.errs, &RangeError{key, value, fmt.Sprintf(fix, args...)})
}

// Unfit notes a parameter whose value does not fit here, why, and what would be right.
func (c *Check) Unfit(key, why, fix string) { c.errs = append(c.errs, &UnfitError{key, why, fix}) }

// Fail notes something that is wrong with no single parameter.
func (c *Check) Fail(err error) { c.errs = append(c.errs, err) }

// Number holds a number to low..high.
func (c *Check) Number(key string, v, low, high int) {
	if v < low || v > high {
		c.Bad(key, v, "a number from %d to %d", low, high)
	}
}

// Share holds a share to low..high; NaN is outside.
func (c *Check) Share(key string, v, low, high units.Fraction) {
	if !(v >= low && v <= high) {
		c.Bad(key, v, "a share from %v to %v", low, high)
	}
}

// Time holds a time to low..1 h. A low of a picosecond is "above 0".
func (c *Check) Time(key string, v, low units.Time) {
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
	c.Bad(key, v, "a time %s to %v, such as 50us", from, maxTime)
}

// Rate holds a rate to above 0 and, where line is known, up to line.
func (c *Check) Rate(key string, v, line units.Rate, example string) {
	switch {
	case v <= 0:
		c.Bad(key, int64(v), "a rate above 0, such as %s", example)
	case line > 0 && v > line:
		c.Bad(key, v, "a rate up to that of the link, %v", line)
	}
}

// Err joins what was noted: a RangeError for each parameter. nil if nothing is
// wrong.
func (c *Check) Err() error { return errors.Join(c.errs...) }
