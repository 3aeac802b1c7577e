package units

import (
	"fmt"
	"math"
	"time"
)

// Time is an instant since the start of a run, or a span between two, in
// picoseconds of emulated time. An int64 holds 106 days.
type Time int64

// Spans of time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
	Minute           = 60 * Second
	Hour             = 60 * Minute

	// Never is later than any event.
	Never Time = math.MaxInt64
)

var timeUnits = []unitOf{
	{"h", int64(Hour)}, {"min", int64(Minute)}, {"s", int64(Second)}, {"ms", int64(Millisecond)},
	{"us", int64(Microsecond)}, {"ns", int64(Nanosecond)}, {"ps", int64(Picosecond)},
}

// ParseTime reads a span such as "50us", "1.5 ms" or "2s". The unit may be
// left out only for 0.
func ParseTime(s string) (Time, error) {
	num, unit, err := splitNumber(s)
	if err != nil {
		return 0, fmt.Errorf("%w: a time is a number and a unit, such as 50us (units: %s)", err, unitNames(timeUnits))
	}
	if unit == "µs" || unit == "μs" {
		unit = "us"
	}
	per, ok := lookupUnit(unit, timeUnits, false)
	if !ok {
		if v, err := scaleDecimal(num, 1); err == nil && v == 0 && unit == "" {
			return 0, nil
		}
		if unit == "" {
			return 0, fmt.Errorf("%q has no unit: write for example %sus (units: %s)", s, num, unitNames(timeUnits))
		}
		return 0, fmt.Errorf("%q is not a unit of time (units: %s)", unit, unitNames(timeUnits))
	}
	v, err := scaleDecimal(num, per)
	return Time(v), err
}

// FromDuration converts a span of wall-clock time.
func FromDuration(d time.Duration) Time { return Time(d) * Nanosecond }

// Duration converts t to Go's nanoseconds, rounding towards zero.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// Seconds returns t as a floating-point number of seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// Micros returns t as a floating-point number of microseconds.
func (t Time) Micros() float64 { return float64(t) / float64(Microsecond) }

// String formats t in the largest unit that keeps it short and exact.
func (t Time) String() string {
	switch t {
	case Never:
		return "never"
	case 0:
		return "0s" // not 0ps: for zero, everybody expects the base unit
	}
	return formatUnit(int64(t), timeUnits[2:])
}

// MarshalText and UnmarshalText carry t through JSON and YAML.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText calls ParseTime.
func (t *Time) UnmarshalText(b []byte) (err error) { *t, err = ParseTime(stripQuotes(b)); return }
