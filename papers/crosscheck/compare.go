package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// ranges are the upper bounds of the ranges of sizes, by the peer's sizes.
var ranges = []struct {
	name     string
	from, to units.Bytes
}{
	{"to 10 KB", 0, 10 * units.KB},
	{"to 100 KB", 10 * units.KB, 100 * units.KB},
	{"to 1 MB", 100 * units.KB, units.MB},
	{"above", units.MB, units.GB},
	{"all", 0, units.GB},
}

const head = `| | size | flows | ratio p5 | p50 | p95 | off by, p50 | p95 | itself, p50 | p95 | mean FCT ratio |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

// result compares runs with the peer in one range of sizes.
type result struct {
	size          string
	flows         int
	p5, p50, p95  float64 // ratio of completion times, ours to the peer's, flow by flow, all runs together
	off50, off95  float64 // how far a ratio is from 1
	self50        float64 // the same between runs with different seeds
	self95        float64
	means, spread float64 // ratio of mean completion times: mean over the runs, standard deviation
}

func (r *result) markdown(name string) string {
	return fmt.Sprintf("| %s | %s | %d | %.2f | %.3f | %.2f | %.1f%% | %.0f%% | %.1f%% | %.0f%% | %.3f ± %.3f |", name, r.size, r.flows,
		r.p5, r.p50, r.p95, 100*r.off50, 100*r.off95, 100*r.self50, 100*r.self95, r.means, r.spread)
}

// compareRuns compares the completion times of runs with the peer's, in each range.
func compareRuns(flows []flow, c *control, runs [][]float64) (all []result) {
	for _, within := range ranges {
		r := result{size: within.name}
		var ratios, off, self, means []float64
		for k, run := range runs {
			next := runs[(k+1)%len(runs)]
			ours, theirs := 0.0, 0.0
			for i := range flows {
				if s := flows[i].size; s <= within.from || s > within.to {
					continue
				}
				peer := flows[i].fct[c.name]
				ours, theirs = ours+run[i], theirs+peer
				ratios = append(ratios, run[i]/peer)
				off = append(off, math.Abs(run[i]/peer-1))
				self = append(self, math.Abs(run[i]/next[i]-1))
			}
			means = append(means, ours/theirs)
		}
		r.flows = len(ratios) / len(runs)
		r.p5, r.p50, r.p95 = quantile(ratios, 0.05), quantile(ratios, 0.5), quantile(ratios, 0.95)
		r.off50, r.off95 = quantile(off, 0.5), quantile(off, 0.95)
		r.self50, r.self95 = quantile(self, 0.5), quantile(self, 0.95)
		r.means, r.spread = meanAndDeviation(means)
		all = append(all, r)
	}
	return all
}

// quantile sorts values and returns a quantile of them.
func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	return values[min(len(values)-1, int(q*float64(len(values))))]
}

// meanAndDeviation returns the mean and the standard deviation of two or more values.
func meanAndDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values)-1)
	}
	return mean, math.Sqrt(deviation)
}
