package report

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// WritePause explains in text why a port did or did not pause its peer.
func WritePause(w io.Writer, c *status.PauseCheck) {
	fmt.Fprintf(w, "%s", c.Port)
	if c.Peer != "" {
		fmt.Fprintf(w, ", which %s sends to,", c.Peer)
	}
	fmt.Fprintf(w, " at %s:\n%s\n", seconds(c.Now), verdict(c))
	if len(c.Rows) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "class\tcame in\tpauses\tfor\tclosest to xoff\theadroom used")
	for _, k := range c.Rows {
		fmt.Fprintf(t, "%s (%d)\t%d\t%d\t%s\t%s\t%s\n", k.Name, k.Priority, k.RxPackets, k.Pauses, Span(k.PausingTime), nearest(&k, c.Global), headroom(&k))
	}
	t.Flush()
	for _, k := range c.Rows {
		writeQueues(w, &k)
	}
	if c.Buffer > 0 {
		fmt.Fprintf(w, "\nthe buffer holds %s of %s now\n", size(float64(c.Held)), size(float64(c.Buffer)))
	}
}

// verdict returns the answer in one or two sentences.
func verdict(c *status.PauseCheck) string {
	if c.Reason != "" {
		return "It cannot pause: " + c.Reason + "."
	}
	var sent, came, near []string
	var other uint64
	for _, k := range c.Rows {
		switch {
		case k.Credits:
		case !k.Lossless:
			other += k.RxPackets
		case k.Pauses > 0:
			sent = append(sent, fmt.Sprintf("%s for %s", k.Name, Span(k.PausingTime)))
		case k.RxPackets == 0:
			came = append(came, k.Name)
		case !k.Xoff.Known:
			near = append(near, fmt.Sprintf("no packet of %s ever waited", k.Name))
		default:
			near = append(near, fmt.Sprintf("%s reached %s of the threshold", k.Name, formatShare(k.Xoff.Used, k.Xoff.Of)))
		}
	}
	var say []string
	if len(sent) > 0 {
		say = append(say, "It paused: "+strings.Join(sent, ", ")+".")
	}
	if len(near) > 0 {
		text := strings.Join(near, "; ") + "."
		say = append(say, strings.ToUpper(text[:1])+text[1:])
	}
	if len(came) > 0 {
		text := fmt.Sprintf("No packet of %s came in", strings.Join(came, ", "))
		if other > 0 {
			text += fmt.Sprintf(", but %d of classes that are not lossless: see the DSCP of the packets and the classes of the switch", other)
		}
		say = append(say, text+".")
	}
	return strings.Join(say, "\n")
}

// nearest says how close a class came to its threshold for a pause.
func nearest(k *status.PauseClass, global bool) string {
	switch {
	case !k.Lossless:
		return "not lossless"
	case k.Credits:
		return "credits in place of pauses"
	case !k.Xoff.Known:
		return "nothing waited"
	}
	kind := "static"
	if k.Dynamic > 0 {
		kind = fmt.Sprintf("alpha %g", k.Dynamic)
	}
	if global {
		kind += ", the whole port"
	}
	return fmt.Sprintf("%s of %s = %s at %s (%s)", size(float64(k.Xoff.Used)), size(float64(k.Xoff.Of)), formatShare(k.Xoff.Used, k.Xoff.Of), Span(k.Xoff.At), kind)
}

func headroom(k *status.PauseClass) string {
	if !k.Lossless || k.Credits {
		return "-"
	}
	return fmt.Sprintf("%s of %s", size(float64(k.HeadroomMax)), size(float64(k.Headroom)))
}

// writeQueues shows where the packets of a lossless class waited.
func writeQueues(w io.Writer, k *status.PauseClass) {
	if !k.Lossless {
		return
	}
	for _, q := range k.Queues {
		fmt.Fprintf(w, "%s at %s: queue up to %s", k.Name, q.Port, size(float64(q.Max)))
		if q.Marking > 0 {
			fmt.Fprintf(w, ", marks from %s on", size(float64(q.Marking)))
		}
		for _, n := range []struct {
			count uint64
			what  string
		}{{q.Marked, "marked"}, {q.Trimmed, "trimmed"}, {q.Dropped, "dropped"}} {
			if n.count > 0 {
				fmt.Fprintf(w, ", %d %s", n.count, n.what)
			}
		}
		if q.Limit.Known {
			fmt.Fprintf(w, ", closest to its limit %s", formatShare(q.Limit.Used, q.Limit.Of))
		}
		fmt.Fprintln(w)
	}
}

// formatShare formats a part of a whole.
func formatShare(n, of units.Bytes) string {
	if of <= 0 {
		return "all"
	}
	return units.FormatPercent(float64(n)/float64(of), 3)
}

// maxPauses is how many paused classes a text report shows; JSON has them all.
const maxPauses = 12

// writePauses shows which classes of which ports were paused, by which port and
// why, the longest first, and the deadlocks.
func (r *Report) writePauses(w io.Writer) {
	type row struct {
		port  *status.Port
		class *status.Class
	}
	byName := map[string]*status.Port{}
	var rows []row
	for i := range r.Ports {
		p := &r.Ports[i]
		byName[p.Name] = p
		for j := range p.Classes {
			if c := &p.Classes[j]; c.PauseRx > 0 {
				rows = append(rows, row{p, c})
			}
		}
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].class.PausedTime > rows[j].class.PausedTime })
	if len(rows) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "paused\tclass\tfor\tof the run\tpauses\tby\tbecause of")
		for _, x := range rows[:min(len(rows), maxPauses)] {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", x.port.Name, x.class.Name, Span(x.class.PausedTime),
				units.FormatPercent(x.class.PausedTime.Seconds()/r.Emulated.Seconds(), 3), x.class.PauseRx, x.port.Peer, causes(byName[x.port.Peer], x.class.Priority))
		}
		t.Flush()
		if n := len(rows) - maxPauses; n > 0 {
			fmt.Fprintf(w, "and %d more paused classes\n", n)
		}
		for _, x := range rows {
			if x.class.Stormed > 0 {
				fmt.Fprintf(w, "watchdog stepped in %d times at %s, class %s\n", x.class.Stormed, x.port.Name, x.class.Name)
			}
		}
	}
	r.writeCredits(w)
	for i := range r.Deadlocks {
		fmt.Fprintln(w, r.Deadlocks[i].Text())
	}
}

// writeCredits shows which classes of which ports had to wait for credit, the longest first.
func (r *Report) writeCredits(w io.Writer) {
	type row struct {
		port  *status.Port
		class *status.Class
	}
	var rows []row
	for i := range r.Ports {
		p := &r.Ports[i]
		for j := range p.Classes {
			if c := &p.Classes[j]; c.CreditSpent != nil && c.CreditSpent.Waits > 0 {
				rows = append(rows, row{p, c})
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].class.PausedTime > rows[j].class.PausedTime })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "without credit\tclass\tfor\tof the run\twaits\tof\tits buffer\tupdates")
	for _, x := range rows[:min(len(rows), maxPauses)] {
		s := x.class.CreditSpent
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\n", x.port.Name, x.class.Name, Span(x.class.PausedTime),
			units.FormatPercent(x.class.PausedTime.Seconds()/r.Emulated.Seconds(), 3), s.Waits, x.port.Peer, size(float64(s.Buffer)), s.Updates)
	}
	t.Flush()
	if n := len(rows) - maxPauses; n > 0 {
		fmt.Fprintf(w, "and %d more classes without credit\n", n)
	}
}

// causes names the ports whose full queues made a port pause its peer.
func causes(p *status.Port, prio uint8) string {
	if p == nil {
		return ""
	}
	for _, c := range p.Classes {
		if c.Priority != prio {
			continue
		}
		list := slices.Clone(c.PauseCauses)
		sort.SliceStable(list, func(i, j int) bool { return list[i].Time > list[j].Time })
		var names []string
		for _, x := range list[:min(len(list), 3)] {
			names = append(names, x.Port)
		}
		return strings.Join(names, ", ")
	}
	return ""
}
