package main

import (
	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/view/chart"
)

const lessons = "Zhu et al., CoNEXT 2016"

var timely = Experiment{
	Name:  "timely",
	Title: "Two flows of TIMELY and of patched TIMELY",
	Labs:  []string{"even", "late", "uneven", "per-rtt", "bursts", "patched"},
	// Shares hardly change after 300 ms.
	QuickFor: 400 * ms,
	Measure: func(runs []*Run) (*Outcome, error) {
		const link = 10e9
		to := runs[0].Report.Emulated
		from := to * 8 / 10
		var fair, share []float64
		for _, r := range runs {
			a, b := r.rate("h1:eth0", from, to), r.rate("h2:eth0", from, to)
			fair, share = append(fair, fairness.Jain(a, b)), append(share, max(a, b)/(a+b))
		}
		even, late, uneven, perRTT, withBursts, patched := 0, 1, 2, 3, 4, 5
		const why = "the faster flow ends with nearly all, wherever it began. A flow compares RTTs a segment of 16 KB apart: a slow flow's lie further apart in time, so the same swing of the queue is a larger gradient to it, and it slows down more. Where both compare RTTs a round trip apart, shares are equal"
		last := runs[patched]
		used := (last.rate("h1:eth0", from, to) + last.rate("h2:eth0", from, to)) / link
		out := &Outcome{Rows: []Row{
			{
				What: "TIMELY, one flow 10 ms late: Jain index", Relation: AtMost, Expected: 0.9, Source: lessons + ", abstract: arbitrary unfairness; the bound is ours", Ours: fair[late],
			},
			{
				What: "TIMELY, from 7 and 3 Gb/s: Jain index", Relation: AtMost, Expected: 0.9, Source: "likewise", Ours: fair[uneven],
			},
			{
				What: "the faster flow's share, both from 5 Gb/s", Relation: About, Expected: 0.5, Tolerance: 0.05, Source: "Fig. 9: shares stay where they began", Remembered: true, Ours: share[even], Why: why,
			},
			{
				What: "the faster flow's share, from 7 and 3 Gb/s", Relation: About, Expected: 0.7, Tolerance: 0.05, Source: "Fig. 9", Remembered: true, Ours: share[uneven], Why: "likewise",
			},
			{
				What: "from 7 and 3 Gb/s, updates once a round trip: Jain index", Relation: AtLeast, Expected: 0.99, Source: "the reason above", Ours: fair[perRTT],
			},
			{
				What: "bursts of 16 KB, from 7 and 3 Gb/s: Jain index", Relation: AtLeast, Expected: 0.98, Source: lessons + ", §4.2: bursts bring flows together; the bound is ours", Ours: fair[withBursts],
			},
			{
				What: "patched TIMELY, from 7 and 3 Gb/s: Jain index", Relation: AtLeast, Expected: 0.999, Source: lessons + ", §4.3: equal rates", Ours: fair[patched],
			},
			{
				What: "patched TIMELY: RTT", Unit: "us", Relation: About, Expected: 62.5, Tolerance: 0.03, Source: "Theorem 5: T_low (1 + N δ/(β C))", Ours: last.gauge("h1:eth0", "rtt") * 1e6,
			},
			{
				What: "patched TIMELY: use of the link", Relation: About, Expected: 1, Tolerance: 0.01, Source: "Theorem 5: the queue does not run empty", Ours: used,
			},
		}}
		p := &chart.Picture{
			Title: "TIMELY and patched TIMELY: two flows from 7 and 3 Gb/s", Width: 900, Height: 360,
			X: chart.Axis{Label: "time [ms]", Max: 400}, Y: chart.Axis{Label: "rate on the wire [Gb/s]", Max: 10.5},
		}
		const bin = 5 * ms
		for _, l := range []struct {
			run          int
			port, name   string
			colour, dash int
		}{
			{uneven, "h1:eth0", "TIMELY, from 7", 0, 0}, {uneven, "h2:eth0", "TIMELY, from 3", 0, 1},
			{withBursts, "h1:eth0", "bursts, from 7", 2, 0}, {withBursts, "h2:eth0", "bursts, from 3", 2, 1},
			{patched, "h1:eth0", "patched, from 7", 1, 0}, {patched, "h2:eth0", "patched, from 3", 1, 1},
		} {
			rates := runs[l.run].rates(l.port, bin)
			p.Lines = append(p.Lines, chart.Line{Name: l.name, Points: line(rates[:400*ms/bin], bin, ms), Style: &chart.Style{Colour: l.colour, Dashes: l.dash}})
		}
		out.Pictures = map[string]*chart.Picture{"rates": p}
		return out, nil
	},
}
