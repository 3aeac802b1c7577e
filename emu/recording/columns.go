package recording

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/switches/congestion"
)

// QueueColumns returns the names of all columns that a series of queues can have in any lab.
func QueueColumns() []string {
	var points, edges [][]gauge.Gauge
	for _, name := range congestion.Points.Names() {
		points = append(points, congestion.Points.Kind(name).Gauges)
	}
	for _, name := range edge.Services.Names() {
		edges = append(edges, edge.Services.Kind(name).Gauges)
	}
	names := appendColumns(series.Columns[:], series.OfPoint, points)
	return appendColumns(names, series.OfEdge, edges)
}

// FlowColumns returns the names of all columns that a series of flows can have in any lab.
func FlowColumns() []string {
	var flows [][]gauge.Gauge
	for _, name := range cc.Methods.Names() {
		flows = append(flows, cc.Methods.Kind(name).Gauges)
	}
	for _, name := range nicemu.Layers.Names() {
		flows = append(flows, nicemu.Layers.Kind(name).Gauges)
	}
	for _, name := range edge.Services.Names() {
		flows = append(flows, edge.Services.Kind(name).FlowGauges)
	}
	return appendColumns(series.FlowColumns[:], series.OfControl, flows)
}

// appendColumns returns names and those of the gauges of an owner.
func appendColumns(names []string, of series.Owner, lists [][]gauge.Gauge) []string {
	names = names[:len(names):len(names)]
	all, _ := series.GaugeColumns(of, lists)
	for _, g := range all {
		names = append(names, g.ColumnName())
	}
	return names
}
