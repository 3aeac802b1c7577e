package report

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// Write prints the report as text, in 80 columns or slightly more.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "lab %s, %s, %s emulated, seed %d\n", r.Lab, ClockText(r.Clock, r.Dilation), seconds(r.Emulated), r.Seed)
	if r.Partial != nil {
		fmt.Fprintf(w, "PARTIAL  %s %s\n", r.Partial.Why, r.Partial.Place(r.Emulated))
	}
	if failed := r.TrafficFailures(); failed != "" {
		fmt.Fprintf(w, "FAILED   %s\n", failed)
	}
	WriteNodeClocks(w, r.NodeClocks, false)
	r.writeAccounts(w)
	r.writeTimeline(w)
	r.writePorts(w)
	r.writePhaseLocks(w)
	r.writeSwitches(w)
	r.writePauses(w)
	r.writeFlows(w)
	r.writeTransfers(w)
	r.writePatterns(w)
	r.writeOutages(w)
	r.writeNICs(w)
	r.writeEdges(w)
	r.writeHosts(w)
	r.writeSockets(w)
	r.writeOffload(w)
	if r.Timing != nil {
		r.Timing.write(w)
	}
	if r.Series != nil {
		r.Series.write(w, false)
	}
	if r.FlowSeries != nil {
		r.FlowSeries.write(w, true)
	}
	if r.Trace != "" {
		fmt.Fprintf(w, "trace    %s over %d events\n", r.Trace, r.Events)
	}
}

// ClockText names a clock, with its dilation if there is one: "wall clock,
// dilation 100".
func ClockText(clock string, dilation int) string {
	if dilation > 1 {
		return fmt.Sprintf("%s clock, dilation %d", clock, dilation)
	}
	return clock + " clock"
}

// seconds formats an instant of a run.
func seconds(t units.Time) string { return units.FormatDigits(t.Seconds(), 6) + "s" }

func (r *Report) writeAccounts(w io.Writer) {
	a := &r.Accounts
	fmt.Fprintf(w, "packets  %d in", a.Entered+a.Originated)
	if copies := a.Replicated + a.Duplicated; copies > 0 {
		fmt.Fprintf(w, " + %d copies", copies)
	}
	fmt.Fprintf(w, " = %d delivered + %d dropped + %d under way", a.Delivered, a.Dropped, a.Held)
	if a.Consumed > 0 {
		fmt.Fprintf(w, " + %d for switches and ports", a.Consumed)
	}
	if !a.Balanced() {
		fmt.Fprint(w, "  ** these do not add up: a bug in weft, please report it **")
	}
	fmt.Fprintln(w)
	if a.Marked > 0 {
		fmt.Fprintf(w, "marks    %d%s\n", a.Marked, r.sumClasses(func(c *status.Class) uint64 { return c.Marked }))
	}
	if a.Trimmed > 0 {
		fmt.Fprintf(w, "trims    %d", a.Trimmed)
		if a.Returned > 0 {
			fmt.Fprintf(w, ", %d of them sent back", a.Returned)
		}
		fmt.Fprintln(w, r.sumClasses(func(c *status.Class) uint64 { return c.Trimmed }))
	}
	if a.Dropped > 0 {
		fmt.Fprintf(w, "drops    %s%s\n", Reasons(a.Drops), r.sumClasses(func(c *status.Class) uint64 { return c.Dropped }))
	}
}

// Reasons formats counts by reason, largest first: "queue-full 12, bad-fcs 1".
func Reasons(m map[string]uint64) string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		if m[names[i]] != m[names[j]] {
			return m[names[i]] > m[names[j]]
		}
		return names[i] < names[j]
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s %d", n, m[n])
	}
	return strings.Join(names, ", ")
}

// trimColumn returns a cell of the column for trimmed packets, which exists
// only if any were trimmed.
func (r *Report) trimColumn(content any) string {
	if r.Accounts.Trimmed == 0 {
		return ""
	}
	return fmt.Sprint(content, "\t")
}

// spanUnits are the units of times in microseconds.
var spanUnits = []units.Prefix{{Name: "s", Per: 1e6}, {Name: "ms", Per: 1e3}, {Name: "us", Per: 1}, {Name: "ns", Per: 1e-3}, {Name: "ps", Per: 1e-6}}

// size formats bytes to three digits.
func size(b float64) string { return units.FormatBrief(b, 3, units.InBytes) }

// Span formats a time to three digits.
func Span(t units.Time) string { return micros(t.Micros()) }

// micros formats microseconds to three digits.
func micros(us float64) string {
	if us == 0 {
		return "0s"
	}
	return units.FormatBrief(us, 3, spanUnits)
}

// Rate formats bits per second to four digits.
func Rate(bps float64) string { return units.FormatBrief(bps, 4, units.InBitsPerSecond) }

// maxPhaseLocks is how many phase locks a text report shows; JSON has them all.
const maxPhaseLocks = 3

// writePhaseLocks says what was lost again and again in the same way, and how to avoid it.
func (r *Report) writePhaseLocks(w io.Writer) {
	var remedies []string
	for i := range r.PhaseLocks {
		x := &r.PhaseLocks[i]
		if i < maxPhaseLocks {
			fmt.Fprintf(w, "phase    %s\n", x.Text())
		}
		if !slices.Contains(remedies, x.Remedy()) {
			remedies = append(remedies, x.Remedy())
		}
	}
	if n := len(r.PhaseLocks) - maxPhaseLocks; n > 0 {
		fmt.Fprintf(w, "phase    and %d more\n", n)
	}
	for _, text := range remedies {
		fmt.Fprintf(w, "phase    %s\n", text)
	}
}

// writeOffload shows what segmentation offload did, if anything.
func (r *Report) writeOffload(w io.Writer) {
	var sum Offload
	for _, h := range r.Hosts {
		o := h.Offload
		if o == nil {
			continue
		}
		sum.Supers, sum.Pieces = sum.Supers+o.Supers, sum.Pieces+o.Pieces
		sum.Written, sum.Writes = sum.Written+o.Written, sum.Writes+o.Writes
		sum.HeldP99, sum.HeldMax = max(sum.HeldP99, o.HeldP99), max(sum.HeldMax, o.HeldMax)
	}
	if sum.Supers == 0 && sum.Written == sum.Writes {
		return
	}
	fmt.Fprintf(w, "offload  %d packets from %d super-packets; %d delivered in %d writes, held for joining p99 %s, max %s\n",
		sum.Pieces, sum.Supers, sum.Written, sum.Writes, Span(sum.HeldP99), Span(sum.HeldMax))
}

// writeHosts names the hosts whose kernel lost packets. It prints a table only
// if there is anything to show.
func (r *Report) writeHosts(w io.Writer) {
	for _, h := range r.Hosts {
		if h.Error != "" {
			fmt.Fprintf(w, "host     %s: counters unknown: %s\n", h.Name, h.Error)
		}
		if g := h.Guest; g != nil && g.Ended != "" {
			fmt.Fprintf(w, "host     %s: its virtual machine ended before the lab: %s\n", h.Name, g.Ended)
		}
		if h.TxDropped > 0 {
			fmt.Fprintf(w, "host     %s: its device dropped %d packets before the fabric (ring full: it sends faster than the emulator reads)\n", h.Name, h.TxDropped)
		}
		if h.NoCarrier > 0 {
			fmt.Fprintf(w, "host     %s: its device dropped %d packets while its link was down\n", h.Name, h.NoCarrier)
		}
		if h.QueueDropped > 0 {
			fmt.Fprintf(w, "host     %s: its queueing discipline dropped %d packets before the fabric\n", h.Name, h.QueueDropped)
		}
		for _, c := range h.Classes {
			if c.Holds > 0 {
				fmt.Fprintf(w, "host     %s: class %s was held in the host %d times, %s in all\n", h.Name, c.Name, c.Holds, Span(c.Held))
			}
		}
		if h.Together != "" {
			fmt.Fprintf(w, "host     %s: its traffic classes were held only all together: %s\n", h.Name, h.Together)
		}
		if h.RxDropped > 0 {
			fmt.Fprintf(w, "host     %s: its kernel dropped %d packets after the fabric\n", h.Name, h.RxDropped)
		}
		if h.Unroutable > 0 {
			fmt.Fprintf(w, "host     %s: sent %d packets to addresses that nobody has on the links of this interface\n", h.Name, h.Unroutable)
		}
	}
}

// writeSockets shows what the hosts' kernels lost after the fabric.
func (r *Report) writeSockets(w io.Writer) {
	for _, s := range r.Sockets {
		if s.Error != "" {
			fmt.Fprintf(w, "host     %s: losses of its sockets are unknown: %s\n", s.Host, s.Error)
		}
		for _, n := range []struct {
			count uint64
			why   string
		}{
			{s.Full, "found the receive buffer of their socket full: the program there reads too slowly, or the buffer is too small (SO_RCVBUF, net.core.rmem_max)"},
			{s.Memory, "found the kernel's limit for all UDP sockets together reached (net.ipv4.udp_mem)"},
			{s.Unopened, "went to ports that no program had open"},
			{s.Checksum, "had a wrong checksum"},
		} {
			if n.count > 0 {
				fmt.Fprintf(w, "host     %s: %d UDP datagrams that the fabric delivered %s\n", s.Host, n.count, n.why)
			}
		}
	}
}

func (t *Timing) write(w io.Writer) {
	l := &t.Lateness
	fmt.Fprintf(w, "lateness p50 %s, p99 %s, p99.9 %s, max %s over %d deliveries\n", Span(l.P50), Span(l.P99), Span(l.P999), Span(l.Max), l.Count)
	if d := units.Time(t.Dilation); d > 1 {
		fmt.Fprintf(w, "         of real time, %d times that: p50 %s, p99 %s, p99.9 %s, max %s\n", d, Span(d*l.P50), Span(d*l.P99), Span(d*l.P999), Span(d*l.Max))
	}
	thread := "ordinary scheduling"
	if t.Realtime {
		thread = "SCHED_FIFO"
	}
	if t.IO == "uring" {
		thread += ", io_uring"
	}
	fmt.Fprintf(w, "cpu      %.2f cores, of which the engine %.2f (%s)\n", t.CPU, t.Engine, thread)
	fmt.Fprintf(w, "fidelity %s\n", t.Verdict())
	if t.Overload != "" {
		fmt.Fprintf(w, "         %s\n", t.Overload)
	}
}

// Reason returns the verdict on a failed run, without the word FAILED.
func (t *Timing) Reason() string { return strings.TrimPrefix(t.Verdict(), failed) }

// failed begins the verdict on a strict run whose limits were not kept.
const failed = "FAILED (strict): "

// Verdict says in one sentence whether the run can be trusted.
func (t *Timing) Verdict() string {
	l := &t.Lateness
	beyond := fmt.Sprintf("%d of %d deliveries (%s) were later than %v", l.Beyond, l.Count, units.FormatPercent(float64(l.Share), 3), l.Limit)
	stood := fmt.Sprintf("emulated time stood still for %s, because the engine could not keep up", Span(t.Stood))
	if t.Absent > 0 {
		stood = fmt.Sprintf("emulated time stood still for %s; the engine was stopped for %s", Span(t.Stood), Span(t.Absent))
	}
	switch {
	case t.Stood > 0 && t.Strict:
		return failed + stood
	case t.Stood > 0:
		return "not kept: " + stood
	case l.Count == 0:
		return "nothing was delivered to a real host"
	case l.Beyond == 0:
		return fmt.Sprintf("kept: every delivery within %v of its emulated time", l.Limit)
	case t.Kept():
		return fmt.Sprintf("kept: %s, %v are allowed", beyond, t.Allowed)
	case t.Strict:
		return failed + beyond
	}
	return "not kept: " + beyond
}
