package draw

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/experiment"
)

// captionOf says what a picture shows.
func (d *drawer) captionOf(p *experiment.Plot) string {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(p.Title + ". ")
	}
	switch p.Kind {
	case experiment.CDF:
		fmt.Fprintf(&b, "Cumulative distribution of %s over the %s of %s", labelOf(p.Column), rowsOf(p.Of), d.seedsInWords())
	case experiment.Time:
		fmt.Fprintf(&b, "%s over time, seed %d", labelOf(p.Column), d.e.Seeds[0])
	default:
		h := d.headerOf(p.Measure)
		fmt.Fprintf(&b, "%s (%s)", h.Title, h.Of)
		switch p.Kind {
		case experiment.Heat:
			fmt.Fprintf(&b, " for each %s and %s", labelOf(p.X), labelOf(p.Y))
		case experiment.Bins:
			if m := d.e.FindMeasure(p.Measure); m.By != "" {
				fmt.Fprintf(&b, " by %s", labelOf(m.By))
			} else {
				b.WriteString(" bin by bin")
			}
		default:
			fmt.Fprintf(&b, " over %s", labelOf(p.X))
		}
		fmt.Fprintf(&b, ", %s of %s", h.Center, d.seedsInWords())
	}
	if names := d.lineNames(p); names != "" {
		each := "line"
		if p.Kind == experiment.Bars {
			each = "bar"
		}
		fmt.Fprintf(&b, "; a %s for each %s", each, names)
	}
	if p.Panels != "" {
		fmt.Fprintf(&b, "; a panel for each %s", labelOf(p.Panels))
	}
	b.WriteString(".")
	if p.Measure == "" {
		return b.String()
	}
	of := d.r.Of(p.Measure)
	if p.Kind != experiment.Heat && slices.ContainsFunc(of, func(s *experiment.Summary) bool { return s.Low.IsKnown() }) {
		b.WriteString(" Error bars are 95% confidence intervals; an arrow means that one goes on beyond the axis.")
	}
	if p.Kind != experiment.Heat && slices.ContainsFunc(of, func(s *experiment.Summary) bool { return s.Paper != nil }) {
		b.WriteString(" Hollow: values for comparison, from the sources in the tables.")
	}
	return b.String()
}

// seedsInWords says how many seeds there are.
func (d *drawer) seedsInWords() string {
	if n := len(d.e.Seeds); n > 1 {
		return fmt.Sprintf("%d seeds", n)
	}
	return "one seed"
}
