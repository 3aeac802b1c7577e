package series

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Row is a sample as read from a file.
type Row struct {
	Source
	At, Interval units.Time
	Reading      // RxBytes of a class is not known and 0; Gauges are in the order of Reader.Gauges
}

// Read calls each with the rows of a CSV file, as Reader.EachRow does.
func Read(r io.Reader, each func(*Row) error) error {
	x, err := NewReader(r)
	if err != nil {
		return err
	}
	return x.EachRow(each)
}

// Reader reads a series of queues.
type Reader struct {
	in     *csv.Reader
	gauges []Gauge
	*decoder
}

// NewReader begins to read a CSV file. It finds columns by their names; all of Columns are
// required, except tx_bps and rx_bps, which follow from others. Columns of gauges, and
// other columns, may be present as well.
func NewReader(r io.Reader) (*Reader, error) {
	x := &Reader{in: csv.NewReader(r)}
	x.in.ReuseRecord = true
	header, err := x.in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	if x.decoder, err = newDecoder(header); err != nil {
		return nil, err
	}
	for i, column := range x.header {
		if g, ok := gaugeOf(column, OfPoint, OfEdge); ok {
			x.gauges, x.gaugeAt = append(x.gauges, g), append(x.gaugeAt, i)
		}
	}
	if len(x.gauges) > 0 {
		x.row.Gauges = make([]float64, len(x.gauges))
	}
	return x, nil
}

// Gauges returns the gauges that the file has columns for, in their order.
func (x *Reader) Gauges() []Gauge { return x.gauges }

// EachRow calls each with every row, in order. The row is valid only during the call. Errors
// name the line.
func (x *Reader) EachRow(each func(*Row) error) error {
	in, d := x.in, x.decoder
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.decodeRow(record); err != nil {
			line, _ := in.FieldPos(d.column)
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := each(&d.row); err != nil {
			return err
		}
	}
}

// Is reports whether a CSV file with this header is a series, or was meant to
// be one.
func Is(header []string) bool {
	return slices.Contains(header, "time_s") && slices.Contains(header, "queue_bytes")
}

// decoder decodes records into rows.
type decoder struct {
	header []string
	at     [columnCount]int // of each of Columns in the file; -1 if an optional one is missing
	names  map[string]string
	row    Row
	record []string
	column int // in the file, of err
	err    error

	gaugeAt []int // columns of the gauges
}

func newDecoder(header []string) (*decoder, error) {
	d := &decoder{header: slices.Clone(header), names: map[string]string{}}
	var missing []string
	for c, name := range Columns {
		d.at[c] = slices.Index(d.header, name)
		if d.at[c] < 0 && c != txRate && c != rxRate {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing column %s", strings.Join(missing, ", "))
	}
	return d, nil
}

func (d *decoder) decodeRow(record []string) error {
	d.record, d.err = record, nil
	r := &d.row
	r.At, r.Interval, r.Paused = d.readSeconds(timeAt), d.readSeconds(interval), d.readSeconds(paused)
	r.Port, r.Class = d.internName(portName), d.internName(className)
	r.Queue = units.Bytes(d.readCount(queueNow))
	r.QueueMax = Unknown
	if record[d.at[queueMax]] != "" {
		r.QueueMax = units.Bytes(d.readCount(queueMax))
	}
	r.TxBytes, r.RxBytes = d.readCount(txBytes), 0
	if record[d.at[rxBytes]] != "" {
		r.RxBytes = d.readCount(rxBytes)
	}
	r.Dropped, r.Marked, r.Trimmed = d.readCount(dropped), d.readCount(marked), d.readCount(trimmed)
	for i, c := range d.gaugeAt {
		r.Gauges[i] = d.readNumber(c)
	}
	if d.err == nil && (r.Interval <= 0 || r.Interval > r.At) {
		d.failColumn(interval, "a time above 0 and up to time_s")
	}
	return d.err
}

// internName returns a name as one string that all its rows share.
func (d *decoder) internName(c int) string {
	text := d.record[d.at[c]]
	s, ok := d.names[text]
	if !ok {
		s = strings.Clone(text)
		d.names[s] = s
	}
	return s
}

func (d *decoder) readCount(c int) uint64 {
	n, err := strconv.ParseUint(d.record[d.at[c]], 10, 63)
	if err != nil {
		d.failColumn(c, "a whole number")
	}
	return n
}

// readNumber reads a column of the file; it returns NaN if it is empty.
func (d *decoder) readNumber(column int) float64 {
	text := d.record[column]
	if text == "" {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && d.err == nil {
		d.column, d.err = column, fmt.Errorf("%s: %q is not a number", d.header[column], text)
	}
	return v
}

func (d *decoder) readSeconds(c int) units.Time {
	t, ok := parseSeconds(d.record[d.at[c]])
	if !ok {
		d.failColumn(c, "a time in seconds")
	}
	return t
}

func (d *decoder) failColumn(c int, want string) {
	if d.err == nil {
		d.column = d.at[c]
		d.err = fmt.Errorf("%s: %q is not %s", Columns[c], d.record[d.column], want)
	}
}

// parseSeconds is the inverse of appendSeconds. It also accepts what other
// programs turn a number into when they rewrite a file: an exponent, more
// decimals.
func parseSeconds(s string) (units.Time, bool) {
	whole, frac, _ := strings.Cut(s, ".")
	if n, err := strconv.ParseUint(whole, 10, 31); err == nil && len(whole) <= 7 && len(frac) <= 12 {
		t := units.Time(n) * units.Second
		unit := units.Second
		for i := range len(frac) {
			if frac[i] < '0' || frac[i] > '9' {
				return parseFloat(s)
			}
			unit /= 10
			t += units.Time(frac[i]-'0') * unit
		}
		return t, true
	}
	return parseFloat(s)
}

func parseFloat(s string) (units.Time, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= MaxEvery.Seconds()) {
		return 0, false
	}
	return units.Time(math.Round(f * float64(units.Second))), true
}
