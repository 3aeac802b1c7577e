package series

import (
	"bufio"
	"io"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// csvRows writes the rows of a series, which begin with an instant and the interval before
// it.
type csvRows struct {
	out  *bufio.Writer
	line []byte
	time []byte // of the instant being written, with the interval
	at   [2]units.Time
}

// newCSVRows writes the header.
func newCSVRows(w io.Writer, columns []string) csvRows {
	r := csvRows{out: bufio.NewWriterSize(w, 1<<16)}
	_, _ = r.out.WriteString(strings.Join(columns, ",") + "\n") // bufio keeps the error
	return r
}

// beginRow begins a row with its times, each followed by a comma.
func (r *csvRows) beginRow(at, interval units.Time) []byte {
	if t := [2]units.Time{at, interval}; t != r.at {
		r.at = t
		r.time = append(appendSeconds(append(appendSeconds(r.time[:0], at), ','), interval), ',')
	}
	return append(r.line[:0], r.time...)
}

// endRow ends a row with its gauges and writes it.
func (r *csvRows) endRow(b []byte, gauges []float64) error {
	r.line = append(appendGauges(b, gauges), '\n')
	// Flush only whole rows, so that the file can be read while it grows, and
	// after a kill.
	if r.out.Available() < len(r.line) {
		if err := r.out.Flush(); err != nil {
			return err
		}
	}
	_, err := r.out.Write(r.line)
	return err
}

func (r *csvRows) flushRows() error { return r.out.Flush() }
