package chart

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
)

// The measures of flow records. All are of flows that are done.
var (
	flowCompletion = measure{"completion", "flow completion time", figure.Seconds, formatSpan}
	flowSlowdown   = measure{"slowdown", "slowdown", figure.Number, report.Slowdown}
	flowGoodput    = measure{"goodput", "goodput", figure.BitsPerSecond, report.Rate}
)

// FlowPictures returns what can be drawn from flow records.
func FlowPictures() []string { return []string{"completion", "slowdown", bySize, "goodput"} }

// Flows is a summary of the flow records in one file. Except for Left it is about the flows that
// count: those created in the measurement window.
type Flows struct {
	File       string        `json:"file"`
	Flows      uint64        `json:"flows"`
	Left       uint64        `json:"flows_outside_window"`
	Failed     uint64        `json:"failed"`
	Unfinished uint64        `json:"unfinished"`
	Completion *Distribution `json:"completion,omitempty"` // of done flows: from creation to the end at the sender
	Slowdown   *Distribution `json:"slowdown,omitempty"`   // of done flows whose ideal time is known
	Goodput    *Distribution `json:"goodput,omitempty"`    // size over completion time of each done flow
	Sizes      []SizeBin     `json:"by_size,omitempty"`    // of done flows whose ideal time is known

	done []doneFlow
}

// doneFlow is what is known of a flow that is done. Slowdown is 0 if it is not known.
type doneFlow struct {
	size          int64
	fct, slowdown float64
}

// flowReview is a review of flow records.
type flowReview struct {
	Files []*Flows `json:"flow_records"`

	options Options
	bins    []sizeRange
}

func openFlows(files []string, o Options) (*flowReview, error) {
	if len(o.Ports) > 0 || o.Class != "" || o.From != 0 || o.To != units.Never || o.Average != 0 {
		return nil, errors.New("flow records have no ports and no samples: --port, --class, --from, --to and --average are for series")
	}
	if o.What == "" {
		o.What = flowCompletion.name
	}
	switch {
	case !slices.Contains(FlowPictures(), o.What):
		return nil, fmt.Errorf("--what: unknown %q for flow records: must be one of %s", o.What, strings.Join(FlowPictures(), ", "))
	case o.LogX && o.What == bySize:
		return nil, errors.New("sizes are evenly spaced: --log-x is not for slowdown-by-size")
	case o.LogY && o.What != bySize:
		return nil, errors.New("a share of flows is not shown on a logarithmic axis: --log-y is for series and slowdown-by-size")
	}
	for _, p := range o.Flows {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("--flow %q: a [ needs its ]", p)
		}
	}
	r := &flowReview{options: o}
	count := map[int64]uint64{}
	for _, name := range files {
		f, err := readFlows(name, o.Flows)
		if err != nil {
			return nil, err
		}
		for i := range f.done {
			if f.done[i].slowdown > 0 {
				count[f.done[i].size]++
			}
		}
		r.Files = append(r.Files, f)
	}
	r.bins = groupSizes(count)
	for _, f := range r.Files {
		f.sumUp(r.bins)
	}
	return r, nil
}

// readFlows reads the records of one file that match one of the patterns of traffic or hosts; all if
// there are none.
func readFlows(name string, patterns []string) (*Flows, error) {
	f := &Flows{File: name}
	all := 0
	err := records.ReadFile(name, func(x *records.Row) error {
		all++
		if !matchesFlow(patterns, x) {
			return nil
		}
		if !x.Counted {
			f.Left++
			return nil
		}
		f.Flows++
		switch {
		case x.State == records.Failed.String():
			f.Failed++
		case x.State == records.Unfinished.String():
			f.Unfinished++
		case x.FCT != nil:
			d := doneFlow{size: x.Size, fct: *x.FCT}
			if x.Slowdown != nil {
				d.slowdown = *x.Slowdown
			}
			f.done = append(f.done, d)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case all == 0:
		return nil, fmt.Errorf("%s has no records", name)
	case f.Flows+f.Left == 0:
		return nil, fmt.Errorf("%s: no traffic and no host matches --flow %s", name, strings.Join(patterns, ", "))
	}
	return f, nil
}

// matchesFlow reports whether the traffic of a flow or one of its hosts matches one of the patterns.
func matchesFlow(patterns []string, x *records.Row) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		for _, name := range []string{x.Traffic, x.From, x.To} {
			if ok, _ := path.Match(p, name); ok {
				return true
			}
		}
		return false
	})
}

// sumUp computes the distributions.
func (f *Flows) sumUp(bins []sizeRange) {
	var fct, slowdown, goodput []weighted
	byFCT, bySlowdown := make([][]weighted, len(bins)), make([][]weighted, len(bins))
	for _, x := range f.done {
		fct = append(fct, weighted{x.fct, 1})
		if x.fct > 0 {
			goodput = append(goodput, weighted{float64(x.size) * 8 / x.fct, 1})
		}
		if x.slowdown == 0 {
			continue
		}
		slowdown = append(slowdown, weighted{x.slowdown, 1})
		i, _ := slices.BinarySearchFunc(bins, x.size, func(b sizeRange, size int64) int {
			if b.to < size {
				return -1
			}
			return 0
		})
		byFCT[i] = append(byFCT[i], weighted{x.fct, 1})
		bySlowdown[i] = append(bySlowdown[i], weighted{x.slowdown, 1})
	}
	f.Completion = distributionOf(flowCompletion.unit, fct)
	f.Slowdown = distributionOf(flowSlowdown.unit, slowdown)
	f.Goodput = distributionOf(flowGoodput.unit, goodput)
	for i, b := range bins {
		if n := len(bySlowdown[i]); n > 0 {
			f.Sizes = append(f.Sizes, SizeBin{
				From: b.from, To: b.to, Flows: uint64(n),
				Completion: distributionOf(flowCompletion.unit, byFCT[i]), Slowdown: distributionOf(flowSlowdown.unit, bySlowdown[i]),
			})
		}
	}
}

// Write prints how the flows ended, tables of percentiles, and completion time and slowdown by size.
func (r *flowReview) Write(w io.Writer) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: %d flows, %d done, %d failed, %d unfinished", f.File, f.Flows, len(f.done), f.Failed, f.Unfinished)
		if f.Left > 0 {
			fmt.Fprintf(w, "; %d outside the window do not count", f.Left)
		}
		fmt.Fprintln(w)
		if len(f.done) == 0 {
			continue
		}
		writeDistributions(w, "flows", []tableRow{{&flowCompletion, f.Completion}, {&flowSlowdown, f.Slowdown}, {&flowGoodput, f.Goodput}})
		writeSizes(w, &flowCompletion, "flows", f.Sizes, func(b *SizeBin) (uint64, *Distribution) { return b.Flows, b.Completion })
		writeSizes(w, &flowSlowdown, "flows", f.Sizes, func(b *SizeBin) (uint64, *Distribution) { return b.Flows, b.Slowdown })
	}
}

// Figure draws the cumulative distribution over the flows, with a line for each file, or slowdown
// by size.
func (r *flowReview) Figure() (*figure.Figure, string, error) {
	if r.options.What == bySize {
		all := make([]sizedFile, len(r.Files))
		for i, f := range r.Files {
			all[i] = sizedFile{f.File, f.Sizes}
		}
		return drawSizes(&r.options, "flow", r.bins, all)
	}
	m, of := &flowCompletion, func(f *Flows) *Distribution { return f.Completion }
	switch r.options.What {
	case flowSlowdown.name:
		m, of = &flowSlowdown, func(f *Flows) *Distribution { return f.Slowdown }
	case flowGoodput.name:
		m, of = &flowGoodput, func(f *Flows) *Distribution { return f.Goodput }
	}
	var curves []curve
	for _, f := range r.Files {
		if d := of(f); d != nil {
			curves = append(curves, curve{shortName(f.File), d})
		}
	}
	if len(curves) == 0 {
		return nil, "", fmt.Errorf("no flow is done: there is no %s to show", m.label)
	}
	f, err := drawCumulative(&r.options, "", m, "flows", curves)
	return f, "", err
}
