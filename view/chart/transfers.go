package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/view/figure"
)

var (
	messageCompletion = measure{"completion", "completion time", figure.Seconds, formatSpan}
	messageSlowdown   = measure{"slowdown", "slowdown", figure.Number, report.Slowdown}
	transferGoodput   = measure{"goodput", "goodput", figure.BitsPerSecond, report.Rate}
)

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

// sizeBins returns the bins of the messages whose slowdown is known.
func sizeBins(results []workload.TransferResult) []sizeRange {
	count := map[int64]uint64{}
	for i := range results {
		if x := &results[i]; x.Completed > 0 && x.Ideal > 0 {
			count[x.MessageSize] += x.Completed
		}
	}
	return groupSizes(count)
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
		writeSizes(w, &messageSlowdown, "messages", f.SlowdownSizes, func(b *SizeBin) (uint64, *Distribution) { return b.Messages, b.Slowdown })
	}
}

// Figure draws the cumulative distribution over messages or transfers, with a
// line for each file, or slowdown by message size.
func (r *transferReview) Figure() (*figure.Figure, string, error) {
	if r.options.What == bySize {
		all := make([]sizedFile, len(r.Files))
		for i, f := range r.Files {
			all[i] = sizedFile{f.File, f.SlowdownSizes}
		}
		return drawSizes(&r.options, "message", r.bins, all)
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
