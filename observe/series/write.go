package series

import (
	"io"
	"math/bits"
	"strconv"

	"github.com/weftlab/weft/sim/units"
)

// Columns are the names of the columns that every series of queues has, in their order.
// The columns of gauges follow (Gauge.ColumnName). Times are emulated and exact to the
// picosecond. Unknown values are empty.
var Columns = [columnCount]string{
	timeAt: "time_s", interval: "interval_s", portName: "port", className: "class",
	queueNow: "queue_bytes", queueMax: "queue_max_bytes",
	txBytes: "tx_bytes", rxBytes: "rx_bytes", txRate: "tx_bps", rxRate: "rx_bps",
	dropped: "dropped_packets", marked: "marked_packets", trimmed: "trimmed_packets", paused: "paused_s",
}

// The columns. All from txBytes on count over the interval.
const (
	timeAt    = iota // of the sample, since the start of the run
	interval         // since the previous sample
	portName         // "s1:3"
	className        // empty for the port as a whole
	queueNow
	queueMax // the longest queue over the interval; empty if this is not tracked
	txBytes
	rxBytes // only for ports as a whole
	txRate  // in bits per second
	rxRate
	dropped // at this port and on its link
	marked
	trimmed
	paused // by the peer
	columnCount
)

// writer formats samples as CSV.
type writer struct {
	csvRows
	names []string // "port,class" by source
	class []bool
}

func newWriter(w io.Writer, sources []Source, gauges []Gauge) *writer {
	x := &writer{csvRows: newCSVRows(w, append(Columns[:], columnsOf(gauges)...))}
	for _, s := range sources {
		x.names = append(x.names, s.Port+","+s.Class)
		x.class = append(x.class, s.Class != "")
	}
	return x
}

func (w *writer) writeRow(s *Sample) error {
	b := append(append(w.beginRow(s.At, s.Interval), w.names[s.Source]...), ',')
	class := w.class[s.Source]
	b = append(strconv.AppendInt(b, int64(s.Queue), 10), ',')
	if s.QueueMax != Unknown {
		b = strconv.AppendInt(b, int64(s.QueueMax), 10)
	}
	b = append(strconv.AppendUint(append(b, ','), s.TxBytes, 10), ',')
	if !class {
		b = strconv.AppendUint(b, s.RxBytes, 10)
	}
	b = append(strconv.AppendUint(append(b, ','), bitRate(s.TxBytes, s.Interval), 10), ',')
	if !class {
		b = strconv.AppendUint(b, bitRate(s.RxBytes, s.Interval), 10)
	}
	for _, n := range [...]uint64{s.Dropped, s.Marked, s.Trimmed} {
		b = strconv.AppendUint(append(b, ','), n, 10)
	}
	b = appendSeconds(append(b, ','), s.Paused)
	return w.endRow(b, s.Gauges)
}

// bitRate returns n bytes over t in bits per second, rounded to the nearest.
func bitRate(n uint64, t units.Time) uint64 {
	if t <= 0 {
		return 0
	}
	high, low := bits.Mul64(n, 8*uint64(units.Second))
	low, carry := bits.Add64(low, uint64(t)/2, 0)
	if high += carry; high >= uint64(t) {
		return ^uint64(0)
	}
	q, _ := bits.Div64(high, low, uint64(t))
	return q
}

// appendSeconds appends a time, not negative, in seconds with as many decimals
// as needed.
func appendSeconds(b []byte, t units.Time) []byte {
	b = strconv.AppendInt(b, int64(t/units.Second), 10)
	rest := t % units.Second
	if rest == 0 {
		return b
	}
	b = append(b, '.')
	for unit := units.Second / 10; rest > 0; unit /= 10 {
		b = append(b, '0'+byte(rest/unit))
		rest %= unit
	}
	return b
}
