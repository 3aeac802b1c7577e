package series

import (
	"io"
	"strconv"
)

// FlowColumns are the names of the columns that every series of flows has, in their
// order. The columns of gauges follow (Gauge.ColumnName). Unknown values are empty.
var FlowColumns = [flowColumnCount]string{
	flowTime: "time_s", flowInterval: "interval_s", flowNIC: "nic", flowQPN: "qpn", flowTransfer: "transfer", flowName: "flow",
	flowRate: "rate_bps", flowWindow: "window_bytes", flowInFlight: "in_flight_bytes", flowRTT: "rtt_s",
	flowAcked: "acked_bytes", flowReceived: "received_bytes", flowGoodput: "goodput_bps", flowReceivedRate: "received_bps",
	flowWaiting: "waiting_bytes", flowSent: "sent_bytes", flowSentRate: "sent_bps", flowDropped: "dropped_packets",
	flowResent: "retransmitted_packets",
}

// The columns of series of flows. Those from flowWindow to flowReceivedRate and flowResent
// are empty for flows of edge services, and those from flowWaiting to flowDropped for
// others.
const (
	flowTime = iota
	flowInterval
	flowNIC
	flowQPN          // of a queue pair
	flowTransfer     // or traffic; empty if there is none
	flowName         // empty for a queue pair
	flowRate         // at which it may send; empty if there is no limit
	flowWindow       // empty if there is no limit
	flowInFlight     //
	flowRTT          // empty before the first
	flowAcked        // payload over the interval
	flowReceived     // payload over the interval; empty for TCP
	flowGoodput      // acked, in bits per second
	flowReceivedRate // received, in bits per second
	flowWaiting      // in the edge service
	flowSent         // frames over the interval
	flowSentRate     // sent, in bits per second
	flowDropped      // over the interval
	flowResent       // over the interval
	flowColumnCount
)

// flowWriter formats samples of flows as CSV.
type flowWriter struct{ csvRows }

func newFlowWriter(w io.Writer, gauges []Gauge) *flowWriter {
	return &flowWriter{newCSVRows(w, append(FlowColumns[:], columnsOf(gauges)...))}
}

func (w *flowWriter) writeRow(s *FlowSample) error {
	b := append(append(w.beginRow(s.At, s.Interval), s.NIC...), ',')
	if s.Name == "" {
		b = strconv.AppendUint(b, uint64(s.QPN), 10)
	}
	b = append(append(append(b, ','), s.Transfer...), ',')
	b = append(append(b, s.Name...), ',')
	if s.Rate > 0 {
		b = strconv.AppendUint(b, uint64(s.Rate), 10)
	}
	if b = append(b, ','); s.ofEdge() {
		b = appendEdge(b, s)
	} else {
		b = appendSender(b, s)
	}
	return w.endRow(b, s.Gauges)
}

// appendSender appends the columns after the rate for a queue pair or a TCP flow.
func appendSender(b []byte, s *FlowSample) []byte {
	if s.Window > 0 {
		b = strconv.AppendInt(b, int64(s.Window), 10)
	}
	b = append(strconv.AppendInt(append(b, ','), int64(s.InFlight), 10), ',')
	if s.RTT > 0 {
		b = appendSeconds(b, s.RTT)
	}
	b = strconv.AppendUint(append(b, ','), s.Acked, 10)
	heard := s.Name == ""
	if b = append(b, ','); heard {
		b = strconv.AppendUint(b, s.Received, 10)
	}
	b = strconv.AppendUint(append(b, ','), bitRate(s.Acked, s.Interval), 10)
	if b = append(b, ','); heard {
		b = strconv.AppendUint(b, bitRate(s.Received, s.Interval), 10)
	}
	return strconv.AppendUint(append(b, ",,,,,"...), s.Resent, 10)
}

// appendEdge appends them for a flow of an edge service.
func appendEdge(b []byte, s *FlowSample) []byte {
	b = append(b, ",,,,,,"...)
	for _, n := range [...]uint64{uint64(s.Waiting), s.Sent, bitRate(s.Sent, s.Interval), s.Dropped} {
		b = strconv.AppendUint(append(b, ','), n, 10)
	}
	return append(b, ',')
}
