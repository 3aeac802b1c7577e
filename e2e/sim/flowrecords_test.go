package sim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/weftlab/weft/emu/report"
)

// patternsLab is small and has all patterns.
const patternsLab = `
name: patterns
seed: 3
topology:
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us, mtu: 4200}}
  kinds: {host: {attach: none, nic: {cc: dcqcn}}}
window: {warm-up: 100us, end: 2ms, grace: 1ms}
workload:
  - {arrivals: {load: 40%, sizes: fb-hadoop}}
  - {arrivals: {name: big, hosts: h1, to: {hosts: h4}, rate: 20Gbps, sizes: 5MB, count: 1, gaps: constant}}
  - {requests: {aggregators: h1, request: 100B, total: 90KB, count: 4, think: 100us}}
  - {bursts: {hosts: [h2, h3], sizes: {exponential: 10KB}, burst: 3, off: 200us}}
  - {flow-permutation: {sizes: 100KB, count: 2, by: {udp: {rate: 2Gbps}}}}
  - {flow-all-to-all: {sizes: 1KB, window: 2}}
  - {collective: {operation: all-reduce, size: 400KB, iterations: 2, compute: 100us}}
  - {flow-list: {hpcc: "2\n0 1 3 100 1000 0.001\n3 0 3 100 20000 0.0015\n"}}
`

// TestFlowRecords_DoNotDependOnWorkers: the report's sums and the records of a run, whatever the
// number of shards.
func TestFlowRecords_DoNotDependOnWorkers(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, patternsLab)
	var first map[string]string
	for _, workers := range []string{"1", "2", "4"} {
		files := map[string]string{"report": ""}
		for _, name := range []string{"f.csv", "f.parquet"} {
			o, e, code := run("sim", "lab.yaml", "--workers", workers, "--flow-records", name, "--size-bins", "1KB,100KB")
			if code != 0 || e != "" {
				t.Fatalf("exit code %d: %s", code, e)
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			o = o[:strings.LastIndex(o, " over ")] // the number of events depends on the workers
			files[name], files["report"] = string(b), o
		}
		if first == nil {
			first = files
			checkFlowReport(t, files["report"])
			checkFlowFiles(t, files["f.csv"], filepath.Join(dir, "f.parquet"))
		} else if diff := cmp.Diff(first, files); diff != "" {
			t.Errorf("%s workers (-1 +%s):\n%s", workers, workers, diff)
		}
	}
}

func checkFlowReport(t *testing.T, report string) {
	const want = `pattern           flows  counted  done  bytes   failed  unfinished  waiting
arrivals          34     34       34    1.04MB  0       0           0
big               1      1        0     0B      0       1           0
requests          24     18       24    361KB   0       0           0
bursts            42     42       42    384KB   0       0           0
flow-permutation  8      4        8     800KB   0       0           0
flow-all-to-all   12     0        12    12KB    0       0           0
collective        46     42       46    4.6MB   0       0           0
flow-list         2      2        2     21KB    0       0           0
size of flows      done  FCT p50  p95     p99     slowdown p50  p95   p99
to 1KB             31    32.4us   77.6us  93.3us  6.17          17.4  19.5
over 1KB to 100KB  107   121us    372us   405us   2.23          5.6   8.25
over 100KB         4     192us    656us   656us   1.75          3.34  3.34
unfinished h1 > h4, 5MB of big, created at 0.000959537s: 1.31MB acknowledged
`
	from := strings.Index(report, "pattern ")
	to := strings.Index(report, "trace ")
	if from < 0 || to < 0 {
		t.Fatal(report)
	}
	if diff := cmp.Diff(want, report[from:to]); diff != "" {
		t.Errorf("the report of flows (-want +got):\n%s", diff)
	}
}

// checkFlowFiles checks that both files have the flows that the report counts.
func checkFlowFiles(t *testing.T, text, parquetFile string) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Traffic string `parquet:"traffic"`
		State   string `parquet:"state"`
		Path    string `parquet:"path"`
	}
	other, err := parquet.ReadFile[row](parquetFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(other)+1 {
		t.Fatalf("%d rows of CSV and %d of Parquet", len(rows)-1, len(other))
	}
	paths := 0
	for i, r := range rows[1:] {
		if got := (row{r[1], r[7], r[20]}); got != other[i] {
			t.Fatalf("row %d: %+v in CSV, %+v in Parquet", i, got, other[i])
		}
		if strings.HasPrefix(r[20], r[4]+":eth0 s1:") {
			paths++
		}
	}
	if paths < len(rows)/2 {
		t.Errorf("%d of %d rows have a path", paths, len(rows))
	}
}

// TestFlowRecords_ImpossibleFlagsAreRefused: impossible flags are refused before the run, and no
// file is created.
func TestFlowRecords_ImpossibleFlagsAreRefused(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, patternsLab)
	if err := os.WriteFile(filepath.Join(dir, "none.yaml"), []byte(seriesLab), 0o666); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"sim lab.yaml --flow-records f.json":             "--flow-records f.json: end the name in .csv or .parquet",
		"sim none.yaml --flow-records f.csv":             "the workload of none.yaml has no patterns of flows",
		"sim lab.yaml --size-bins 1KB,x":                 "--size-bins:",
		"sim lab.yaml --size-bins 2KB,1KB":               "they must rise",
		"sim lab.yaml --flow-records none/f.csv":         "none/f.csv",
		"up lab.yaml --flow-records f.csv":               "--flow-records f.csv: the file's workload does not send: add --workload",
		"up none.yaml --workload --flow-records f.csv":   "has no patterns of flows",
		"up lab.yaml --workload --flow-records f.parket": "end the name in .csv or .parquet",
	} {
		if _, e, code := run(strings.Fields(args)...); code == 0 || !strings.Contains(e, want) {
			t.Errorf("weft %s: exit code %d, %s", args, code, e)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("files %v", files)
	}
}

// TestTCPFlows_CountersMatchRecordsAndSeries: the report has the counters of the senders of TCP
// flows, which match the records, and the series of flows has rows of them.
func TestTCPFlows_CountersMatchRecordsAndSeries(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, `
duration: 500ms
topology:
  kinds: {host: {attach: none}, switch: {queue: {limit: 60KB}}}
  generate: {star: {hosts: 9, rate: 10Gbps, delay: 1us}}
workload:
  - {requests: {name: incast, aggregators: h9, workers: "h[1-8]", fanout: 8, response: 100KB, every: 2ms, count: 5, by: {tcp: {cc: cubic}}}}
  - {bursts: {name: plain, hosts: [h2, h3], sizes: 10KB, burst: 3, off: 100ms, by: {udp: {rate: 1Gbps}}}}
`)
	o, e, code := run("sim", "lab.yaml", "--flow-records", "r.csv", "--flow-series", "f.csv", "--every", "100us", "--json")
	if code != 0 || e != "" {
		t.Fatalf("exit code %d: %s", code, e)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(o), &r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "r.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	again, column := uint64(0), slices.Index(rows[0], "retransmitted")
	for _, row := range rows[1:] {
		n, _ := strconv.ParseUint(row[column], 10, 64)
		again += n
	}
	p := r.Patterns.Patterns
	if c := p[0].TCP; p[1].TCP != nil || c == nil || c.Resent != again || c.Resent == 0 || c.Segments != 40*70+c.Resent || c.Recoveries == 0 || p[0].Done != 40 {
		t.Errorf("%d were sent again; %+v, %+v", again, p, p[0].TCP)
	}
	o, _, _ = run("sim", "lab.yaml")
	if want := fmt.Sprintf("pattern by TCP segments sent again recoveries timeouts tail probes spurious ACKs with ECE incast %d %d", p[0].TCP.Segments, again); !strings.Contains(strings.Join(strings.Fields(o), " "), want) {
		t.Errorf("%q is not in\n%s", want, o)
	}
	if o, e, code := run("report", "f.csv", "--what", "window", "-o", "f.png"); code != 0 || !strings.Contains(o, "tcp 10.0.0.1:") {
		t.Errorf("exit code %d: %s%s", code, o, e)
	}
}

// TestNDPFlows_CountersMatchRecordsAndSeries: the report has the counters of the senders of NDP
// flows, which match the records, and the series of flows has rows of them.
func TestNDPFlows_CountersMatchRecordsAndSeries(t *testing.T) {
	t.Parallel()
	_, run := inDir(t, `
topology:
  kinds:
    host: {attach: none}
    switch: {buffer: {size: 4MB}, classes: {default: {limit: 12112B, trim: {preset: ndp, dscp: 46}}, trimmed: {priority: 7, limit: 64KB, dscp: 46}}}
  generate: {star: {hosts: 9, rate: 10Gbps, delay: 1us}}
workload:
  - {requests: {name: incast, aggregators: h9, workers: "h[1-8]", fanout: 8, response: 100KB, every: 2ms, count: 5, by: ndp}}
duration: 50ms
`)
	o, e, code := run("sim", "lab.yaml", "--flow-series", "f.csv", "--every", "100us", "--json")
	if code != 0 || e != "" {
		t.Fatalf("exit code %d: %s", code, e)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(o), &r); err != nil {
		t.Fatal(err)
	}
	p := r.Patterns.Patterns[0]
	if c := p.NDP; p.TCP != nil || c == nil || c.Resent == 0 || c.NACKs == 0 || c.Packets != 40*69+c.Resent || p.Done != 40 {
		t.Fatalf("%+v, %+v", p, p.NDP)
	}
	o, _, _ = run("sim", "lab.yaml")
	if want := fmt.Sprintf("pattern by NDP packets sent again ACKs NACKs PULLs sent back timeouts incast %d %d", p.NDP.Packets, p.NDP.Resent); !strings.Contains(strings.Join(strings.Fields(o), " "), want) {
		t.Errorf("%q is not in\n%s", want, o)
	}
	if o, e, code := run("report", "f.csv", "--what", "window", "-o", "f.png"); code != 0 || !strings.Contains(o, "ndp 10.0.0.1 > 10.0.0.9:54794") {
		t.Errorf("exit code %d: %s%s", code, o, e)
	}
}

// TestFlowRecords_AreWhatReportReads: the report of a file of records agrees with that of the run,
// in both formats.
func TestFlowRecords_AreWhatReportReads(t *testing.T) {
	t.Parallel()
	_, run := inDir(t, patternsLab)
	var first string
	for _, name := range []string{"f.csv", "f.parquet"} {
		out, e, code := run("sim", "lab.yaml", "--flow-records", name, "--json", "--size-bins", "1GB")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, e)
		}
		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		bin := r.Patterns.Bins[0]
		text, e, code := run("report", name, "--what", "slowdown", "-o", "f.png")
		want := fmt.Sprintf("%s: %d flows, %d done, %d failed, %d unfinished", name, bin.Done+bin.Failed+bin.Unfinished, bin.Done, bin.Failed, bin.Unfinished)
		if code != 0 || !strings.HasPrefix(text, want) {
			t.Errorf("exit code %d, %s\n%s\nwant %q", code, e, text, want)
		}
		text = text[len(name):]
		if first == "" {
			first = text
		} else if diff := cmp.Diff(first, text); diff != "" {
			t.Errorf("the formats differ (-CSV +Parquet):\n%s", diff)
		}
	}
}
