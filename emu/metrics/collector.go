// Package metrics exports samples of a lab in Prometheus's text format. Names
// and units follow Prometheus's conventions: base units (bytes, seconds),
// counters end in _total. docs/metrics.md lists them.
package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
)

// Collector collects the metrics of one sample. All values of a sample are from
// the same moment, so sums in a query are consistent.
type Collector struct{ sample *report.Sample }

// New returns the collector of a sample. With a nil sample it describes the
// metrics but collects none.
func New(s *report.Sample) *Collector { return &Collector{s} }

// metric is one metric of a T: the lab, a port, a link, a class or a NIC.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64 // NaN if there is none
}

func counter[T any](labels []string, name, help string, value func(*T) float64) metric[T] {
	return metric[T]{describe(labels, name, help), prometheus.CounterValue, value}
}

func gauge[T any](labels []string, name, help string, value func(*T) float64) metric[T] {
	return metric[T]{describe(labels, name, help), prometheus.GaugeValue, value}
}

func describe(labels []string, name, help string) *prometheus.Desc {
	return prometheus.NewDesc("weft_"+name, help, labels, nil)
}

// emit sends the metrics of a list that x has.
func emit[T any](out chan<- prometheus.Metric, list []metric[T], x *T, labels ...string) {
	for _, m := range list {
		if v := m.value(x); !math.IsNaN(v) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
		}
	}
}

func describeAll[T any](out chan<- *prometheus.Desc, list []metric[T]) {
	for _, m := range list {
		out <- m.desc
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	describeAll(out, labMetrics)
	describeAll(out, portMetrics)
	describeAll(out, linkMetrics)
	describeAll(out, classMetrics)
	describeAll(out, switchMetrics)
	describeAll(out, nicMetrics)
	describeUnits(out, pointGauges)
	describeUnits(out, flowGauges)
	describeAll(out, edgeMetrics)
	describeAll(out, edgeFlowMetrics)
	describeUnits(out, edgeGauges)
	describeUnits(out, edgeFlowGauges)
	for _, d := range []*prometheus.Desc{labDropped, portInfo, portDropped, pauseCause, nicQueuePairs} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.sample
	if s == nil {
		return
	}
	emit(out, labMetrics, s, s.Lab)
	for _, reason := range reasons {
		out <- prometheus.MustNewConstMetric(labDropped, prometheus.CounterValue, float64(s.Accounts.Drops[reason]), s.Lab, reason)
	}
	for i := range s.Ports {
		collectPort(out, s.Lab, &s.Ports[i])
	}
	for i := range s.Switches {
		emit(out, switchMetrics, &s.Switches[i], s.Lab, s.Switches[i].Name)
	}
	for i := range s.NICs {
		collectNIC(out, s.Lab, &s.NICs[i])
	}
}

func collectPort(out chan<- prometheus.Metric, lab string, p *status.Port) {
	out <- prometheus.MustNewConstMetric(portInfo, prometheus.GaugeValue, 1, lab, p.Node, p.Name, p.Kind, p.Peer)
	emit(out, portMetrics, p, lab, p.Node, p.Name)
	collectUnits(out, pointGauges, p.Gauges, lab, p.Node, p.Name, "")
	if p.Edge != nil {
		collectEdge(out, lab, p.Node, p.Name, p.Edge)
	}
	for reason, n := range p.Drops {
		out <- prometheus.MustNewConstMetric(portDropped, prometheus.CounterValue, float64(n), lab, p.Node, p.Name, reason)
	}
	if p.Link != nil {
		emit(out, linkMetrics, p.Link, lab, p.Node, p.Name)
	}
	for i := range p.Classes {
		c := &p.Classes[i]
		emit(out, classMetrics, c, lab, p.Node, p.Name, c.Name)
		collectUnits(out, pointGauges, c.Gauges, lab, p.Node, p.Name, c.Name)
		for _, cause := range c.PauseCauses {
			out <- prometheus.MustNewConstMetric(pauseCause, prometheus.CounterValue, cause.Time.Seconds(), lab, p.Node, p.Name, c.Name, cause.Port)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
