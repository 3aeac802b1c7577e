package figure

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Values is a column of numbers. NaN, a gap, is null in JSON.
type Values []float64

// MarshalJSON implements json.Marshaler.
func (v Values) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	out := []byte{'['}
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case math.IsNaN(x):
			out = append(out, "null"...)
		case math.IsInf(x, 0):
			return nil, fmt.Errorf("value %d is infinite: a figure cannot show it", i+1)
		default:
			out = strconv.AppendFloat(out, x, 'g', -1, 64)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(text []byte) error {
	var numbers []*float64
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	*v = nil
	if numbers != nil {
		*v = Values{}
	}
	for _, n := range numbers {
		if n == nil {
			*v = append(*v, math.NaN())
		} else {
			*v = append(*v, *n)
		}
	}
	return nil
}

// Distribution returns the X and Y of a CDF of values. If there are more than most, it
// returns only most points: the largest quarter of these one by one, for the tail, and the
// others with about equal shares between them. The minimum, with its share, is always
// included. NaNs are ignored. most is at least 4.
func Distribution(values Values, maxPoints int) (x, y Values) {
	sorted := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(sorted)
	n := len(sorted)
	tail := maxPoints / 4
	body := maxPoints - tail
	for i, v := range sorted {
		if i+1 < n && sorted[i+1] == v {
			continue
		}
		// Before the tail, the k-th point represents k parts of the values.
		if n > maxPoints && i < n-tail && len(x) > 0 && (i+1)*body < n*len(x) {
			continue
		}
		x, y = append(x, v), append(y, float64(i+1)/float64(n))
	}
	return x, y
}
