package main

import (
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/chart"
)

const reactions = "Li et al., SIGCOMM 2019, §5.4 compares the three"

var incast = Experiment{
	Name:  "hpcc-incast",
	Title: "HPCC's queue after an incast of 16",
	Labs:  []string{"combined", "ack", "rtt"},
	Measure: func(runs []*Run) (*Outcome, error) {
		combined, ack, rtt := bursts(runs[0]), bursts(runs[1]), bursts(runs[2])
		const senders, line = 16, 100e9
		rest := runs[0].frame(bottleneck) / (runs[0].frame(bottleneck) + beyondFrame)
		bdp := line / 8 * runs[0].gauge("h1:eth0", "base_rtt") // on the wire
		drain := func(b burst) float64 { return b.peak / rest * 8 / line * 1e6 }
		out := &Outcome{Rows: []Row{
			{
				What: "longest queue", Unit: "KB", Relation: About, Expected: senders * bdp * rest / 1e3, Tolerance: 0.05,
				Source: "every sender's first window is C·T; what was on the way before fills the link", Ours: combined.peak / 1e3,
			},
			{
				What: "time until the queue is below C·T", Unit: "us", Relation: About, Expected: drain(combined), Tolerance: 0.4,
				Source: "the least, if nothing else came: queue over C", Ours: combined.drained,
			},
			{
				What: "the same, reaction once in a round trip", Unit: "us", Relation: AtLeast, Expected: 1.5 * combined.drained,
				Source: reactions + ": slower than HPCC; the factor is ours", Ours: rtt.drained,
			},
			{
				What: "use of the link from 500 us to 2.5 ms after the incast", Relation: About, Expected: forEta, Tolerance: 0.02,
				Source: "§3.2: η", Ours: combined.used / line,
			},
			{
				What: "the same, reaction to every acknowledgement", Relation: AtMost, Expected: 0.8 * combined.used / line,
				Source: reactions + ": it overreacts; the factor is ours", Ours: ack.used / line,
			},
			{
				What: "mean queue then", Unit: "KB", Relation: AtMost, Expected: 0.02 * bdp / 1e3,
				Source: "§1: near-zero queues; 2% of C·T is ours", Ours: combined.queue / 1e3,
			},
		}}
		p := &chart.Picture{
			Title: "HPCC: 16 senders join one at 100 Gb/s after 0.1 ms", Width: 900, Height: 360,
			X: chart.Axis{Label: "time [ms]", Max: 1}, Y: chart.Axis{Label: "queue [KB]", Max: 2600},
		}
		for i, name := range []string{"HPCC", "every acknowledgement", "once in a round trip"} {
			p.Lines = append(p.Lines, chart.Line{Name: name, Points: runs[i].queueLine(bottleneck, joined-100*us, joined+900*us, ms), Style: &chart.Style{Colour: i}})
		}
		out.Pictures = map[string]*chart.Picture{"queue": p}
		return out, nil
	},
}

const (
	bottleneck = "s1:h18"
	joined     = 500 * us
)

// burst describes the queue and the link after the senders have joined.
type burst struct {
	peak    float64 // B
	drained float64 // us until the queue is below the bandwidth-delay product
	used    float64 // bit/s, 0.5 to 2.5 ms after the incast
	queue   float64 // B, mean over the same time
}

func bursts(r *Run) (b burst) {
	bdp := 100e9 / 8 * r.gauge("h1:eth0", "base_rtt")
	high := units.Time(0)
	for i := range r.rows[bottleneck] {
		row := &r.rows[bottleneck][i]
		q := float64(row.Queue)
		if q > b.peak {
			b.peak, high = q, row.At
		}
		if row.At > high && b.drained == 0 && b.peak > bdp && q < bdp {
			b.drained = (row.At - high).Seconds() * 1e6
		}
	}
	b.used = r.rate(bottleneck, joined+500*us, joined+2500*us)
	b.queue = mean(r.queue(bottleneck, joined+500*us, joined+2500*us))
	return b
}
