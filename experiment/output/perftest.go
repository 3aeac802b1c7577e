package output

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/weftlab/weft/experiment/table"
)

// perfRow is a row of the table perftest: the result of a test with messages of one size.
// Columns of other tests are unknown.
type perfRow struct {
	source
	Size        float64 `json:"size_bytes"`
	Iterations  float64 `json:"iterations"`
	Peak        float64 `json:"bw_peak_bps"`
	Rate        float64 `json:"goodput_bps"`  // average
	Messages    float64 `json:"message_rate"` // per second
	Min         float64 `json:"latency_min_us"`
	Max         float64 `json:"latency_max_us"`
	Typical     float64 `json:"latency_typical_us"` // the median
	Mean        float64 `json:"latency_mean_us"`
	Deviation   float64 `json:"latency_stddev_us"`
	P99         float64 `json:"latency_p99_us"`
	P999        float64 `json:"latency_p999_us"`
	Transaction float64 `json:"transaction_rate"` // per second
}

// perfColumn finds the columns of perftest's header line, which are separated by one or
// more blanks and may contain blanks.
var perfColumn = regexp.MustCompile(`#\w+|[^\s\[#]+(?: [^\s\[#]+)*\[[^\]]*\]|tps average`)

// Units of perftest's rates. Its MB have 2^20 bytes, as the product of its message rate
// and message size shows.
var perfUnits = map[string]float64{"MB/sec": 8 << 20, "MiB/sec": 8 << 20, "Gb/sec": 1e9}

// placeOf returns where a column of perftest is stored, and the factor for its numbers; nil
// for a column that is ignored.
func (r *perfRow) placeOf(column string) (to *float64, scale float64) {
	name, unit, _ := strings.Cut(strings.TrimSuffix(column, "]"), "[")
	switch name {
	case "#bytes":
		return &r.Size, 1
	case "#iterations":
		return &r.Iterations, 1
	case "BW peak":
		return &r.Peak, perfUnits[unit]
	case "BW average":
		return &r.Rate, perfUnits[unit]
	case "MsgRate":
		return &r.Messages, 1e6
	case "t_min":
		return &r.Min, 1
	case "t_max":
		return &r.Max, 1
	case "t_typical":
		return &r.Typical, 1
	case "t_avg":
		return &r.Mean, 1
	case "t_stdev":
		return &r.Deviation, 1
	case "99% percentile":
		return &r.P99, 1
	case "99.9% percentile":
		return &r.P999, 1
	case "tps average":
		return &r.Transaction, 1
	}
	return nil, 0
}

// readPerftest reads the output of a perftest program.
func readPerftest(s source, text []byte) (table.Bundle, error) {
	var rows []perfRow
	var head []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#bytes"):
			head = perfColumn.FindAllString(line, -1)
			continue
		case line == "" || strings.HasPrefix(line, "-"):
			continue
		case head == nil:
			continue
		case line[0] < '0' || line[0] > '9':
			head = nil // another part of the output begins
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < len(head) {
			return nil, fmt.Errorf("%q has %d numbers under %d columns", line, len(fields), len(head))
		}
		x := table.Unknown
		r := perfRow{s, x, x, x, x, x, x, x, x, x, x, x, x, x}
		for i, column := range head {
			to, scale := r.placeOf(column)
			if to == nil {
				continue
			}
			if scale == 0 {
				return nil, fmt.Errorf("unknown unit %q", column)
			}
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number", column, fields[i])
			}
			*to = n * scale
		}
		if r.Peak < r.Rate {
			r.Peak = x // with -D perftest prints a peak of 0
		}
		rows = append(rows, r)
	}
	if rows == nil {
		return nil, errNothing
	}
	return table.Bundle{table.Of(Perftest, rows)}, nil
}
