package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/sim/units"
)

// The text output has 80 columns.
const (
	columns   = 80
	nameWidth = 20
	indent    = 2 + 6 + nameWidth // where the finding begins
)

// Write prints the result as text.
func (r *Result) Write(w io.Writer) {
	group := ""
	for _, c := range r.Checks {
		if c.Group != group {
			group = c.Group
			fmt.Fprintln(w, group)
		}
		c.printCheck(w)
	}
	fmt.Fprintln(w, "measured")
	for _, l := range r.lines() {
		printRow(w, l[0], l[1])
	}
	writeLeftOut(w, r.LeftOut)
	fmt.Fprintln(w, "prediction")
	for _, l := range r.Predict.lines() {
		printRow(w, l[0], l[1])
	}
	writeLeftOut(w, r.Predict.LeftOut)
	if n := r.Need; n != nil {
		fmt.Fprintf(w, "slow motion for lab %s\n", n.Lab)
		printRow(w, "what it needs", n.text())
	}
	fmt.Fprintf(w, "%s\n  %s\n", r.Verdict, wrapText(r.Summary, 2))
}

// printCheck prints a check: the finding, what it means and, unless the verdict is
// OK, the fix.
func (c *Check) printCheck(w io.Writer) {
	text := c.Found
	if c.Means != "" {
		text += ": " + c.Means
	}
	fmt.Fprintf(w, "  %-6s%-*s%s\n", c.Verdict, nameWidth, c.Name+" ", wrapText(text, indent))
	if c.Verdict != OK && c.Fix != "" {
		fmt.Fprintf(w, "%*s%s\n", indent, "", wrapText("> "+c.Fix, indent))
	}
}

func writeLeftOut(w io.Writer, all []LeftOut) {
	for _, l := range all {
		printRow(w, "left out", l.What+": "+l.Why)
	}
}

// printRow prints a line without a verdict. Its text begins in the same column as
// that of a check.
func printRow(w io.Writer, name, text string) {
	fmt.Fprintf(w, "  %-*s%s\n", indent-2, name+" ", wrapText(text, indent))
}

func (r *Result) lines() (l [][2]string) {
	add := func(name, format string, v ...any) { l = append(l, [2]string{name, fmt.Sprintf(format, v...)}) }
	add("reading the clock", "%s", r.ClockRead)
	for _, s := range []struct {
		name string
		*Sleep
	}{{"sleep of 100us", r.Sleep}, {"the same, SCHED_FIFO", r.SleepFIFO}} {
		if s.Sleep != nil {
			add(s.name, "late by %s (p50), %s (p99), %s (max)", report.Span(s.P50), report.Span(s.P99), report.Span(s.Max))
		}
	}
	if r.WakeUp != nil {
		add("wake-up of a thread", "%s", report.Span(*r.WakeUp))
	}
	if d := r.Devices; d != nil {
		for _, p := range []struct {
			size int
			rate float64
		}{{64, d.Small}, {1472, d.Large}} {
			if p.rate > 0 {
				add(fmt.Sprintf("UDP, %d bytes", p.size), "%s packets/s through two TAPs, bare loop", formatCount(p.rate))
			}
		}
		for _, t := range []struct {
			name string
			rate units.Rate
		}{{"TCP, MTU 1500", d.TCP1500}, {"TCP, MTU 9000", d.TCP9000}, {"TCP, 1500, offload", d.Offload}} {
			if t.rate > 0 {
				add(t.name, "%s through two TAPs, bare loop", showRate(t.rate))
			}
		}
	}
	if r.Virtual != nil {
		add("virtual time", "%s packet-hops/s, fat-tree of 128 hosts", formatCount(r.Virtual.Hops))
	}
	return l
}

func (p *Prediction) lines() (l [][2]string) {
	add := func(known bool, name, format string, v ...any) {
		if known {
			l = append(l, [2]string{name, fmt.Sprintf(format, v...)})
		}
	}
	add(p.Packets > 0, "one engine moves", "%s packets/s", formatCount(p.Packets))
	add(p.TCP1500 > 0, "a TCP stream", "%s at MTU 1500", showRate(p.TCP1500))
	add(p.TCP9000 > 0, "", "%s at MTU 9000", showRate(p.TCP9000))
	add(p.Offload > 0, "", "%s at MTU 1500 with segmentation offload", showRate(p.Offload))
	add(p.RoundTrip > 0, "round trip, idle", "%s more than over a wire with one switch; %s for each further switch", report.Span(p.RoundTrip), report.Span(p.RoundPerHop))
	add(p.LatenessP99 > 0, "lateness", "%s (p99), while the engine has time to sleep", report.Span(p.LatenessP99))
	add(true, "real hosts", "%d, limited by %s", p.Hosts, p.HostsLimit)
	add(p.VirtualHops > 0, "virtual time", "%s packet-hops/s", formatCount(p.VirtualHops))
	return l
}

// wrapText breaks text at blanks so that it fits next to an indent. The lines after
// the first have the indent.
func wrapText(text string, indent int) string {
	var b strings.Builder
	room := columns - indent
	used := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case used+1+len(word) > room:
			fmt.Fprintf(&b, "\n%*s", indent, "")
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += len(word)
	}
	return b.String()
}

func showRate(r units.Rate) string { return report.Rate(float64(r)) }

// formatCount prints a number to three digits.
func formatCount(v float64) string {
	switch {
	case v >= 1e6:
		return units.FormatDigits(v/1e6, 3) + " million"
	case v >= 1e3:
		return fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
	}
	return units.FormatDigits(v, 3)
}

// formatAmount prints bytes to three digits.
func formatAmount(b units.Bytes) string {
	if b >= units.GB {
		return units.FormatDigits(float64(b)/float64(units.GB), 3) + " GB"
	}
	return units.FormatDigits(float64(b)/float64(units.MB), 3) + " MB"
}
