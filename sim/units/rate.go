package units

import (
	"fmt"
	"math/bits"
)

// Rate is a data rate in bits per second. As a limit, zero means "not limited".
type Rate int64

// Rates. The prefixes are decimal, as everywhere in networking.
const (
	BitPerSecond Rate = 1
	Kbps              = 1000 * BitPerSecond
	Mbps              = 1000 * Kbps
	Gbps              = 1000 * Mbps
	Tbps              = 1000 * Gbps
)

var rateUnits = []unitOf{
	{"Tbps", int64(Tbps)}, {"Gbps", int64(Gbps)}, {"Mbps", int64(Mbps)}, {"Kbps", int64(Kbps)}, {"bps", 1},
}

// rateAliases are further spellings that ParseRate accepts: tc's and those used in prose.
var rateAliases = []unitOf{
	{"Tbit", int64(Tbps)}, {"Gbit", int64(Gbps)}, {"Mbit", int64(Mbps)}, {"Kbit", int64(Kbps)}, {"bit", 1},
	{"Tb/s", int64(Tbps)}, {"Gb/s", int64(Gbps)}, {"Mb/s", int64(Mbps)}, {"Kb/s", int64(Kbps)}, {"b/s", 1},
}

// ParseRate reads a rate such as "10Gbps", "100 Mb/s" or tc's "1gbit"; case
// does not matter. "unlimited" is 0. A rate is never negative.
func ParseRate(s string) (Rate, error) {
	if s == "unlimited" {
		return 0, nil
	}
	num, unit, err := splitNumber(s)
	if err != nil {
		return 0, fmt.Errorf("%w: a rate is a number and a unit, such as 10Gbps (units: %s), or unlimited", err, unitNames(rateUnits))
	}
	per, ok := lookupUnit(unit, rateUnits, true)
	if !ok {
		per, ok = lookupUnit(unit, rateAliases, true)
	}
	if !ok {
		if unit == "" {
			return 0, fmt.Errorf("%q has no unit: write for example %sGbps (units: %s), or unlimited", s, num, unitNames(rateUnits))
		}
		return 0, fmt.Errorf("%q is not a unit of rate (units: %s)", unit, unitNames(rateUnits))
	}
	v, err := scaleDecimal(num, per)
	if err == nil && v < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	if err == nil && v == 0 {
		return 0, fmt.Errorf("%q is not a rate: write unlimited for a link without a limit, or state: down for one that carries nothing", s)
	}
	return Rate(v), err
}

// TimeOf returns how long n bytes take at rate r, rounded up to a picosecond, and 0
// when r is 0 (not limited).
func (r Rate) TimeOf(n Bytes) Time {
	if r <= 0 || n <= 0 {
		return 0
	}
	// 9.2e18 / 8e12: exact in 64 bits up to a megabyte, more than a packet.
	if n <= 1<<20 {
		return (Time(n)*8*Second-1)/Time(r) + 1
	}
	high, low := bits.Mul64(uint64(n), uint64(8*Second))
	low, borrow := bits.Sub64(low, 1, 0)
	high -= borrow
	if high >= uint64(r) {
		return Never
	}
	t, _ := bits.Div64(high, low, uint64(r))
	return Time(min(t, uint64(Never)-1) + 1)
}

// BytesIn returns the bytes that r carries in t, rounded down.
func (r Rate) BytesIn(t Time) Bytes { return Bytes(float64(r) / 8 * t.Seconds()) }

// String formats r in the largest unit that is exact, "unlimited" for 0.
func (r Rate) String() string {
	if r == 0 {
		return "unlimited"
	}
	return formatUnit(int64(r), rateUnits)
}

// MarshalText and UnmarshalText carry r through JSON and YAML.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText calls ParseRate.
func (r *Rate) UnmarshalText(b []byte) (err error) { *r, err = ParseRate(stripQuotes(b)); return }
