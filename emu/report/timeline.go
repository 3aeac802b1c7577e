package report

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/traffic/workload"
)

// maxMoments is how many moments a text report shows; JSON has them all.
const maxMoments = 30

// writeTimeline shows what happened and when; of many moments, the first and the last.
func (r *Report) writeTimeline(w io.Writer) {
	if len(r.Timeline) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "at\tevent\twhere\t")
	for i := range r.Timeline {
		if left := len(r.Timeline) - maxMoments; left > 0 && i >= maxMoments/2 && i < maxMoments/2+left {
			if i == maxMoments/2 {
				fmt.Fprintf(t, "...\tand %d more\t\t\n", left)
			}
			continue
		}
		m := &r.Timeline[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", seconds(m.At), m.Event, m.Place(), strings.TrimSpace(m.Text+by(m)))
	}
	t.Flush()
}

// by says what changed a link, if it was not the lab file.
func by(m *status.Moment) string {
	if m.By == status.BySet {
		return " (weft set)"
	}
	return ""
}

// maxOutages is how many outages a text report shows.
const maxOutages = 20

// writeOutages shows which flows and transfers stood still, the longest first.
func (r *Report) writeOutages(w io.Writer) {
	if len(r.Outages) == 0 {
		return
	}
	list := make([]*workload.Outage, len(r.Outages))
	for i := range r.Outages {
		list[i] = &r.Outages[i]
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Over != b.Over {
			return b.Over
		}
		return a.Length > b.Length
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "stood still\tfrom\tto\tsince\tfor\tlost")
	for _, o := range list[:min(len(list), maxOutages)] {
		length, lost := Span(o.Length), "-"
		if !o.Over {
			length = "to the end"
		}
		if o.Flow != "" {
			lost = fmt.Sprint(o.Lost)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", o.Flow+o.Of, o.From, o.To, seconds(o.Start), length, lost)
	}
	t.Flush()
	if n := len(list) - maxOutages; n > 0 {
		fmt.Fprintf(w, "and %d more outages\n", n)
	}
}
