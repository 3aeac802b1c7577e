package main

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/chart"
)

const (
	dot1q      = "IEEE 802.1Q clauses 30 to 32"
	wholeStage = 150e3 // B, rpgByteReset
	threshold  = 5     // rpgThreshold
)

var qcn = Experiment{
	Name:  "qcn",
	Title: "QCN at a hot spot, and its recovery",
	Labs:  []string{"hotspot", "hotspot-end"},
	Measure: func(runs []*Run) (*Outcome, error) {
		const fall, rise, end = 50 * ms, 150 * ms, 400 * ms
		const line10, slow = 10e9, 500e6
		r := runs[0]
		frame := r.frame("h1:eth0")
		rates := r.rates("h1:eth0", ms)
		took := (end - rise).Seconds() * 1e3 // or never
		for i := int(rise / ms); i < len(rates); i++ {
			if rates[i] >= 0.95*line10 {
				took = float64(i+1) - float64(rise/ms)
				break
			}
		}
		// The last message came some stages of the byte counter earlier, and the timer has not
		// expired since.
		last := runs[1]
		sent := stageOf(int(last.gauge("h1:eth0", "byte_stage")), wholeStage) / 2
		for i := range int(last.gauge("h1:eth0", "byte_stage")) {
			sent += stageOf(i, wholeStage)
		}
		ago := units.Time(sent * (1 + beyondFrame/frame) * 8 / slow * float64(units.Second))
		back := (recovery(slow, line10, frame) - ago).Seconds() * 1e3
		queue := r.queue("s1:h2", fall+50*ms, rise)
		out := &Outcome{Rows: []Row{
			{What: "rate of the flow in the second half of the hot spot", Unit: "Mb/s", Relation: About, Expected: slow / 1e6, Tolerance: 0.01, Source: "all of the link", Ours: r.rate("h1:eth0", fall+50*ms, rise) / 1e6},
			{What: "mean queue then", Unit: "KB", Relation: About, Expected: 26, Tolerance: 0.1, Source: dot1q + ": cpQSp", Ours: mean(queue) / 1e3},
			{
				What: "time to 95% of the link when it is back", Unit: "ms", Relation: About, Expected: back, Tolerance: 0.05,
				Source: dot1q + ", computed apart from the reaction point for a last message " + fmt.Sprintf("%.1f ms before", ago.Seconds()*1e3), Ours: took,
			},
		}}
		p := &chart.Picture{
			Title: "QCN: the link falls from 10 Gb/s to 500 Mb/s and comes back", Width: 900, Height: 360,
			X: chart.Axis{Label: "time [ms]", Max: 300}, Y: chart.Axis{Label: "rate on the wire [Gb/s] (log)", Log: true, Min: 0.1, Max: 12},
		}
		p.Lines = []chart.Line{{Name: "flow", Points: line(rates[:300], ms, ms)}}
		p.Marks = []chart.Mark{{X: float64(fall / ms), Name: "500 Mb/s"}, {X: float64(rise / ms), Name: "10 Gb/s"}, {X: float64(rise/ms) + back, Name: "computed"}}
		out.Pictures = map[string]*chart.Picture{"rate": p}
		return out, nil
	},
}

// recovery returns how long a flow takes from one rate to 95% of another when the last message
// has just arrived, with the standard's parameters and timers that do not vary. An increase
// happens whenever 150 KB are sent or 15 ms have passed, or half of that beyond the fifth of
// its kind, and goes half of the way to the target. The target grows by 5 Mb/s when one of the
// two is beyond five, and by 50 Mb/s times the smaller excess when both are.
func recovery(from, to, frame float64) units.Time {
	const bytes, period = float64(wholeStage), 15e-3
	rate, target, now := from, from, 0.0
	left, timer := bytes, period
	counted, timed := 0, 0
	for rate < 0.95*to {
		sending := left * (1 + beyondFrame/frame) * 8 / rate
		step := min(sending, timer)
		now, left, timer = now+step, left-left*step/sending, timer-step
		if step == sending {
			counted++
			left = stageOf(counted, bytes)
		} else {
			timed++
			timer = stageOf(timed, period)
		}
		switch {
		case min(counted, timed) > threshold:
			target += 50e6 * float64(min(counted, timed)-threshold)
		case max(counted, timed) > threshold:
			target += 5e6
		}
		target = min(target, to)
		rate += (target - rate) / 2
	}
	return units.Time(now * float64(units.Second))
}

// stageOf returns how long the byte counter or the timer runs in a stage: half as long beyond
// fast recovery.
func stageOf(stage int, full float64) float64 {
	if stage >= threshold {
		return full / 2
	}
	return full
}
