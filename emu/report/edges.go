package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/gauge"
)

// maxReportFlows is how many flows of edge services a text report shows.
const maxReportFlows = 10

// writeEdges prints a line for each edge service in use, with the sums of its counters,
// and the oldest flows of each, a few in total unless all were requested.
func (r *Report) writeEdges(w io.Writer) {
	type total struct {
		status.Edge
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
			totals = append(totals, &total{Edge: status.Edge{Service: e.Service}})
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
	var flows []status.EdgeFlow
	leftOut := 0
	for i := range r.Ports {
		if e := r.Ports[i].Edge; e != nil {
			flows, leftOut = append(flows, e.Flows...), leftOut+e.FlowsLeftOut
		}
	}
	if len(flows) > 0 && r.EdgeFlows == nil {
		writeEdgeFlows(w, flows[:min(len(flows), maxReportFlows)], len(flows)+leftOut)
	}
}

// WriteEdges prints the current state of the ports' edge services, a line for each;
// nothing if there are none.
func WriteEdges(w io.Writer, ports []status.Port) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	begun := false
	for i := range ports {
		e := ports[i].Edge
		if e == nil {
			continue
		}
		if !begun {
			fmt.Fprintln(t, "\nPORT\tEDGE SERVICE")
			begun = true
		}
		text := e.Service
		if len(e.Gauges) > 0 {
			text += ": " + gaugesText(e.Gauges)
		}
		fmt.Fprintf(t, "%s\t%s\n", ports[i].Name, text)
	}
	t.Flush()
}

// WriteEdgeFlows prints a line for each flow that edge services distinguish, at most
// limit of them; 0 means no limit.
func WriteEdgeFlows(w io.Writer, flows []status.EdgeFlow, limit int) {
	if len(flows) == 0 {
		fmt.Fprintln(w, "no edge service has flows")
		return
	}
	shown := flows
	if limit > 0 {
		shown = flows[:min(len(flows), limit)]
	}
	writeEdgeFlows(w, shown, len(flows))
}

// writeEdgeFlows prints the shown flows and how many there are in all.
func writeEdgeFlows(w io.Writer, shown []status.EdgeFlow, all int) {
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
	if more := all - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more flows\n", more)
	}
}

// flowText names a flow, such as "tcp 10.0.0.1:5201 > 10.0.0.2:40000".
func flowText(f *status.EdgeFlow) string {
	if f.Flow != "" {
		return f.Flow + " " + f.Ends()
	}
	return f.Name()
}
