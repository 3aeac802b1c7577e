// Package axis computes what an axis needs before anything is drawn: suitable units,
// ranges with round ends, and marks at round values. It has no side effects.
package axis

// Unit is a unit and its size in the base unit.
type Unit struct {
	Per  float64
	Name string
}

// Units of quantities, largest first. Sizes and rates are decimal: a KB is 1000 bytes.
var (
	Seconds = []Unit{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	Sizes   = []Unit{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}}
	Rates   = []Unit{{1e12, "Tb/s"}, {1e9, "Gb/s"}, {1e6, "Mb/s"}, {1e3, "Kb/s"}, {1, "b/s"}}
	Percent = []Unit{{0.01, "%"}}
)

// Fit returns the unit in which v has few digits: the largest in which v is at least 1.5.
func Fit(units []Unit, v float64) Unit { return atLeast(units, v, 1.5) }

// Of returns the largest unit in which v is at least 1, for a label that has its own unit.
func Of(units []Unit, v float64) Unit { return atLeast(units, v, 1-near) }

func atLeast(units []Unit, v, many float64) Unit {
	for _, u := range units {
		if v >= u.Per*many {
			return u
		}
	}
	return units[len(units)-1]
}

// near is the relative difference from a round value that counts as a rounding error.
const near = 1e-9
