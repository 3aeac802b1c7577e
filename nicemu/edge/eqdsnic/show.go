package eqdsnic

import (
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// AppendGauges implements edge.Service.
func (s *service) AppendGauges(now units.Time, values []float64) []float64 {
	var waiting, unacknowledged float64
	var bytes, reorder units.Bytes
	sum := s.past
	for x := range s.order.All() {
		n, b := x.Queue()
		if bytes += b; n > 0 {
			waiting++
		}
		unacknowledged += float64(x.Unacknowledged())
		sum.addCounters(x.Counters())
	}
	trimmed := float64(s.pastTrimmed)
	for _, r := range s.table.All() {
		_, b := r.ReorderQueue()
		reorder += b
		trimmed += float64(r.Receipts().Trimmed)
	}
	return append(values, float64(s.countLive(now)), float64(s.closed), waiting, gauge.SizeValue(bytes), unacknowledged, float64(s.table.Len()), float64(s.pacer.Len()),
		s.pacer.BusyTime().Seconds(), gauge.SizeValue(reorder), float64(sum.data), float64(sum.resent), trimmed, float64(sum.timeouts), float64(sum.requests),
		float64(s.marked), float64(s.cnps), float64(s.dropped),
		float64(s.native.sent), float64(s.native.received), float64(s.native.lost), float64(s.refused))
}

// flowGauges are those of a tunnel.
var flowGauges = []gauge.Gauge{
	{Name: "credit", Unit: gauge.Bytes, Help: "remaining credit", Brief: true},
	{Name: "pull_queue", Help: "packets of credit requested and not yet received"},
	{Name: "unacknowledged", Help: "unacknowledged packets", Brief: true},
	{Name: "resent", Help: "data packets sent again"},
	{Name: "timeouts", Help: "retransmission timeouts"},
	{Name: "rtt", Unit: gauge.Seconds, Help: "smoothed RTT over all paths", Brief: true},
}

// FlowGauges implements edge.Service.
func (s *service) FlowGauges() []gauge.Gauge {
	return flowGauges
}

// FlowCount implements edge.Service: tunnels to other hosts.
func (s *service) FlowCount(now units.Time) int { return s.countLive(now) }

// EachFlow implements edge.Service.
func (s *service) EachFlow(now units.Time, each func(x *edge.Flow) bool) {
	var shown edge.Flow
	for x := range s.order.All() {
		shown = s.flowState(x, shown.Gauges[:0])
		shown.Aged = s.isAged(now, x)
		if !each(&shown) {
			return
		}
	}
}

// flowState returns the state of a tunnel; gauges is its buffer.
func (s *service) flowState(x *sender, gauges []float64) edge.Flow {
	waiting, bytes := x.Queue()
	c := x.Counters()
	return edge.Flow{
		Number: x.number, Key: packet.FlowKey{From: x.from, To: x.to, Proto: protocol.Proto, SrcPort: firstPort | uint16(x.address.eqif)<<8, DstPort: protocol.Port, Flow: -1},
		Priority: s.prio, Packets: waiting, Bytes: bytes, TxPackets: x.txPackets, TxBytes: x.txBytes, Dropped: x.dropped,
		Gauges: append(gauges, gauge.SizeValue(x.Credit()), float64(x.PullQueue()), float64(x.Unacknowledged()), float64(c.Resent), float64(c.Timeouts), x.SRTT().Seconds()),
	}
}

// OnFlowEnd implements edge.Service.
func (s *service) OnFlowEnd(onEnd func(now units.Time, x *edge.Flow)) { s.onFlowEnd = onEnd }
