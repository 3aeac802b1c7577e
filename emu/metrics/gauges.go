package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftlab/weft/emu/status"
	systems "github.com/weftlab/weft/sim/gauge"
)

// The gauges of congestion points and rate controls depend on their kind: a metric has
// the values of one unit, and a label names the gauge. For the flows of a NIC, whose
// number is not limited, there are the minimum, the mean and the maximum.
var (
	pointGauges = byUnit("point_", append(classLabels[:len(classLabels):len(classLabels)], "gauge"),
		"of the congestion point of an egress queue, by gauge; class is empty where the port has one queue.")
	flowGauges = byUnit("nic_flow_", append(portLabels[:len(portLabels):len(portLabels)], "gauge", "stat"),
		"of the NIC's connected queue pairs (rate, window and the gauges of rate control), by gauge; stat is min, mean or max.")
)

// inUnit is the metric of the gauges of a unit. Its values are the gauges' times the
// factor.
type inUnit struct {
	*prometheus.Desc
	factor float64
}

func byUnit(prefix string, labels []string, help string) map[systems.Unit]inUnit {
	value := describe(labels, prefix+"value", "Numbers, and 1 for yes and 0 for no, "+help)
	return map[systems.Unit]inUnit{
		systems.Number: {value, 1}, systems.YesNo: {value, 1},
		systems.Bytes:         {describe(labels, prefix+"bytes", "Bytes "+help), 1},
		systems.BitsPerSecond: {describe(labels, prefix+"bytes_per_second", "Rates "+help), 1.0 / 8},
		systems.Seconds:       {describe(labels, prefix+"seconds", "Times "+help), 1},
		systems.Share:         {describe(labels, prefix+"ratio", "Shares from 0 to 1 "+help), 1},
	}
}

func describeUnits(out chan<- *prometheus.Desc, units map[systems.Unit]inUnit) {
	for unit, m := range units {
		if unit != systems.YesNo { // shares the metric of numbers
			out <- m.Desc
		}
	}
}

// collectUnits sends the values of gauges, each in the metric of its unit.
func collectUnits(out chan<- prometheus.Metric, units map[systems.Unit]inUnit, values []systems.Value, labels ...string) {
	for _, v := range values {
		m := units[v.Unit]
		out <- prometheus.MustNewConstMetric(m.Desc, prometheus.GaugeValue, m.factor*v.Value, append(labels[:len(labels):len(labels)], v.Name)...)
	}
}

func collectFlows(out chan<- prometheus.Metric, gauges []status.FlowGauge, labels ...string) {
	for _, g := range gauges {
		m := flowGauges[g.Unit]
		for stat, v := range map[string]float64{"min": g.Min, "mean": g.Mean, "max": g.Max} {
			out <- prometheus.MustNewConstMetric(m.Desc, prometheus.GaugeValue, m.factor*v, append(labels[:len(labels):len(labels)], g.Name, stat)...)
		}
	}
}
