package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
)

// nicCounters are the counters of a NIC under their usual names, in base units.
// A NIC has the same labels as its port, so that queries can join the two.
var nicCounters = func() (list []metric[status.NIC]) {
	for i, info := range nicemu.CounterInfos() {
		name, help, unit := info.Name, strings.ToUpper(info.Meaning[:1])+info.Meaning[1:]+".", 1.0
		switch name {
		case "port_xmit_data":
			name, help, unit = "port_xmit_data_bytes", "Bytes of RoCE frames sent, without FCS, in steps of 4.", 4
		case "port_rcv_data":
			name, help, unit = "port_rcv_data_bytes", "Bytes of RoCE frames received, without FCS, in steps of 4.", 4
		case "received_payload":
			name = "received_payload_bytes"
		}
		list = append(list, counter(portLabels, "nic_"+name+"_total", help, func(n *status.NIC) float64 { return unit * float64(n.Counters[i]) }))
	}
	return list
}()

var nicMetrics = append(nicCounters,
	gauge(portLabels, "nic_limited_queue_pairs", "Queue pairs that rate control holds below line rate now.",
		func(n *status.NIC) float64 { return float64(n.Limited) }),
	gauge(portLabels, "nic_completion_queues", "Completion queues in use.",
		func(n *status.NIC) float64 { return float64(n.CQs) }),
	gauge(portLabels, "nic_memory_regions", "Memory regions in use.",
		func(n *status.NIC) float64 { return float64(n.MRs) }),
)

var nicQueuePairs = describe([]string{"lab", "node", "port", "state"}, "nic_queue_pairs", "Queue pairs by state, named as in ibv_qp_state.")

func collectNIC(out chan<- prometheus.Metric, lab string, n *status.NIC) {
	emit(out, nicMetrics, n, lab, n.Node, n.Name)
	collectFlows(out, n.Flows, lab, n.Node, n.Name)
	for state, k := range n.States {
		out <- prometheus.MustNewConstMetric(nicQueuePairs, prometheus.GaugeValue, float64(k), lab, n.Node, n.Name, qp.State(state).String())
	}
}
