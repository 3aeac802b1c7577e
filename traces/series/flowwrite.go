package series

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// FlowColumns are the names of the columns that every series of flows has, in their
// order. Behind them are those of the gauges (Gauge.Column). What a row does not know
// is empty.
var FlowColumns = [flowColumnCount]string{
	flowTime: "time_s", flowInterval: "interval_s", flowNIC: "nic", flowQPN: "qpn", flowTransfer: "transfer",
	flowRate: "rate_bps", flowWindow: "window_bytes", flowInFlight: "in_flight_bytes", flowRTT: "rtt_s",
	flowAcked: "acked_bytes", flowReceived: "received_bytes", flowGoodput: "goodput_bps", flowReceivedRate: "received_bps",
}

// The columns of series of flows.
const (
	flowTime = iota
	flowInterval
	flowNIC
	flowQPN
	flowTransfer     // empty where there is none
	flowRate         // at which it may send; empty without limit
	flowWindow       // empty without limit
	flowInFlight     //
	flowRTT          // empty before the first
	flowAcked        // payload over the interval
	flowReceived     // payload over the interval
	flowGoodput      // acked, in bits per second
	flowReceivedRate // received, in bits per second
	flowColumnCount
)

// flowWriter formats samples of flows as CSV.
type flowWriter struct {
	out  *bufio.Writer
	line []byte
	time []byte // of the instant being written, with the interval
	at   [2]units.Time
}

func newFlowWriter(w io.Writer, gauges []Gauge) *flowWriter {
	x := &flowWriter{out: bufio.NewWriterSize(w, 1<<16)}
	_, _ = x.out.WriteString(strings.Join(append(FlowColumns[:], columnsOf(gauges)...), ",") + "\n") // bufio keeps the error
	return x
}

func (w *flowWriter) row(s *FlowSample) error {
	if at := [2]units.Time{s.At, s.Interval}; at != w.at {
		w.at = at
		w.time = append(appendSeconds(append(appendSeconds(w.time[:0], s.At), ','), s.Interval), ',')
	}
	b := append(append(append(w.line[:0], w.time...), s.NIC...), ',')
	b = append(strconv.AppendUint(b, uint64(s.QPN), 10), ',')
	b = append(append(b, s.Transfer...), ',')
	if s.Rate > 0 {
		b = strconv.AppendUint(b, uint64(s.Rate), 10)
	}
	b = append(b, ',')
	if s.Window > 0 {
		b = strconv.AppendInt(b, int64(s.Window), 10)
	}
	b = append(strconv.AppendInt(append(b, ','), int64(s.InFlight), 10), ',')
	if s.RTT > 0 {
		b = appendSeconds(b, s.RTT)
	}
	for _, n := range [...]uint64{s.Acked, s.Received, rate(s.Acked, s.Interval), rate(s.Received, s.Interval)} {
		b = strconv.AppendUint(append(b, ','), n, 10)
	}
	w.line = append(appendGauges(b, s.Gauges), '\n')
	// What reaches the file ends with a whole row, as in writer.row.
	if w.out.Available() < len(w.line) {
		if err := w.out.Flush(); err != nil {
			return err
		}
	}
	_, err := w.out.Write(w.line)
	return err
}
