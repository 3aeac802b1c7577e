package main

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/view/chart"
)

const sawtooth = "Alizadeh et al., SIGCOMM 2010, §3.3"

var dctcp = Experiment{
	Name:     "dctcp",
	Title:    "DCTCP's queue at K",
	Labs:     []string{"n2", "n10", "n40", "n40-small"},
	QuickFor: 150 * ms,
	Measure: func(runs []*Run) (*Outcome, error) {
		const k = 43280.0 // B
		to := runs[0].Report.Emulated
		from := to / 3
		flows := []float64{2, 10, 40, 40}
		p := &chart.Picture{
			Title: "DCTCP at 10 Gb/s, K = 43 KB", Width: 900, Height: 360,
			X: chart.Axis{Label: "time [ms]", Max: 8}, Y: chart.Axis{Label: "queue [KB]", Max: 100},
		}
		out := &Outcome{Pictures: map[string]*chart.Picture{"queue": p}}
		for i, r := range runs {
			n := flows[i]
			frame := r.frame("s1:h1")
			// In packets.
			bdp := 10e9 / 8 * r.gauge("h2:eth0", "base_rtt") / (frame + beyondFrame)
			w := (bdp + k/frame) / n
			high := k/frame + n
			low := high - n*cutOf(w)
			name := fmt.Sprintf("%.0f flows", n)
			if i == 3 {
				name += ", packets of 256 B"
			}
			q := r.queue("s1:h1", from, to)
			top := Row{
				What: name + ": top of the queue, p99", Unit: "packets", Relation: About, Expected: high, Tolerance: 0.06,
				Source: sawtooth + ": K + N", Ours: quantile(q, 0.99) / frame,
			}
			bottom := Row{
				What: name + ": bottom of the queue, p1", Unit: "packets", Relation: About, Expected: low, Tolerance: 0.2,
				Source: sawtooth + ": K + N − N·D", Ours: quantile(q, 0.01) / frame,
			}
			if i == 2 {
				bottom.Known = &[2]float64{0, 0.5}
				bottom.Why = fmt.Sprintf("two cuts a swing, where the analysis has one. A window is %.1f packets, and after a cut the queue takes a round trip to fall back to K; what is sent meanwhile is marked, and the next window is cut too: from 4.7 packets to 3.7 and 2.9, of which 4, 3 and 2 are sent. With packets of a quarter of the size, below, it is nearer", w)
			}
			used := Row{
				What: name + ": use of the link", Relation: About, Expected: 1, Tolerance: 0.01,
				Source: sawtooth + ": the queue does not run empty", Ours: r.rate("s1:h1", from, to) / 10e9,
			}
			out.Rows = append(out.Rows, top, bottom, used)
			if i < 3 {
				p.Lines = append(p.Lines, chart.Line{Name: name, Points: r.queueLine("s1:h1", to*2/3, to*2/3+8*ms, ms), Style: &chart.Style{Colour: i}})
			}
		}
		return out, nil
	},
}

// cutOf returns D, by which a flow's window of w packets oscillates: w+1 is cut by alpha/2,
// where alpha, the share of marked packets, follows from alpha²(1 − alpha/4) = (2w+1)/(w+1)²
// (§3.3).
func cutOf(w float64) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		a := (low + high) / 2
		if a*a*(1-a/4) < (2*w+1)/math.Pow(w+1, 2) {
			low = a
		} else {
			high = a
		}
	}
	return (w + 1) * low / 2
}
