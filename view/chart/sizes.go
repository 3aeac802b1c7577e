package chart

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/view/figure"
)

// bySize is the picture of slowdown by the size of messages or flows.
const bySize = "slowdown-by-size"

// SizeBin is the slowdown of messages, or of flows, in a range of sizes. Files that are
// reviewed together have the same bins, except for bins in which they have none.
type SizeBin struct {
	From       int64         `json:"from_bytes"`
	To         int64         `json:"to_bytes"`
	Messages   uint64        `json:"messages,omitempty"`
	Flows      uint64        `json:"flows,omitempty"`
	Completion *Distribution `json:"completion,omitempty"` // of flows
	Slowdown   *Distribution `json:"slowdown"`
}

// sizeRange is a range of sizes, both ends included.
type sizeRange struct{ from, to int64 }

// maxBins is the maximum number of size bins.
const maxBins = 10

// groupSizes gives each size its own bin if there are few sizes. Otherwise it groups sizes
// into bins with about the same count each, as in the HPCC paper (Li et al., SIGCOMM 2019,
// figure 11). count is the number of messages or flows by size.
func groupSizes(count map[int64]uint64) []sizeRange {
	total := uint64(0)
	var all []int64
	for size, n := range count {
		all = append(all, size)
		total += n
	}
	slices.Sort(all)
	var bins []sizeRange
	last, before := -1, uint64(0)
	for i, size := range all {
		bin := i
		if len(all) > maxBins {
			middle := float64(before) + float64(count[size])/2
			bin = min(int(middle/float64(total)*maxBins), maxBins-1)
		}
		before += count[size]
		if bin == last {
			bins[len(bins)-1].to = size
			continue
		}
		bins, last = append(bins, sizeRange{size, size}), bin
	}
	return bins
}

// writeSizes prints a measure by size, if sizes differ; of returns the number and the distribution
// of a bin, over names what they are of.
func writeSizes(w io.Writer, m *measure, over string, bins []SizeBin, of func(*SizeBin) (uint64, *Distribution)) {
	if len(bins) < 2 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, m.name, " of size\t", over, "\tmean")
	for _, p := range (&Distribution{}).percentiles() {
		fmt.Fprint(t, "\t", p.name)
	}
	fmt.Fprintln(t)
	for i := range bins {
		b := &bins[i]
		size := report.Size(float64(b.To))
		if b.From != b.To {
			size = report.Size(float64(b.From)) + " to " + size
		}
		n, d := of(b)
		fmt.Fprintf(t, "%s\t%d\t%s", size, n, m.text(d.Mean))
		for _, p := range d.percentiles() {
			fmt.Fprint(t, "\t", m.text(*p.at))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// sizedFile is the slowdown by size of one file.
type sizedFile struct {
	name string
	bins []SizeBin
}

// drawSizes draws percentiles of slowdown by the size of what, messages or flows. bins are those of
// all files.
func drawSizes(o *Options, what string, bins []sizeRange, files []sizedFile) (*figure.Figure, string, error) {
	if len(bins) == 0 {
		return nil, "", fmt.Errorf("no %s with a known ideal time completed: there is no slowdown to show", what)
	}
	type shownPercentile struct {
		name string
		of   func(*Distribution) float64
		dash int
	}
	shown, note := []shownPercentile{
		{"p50", func(d *Distribution) float64 { return d.P50 }, 3},
		{"p95", func(d *Distribution) float64 { return d.P95 }, 2},
		{"p99", func(d *Distribution) float64 { return d.P99 }, 1},
	}, ""
	if len(files)*len(shown) > maxLines {
		shown, note = shown[2:], "of more than two files only p99 is drawn"
	}
	if len(files) > maxLines {
		return nil, "", fmt.Errorf("%d lines are more than the %d that a picture can have: name fewer files", len(files), maxLines)
	}
	p := figure.Panel{Kind: figure.Lines, X: figure.Axis{Label: what + " size"}, Y: figure.Axis{Label: messageSlowdown.label}}
	if o.LogY {
		p.Y.Scale = figure.Log
	}
	for _, b := range bins {
		p.X.Names = append(p.X.Names, report.Size(float64(b.to)))
		if b.from != b.to {
			p.X.Label = what + " size, up to"
		}
	}
	for i, f := range files {
		for _, s := range shown {
			l := figure.Series{Name: s.name}
			if len(files) > 1 {
				l.Name = shortName(f.name) + " " + s.name
				l.Style = figure.Style{Colour: i + 1, Dash: s.dash}
			}
			for j := range f.bins {
				b := &f.bins[j]
				l.X = append(l.X, float64(slices.Index(bins, sizeRange{b.From, b.To})+1))
				l.Y = append(l.Y, s.of(b.Slowdown))
			}
			if len(l.X) > 0 {
				p.Series = append(p.Series, l)
			}
		}
	}
	return figureOf(o, "", p), note, nil
}
