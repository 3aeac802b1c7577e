package series

import (
	"io"
	"strconv"
)

// FlowColumns are the names of the columns that every series of flows has, in their
// order. Behind them are those of the gauges (Gauge.Column). What a row does not know
// is empty.
var FlowColumns = [flowColumnCount]string{
	flowTime: "time_s", flowInterval: "interval_s", flowNIC: "nic", flowQPN: "qpn", flowTransfer: "transfer", flowName: "flow",
	flowRate: "rate_bps", flowWindow: "window_bytes", flowInFlight: "in_flight_bytes", flowRTT: "rtt_s",
	flowAcked: "acked_bytes", flowReceived: "received_bytes", flowGoodput: "goodput_bps", flowReceivedRate: "received_bps",
	flowWaiting: "waiting_bytes", flowSent: "sent_bytes", flowSentRate: "sent_bps", flowDropped: "dropped_packets",
	flowResent: "retransmitted_packets",
}

// The columns of series of flows. Those from flowWindow to flowReceivedRate and flowResent
// are empty of flows of edge services, and those from flowWaiting to flowDropped of others.
const (
	flowTime = iota
	flowInterval
	flowNIC
	flowQPN          // of a queue pair
	flowTransfer     // or traffic; empty where there is none
	flowName         // empty of a queue pair
	flowRate         // at which it may send; empty without limit
	flowWindow       // empty without limit
	flowInFlight     //
	flowRTT          // empty before the first
	flowAcked        // payload over the interval
	flowReceived     // payload over the interval; empty of TCP
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

func (w *flowWriter) row(s *FlowSample) error {
	b := append(append(w.begin(s.At, s.Interval), s.NIC...), ',')
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
	return w.end(b, s.Gauges)
}

// appendSender writes the columns behind the rate, of a queue pair or a flow by TCP.
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
	b = strconv.AppendUint(append(b, ','), rate(s.Acked, s.Interval), 10)
	if b = append(b, ','); heard {
		b = strconv.AppendUint(b, rate(s.Received, s.Interval), 10)
	}
	return strconv.AppendUint(append(b, ",,,,,"...), s.Resent, 10)
}

// appendEdge writes them of a flow of an edge service.
func appendEdge(b []byte, s *FlowSample) []byte {
	b = append(b, ",,,,,,"...)
	for _, n := range [...]uint64{uint64(s.Waiting), s.Sent, rate(s.Sent, s.Interval), s.Dropped} {
		b = strconv.AppendUint(append(b, ','), n, 10)
	}
	return append(b, ',')
}
