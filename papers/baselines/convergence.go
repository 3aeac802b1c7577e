package main

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/sim/fairness"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/chart"
)

const (
	fig19   = "Taheri et al., CoNEXT 2020, Fig. 19"
	ms      = units.Millisecond
	us      = units.Microsecond
	forty   = 40e9 // bit/s of the bottleneck
	forEta  = 0.95
	average = 10 // ms over which rates are averaged
)

var convergence = Experiment{
	Name:  "convergence",
	Title: "One to four flows and back: DCQCN and HPCC",
	Labs:  []string{"dcqcn", "hpcc", "hpcc-n100"},
	Quick: []string{"dcqcn-quick", "hpcc-quick", "hpcc-n100-quick"},
	Measure: func(runs []*Run) (*Outcome, error) {
		out := &Outcome{Pictures: map[string]*chart.Picture{}}
		var all []steps
		for _, r := range runs {
			all = append(all, stepsOf(r))
		}
		dcqcn, hpcc, slow := &all[0], &all[1], &all[2]
		for i, n := range flowsInSteps {
			from := "up to"
			if i > 3 {
				from = "down to"
			}
			out.Rows = append(out.Rows, Row{
				What: fmt.Sprintf("DCQCN, rate of each flow, %s %d", from, n), Unit: "Gb/s", Relation: About, Expected: forty / 1e9 / float64(n), Tolerance: 0.04,
				Source: fig19, Ours: dcqcn.share[i] / 1e9,
			})
		}
		for i, n := range flowsInSteps[:4] {
			out.Rows = append(out.Rows, Row{
				What: fmt.Sprintf("HPCC, rate of each flow, up to %d", n), Unit: "Gb/s", Relation: About, Expected: forEta * forty / 1e9 / float64(n), Tolerance: 0.04,
				Source: fig19 + ", less the 5% that η leaves", Ours: hpcc.share[i] / 1e9,
			})
		}
		out.Rows = append(out.Rows,
			Row{What: "DCQCN, least Jain index of a step", Relation: About, Expected: 1, Tolerance: 0.03, Source: fig19, Ours: dcqcn.minJain},
			Row{What: "HPCC, least Jain index of a step", Relation: About, Expected: 1, Tolerance: 0.01, Source: fig19, Ours: hpcc.minJain},
			Row{What: "time until shares are fair and the link is used, HPCC over DCQCN", Relation: AtMost, Expected: 1, Source: "A.1: HPCC converges faster", Ours: hpcc.settling / dcqcn.settling},
			Row{What: "unfairness in 10 ms, 1 − Jain, HPCC over DCQCN", Relation: AtMost, Expected: 1, Source: "A.1: HPCC is more fair", Ours: hpcc.unfair / dcqcn.unfair},
			Row{What: "deviation of a flow's 10 ms from its mean, HPCC over DCQCN", Relation: AtMost, Expected: 1, Source: "A.1: HPCC is more stable", Ours: hpcc.swing / dcqcn.swing},
			Row{
				What: "the same with HPCC's W_AI for N = 100", Relation: AtMost, Expected: 1, Source: "A.1, which does not say its W_AI", Ours: slow.swing / dcqcn.swing,
				Known: &[2]float64{0.7, 3}, Why: "about as unsteady as DCQCN, by the seed less or more. W_AI is W_init (1 − η)/N, 16 B a round trip here. It is what brings shares together, and in a window of 32 KB whole packets drive flows apart meanwhile; with larger packets more so. The row above has N = 10, as many flows as are in the paper's §6.1",
			},
			Row{
				What: "deviation of HPCC's flows, N = 100 over N = 10", Relation: AtLeast, Expected: 3, Source: "the reason above; the bound is ours", Ours: slow.swing / hpcc.swing,
			},
		)
		for i, name := range []string{"dcqcn", "hpcc"} {
			out.Pictures[name] = all[i].picture(fmt.Sprintf("%s, 40 Gb/s, one to four flows and back (Fig. 19 of RoCC)", []string{"DCQCN", "HPCC, N = 10"}[i]))
		}
		return out, nil
	},
}

var flowsInSteps = []int{1, 2, 3, 4, 3, 2, 1}

// steps holds the results of seven steps of equal length.
type steps struct {
	rates    [4][]float64 // of each sender, by ms
	length   int          // of a step, ms
	share    []float64    // mean rate of a flow in the second half of each step, bit/s
	minJain  float64      // of the flows' means in the second halves
	settling float64      // mean ms after a change until shares are fair and the link is used
	unfair   float64      // mean of 1 - Jain of 10 ms, in the second halves of steps of several flows
	swing    float64      // mean deviation of 10 ms of a flow from its mean, as a share of it
}

func stepsOf(r *Run) (s steps) {
	for i := range s.rates {
		s.rates[i] = r.rates(fmt.Sprintf("h%d:eth0", i+1), ms)
	}
	s.length = len(s.rates[0]) / len(flowsInSteps)
	s.minJain = 1
	windows, changes := 0, 0
	swings := 0
	for k, n := range flowsInSteps {
		begin, end := k*s.length, (k+1)*s.length
		means := s.over(n, begin+s.length/2, end)
		s.share = append(s.share, mean(means))
		s.minJain = min(s.minJain, fairness.Jain(means...))
		for at := begin + s.length/2; at+average <= end && n > 1; at += average {
			now := s.over(n, at, at+average)
			s.unfair += 1 - fairness.Jain(now...)
			windows++
			for i, v := range now {
				s.swing += math.Abs(v/means[i] - 1)
				swings++
			}
		}
		if k == 0 {
			continue
		}
		// A window of 5 ms: in less, DCQCN's rates swing by more than that.
		const window = 5
		at := begin
		for ; at+window < end; at++ {
			now := s.over(n, at, at+window)
			if fairness.Jain(now...) >= 0.97 && mean(now) >= 0.95*mean(means) {
				break
			}
		}
		s.settling += float64(at - begin + window)
		changes++
	}
	s.unfair /= float64(windows)
	s.swing /= float64(swings)
	s.settling /= float64(changes)
	return s
}

// over returns the mean rates of the first n flows between two times in ms.
func (s *steps) over(n, from, to int) (out []float64) {
	for i := range n {
		sum := 0.0
		for k := from; k < to; k++ {
			if k < len(s.rates[i]) {
				sum += s.rates[i][k]
			}
		}
		out = append(out, sum/float64(to-from))
	}
	return out
}

func (s *steps) picture(title string) *chart.Picture {
	bin := units.Time(max(1, s.length/100)) * ms
	p := &chart.Picture{Title: title, Width: 900, Height: 360}
	total := len(s.rates[0])
	unit, name := units.Second, "s"
	if s.length < 200 {
		unit, name = ms, "ms"
	}
	for i := range s.rates {
		var rates []float64
		for at := 0; at+int(bin/ms) <= total; at += int(bin / ms) {
			rates = append(rates, s.over(i+1, at, at+int(bin/ms))[i])
		}
		p.Lines = append(p.Lines, chart.Line{Name: fmt.Sprintf("flow %d", i+1), Points: line(rates, bin, unit), Style: &chart.Style{Colour: i}})
	}
	p.X = chart.Axis{Label: "time [" + name + "]", Max: float64(total) * ms.Seconds() / unit.Seconds()}
	p.Y = chart.Axis{Label: "rate on the wire [Gb/s]", Max: 42}
	return p
}
