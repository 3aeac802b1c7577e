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
	fmt.Fprintln(t, "class\tcame in\tpauses\tframes\tfor\tclosest to xoff\theadroom used\tfound no room")
	for _, k := range c.Rows {
		fmt.Fprintf(t, "%s (%d)\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", k.Name, k.Priority, k.RxPackets, k.Pauses, k.PauseFrames, Span(k.PausingTime), nearest(&k, c.Global), headroom(&k), refused(&k))
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
			near = append(near, fmt.Sprintf("class %s reached %s of the threshold", k.Name, formatShare(k.Xoff.Used, k.Xoff.Of)))
		}
	}
	var say []string
	for i := range c.Rows {
		if k := &c.Rows[i]; k.Refused > 0 {
			say = append(say, lostForHeadroom(k))
		}
	}
	if len(sent) > 0 {
		say = append(say, "It paused: "+strings.Join(sent, ", ")+".")
	}
	if len(near) > 0 {
		text := strings.Join(near, "; ") + "." // it never begins with a name, which is as in the file
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

// lostForHeadroom says how many packets of a class found no room, and why.
func lostForHeadroom(k *status.PauseClass) string {
	text := fmt.Sprintf("%d packets of %s found no room in its headroom of %s", k.Refused, k.Name, size(float64(k.Headroom)))
	switch {
	case k.Needed > k.Headroom:
		return text + fmt.Sprintf(": the link needs %s, which is %s.", size(float64(k.Needed)), k.Follows)
	case k.Needed > 0:
		return text + fmt.Sprintf(", though the link needs no more than %s: the peer sent what it was asked not to send, or packets came in several copies.", size(float64(k.Needed)))
	}
	return text + "."
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

// refused says how many packets found no room in the headroom.
func refused(k *status.PauseClass) string {
	if !k.Lossless || k.Credits {
		return "-"
	}
	return fmt.Sprint(k.Refused)
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

// writePauses shows the pauses and the deadlocks.
func (r *Report) writePauses(w io.Writer) {
	WritePauses(w, r.Ports, r.Emulated)
	r.writeCredits(w)
	for i := range r.Deadlocks {
		fmt.Fprintln(w, r.Deadlocks[i].Text())
	}
}

// WritePauses shows which classes of which ports were paused, by which port and why, the
// longest first, and which ports ignored pauses. Emulated is the length of the run.
func WritePauses(w io.Writer, ports []status.Port, emulated units.Time) {
	type row struct {
		port  *status.Port
		class *status.Class
	}
	byName := map[string]*status.Port{}
	var rows []row
	for i := range ports {
		p := &ports[i]
		byName[p.Name] = p
		for j := range p.Classes {
			if c := &p.Classes[j]; c.PausedCount > 0 {
				rows = append(rows, row{p, c})
			}
		}
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].class.PausedTime > rows[j].class.PausedTime })
	if len(rows) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "paused\tclass\tfor\tof the run\tpauses\tframes\tby\tbecause of")
		for _, x := range rows[:min(len(rows), maxPauses)] {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", x.port.Name, x.class.Name, Span(x.class.PausedTime),
				units.FormatPercent(x.class.PausedTime.Seconds()/emulated.Seconds(), 3), x.class.PausedCount, x.class.PauseFramesRx, x.port.Peer, causes(byName[x.port.Peer], x.class.Priority))
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
	writeIgnored(w, ports)
}

// writeIgnored shows which ports were asked for pauses that they do not obey, most often first.
func writeIgnored(w io.Writer, all []status.Port) {
	var ports []*status.Port
	for i := range all {
		if p := &all[i]; p.PauseIgnored > 0 {
			ports = append(ports, p)
		}
	}
	if len(ports) == 0 {
		return
	}
	sort.SliceStable(ports, func(i, j int) bool { return ports[i].PauseIgnored > ports[j].PauseIgnored })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ignored pauses\tframes\tfrom\tof classes")
	for _, p := range ports[:min(len(ports), maxPauses)] {
		var classes []string
		for _, c := range p.Classes {
			if c.PauseIgnored > 0 {
				classes = append(classes, c.Name)
			}
		}
		of := strings.Join(classes, ", ")
		if of == "" {
			of = "none of its own"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", p.Name, p.PauseIgnored, p.Peer, of)
	}
	t.Flush()
	if n := len(ports) - maxPauses; n > 0 {
		fmt.Fprintf(w, "and %d more ports that ignored pauses\n", n)
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
