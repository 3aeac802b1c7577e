package output

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/weftlab/weft/experiment/table"
)

// wrkRow is a row of the table wrk. Percentiles are known only with wrk --latency.
type wrkRow struct {
	source
	Seconds   float64 `json:"duration_s"`
	Requests  float64 `json:"requests"`
	Rate      float64 `json:"request_rate"` // per second
	Read      float64 `json:"read_bytes"`
	Goodput   float64 `json:"goodput_bps"`
	Mean      float64 `json:"latency_mean_us"`
	Deviation float64 `json:"latency_stddev_us"`
	Max       float64 `json:"latency_max_us"`
	P50       float64 `json:"latency_p50_us"`
	P75       float64 `json:"latency_p75_us"`
	P90       float64 `json:"latency_p90_us"`
	P99       float64 `json:"latency_p99_us"`
	Connect   float64 `json:"connect_errors"`
	ReadError float64 `json:"read_errors"`
	Write     float64 `json:"write_errors"`
	Timeouts  float64 `json:"timeouts"`
	Status    float64 `json:"status_errors"` // responses other than 2xx and 3xx
}

// wrkNumber is a number with a unit of wrk: times in us, ms, s, m and h, and sizes in
// powers of 1024.
const wrkNumber = `([0-9.]+)([a-zA-Z]*)`

var (
	wrkLatency  = regexp.MustCompile(`(?m)^ +Latency +` + wrkNumber + ` +` + wrkNumber + ` +` + wrkNumber)
	wrkQuantile = regexp.MustCompile(`(?m)^ +(50|75|90|99)% +` + wrkNumber + `$`)
	wrkSum      = regexp.MustCompile(`(?m)^ +(\d+) requests in ` + wrkNumber + `, ` + wrkNumber + ` read`)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec: +([0-9.]+)`)
	wrkTransfer = regexp.MustCompile(`(?m)^Transfer/sec: +` + wrkNumber)
	wrkErrors   = regexp.MustCompile(`(?m)Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkStatus   = regexp.MustCompile(`(?m)Non-2xx or 3xx responses: (\d+)`)
)

var wrkUnits = map[string]float64{
	"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6, "h": 3600e6,
	"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50,
}

// wrkValue reads a number with its unit, in microseconds or bytes.
func wrkValue(number, unit []byte) (float64, error) {
	scale, ok := wrkUnits[string(unit)]
	x, err := strconv.ParseFloat(string(number), 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%s%s is not a number with a unit of wrk", number, unit)
	}
	return x * scale, nil
}

// readWrk reads the output of wrk.
func readWrk(s source, text []byte) (table.Bundle, error) {
	latency, sum, rate := wrkLatency.FindSubmatch(text), wrkSum.FindSubmatch(text), wrkRate.FindSubmatch(text)
	if sum == nil || rate == nil || latency == nil {
		return nil, errNothing
	}
	x := table.Unknown
	r := wrkRow{source: s, P50: x, P75: x, P90: x, P99: x}
	var failed error
	value := func(to *float64, number, unit []byte) {
		var err error
		if *to, err = wrkValue(number, unit); err != nil && failed == nil {
			failed = err
		}
	}
	count := func(text []byte) float64 { n, _ := strconv.ParseFloat(string(text), 64); return n } // digits only
	for i, to := range []*float64{&r.Mean, &r.Deviation, &r.Max} {
		value(to, latency[1+2*i], latency[2+2*i])
	}
	for _, q := range wrkQuantile.FindAllSubmatch(text, -1) {
		value(map[string]*float64{"50": &r.P50, "75": &r.P75, "90": &r.P90, "99": &r.P99}[string(q[1])], q[2], q[3])
	}
	r.Requests, r.Rate = count(sum[1]), count(rate[1])
	value(&r.Seconds, sum[2], sum[3])
	r.Seconds /= 1e6
	value(&r.Read, sum[4], sum[5])
	if t := wrkTransfer.FindSubmatch(text); t != nil {
		value(&r.Goodput, t[1], t[2])
		r.Goodput *= 8
	}
	if e := wrkErrors.FindSubmatch(text); e != nil {
		r.Connect, r.ReadError, r.Write, r.Timeouts = count(e[1]), count(e[2]), count(e[3]), count(e[4])
	}
	if e := wrkStatus.FindSubmatch(text); e != nil {
		r.Status = count(e[1])
	}
	return table.Bundle{table.Of(Wrk, []wrkRow{r})}, failed
}
