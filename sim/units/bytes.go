package units

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is an amount of data. Prefixes are decimal (1 KB is 1000 bytes), as
// switch vendors and the papers count; KiB, MiB, GiB are binary.
type Bytes int64

// Amounts of data.
const (
	Byte Bytes = 1
	KB         = 1000 * Byte
	MB         = 1000 * KB
	GB         = 1000 * MB
	KiB        = 1024 * Byte
	MiB        = 1024 * KiB
	GiB        = 1024 * MiB
)

var (
	byteUnits   = []unitOf{{"GB", int64(GB)}, {"MB", int64(MB)}, {"KB", int64(KB)}, {"B", 1}}
	byteAliases = []unitOf{{"kB", int64(KB)}, {"GiB", int64(GiB)}, {"MiB", int64(MiB)}, {"KiB", int64(KiB)}, {"TB", int64(1000 * GB)}}
)

// ParseBytes reads an amount such as "1MB", "64 KiB" or "1500B". It is never
// negative.
func ParseBytes(s string) (Bytes, error) {
	num, unit, err := splitNumber(s)
	if err != nil {
		return 0, fmt.Errorf("%w: an amount of data is a number and a unit, such as 64KB (units: %s, KiB, MiB, GiB)", err, unitNames(byteUnits))
	}
	per, ok := lookupUnit(unit, byteUnits, false)
	if !ok {
		per, ok = lookupUnit(unit, byteAliases, false)
	}
	if !ok {
		if v, err := scaleDecimal(num, 1); err == nil && v == 0 && unit == "" {
			return 0, nil
		}
		if unit == "" {
			return 0, fmt.Errorf("%q has no unit: write for example %sB or %sKB (units: %s, KiB, MiB, GiB)", s, num, num, unitNames(byteUnits))
		}
		return 0, fmt.Errorf("%q is not a unit of data (units: %s, KiB, MiB, GiB)", unit, unitNames(byteUnits))
	}
	v, err := scaleDecimal(num, per)
	if err == nil && v < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return Bytes(v), err
}

// String formats b exactly, so that the text parses back: in MiB or GiB if whole, as for memory,
// and otherwise in the largest decimal unit in which it is at least 1, with all its decimals.
// Reports have FormatBrief.
func (b Bytes) String() string {
	if b != 0 && b%1000 != 0 && b%MiB == 0 {
		if b%GiB == 0 {
			return strconv.FormatInt(int64(b/GiB), 10) + "GiB"
		}
		return strconv.FormatInt(int64(b/MiB), 10) + "MiB"
	}
	if b < 0 {
		return "-" + (-b).String()
	}
	for _, u := range byteUnits {
		if int64(b) >= u.per {
			digits := len(strconv.FormatInt(u.per, 10)) - 1
			rest := strings.TrimRight(fmt.Sprintf("%0*d", digits, int64(b)%u.per), "0")
			if rest == "" || digits == 0 {
				return strconv.FormatInt(int64(b)/u.per, 10) + u.name
			}
			return strconv.FormatInt(int64(b)/u.per, 10) + "." + rest + u.name
		}
	}
	return "0B"
}

// MarshalText and UnmarshalText carry b through JSON and YAML.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText calls ParseBytes.
func (b *Bytes) UnmarshalText(t []byte) (err error) { *b, err = ParseBytes(stripQuotes(t)); return }
