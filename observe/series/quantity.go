package series

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/gauge"
)

// Quantity is a quantity in a row of a queue, to be drawn.
type Quantity struct {
	kind  quantityKind
	name  string
	gauge int        // for a gauge: its index in Row.Gauges
	unit  gauge.Unit // likewise
}

type quantityKind uint8

const (
	queueKind quantityKind = iota
	queueMaxKind
	rateKind
	rxRateKind
	dropsKind
	marksKind
	trimsKind
	pausedKind
	gaugeKind
)

// The quantities that all files have. All but Queue are for the interval before the
// sample. A file's columns may also hold gauges (Reader.FindQuantity).
var (
	Queue    = Quantity{kind: queueKind, name: "queue"}
	QueueMax = Quantity{kind: queueMaxKind, name: "queue-max"}
	Rate     = Quantity{kind: rateKind, name: "rate"}
	RxRate   = Quantity{kind: rxRateKind, name: "rx-rate"}
	Drops    = Quantity{kind: dropsKind, name: "drops"}
	Marks    = Quantity{kind: marksKind, name: "marks"}
	Trims    = Quantity{kind: trimsKind, name: "trims"}
	Paused   = Quantity{kind: pausedKind, name: "paused"}
)

var quantities = []Quantity{Queue, QueueMax, Rate, RxRate, Drops, Marks, Trims, Paused}

// QuantityNames returns the names of the quantities that all files have.
func QuantityNames() (names []string) {
	for _, q := range quantities {
		names = append(names, q.name)
	}
	return names
}

// FindQuantity returns the quantity with a name: one that all files have, or a gauge by its name,
// or by its column if several have the name.
func (x *Reader) FindQuantity(name string) (Quantity, error) {
	if i := slices.IndexFunc(quantities, func(q Quantity) bool { return q.name == name }); i >= 0 {
		return quantities[i], nil
	}
	names, found := QuantityNames(), -1
	of := func(i int) Quantity { return Quantity{gaugeKind, x.gauges[i].String(), i, x.gauges[i].Unit} }
	for i, g := range x.gauges {
		switch {
		case g.ColumnName() == name:
			return of(i), nil
		case !slices.Contains(names, g.Name):
			names = append(names, g.Name)
		}
		if strings.ReplaceAll(g.Name, "_", "-") == strings.ReplaceAll(name, "_", "-") {
			if found >= 0 {
				return Quantity{}, fmt.Errorf("%q is ambiguous: write %s or %s", name, x.gauges[found].ColumnName(), g.ColumnName())
			}
			found = i
		}
	}
	if found < 0 {
		return Quantity{}, fmt.Errorf("%q must be one of %s", name, strings.Join(names, ", "))
	}
	return of(found), nil
}

// String is the quantity's name, for people.
func (q Quantity) String() string { return q.name }

// IsRate reports whether the quantity is per unit of time.
func (q Quantity) IsRate() bool { return q.kind > queueMaxKind && q.kind < gaugeKind }

// IsGauge reports whether it is a gauge, and in what unit.
func (q Quantity) IsGauge() (unit gauge.Unit, is bool) { return q.unit, q.kind == gaugeKind }

// ValueIn returns the quantity in a row: bytes, bits per second, packets per second, the share
// of the interval for which the queue was paused, or a gauge in its unit. It returns
// false if the row does not have it.
func (q Quantity) ValueIn(r *Row) (v float64, ok bool) {
	t := r.Interval.Seconds()
	switch q.kind {
	case queueKind:
		return float64(r.Queue), true
	case queueMaxKind:
		return float64(r.QueueMax), r.QueueMax != Unknown
	case rateKind:
		return float64(r.TxBytes) * 8 / t, true
	case rxRateKind:
		return float64(r.RxBytes) * 8 / t, r.Class == ""
	case dropsKind:
		return float64(r.Dropped) / t, true
	case marksKind:
		return float64(r.Marked) / t, true
	case trimsKind:
		return float64(r.Trimmed) / t, true
	case pausedKind:
		return float64(r.Reading.Paused) / float64(r.Interval), true
	}
	v = r.Gauges[q.gauge]
	return v, !math.IsNaN(v)
}
