package draw

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/experiment"
)

// caption says what a picture shows.
func (d *drawer) caption(p *experiment.Plot) string {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(p.Title + ". ")
	}
	switch p.Kind {
	case experiment.CDF:
		fmt.Fprintf(&b, "Cumulative distribution of %s over the %s of %s", label(p.Column), rowsOf(p.Of), d.seeds())
	case experiment.Time:
		fmt.Fprintf(&b, "%s over time, seed %d", label(p.Column), d.e.Seeds[0])
	default:
		h := d.header(p.Measure)
		fmt.Fprintf(&b, "%s (%s)", h.Title, h.Of)
		switch p.Kind {
		case experiment.Heat:
			fmt.Fprintf(&b, " for each %s and %s", label(p.X), label(p.Y))
		case experiment.Bins:
			if m := d.e.Measure(p.Measure); m.By != "" {
				fmt.Fprintf(&b, " by %s", label(m.By))
			} else {
				b.WriteString(" bin by bin")
			}
		default:
			fmt.Fprintf(&b, " over %s", label(p.X))
		}
		fmt.Fprintf(&b, ", %s of %s", h.Center, d.seeds())
	}
	if names := d.names(p); names != "" {
		each := "line"
		if p.Kind == experiment.Bars {
			each = "bar"
		}
		fmt.Fprintf(&b, "; a %s for each %s", each, names)
	}
	if p.Panels != "" {
		fmt.Fprintf(&b, "; a panel for each %s", label(p.Panels))
	}
	b.WriteString(".")
	if p.Measure == "" {
		return b.String()
	}
	of := d.r.Of(p.Measure)
	if p.Kind != experiment.Heat && slices.ContainsFunc(of, func(s *experiment.Summary) bool { return s.Low.Known() }) {
		b.WriteString(" Error bars are 95% confidence intervals; an arrow means that one goes on beyond the axis.")
	}
	if p.Kind != experiment.Heat && slices.ContainsFunc(of, func(s *experiment.Summary) bool { return s.Paper != nil }) {
		b.WriteString(" Hollow: values for comparison, from the sources in the tables.")
	}
	return b.String()
}

// seeds says how many seeds there are.
func (d *drawer) seeds() string {
	if n := len(d.e.Seeds); n > 1 {
		return fmt.Sprintf("%d seeds", n)
	}
	return "one seed"
}
