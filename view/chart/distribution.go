package chart

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/weftlab/weft/view/figure"
	"github.com/weftlab/weft/view/figure/axis"
)

// measure is a quantity of flows, messages or transfers.
type measure struct {
	name, label string
	unit        figure.Unit // of its values
	text        func(float64) string
}

// weighted is a value and its weight.
type weighted struct{ value, weight float64 }

// Distribution is a measure over the flows, messages or transfers of a file.
type Distribution struct {
	Unit figure.Unit `json:"unit"` // s, b/s, share, or "" for a ratio
	Mean float64     `json:"mean"`
	Min  float64     `json:"min"`
	P50  float64     `json:"p50"`
	P90  float64     `json:"p90"`
	P95  float64     `json:"p95"`
	P99  float64     `json:"p99"`
	Max  float64     `json:"max"`

	values []weighted // sorted
	total  float64    // of the weights
}

// distributionOf returns the distribution of values, which it sorts; nil if there
// are none.
func distributionOf(unit figure.Unit, values []weighted) *Distribution {
	if len(values) == 0 {
		return nil
	}
	d := &Distribution{Unit: unit, values: values}
	slices.SortFunc(values, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	for _, v := range values {
		d.total += v.weight
	}
	for _, v := range values {
		d.Mean += v.value * v.weight / d.total
	}
	for _, p := range d.percentiles() {
		*p.at = d.valueAt(p.share)
	}
	return d
}

// percentile is a percentile in a table.
type percentile struct {
	name  string
	share float64
	at    *float64
}

func (d *Distribution) percentiles() []percentile {
	return []percentile{{"min", 0, &d.Min}, {"p50", 0.5, &d.P50}, {"p90", 0.9, &d.P90}, {"p95", 0.95, &d.P95}, {"p99", 0.99, &d.P99}, {"max", 1, &d.Max}}
}

// valueAt returns the smallest value that at least the given share does not exceed.
func (d *Distribution) valueAt(share float64) float64 {
	sum := 0.0
	for _, v := range d.values {
		// The sum of the weights may miss a whole number by a rounding error.
		if sum += v.weight; sum >= share*d.total-1e-9*d.total {
			return v.value
		}
	}
	return d.values[len(d.values)-1].value
}

// smallestPositive returns the smallest value above 0; 0 if there is none.
func (d *Distribution) smallestPositive() float64 {
	for _, v := range d.values {
		if v.value > 0 {
			return v.value
		}
	}
	return 0
}

// stepsOfCDF returns the steps of the distribution, no more than a picture can show, from 0 to the
// end of the axis.
func (d *Distribution) stepsOfCDF(end float64) (x, y figure.Values) {
	const maxPoints = 4000
	x, y = figure.Values{0}, figure.Values{0}
	sum, shown := 0.0, 0.0
	for i, v := range d.values {
		sum += v.weight
		last := i == len(d.values)-1
		if last || v.value != d.values[i+1].value && (len(d.values) <= maxPoints || sum-shown >= d.total/maxPoints) {
			shown = sum
			share := min(sum/d.total, 1)
			if last {
				share = 1
			}
			x, y = append(x, v.value), append(y, share)
		}
	}
	return append(x, end), append(y, 1)
}

// tableRow is a row of a table of distributions.
type tableRow struct {
	of *measure
	d  *Distribution // nil omits the row
}

// writeDistributions prints a table; over names what the distributions are
// over.
func writeDistributions(w io.Writer, over string, rows []tableRow) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "over ", over, "\tmean")
	for _, p := range (&Distribution{}).percentiles() {
		fmt.Fprint(t, "\t", p.name)
	}
	fmt.Fprintln(t)
	for _, r := range rows {
		if r.d == nil {
			continue
		}
		fmt.Fprintf(t, "%s\t%s", r.of.name, r.of.text(r.d.Mean))
		for _, p := range r.d.percentiles() {
			fmt.Fprint(t, "\t", r.of.text(*p.at))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// curve is a line in a picture of distributions.
type curve struct {
	name string
	d    *Distribution
}

// drawCumulative draws distributions of a measure over flows, messages or transfers.
func drawCumulative(o *Options, title string, m *measure, over string, curves []curve) (*figure.Figure, error) {
	low, high := 0.0, 0.0
	for _, c := range curves {
		high = max(high, c.d.Max)
		if v := c.d.smallestPositive(); v > 0 && (low == 0 || v < low) {
			low = v
		}
	}
	switch {
	case len(curves) > maxLines:
		return nil, fmt.Errorf("%d lines are more than the %d that a picture can have: name fewer files", len(curves), maxLines)
	case o.LogX && high == 0:
		return nil, errors.New("all values are 0: there is nothing to show on a logarithmic axis")
	}
	p := figure.Panel{Kind: figure.CDF, Steps: figure.After, X: figure.Axis{Label: m.label, Unit: m.unit}, Y: figure.Axis{Label: "share of " + over}}
	// The lines reach the end of the axis.
	first, last := 0.0, high*1.02
	switch {
	case o.LogX:
		p.X.Scale = figure.Log
		first, last = axis.LogRange(low, high)
	case high == 0:
		last = 1
	}
	p.X.Min, p.X.Max = &first, &last
	for _, c := range curves {
		x, y := c.d.stepsOfCDF(last)
		p.Series = append(p.Series, figure.Series{Name: c.name, X: x, Y: y})
	}
	return figureOf(o, title, p), nil
}
