package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/view/figure"
)

var (
	messageCompletion = measure{"completion", "completion time", figure.Seconds, formatSpan}
	messageSlowdown   = measure{"slowdown", "slowdown", figure.Number, report.Slowdown}
	transferGoodput   = measure{"goodput", "goodput", figure.BitsPerSecond, report.Rate}
)

// bySize is the picture of slowdown by message size.
const bySize = "slowdown-by-size"

// TransferPictures returns what can be drawn from records of transfers.
func TransferPictures() []string { return []string{"completion", "slowdown", bySize, "goodput"} }

// Transfers is a summary of the records of transfers in one file.
type Transfers struct {
	File string `json:"file"`
	*workload.TransferSums
	Completion    *Distribution `json:"completion,omitempty"`       // over the messages that completed
	Slowdown      *Distribution `json:"slowdown,omitempty"`         // over messages whose ideal time is known
	EachGoodput   *Distribution `json:"transfer_goodput,omitempty"` // over the transfers that posted messages with payload
	SlowdownSizes []SizeBin     `json:"slowdown_by_size,omitempty"`

	results []workload.TransferResult
}

// SizeBin is the slowdown of messages in a range of sizes. Files that are
// reviewed together have the same bins, except for bins in which they have no
// messages.
type SizeBin struct {
	From     int64         `json:"from_bytes"`
	To       int64         `json:"to_bytes"`
	Messages uint64        `json:"messages"`
	Slowdown *Distribution `json:"slowdown"`
}

// transferReview is a review of records of transfers.
type transferReview struct {
	Files []*Transfers `json:"transfer_records"`

	options Options
	bins    []sizeRange
}

func openTransfers(files []string, o Options) (*transferReview, error) {
	if err := noSeries(transferRecords, &o); err != nil {
		return nil, err
	}
	if o.What == "" {
		o.What = messageCompletion.name
	}
	switch {
	case !slices.Contains(TransferPictures(), o.What):
		return nil, fmt.Errorf("--what: unknown %q for records of transfers: must be one of %s", o.What, strings.Join(TransferPictures(), ", "))
	case o.LogX && o.What == bySize:
		return nil, errors.New("sizes are evenly spaced: --log-x is not for slowdown-by-size")
	case o.LogY && o.What != bySize:
		return nil, errors.New("a share of messages or transfers is not shown on a logarithmic axis: --log-y is for series and slowdown-by-size")
	}
	r := &transferReview{options: o}
	var all []workload.TransferResult
	for _, f := range files {
		results, err := readRecords(f, workload.ReadTransfersCSV, workload.ReadTransfersJSON)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
		r.Files = append(r.Files, sumUpTransfers(f, results))
	}
	r.bins = sizeBins(all)
	for _, f := range r.Files {
		for _, b := range r.bins {
			if bin := b.binOf(f.results); bin.Messages > 0 {
				f.SlowdownSizes = append(f.SlowdownSizes, bin)
			}
		}
	}
	return r, nil
}

func sumUpTransfers(file string, results []workload.TransferResult) *Transfers {
	t := &Transfers{File: file, TransferSums: workload.SumTransfers(results), results: results}
	t.Completion = messageTimes(results)
	t.Slowdown = slowdownDistribution(results)
	var goodputs []weighted
	for i := range results {
		if x := &results[i]; x.Posted > 0 && x.MessageSize > 0 {
			goodputs = append(goodputs, weighted{float64(x.Goodput), 1})
		}
	}
	t.EachGoodput = distributionOf(transferGoodput.unit, goodputs)
	return t
}

// messageTimes returns the distribution over all messages that completed.
func messageTimes(results []workload.TransferResult) *Distribution {
	return overMessages(messageCompletion.unit, results, func(*workload.TransferResult) float64 { return 1e6 })
}

// slowdownDistribution returns the distribution over the messages whose ideal time is
// known.
func slowdownDistribution(results []workload.TransferResult) *Distribution {
	return overMessages(messageSlowdown.unit, results, func(x *workload.TransferResult) float64 { return x.Ideal })
}

// overMessages returns the distribution of completion times in units of per,
// which is in microseconds. Transfers for which per returns 0 are skipped.
func overMessages(unit figure.Unit, results []workload.TransferResult, per func(*workload.TransferResult) float64) *Distribution {
	var values []weighted
	sum, n := 0.0, 0.0
	for i := range results {
		x := &results[i]
		us := per(x)
		if us == 0 {
			continue
		}
		values = appendMessages(values, x, us, len(results))
		sum, n = sum+x.CompletionMean/us*float64(x.Completed), n+float64(x.Completed)
	}
	d := distributionOf(unit, values)
	if d != nil {
		d.Mean = sum / n // the records' mean is more accurate than that of the approximated values
	}
	return d
}

// appendMessages appends what is known about the completion times of a transfer's
// messages, in units of us microseconds. It assumes an even distribution between
// two percentiles, which is exact for up to five messages. The more transfers
// there are, the fewer values represent a transfer's messages, so that memory
// does not grow with them.
func appendMessages(to []weighted, x *workload.TransferResult, us float64, transfers int) []weighted {
	const values = 400_000
	steps := uint64(min(max(values/transfers/8, 4), 250))
	if x.Completed == 0 {
		return to
	}
	from, rank := x.CompletionMin/us, uint64(1)
	to = append(to, weighted{from, 1})
	for _, p := range []struct{ share, time float64 }{
		{0.25, x.CompletionP25}, {0.5, x.CompletionP50}, {0.75, x.CompletionP75}, {0.9, x.CompletionP90},
		{0.95, x.CompletionP95}, {0.99, x.CompletionP99}, {0.999, x.CompletionP999}, {1, x.CompletionMax},
	} {
		next := uint64(math.Ceil(p.share*float64(x.Completed) - 1e-9))
		if next <= rank {
			continue
		}
		between, value := next-rank, p.time/us
		if next == x.Completed {
			value = x.CompletionMax / us // exact
		}
		k := min(between, steps)
		for i := range k {
			to = append(to, weighted{value - (value-from)*float64(k-i-1)/float64(k), float64(between) / float64(k)})
		}
		from, rank = value, next
	}
	return to
}

// sizeRange is a range of message sizes.
type sizeRange struct{ from, to int64 }

// binOf returns the slowdown of messages of these sizes.
func (s sizeRange) binOf(results []workload.TransferResult) SizeBin {
	b := SizeBin{From: s.from, To: s.to}
	var those []workload.TransferResult
	for i := range results {
		if x := &results[i]; x.MessageSize >= s.from && x.MessageSize <= s.to && x.Ideal > 0 {
			those = append(those, *x)
			b.Messages += x.Completed
		}
	}
	b.Slowdown = slowdownDistribution(those)
	return b
}

// maxBins is the maximum number of size bins.
const maxBins = 10

// sizeBins gives each size its own bin if there are few sizes. Otherwise it
// groups sizes into bins with about as many messages each, as in the HPCC paper
// (Li et al., SIGCOMM 2019, figure 11).
func sizeBins(results []workload.TransferResult) []sizeRange {
	count, total := map[int64]uint64{}, uint64(0)
	var all []int64
	for i := range results {
		x := &results[i]
		if x.Completed == 0 || x.Ideal == 0 {
			continue
		}
		if count[x.MessageSize] == 0 {
			all = append(all, x.MessageSize)
		}
		count[x.MessageSize] += x.Completed
		total += x.Completed
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

// Write prints the sums of each file, tables of percentiles, and slowdown by
// message size.
func (r *transferReview) Write(w io.Writer) {
	for _, f := range r.Files {
		fmt.Fprintf(w, "%s: %d transfers\n", f.File, f.Transfers)
		report.WriteTransferSums(w, f.TransferSums)
		if f.Completion != nil {
			writeDistributions(w, "messages", []tableRow{{&messageCompletion, f.Completion}, {&messageSlowdown, f.Slowdown}})
		}
		if f.EachGoodput != nil {
			writeDistributions(w, "transfers", []tableRow{{&transferGoodput, f.EachGoodput}})
		}
		f.writeSizes(w)
	}
}

// writeSizes prints slowdown by message size, if sizes differ.
func (f *Transfers) writeSizes(w io.Writer) {
	if len(f.SlowdownSizes) < 2 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "slowdown of size\tmessages\tmean")
	for _, p := range (&Distribution{}).percentiles() {
		fmt.Fprint(t, "\t", p.name)
	}
	fmt.Fprintln(t)
	for _, b := range f.SlowdownSizes {
		size := report.MessageSize(b.To)
		if b.From != b.To {
			size = report.MessageSize(b.From) + " to " + size
		}
		fmt.Fprintf(t, "%s\t%d\t%s", size, b.Messages, report.Slowdown(b.Slowdown.Mean))
		for _, p := range b.Slowdown.percentiles() {
			fmt.Fprint(t, "\t", report.Slowdown(*p.at))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// Figure draws the cumulative distribution over messages or transfers, with a
// line for each file, or slowdown by message size.
func (r *transferReview) Figure() (*figure.Figure, string, error) {
	if r.options.What == bySize {
		return r.sizeFigure()
	}
	m, over, of := &messageCompletion, "messages", func(t *Transfers) *Distribution { return t.Completion }
	switch r.options.What {
	case messageSlowdown.name:
		m, of = &messageSlowdown, func(t *Transfers) *Distribution { return t.Slowdown }
	case transferGoodput.name:
		m, over, of = &transferGoodput, "transfers", func(t *Transfers) *Distribution { return t.EachGoodput }
	}
	var curves []curve
	for _, f := range r.Files {
		if d := of(f); d != nil {
			curves = append(curves, curve{shortName(f.File), d})
		}
	}
	if len(curves) == 0 {
		return nil, "", fmt.Errorf("no message completed: there is no %s to show", m.label)
	}
	f, err := drawCumulative(&r.options, "", m, over, curves)
	return f, "", err
}

// sizeFigure draws percentiles of slowdown by message size.
func (r *transferReview) sizeFigure() (*figure.Figure, string, error) {
	if len(r.bins) == 0 {
		return nil, "", errors.New("no message with a known ideal time completed: there is no slowdown to show")
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
	if len(r.Files)*len(shown) > maxLines {
		shown, note = shown[2:], "of more than two files only p99 is drawn"
	}
	if len(r.Files) > maxLines {
		return nil, "", fmt.Errorf("%d lines are more than the %d that a picture can have: name fewer files", len(r.Files), maxLines)
	}
	p := figure.Panel{Kind: figure.Lines, X: figure.Axis{Label: "message size"}, Y: figure.Axis{Label: messageSlowdown.label}}
	if r.options.LogY {
		p.Y.Scale = figure.Log
	}
	for _, b := range r.bins {
		p.X.Names = append(p.X.Names, report.MessageSize(b.to))
		if b.from != b.to {
			p.X.Label = "message size, up to"
		}
	}
	for i, f := range r.Files {
		for _, s := range shown {
			l := figure.Series{Name: s.name}
			if len(r.Files) > 1 {
				l.Name = shortName(f.File) + " " + s.name
				l.Style = figure.Style{Colour: i + 1, Dash: s.dash}
			}
			for _, b := range f.SlowdownSizes {
				l.X = append(l.X, float64(slices.Index(r.bins, sizeRange{b.From, b.To})+1))
				l.Y = append(l.Y, s.of(b.Slowdown))
			}
			if len(l.X) > 0 {
				p.Series = append(p.Series, l)
			}
		}
	}
	return figureOf(&r.options, "", p), note, nil
}
