// Package axis is what an axis needs before anything is drawn: units that fit, ranges with
// round ends, marks at round values. It is pure.
package axis

// Unit is a unit and how many of what is measured make one.
type Unit struct {
	Per  float64
	Name string
}

// Units of quantities, the largest first. Sizes and rates are decimal: a KB is 1000 bytes.
var (
	Seconds = []Unit{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	Sizes   = []Unit{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}}
	Rates   = []Unit{{1e12, "Tb/s"}, {1e9, "Gb/s"}, {1e6, "Mb/s"}, {1e3, "Kb/s"}, {1, "b/s"}}
	Packets = []Unit{{1e6, "million packets/s"}, {1e3, "thousand packets/s"}, {1, "packets/s"}}
	Percent = []Unit{{0.01, "%"}}
	Ratios  = []Unit{{1, ""}}
)

// Fit chooses the unit in which v has few digits: the largest of which v is 1.5 or more.
func Fit(units []Unit, v float64) Unit { return atLeast(units, v, 1.5) }

// Of chooses the largest unit of which v is 1 or more, as for a label of its own.
func Of(units []Unit, v float64) Unit { return atLeast(units, v, 1-near) }

func atLeast(units []Unit, v, many float64) Unit {
	for _, u := range units {
		if v >= u.Per*many {
			return u
		}
	}
	return units[len(units)-1]
}

// near is how far a value may miss a round one by roundings of its unit and be that one.
const near = 1e-9
