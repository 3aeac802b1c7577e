package limit

import (
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// FlowGauges implements edge.Service: those of the rate control.
func (l *limiter) FlowGauges() []gauge.Gauge { return cc.Methods.Kind(l.Control.Name).Gauges }

// FlowCount implements edge.Service. Flows that share a queue count as one.
func (l *limiter) FlowCount(now units.Time) int {
	n := len(l.flows) - l.countOld(now)
	if l.shared != nil {
		n++
	}
	return n
}

// countOld returns how many flows are old.
func (l *limiter) countOld(now units.Time) (n int) {
	for f := l.idle.First(); f != nil && l.isOld(now, f); f = l.idle.Next(&f.inIdle) {
		n++
	}
	return n
}

// EachFlow implements edge.Service.
func (l *limiter) EachFlow(now units.Time, each func(x *edge.Flow) bool) {
	for f := range l.order.All() {
		if !each(l.flowState(now, f)) {
			return
		}
	}
}

// OnFlowEnd implements edge.Service.
func (l *limiter) OnFlowEnd(onEnd func(now units.Time, x *edge.Flow)) { l.onFlowEnd = onEnd }

// flowState returns the state of a flow, valid until the next call.
func (l *limiter) flowState(now units.Time, f *flow) *edge.Flow {
	l.runControlTimer(now, f)
	l.shown = edge.Flow{
		Number: f.number, Aged: l.isOld(now, f), Key: f.key, Priority: f.prio, Packets: f.count, Bytes: f.bytes, Rate: f.control.Rate(),
		TxPackets: f.txPackets, TxBytes: f.txBytes, Dropped: f.lost, Gauges: f.control.AppendGauges(now, l.shown.Gauges[:0]),
	}
	return &l.shown
}
