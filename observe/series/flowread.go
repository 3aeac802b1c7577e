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

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// FlowRow is a sample of a flow as read from a file.
type FlowRow struct {
	Flow
	At, Interval units.Time
	// Values are the values of the file's quantities, in their order; NaN means that
	// the row does not have the value.
	Values []float64
}

// FlowQuantity is a quantity in the rows of a series of flows.
type FlowQuantity struct {
	Name string     // "rate", or the name of a gauge
	Unit gauge.Unit // of its values
	// PerInterval means that a value is for the interval before the sample, such as a
	// payload rate; otherwise it is for the instant.
	PerInterval bool

	column string
}

// String is the quantity's name, for people.
func (q FlowQuantity) String() string { return strings.ReplaceAll(q.Name, "_", " ") }

// flowQuantities are the quantities that all series of flows have.
var flowQuantities = []FlowQuantity{
	{"rate", gauge.BitsPerSecond, false, FlowColumns[flowRate]},
	{"goodput", gauge.BitsPerSecond, true, FlowColumns[flowGoodput]},
	{"received", gauge.BitsPerSecond, true, FlowColumns[flowReceivedRate]},
	{"window", gauge.Bytes, false, FlowColumns[flowWindow]},
	{"in-flight", gauge.Bytes, false, FlowColumns[flowInFlight]},
	{"rtt", gauge.Seconds, false, FlowColumns[flowRTT]},
	{"waiting", gauge.Bytes, false, FlowColumns[flowWaiting]},
	{"sent", gauge.BitsPerSecond, true, FlowColumns[flowSentRate]},
}

// FlowQuantityNames returns the names of the quantities that all series of flows have.
// A file's gauges add their own names.
func FlowQuantityNames() (names []string) {
	for _, q := range flowQuantities {
		names = append(names, q.Name)
	}
	return names
}

// IsFlows reports whether a CSV file with this header is a series of flows, or was
// meant to be one.
func IsFlows(header []string) bool {
	return slices.Contains(header, "time_s") && slices.Contains(header, "qpn")
}

// FlowReader reads a series of flows.
type FlowReader struct {
	in         *csv.Reader
	quantities []FlowQuantity
	at         [flowName + 1]int // positions of the first columns in the file; -1 if there is no flowName
	columns    []int             // of the quantities; -1 if an optional one is missing
	names      map[string]string
	row        FlowRow
}

// NewFlowReader begins to read a CSV file. It finds columns by their names; flow and the
// columns from waiting_bytes on are optional.
func NewFlowReader(r io.Reader) (*FlowReader, error) {
	x := &FlowReader{in: csv.NewReader(r), names: map[string]string{}}
	x.in.ReuseRecord = true
	header, err := x.in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	var missing []string
	find := func(column string) int {
		i := slices.Index(header, column)
		if c := slices.Index(FlowColumns[:], column); i < 0 && c != flowName && c < flowWaiting {
			missing = append(missing, column)
		}
		return i
	}
	for i := range x.at {
		x.at[i] = find(FlowColumns[i])
	}
	x.quantities = slices.Clone(flowQuantities)
	for _, q := range flowQuantities {
		x.columns = append(x.columns, find(q.column))
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("missing column %s", strings.Join(missing, ", "))
	}
	for i, column := range header {
		if g, ok := gaugeOf(column, OfControl); ok {
			x.quantities = append(x.quantities, FlowQuantity{Name: g.Name, Unit: g.Unit, column: strings.Clone(column)})
			x.columns = append(x.columns, i)
		}
	}
	x.row.Values = make([]float64, len(x.quantities))
	return x, nil
}

// Quantities returns the quantities of the file, in the order of FlowRow.Values.
func (x *FlowReader) Quantities() []FlowQuantity { return x.quantities }

// FindQuantity returns the index of the quantity with a name, or with a column if several have
// the name.
func (x *FlowReader) FindQuantity(name string) (int, error) {
	found := -1
	for i, q := range x.quantities {
		switch {
		case q.column == name:
			return i, nil
		case q.Name == name && i < len(flowQuantities):
			return i, nil
		case strings.ReplaceAll(q.Name, "_", "-") == strings.ReplaceAll(name, "_", "-"):
			if found >= 0 {
				return 0, fmt.Errorf("%q is ambiguous: write %s or %s", name, x.quantities[found].column, q.column)
			}
			found = i
		}
	}
	if found < 0 {
		var names []string
		for _, q := range x.quantities {
			if !slices.Contains(names, q.Name) {
				names = append(names, q.Name)
			}
		}
		return 0, fmt.Errorf("%q must be one of %s", name, strings.Join(names, ", "))
	}
	return found, nil
}

// EachRow calls f with each row, in order. A row is valid only during the call. Errors
// name the line.
func (x *FlowReader) EachRow(f func(*FlowRow) error) error {
	for {
		record, err := x.in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if column, err := x.decodeRow(record); err != nil {
			line, _ := x.in.FieldPos(column)
			return fmt.Errorf("line %d: %w", line, err)
		}
		if err := f(&x.row); err != nil {
			return err
		}
	}
}

// decodeRow decodes a record into the row. With an error it returns the column.
func (x *FlowReader) decodeRow(record []string) (column int, err error) {
	r := &x.row
	for _, c := range []int{flowTime, flowInterval} {
		t, ok := parseSeconds(record[x.at[c]])
		if !ok {
			return x.at[c], fmt.Errorf("%s: %q is not a time in seconds", FlowColumns[c], record[x.at[c]])
		}
		if c == flowTime {
			r.At = t
		} else {
			r.Interval = t
		}
	}
	if r.Interval <= 0 || r.Interval > r.At {
		return x.at[flowInterval], fmt.Errorf("%s: %q is not a time above 0 and up to time_s", FlowColumns[flowInterval], record[x.at[flowInterval]])
	}
	r.NIC, r.QPN, r.Transfer, r.Name = x.internName(record[x.at[flowNIC]]), 0, x.internName(record[x.at[flowTransfer]]), ""
	if c := x.at[flowName]; c >= 0 {
		r.Name = x.internName(record[c])
	}
	if text := record[x.at[flowQPN]]; r.Name == "" || text != "" {
		number, err := strconv.ParseUint(text, 10, 24)
		if err != nil {
			return x.at[flowQPN], fmt.Errorf("%s: %q is not the number of a queue pair", FlowColumns[flowQPN], text)
		}
		r.QPN = uint32(number)
	}
	for i, c := range x.columns {
		r.Values[i] = math.NaN()
		if c < 0 || record[c] == "" {
			continue
		}
		if r.Values[i], err = strconv.ParseFloat(record[c], 64); err != nil {
			return c, fmt.Errorf("%s: %q is not a number", x.quantities[i].column, record[c])
		}
	}
	return 0, nil
}

// internName returns a name as one string that all its rows share.
func (x *FlowReader) internName(text string) string {
	s, ok := x.names[text]
	if !ok {
		s = strings.Clone(text)
		x.names[s] = s
	}
	return s
}
