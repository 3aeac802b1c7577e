package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/sim/gauge"
)

// writeEdges prints a line for each edge service that interfaces have: what they count,
// together.
func (r *Report) writeEdges(w io.Writer) {
	type total struct {
		fabric.EdgeStatus
		ports int
	}
	var totals []*total
	for i := range r.Ports {
		e := r.Ports[i].Edge
		if e == nil {
			continue
		}
		at := slices.IndexFunc(totals, func(t *total) bool { return t.Service == e.Service })
		if at < 0 {
			at = len(totals)
			totals = append(totals, &total{EdgeStatus: fabric.EdgeStatus{Service: e.Service}})
		}
		totals[at].Add(e)
		totals[at].ports++
	}
	for _, t := range totals {
		fmt.Fprintf(w, "edge     %s at %d interfaces: %d packets wait", t.Service, t.ports, t.QueuePackets)
		shown := slices.DeleteFunc(t.Gauges, func(g gauge.Value) bool { return !g.Brief && g.Value == 0 })
		if len(shown) > 0 {
			fmt.Fprint(w, ", "+gaugesText(shown))
		}
		fmt.Fprintln(w)
	}
}

// WriteEdgeFlows prints a line for each flow that edge services tell apart, at most limit
// of them; 0 is without limit.
func WriteEdgeFlows(w io.Writer, flows []fabric.EdgeFlow, limit int) {
	if len(flows) == 0 {
		fmt.Fprintln(w, "no edge service knows a flow")
		return
	}
	shown := flows
	if limit > 0 {
		shown = flows[:min(len(flows), limit)]
	}
	gauges := gaugeColumns(len(shown), func(i int) []gauge.Value { return shown[i].Gauges })
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"port", "flow", "class", "rate", "waiting", "sent", "dropped"}
	for _, name := range gauges {
		head = append(head, strings.ReplaceAll(name, "_", "-"))
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for i := range shown {
		f := &shown[i]
		rate := "unlimited"
		if f.Rate > 0 {
			rate = Rate(float64(f.Rate))
		}
		line := []string{f.Port, flowText(f), f.Class, rate, size(float64(f.QueueBytes)), size(float64(f.TxBytes)), fmt.Sprint(f.Dropped)}
		for _, name := range gauges {
			line = append(line, gaugeOf(f.Gauges, name))
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	t.Flush()
	if more := len(flows) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more flows\n", more)
	}
}

// flowText names a flow, such as "tcp 10.0.0.1:5201 > 10.0.0.2:40000".
func flowText(f *fabric.EdgeFlow) string {
	if f.Flow != "" {
		return f.Flow + " " + f.Ends()
	}
	return f.Name()
}
