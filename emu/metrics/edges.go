package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftlab/weft/emu/status"
	systems "github.com/weftlab/weft/sim/gauge"
)

// The gauges of edge services and their flows depend on the service and on the rate
// control, as in gauges.go. A sample has a few flows of each service, the oldest ones.
var (
	edgeLabels     = append(portLabels[:len(portLabels):len(portLabels)], "service")
	edgeFlowLabels = append(portLabels[:len(portLabels):len(portLabels)], "flow")

	edgeGauges = byUnit("edge_", append(edgeLabels[:len(edgeLabels):len(edgeLabels)], "gauge"),
		"of the edge service of a host's interface, by gauge.")
	edgeFlowGauges = byUnit("edge_flow_", append(edgeFlowLabels[:len(edgeFlowLabels):len(edgeFlowLabels)], "gauge"),
		"of the oldest flows of an edge service (rate and the gauges of rate control), by gauge.")
)

var edgeMetrics = []metric[status.Edge]{
	gauge(edgeLabels, "edge_queue_packets", "Packets that wait in the edge service now.",
		func(e *status.Edge) float64 { return float64(e.QueuePackets) }),
	gauge(edgeLabels, "edge_queue_bytes", "Bytes that wait in the edge service now.",
		func(e *status.Edge) float64 { return float64(e.QueueBytes) }),
	gauge(edgeLabels, "edge_flows_left_out", "Flows that the edge service tracks but that have no metrics, because others are older.",
		func(e *status.Edge) float64 { return float64(e.FlowsLeftOut) }),
}

var edgeFlowMetrics = []metric[status.EdgeFlow]{
	counter(edgeFlowLabels, "edge_flow_transmit_packets_total", "Packets of the flow that the port took from the edge service since the flow became known.",
		func(f *status.EdgeFlow) float64 { return float64(f.TxPackets) }),
	counter(edgeFlowLabels, "edge_flow_transmit_bytes_total", "Bytes of the frames of those packets, without FCS.",
		func(f *status.EdgeFlow) float64 { return float64(f.TxBytes) }),
	counter(edgeFlowLabels, "edge_flow_dropped_packets_total", "Packets of the flow that did not fit since the flow became known.",
		func(f *status.EdgeFlow) float64 { return float64(f.Dropped) }),
	gauge(edgeFlowLabels, "edge_flow_queue_packets", "Packets of the flow that wait in the edge service now.",
		func(f *status.EdgeFlow) float64 { return float64(f.QueuePackets) }),
	gauge(edgeFlowLabels, "edge_flow_queue_bytes", "Bytes of the flow that wait in the edge service now.",
		func(f *status.EdgeFlow) float64 { return float64(f.QueueBytes) }),
}

func collectEdge(out chan<- prometheus.Metric, lab, node, port string, e *status.Edge) {
	shown, leftOut := map[string]bool{}, *e
	for i := range e.Flows {
		f := &e.Flows[i]
		name := f.Name()
		if shown[name] { // a service may distinguish flows of the same name
			leftOut.FlowsLeftOut++
			continue
		}
		shown[name] = true
		emit(out, edgeFlowMetrics, f, lab, node, port, name)
		collectUnits(out, edgeFlowGauges, flowValues(f), lab, node, port, name)
	}
	emit(out, edgeMetrics, &leftOut, lab, node, port, e.Service)
	collectUnits(out, edgeGauges, e.Gauges, lab, node, port, e.Service)
}

// flowValues returns the rate of a flow, if it has a limit, and the gauges of its rate control.
func flowValues(f *status.EdgeFlow) []systems.Value {
	var values []systems.Value
	if f.Rate > 0 {
		values = append(values, systems.Value{Name: "rate", Unit: systems.BitsPerSecond, Value: systems.RateValue(f.Rate)})
	}
	for _, g := range f.Gauges {
		if g.Name != "rate" { // the same value
			values = append(values, g)
		}
	}
	return values
}
