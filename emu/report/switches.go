package report

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// writeSwitches shows the switches that learned or flooded. Addresses of the lab file need
// neither.
func (r *Report) writeSwitches(w io.Writer) {
	if len(r.Switches) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "switch\tunknown unicast\tMACs\tlearned\tmoved\taged\tflushed\ttable full")
	for _, s := range r.Switches[:min(len(r.Switches), maxPorts)] {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Name, s.Unknown, s.Entries, s.Learned, s.Moved, s.Aged, s.Flushed, s.Full)
	}
	t.Flush()
	if n := len(r.Switches) - maxPorts; n > 0 {
		fmt.Fprintf(w, "and %d more switches that learned or flooded\n", n)
	}
}
