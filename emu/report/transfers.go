package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// SetTransfers puts the results of transfers and their sums into the report.
func (r *Report) SetTransfers(results []workload.TransferResult) {
	r.Transfers, r.TransferSums = results, workload.SumTransfers(results)
}

// maxTransfers is how many transfers a text report shows.
const maxTransfers = 20

// writeTransfers shows the transfers and their sums. Empty columns are left out.
func (r *Report) writeTransfers(w io.Writer) {
	s := r.TransferSums
	if s == nil {
		return
	}
	ideal := false
	for i := range r.Transfers {
		ideal = ideal || r.Transfers[i].Ideal > 0
	}
	type column struct {
		name string
		show bool
		cell func(x *workload.TransferResult) string
	}
	columns := []column{
		{"transfer", true, func(x *workload.TransferResult) string { return x.Transfer }},
		{"verb", true, func(x *workload.TransferResult) string { return x.Verb }},
		{"messages", true, messages},
		{"size", true, func(x *workload.TransferResult) string { return size(float64(x.MessageSize)) }},
		{"goodput", true, func(x *workload.TransferResult) string { return Rate(float64(x.Goodput)) }},
		{"completion p50", true, func(x *workload.TransferResult) string { return completion(x, x.CompletionP50) }},
		{"p99", true, func(x *workload.TransferResult) string { return completion(x, x.CompletionP99) }},
		{"max", true, func(x *workload.TransferResult) string { return completion(x, x.CompletionMax) }},
		{"slowdown p99", ideal, slowdown},
		{"retransmitted", s.Retransmitted > 0, func(x *workload.TransferResult) string { return fmt.Sprint(x.Retransmitted) }},
		{"marked", s.Marked > 0, func(x *workload.TransferResult) string { return fmt.Sprint(x.Marked) }},
		{"CNPs", s.CNPs > 0, func(x *workload.TransferResult) string { return fmt.Sprint(x.CNPs) }},
		{"failed", s.Failed > 0, failures},
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cell func(c column) string) {
		var cells []string
		for _, c := range columns {
			if c.show {
				cells = append(cells, cell(c))
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	line(func(c column) string { return c.name })
	for i := range r.Transfers[:min(len(r.Transfers), maxTransfers)] {
		line(func(c column) string { return c.cell(&r.Transfers[i]) })
	}
	t.Flush()
	if n := len(r.Transfers) - maxTransfers; n > 0 {
		fmt.Fprintf(w, "and %d more transfers\n", n)
	}
	WriteTransferSums(w, s)
}

// messages returns the number of completed messages, with the number posted if that differs.
func messages(x *workload.TransferResult) string {
	if x.Completed == x.Posted {
		return fmt.Sprint(x.Completed)
	}
	return fmt.Sprintf("%d of %d", x.Completed, x.Posted)
}

func completion(x *workload.TransferResult, us float64) string {
	if x.Completed == 0 {
		return "-"
	}
	return micros(us)
}

func slowdown(x *workload.TransferResult) string {
	if x.Completed == 0 || x.Ideal == 0 {
		return "-"
	}
	return Slowdown(x.SlowdownP99)
}

// Slowdown formats a slowdown to three digits, or as a whole number from 100 on.
func Slowdown(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return units.FormatDigits(v, 3)
}

func failures(x *workload.TransferResult) string {
	if x.Failed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", x.Failed, x.FirstFailure)
}

// WriteTransferSums prints the sums of transfers in a few lines of text.
func WriteTransferSums(w io.Writer, s *workload.TransferSums) {
	fmt.Fprintf(w, "goodput  %s in all", Rate(float64(s.Goodput)))
	if s.Transfers > 1 && s.Fairness > 0 {
		fmt.Fprintf(w, ", Jain's fairness index %.3f", s.Fairness)
	}
	fmt.Fprintf(w, "; %d of %d messages completed\n", s.Completed, s.Posted)
	if s.Failed > 0 {
		fmt.Fprintf(w, "failed   %d messages in %d of %d transfers, the first with %s\n", s.Failed, s.FailedOf, s.Transfers, s.FirstFailure)
	}
	if s.Packets > 0 {
		fmt.Fprintf(w, "RoCE     %d packets sent", s.Packets)
		if s.Retransmitted > 0 {
			fmt.Fprintf(w, ", %s of them again", units.FormatPercent(s.RetransmittedShare, 3))
		}
		for _, c := range []struct {
			n    uint64
			what string
		}{{s.Marked, "marked"}, {s.CNPs, "CNPs"}, {s.OutOfSequence, "out of sequence"}, {s.NAKs, "NAKs"}, {s.RNRNAKs, "RNR NAKs"}, {s.Timeouts, "timeouts"}} {
			if c.n > 0 {
				fmt.Fprintf(w, ", %d %s", c.n, c.what)
			}
		}
		fmt.Fprintln(w)
	}
}
