package output

import (
	"regexp"
	"strconv"

	"github.com/weftlab/weft/experiment/table"
)

// memaslapRow is a row of the table memaslap. Latencies are known only with memaslap -S.
type memaslapRow struct {
	source
	Seconds   float64 `json:"duration_s"`
	Ops       float64 `json:"operations"`
	Rate      float64 `json:"operation_rate"` // per second
	Gets      float64 `json:"gets"`
	Sets      float64 `json:"sets"`
	Misses    float64 `json:"get_misses"`
	Written   float64 `json:"written_bytes"`
	Read      float64 `json:"read_bytes"`
	Goodput   float64 `json:"goodput_bps"` // of what was read
	Min       float64 `json:"latency_min_us"`
	Max       float64 `json:"latency_max_us"`
	Mean      float64 `json:"latency_mean_us"`
	Geometric float64 `json:"latency_geometric_us"` // geometric mean
	Deviation float64 `json:"latency_stddev_us"`
}

var (
	memaslapSum   = regexp.MustCompile(`(?m)^Run time: ([0-9.]+)s Ops: (\d+) TPS: (\d+)`)
	memaslapCount = regexp.MustCompile(`(?m)^(cmd_get|cmd_set|get_misses|written_bytes|read_bytes): (\d+)$`)
	memaslapTotal = regexp.MustCompile(`(?m)^Total Statistics \(\d+ events\)\n +Min: +(\d+)\n +Max: +(\d+)\n +Avg: +(\d+)\n +Geo: +([0-9.]+)\n +Std: +([0-9.]+)`)
)

// readMemaslap reads the output of memaslap of libmemcached, which Debian calls memcaslap.
func readMemaslap(s source, text []byte) (table.Bundle, error) {
	sum := memaslapSum.FindSubmatch(text)
	if sum == nil {
		return nil, errNothing
	}
	number := func(text []byte) float64 { x, _ := strconv.ParseFloat(string(text), 64); return x } // digits only
	x := table.Unknown
	r := memaslapRow{source: s, Min: x, Max: x, Mean: x, Geometric: x, Deviation: x, Seconds: number(sum[1]), Ops: number(sum[2]), Rate: number(sum[3])}
	for _, c := range memaslapCount.FindAllSubmatch(text, -1) {
		*map[string]*float64{"cmd_get": &r.Gets, "cmd_set": &r.Sets, "get_misses": &r.Misses, "written_bytes": &r.Written, "read_bytes": &r.Read}[string(c[1])] = number(c[2])
	}
	if r.Seconds > 0 {
		r.Goodput = r.Read * 8 / r.Seconds
	}
	if t := memaslapTotal.FindSubmatch(text); t != nil {
		for i, to := range []*float64{&r.Min, &r.Max, &r.Mean, &r.Geometric, &r.Deviation} {
			*to = number(t[i+1])
		}
	}
	return table.Bundle{table.Of(Memaslap, []memaslapRow{r})}, nil
}
