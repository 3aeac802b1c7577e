package series

import (
	"fmt"
	"slices"
	"strings"
)

// Quantity is something that a row says, to be drawn.
type Quantity uint8

// The quantities. All but Queue belong to the interval before the sample.
const (
	Queue Quantity = iota
	QueueMax
	Rate
	RxRate
	Drops
	Marks
	Trims
	Paused
)

var quantityNames = []string{"queue", "queue-max", "rate", "rx-rate", "drops", "marks", "trims", "paused"}

// QuantityNames are the names of the quantities, in the order of the constants.
func QuantityNames() []string { return slices.Clone(quantityNames) }

// ParseQuantity finds a quantity by its name.
func ParseQuantity(name string) (Quantity, error) {
	if i := slices.Index(quantityNames, name); i >= 0 {
		return Quantity(i), nil
	}
	return 0, fmt.Errorf("%q is none of %s", name, strings.Join(quantityNames, ", "))
}

// String is the quantity's name.
func (q Quantity) String() string { return quantityNames[q] }

// IsRate tells that the quantity is something per time.
func (q Quantity) IsRate() bool { return q > QueueMax }

// Of gives the quantity of a row: bytes, bits per second, packets per second,
// or the share of the interval for which the queue was paused. It is false
// where the row does not know.
func (q Quantity) Of(r *Row) (v float64, ok bool) {
	t := r.Interval.Seconds()
	switch q {
	case Queue:
		return float64(r.Queue), true
	case QueueMax:
		return float64(r.QueueMax), r.QueueMax != Unknown
	case Rate:
		return float64(r.TxBytes) * 8 / t, true
	case RxRate:
		return float64(r.RxBytes) * 8 / t, r.Class == ""
	case Drops:
		return float64(r.Dropped) / t, true
	case Marks:
		return float64(r.Marked) / t, true
	case Trims:
		return float64(r.Trimmed) / t, true
	}
	return float64(r.Reading.Paused) / float64(r.Interval), true
}
