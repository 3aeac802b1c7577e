package records

import (
	"bufio"
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Columns are the names of the columns of files, in order, for both CSV and Parquet.
// Times are seconds of emulated time; unknown values are empty in CSV and null in
// Parquet.
var Columns = []string{
	"id",              // unique in a run
	"traffic",         // its name
	"group",           // request, collective or round that it belongs to; 0 if none
	"tag",             // the pattern's own
	"from",            // host that has the data
	"to",              // host that receives it
	"size_bytes",      //
	"state",           // done, failed, unfinished
	"failure",         // of a failed one
	"counted",         // created in the measurement window: true or false
	"created_s",       // when the pattern created it
	"started_s",       // when it could begin; unknown if it never did
	"end_s",           // when it was over for its sender; for an unfinished one the end of the run
	"arrived_s",       // when the receiver had all of it
	"fct_s",           // end_s - created_s; of a done one
	"ideal_s",         // alone on its path
	"slowdown",        // fct_s / ideal_s
	"retransmitted",   // packets
	"acked_bytes",     // acknowledged so far
	"udp_source_port", //
	"path",            // the ports that its packets leave by, in order, or "several"
}

// CSV writes records as lines of CSV behind one with Columns.
type CSV struct {
	names Names
	out   *bufio.Writer
	line  []byte
	begun bool
}

// NewCSV makes a sink that writes to w. It does not close w.
func NewCSV(w io.Writer, n Names) *CSV {
	q := Names{quoteAll(n.Traffic), quoteAll(n.Hosts)}
	return &CSV{names: q, out: bufio.NewWriterSize(w, 1<<16)}
}

func quoteAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quoteField(n)
	}
	return out
}

// quoteField writes a field as RFC 4180 has it.
func quoteField(s string) string {
	if !strings.ContainsAny(s, ",\"\r\n ") {
		return s
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{s}) // a strings.Builder takes everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

func (c *CSV) beginHeader() {
	if !c.begun {
		c.begun = true
		_, _ = c.out.WriteString(strings.Join(Columns, ",") + "\n") // Flush tells of errors
	}
}

// PutRecord implements Sink.
func (c *CSV) PutRecord(r *Record) error {
	c.beginHeader()
	b := c.line[:0]
	field := func(n uint64) { b = append(strconv.AppendUint(b, n, 10), ',') }
	text := func(s string) { b = append(append(b, s...), ',') }
	seconds := func(t units.Time, known bool) {
		if known {
			b = appendSeconds(b, t)
		}
		b = append(b, ',')
	}
	field(r.ID)
	text(c.names.Traffic[r.Traffic])
	field(r.Group)
	field(uint64(r.Tag))
	text(c.names.Hosts[r.From])
	text(c.names.Hosts[r.To])
	field(uint64(r.Size))
	text(r.State.String())
	text(quoteField(r.Failure))
	b = append(strconv.AppendBool(b, r.Counted), ',')
	seconds(r.Created, true)
	seconds(r.Started, r.Started != units.Never)
	seconds(r.End, true)
	seconds(r.Arrived, r.Arrived != units.Never)
	seconds(r.FCT(), r.State == Done)
	seconds(r.Ideal, r.Ideal > 0)
	if s := r.Slowdown(); s > 0 {
		b = strconv.AppendFloat(b, s, 'g', 6, 64)
	}
	b = append(b, ',')
	field(r.Retransmitted)
	field(uint64(r.Acked))
	field(uint64(r.SrcPort))
	b = append(append(b, quoteField(r.Path)...), '\n')
	c.line = b
	_, err := c.out.Write(b)
	return err
}

// appendSeconds writes a time exactly, without zeros at the end.
func appendSeconds(b []byte, t units.Time) []byte {
	whole, rest := t/units.Second, t%units.Second
	b = strconv.AppendInt(b, int64(whole), 10)
	if rest == 0 {
		return b
	}
	at := len(b)
	b = strconv.AppendInt(b, int64(rest+units.Second), 10) // a 1, then all digits of the rest
	b[at] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// Close writes what is left. A stream without records has the line with the columns.
func (c *CSV) Close() error {
	c.beginHeader()
	return c.out.Flush()
}
