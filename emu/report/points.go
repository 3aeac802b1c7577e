package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/gauge"
)

// WritePoints prints the current gauges of the ports' congestion points, a line
// for each queue that has one; nothing if none has. The class is "-" if the port
// has one queue.
func WritePoints(w io.Writer, ports []status.Port) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	begun := false
	line := func(port, class string, gauges []gauge.Value) {
		if len(gauges) == 0 {
			return
		}
		if !begun {
			fmt.Fprintln(t, "\nPORT\tCLASS\tCONGESTION POINT")
			begun = true
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", port, class, gaugesText(gauges))
	}
	for i := range ports {
		p := &ports[i]
		line(p.Name, "-", p.Gauges)
		for k := range p.Classes {
			line(p.Name, p.Classes[k].Name, p.Classes[k].Gauges)
		}
	}
	t.Flush()
}

// gaugesText formats gauges in a line.
func gaugesText(gauges []gauge.Value) string {
	texts := make([]string, len(gauges))
	for i, g := range gauges {
		texts[i] = strings.ReplaceAll(g.Name, "_", " ") + " " + gaugeText(g)
	}
	return strings.Join(texts, ", ")
}
