package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/units"
)

// Patterns summarizes the flows of patterns.
type Patterns struct {
	File     string         `json:"file,omitempty"` // file with their records
	Patterns []PatternFlows `json:"patterns"`
	Bins     []FlowBin      `json:"bins"` // of flows that count, by size

	// Open lists flows that are not done and have not failed: the first of them, by
	// host. More is how many others there are.
	Open []OpenFlow `json:"open,omitempty"`
	More uint64     `json:"more_open,omitempty"`
}

// PatternFlows counts the flows of one pattern.
type PatternFlows struct {
	Pattern      string `json:"pattern"`
	Flows        uint64 `json:"flows"`   // created by the pattern
	Counted      uint64 `json:"counted"` // of them created in the measurement window
	Done         uint64 `json:"done"`
	Failed       uint64 `json:"failed"`
	Unfinished   uint64 `json:"unfinished"` // flows that had started
	Waiting      uint64 `json:"waiting"`    // flows that had not started
	Bytes        uint64 `json:"done_bytes"` // payload of flows that are done
	FirstFailure string `json:"first_failure,omitempty"`

	TCP *tcp.Counters `json:"tcp,omitempty"` // of the senders of TCP flows
	NDP *ndp.Counters `json:"ndp,omitempty"` // likewise, of NDP flows
}

// FlowBin summarizes the flows that counted and had sizes above Over, up to and
// including To. Times are in seconds; 0 means unknown.
type FlowBin struct {
	Over          int64   `json:"over_bytes"` // -1 in the first bin
	To            int64   `json:"to_bytes"`   // 0 means no bound
	Done          uint64  `json:"done"`
	Failed        uint64  `json:"failed"`
	Unfinished    uint64  `json:"unfinished"`
	Retransmitted uint64  `json:"retransmitted_packets"`
	FCT50         float64 `json:"fct_p50_s"`
	FCT95         float64 `json:"fct_p95_s"`
	FCT99         float64 `json:"fct_p99_s"`
	Slowdown50    float64 `json:"slowdown_p50"`
	Slowdown95    float64 `json:"slowdown_p95"`
	Slowdown99    float64 `json:"slowdown_p99"`
}

// OpenFlow is a flow that was not over when the run ended.
type OpenFlow struct {
	Pattern string  `json:"pattern"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Size    int64   `json:"size_bytes"`
	Acked   int64   `json:"acked_bytes"`
	Created float64 `json:"created_s"`
	Waiting bool    `json:"waiting"` // it had not started
}

// Limits on the open flows that a report has, and that its text shows.
const (
	maxOpen      = 1000
	maxOpenShown = 10
)

// FlowTally is a sink of flow records that sums them up for a report.
type FlowTally struct {
	names records.Names
	bins  *records.Statistics
	sum   Patterns
}

// NewFlowTally returns a tally with a bin up to and including each of these sizes, in
// rising order, and one for larger flows.
func NewFlowTally(n records.Names, bins ...units.Bytes) (*FlowTally, error) {
	s, err := records.NewStatistics(bins...)
	if err != nil {
		return nil, err
	}
	t := &FlowTally{names: n, bins: s}
	for _, name := range n.Traffic {
		t.sum.Patterns = append(t.sum.Patterns, PatternFlows{Pattern: name})
	}
	return t, nil
}

// PutRecord implements records.Sink.
func (t *FlowTally) PutRecord(r *records.Record) error {
	p := &t.sum.Patterns[r.Traffic]
	p.Flows++
	if r.Counted {
		p.Counted++
	}
	waiting := r.Started == units.Never
	switch {
	case r.State == records.Done:
		p.Done++
		p.Bytes += uint64(r.Size)
	case r.State == records.Failed:
		p.Failed++
		if p.FirstFailure == "" {
			p.FirstFailure = r.Failure
		}
	case waiting:
		p.Waiting++
	default:
		p.Unfinished++
	}
	if r.State == records.Unfinished {
		if len(t.sum.Open) < maxOpen {
			t.sum.Open = append(t.sum.Open, OpenFlow{
				p.Pattern, t.names.Hosts[r.From], t.names.Hosts[r.To], int64(r.Size), int64(r.Acked), r.Created.Seconds(), waiting,
			})
		} else {
			t.sum.More++
		}
	}
	return t.bins.PutRecord(r)
}

// Close implements records.Sink; there is nothing to do.
func (t *FlowTally) Close() error { return nil }

// Patterns returns the sums so far. file is the file with the records, "" if there is none;
// byTCP and byNDP are the counters of TCP and NDP flows, by pattern.
func (t *FlowTally) Patterns(file string, byTCP []*tcp.Counters, byNDP []*ndp.Counters) *Patterns {
	sum := t.sum
	sum.File, sum.Patterns, sum.Open = file, slices.Clone(sum.Patterns), slices.Clone(sum.Open)
	for i, c := range byTCP {
		sum.Patterns[i].TCP = c
	}
	for i, c := range byNDP {
		sum.Patterns[i].NDP = c
	}
	bins := t.bins.Bins()
	for i := range bins {
		b := &bins[i]
		x := FlowBin{Over: int64(b.Over), To: int64(b.To), Done: b.Done, Failed: b.Failed, Unfinished: b.Unfinished, Retransmitted: b.Retransmitted}
		if i == len(bins)-1 {
			x.To = 0
		}
		if b.Done > 0 {
			x.FCT50, x.FCT95, x.FCT99 = b.PercentileOf(records.FCT, 50), b.PercentileOf(records.FCT, 95), b.PercentileOf(records.FCT, 99)
			x.Slowdown50, x.Slowdown95, x.Slowdown99 = b.PercentileOf(records.Slowdown, 50), b.PercentileOf(records.Slowdown, 95), b.PercentileOf(records.Slowdown, 99)
		}
		sum.Bins = append(sum.Bins, x)
	}
	return &sum
}

// writePatterns shows how many flows there were, and how long the counted ones took.
func (r *Report) writePatterns(w io.Writer) {
	if r.Patterns == nil {
		return
	}
	r.Patterns.writeCounts(w)
	r.Patterns.writeTCP(w)
	r.Patterns.writeNDP(w)
	r.Patterns.writeBins(w)
	r.Patterns.writeOpen(w)
}

func (p *Patterns) writeCounts(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "pattern\tflows\tcounted\tdone\tbytes\tfailed\tunfinished\twaiting")
	for i := range p.Patterns {
		x := &p.Patterns[i]
		failed := fmt.Sprint(x.Failed)
		if x.FirstFailure != "" {
			failed += " (" + x.FirstFailure + ")"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\n", x.Pattern, x.Flows, x.Counted, x.Done, size(float64(x.Bytes)), failed, x.Unfinished, x.Waiting)
	}
	t.Flush()
}

// writeTCP shows the counters of the senders of TCP flows.
func (p *Patterns) writeTCP(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "pattern by TCP\tsegments\tsent again\trecoveries\ttimeouts\ttail probes\tspurious\tACKs with ECE\n"
	for i := range p.Patterns {
		if c := p.Patterns[i].TCP; c != nil {
			fmt.Fprintf(t, "%s%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", head, p.Patterns[i].Pattern, c.Segments, c.Resent, c.Recoveries, c.Timeouts, c.Probes, c.Spurious, c.Marks)
			head = ""
		}
	}
	t.Flush()
}

// writeNDP shows the counters of the senders of NDP flows.
func (p *Patterns) writeNDP(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "pattern by NDP\tpackets\tsent again\tACKs\tNACKs\tPULLs\tsent back\ttimeouts\n"
	for i := range p.Patterns {
		if c := p.Patterns[i].NDP; c != nil {
			fmt.Fprintf(t, "%s%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", head, p.Patterns[i].Pattern, c.Packets, c.Resent, c.ACKs, c.NACKs, c.Pulls, c.Returned, c.Timeouts)
			head = ""
		}
	}
	t.Flush()
}

// writeBins shows the bins that have flows.
func (p *Patterns) writeBins(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "size of flows\tdone\tFCT p50\tp95\tp99\tslowdown p50\tp95\tp99\n"
	for i := range p.Bins {
		b := &p.Bins[i]
		if b.Done == 0 {
			continue
		}
		slow := func(v float64) string {
			if v == 0 {
				return "-"
			}
			return Slowdown(v)
		}
		fmt.Fprintf(t, "%s%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", head, b.sizes(), b.Done, micros(b.FCT50*1e6), micros(b.FCT95*1e6), micros(b.FCT99*1e6),
			slow(b.Slowdown50), slow(b.Slowdown95), slow(b.Slowdown99))
		head = ""
	}
	t.Flush()
}

// sizes returns the range of flow sizes in the bin.
func (b *FlowBin) sizes() string {
	var parts []string
	if b.Over >= 0 {
		parts = append(parts, "over "+size(float64(b.Over)))
	}
	if b.To > 0 {
		parts = append(parts, "to "+size(float64(b.To)))
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " ")
}

func (p *Patterns) writeOpen(w io.Writer) {
	shown := p.Open[:min(len(p.Open), maxOpenShown)]
	for i := range shown {
		o := &shown[i]
		state := fmt.Sprintf("%s acknowledged", size(float64(o.Acked)))
		if o.Waiting {
			state = "waiting to start"
		}
		fmt.Fprintf(w, "unfinished %s > %s, %s of %s, created at %ss: %s\n", o.From, o.To, size(float64(o.Size)), o.Pattern, units.FormatDigits(o.Created, 6), state)
	}
	if n := uint64(len(p.Open)-len(shown)) + p.More; n > 0 {
		fmt.Fprintf(w, "and %d more unfinished flows\n", n)
	}
}
