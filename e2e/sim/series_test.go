package sim

import (
	"encoding/json"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/observe/series"
)

const seriesLab = `
name: incast
duration: 5ms
topology:
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 5us}}
  kinds: {host: {attach: none}, switch: {queue: {limit: 30KB}}}
series: {every: 100us, ports: ["s1:h[12]"]}
workload:
  - {poisson: {name: in, from: [h2, h3], to: h1, rate: 700Mbps, size: 1400B}}
`

// inDir writes a lab file into a new directory and returns a function that runs
// weft there.
func inDir(t *testing.T, lab string) (dir string, run func(args ...string) (stdout, stderr string, code int)) {
	t.Helper()
	weft := testlab.Weft(t)
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lab.yaml"), []byte(lab), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, func(args ...string) (string, string, int) {
		t.Helper()
		c := exec.Command(weft, args...)
		c.Dir = dir
		return testlab.RunCommand(t, c)
	}
}

// TestSeries_MatchesTheReportAndChangesNothing: weft sim writes a series that matches its report,
// and the run is the same as without it.
func TestSeries_MatchesTheReportAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, seriesLab)
	plain := testlab.Simulate(t, testlab.Weft(t), filepath.Join(dir, "lab.yaml"))
	r := testlab.Simulate(t, testlab.Weft(t), filepath.Join(dir, "lab.yaml"), "--series", filepath.Join(dir, "a.csv"))
	if r.Trace != plain.Trace || r.Emulated != plain.Emulated || r.Events != plain.Events {
		t.Errorf("trace %s over %d events, without a series %s over %d", r.Trace, r.Events, plain.Trace, plain.Events)
	}
	if s := r.Series; s == nil || s.Rows != 100 || s.Queues != 2 || s.Overruns != 0 || plain.Series != nil {
		t.Errorf("%+v", r.Series)
	}
	var sent, dropped uint64
	for _, row := range testlab.ReadSeries(t, filepath.Join(dir, "a.csv")) {
		if row.Port == "s1:h1" {
			sent += row.TxBytes
			dropped += row.Dropped
		}
	}
	if p := testlab.PortOf(t, r, "s1:h1"); sent != p.TxBytes || dropped != p.Dropped || dropped == 0 {
		t.Errorf("rows say %d bytes and %d drops, the report %d and %d", sent, dropped, p.TxBytes, p.Dropped)
	}

	// Flags override the file, and several workers produce the same rows.
	if _, e, code := run("sim", "lab.yaml", "--series", "b.csv", "--every", "1ms", "--series-port", "h1:*", "--series-port", "s1:h3", "--workers", "3"); code != 0 || e != "" {
		t.Errorf("exit code %d, %s", code, e)
	}
	rows := testlab.ReadSeries(t, filepath.Join(dir, "b.csv"))
	if len(rows) != 10 || rows[0].Port != "s1:h3" || rows[1].Port != "h1:eth0" || rows[9].At != 5_000_000_000 {
		t.Errorf("rows %+v", rows)
	}
	if o, e, code := run("sim", "lab.yaml"); code != 0 || !strings.Contains(e, "series is not recorded") || strings.Contains(o, "series") {
		t.Errorf("without the flag: %d\n%s%s", code, o, e)
	}
}

// TestSeries_BadInputCreatesNothing: what cannot be recorded is refused before anything is done:
// no file is created, and an existing one stays.
func TestSeries_BadInputCreatesNothing(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, seriesLab)
	old := filepath.Join(dir, "old.csv")
	if err := os.WriteFile(old, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"sim lab.yaml --series old.csv --every 10ns", "sample every 1us or more"},
		{"sim lab.yaml --series old.csv --every 1us --for 1000s", "2 billion rows"},
		{"sim lab.yaml --series old.csv --every 10", "no unit"},
		{"sim lab.yaml --series old.csv --series-port s1:h9", `did you mean "h1"?`},
		{"sim lab.yaml --series old.csv --series-port s1*", "write s1*:*"},
		{"sim lab.yaml --series old.txt", "end the name in .csv"},
		{"sim lab.yaml --every 10us", "add --series FILE.csv"},
		{"sim lab.yaml --flow h1", "add --flow-series FILE.csv"},
		{"sim lab.yaml --flow-series old.csv", "no host has a NIC"},
		{"sim lab.yaml --flow-series old.txt", "end the name in .csv"},
		{"sim lab.yaml --series old.csv --flow-series old.csv", "name two files"},
		{"up lab.yaml --series old.csv --every 10us", "sample every 100us or more"},
		{"up -d lab.yaml --series old.csv --series-port x:*", `no port matches "x:*"`},
	} {
		if _, e, code := run(strings.Fields(c.args)...); code != testlab.ExitBadInput || !strings.Contains(e, c.want) {
			t.Errorf("weft %s: exit code %d, %s", c.args, code, e)
		}
	}
	if _, e, code := run("sim", "lab.yaml", "--series", "none/x.csv"); code != testlab.ExitFailed || !strings.Contains(e, "none/x.csv") {
		t.Errorf("a directory that is not there: %d, %s", code, e)
	}
	if b, err := os.ReadFile(old); err != nil || string(b) != "precious" {
		t.Errorf("the file now holds %q", b)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("files %v", files)
	}
}

// TestSeries_InterruptedHasCompleteRows: Ctrl-C leaves a file of complete rows.
func TestSeries_InterruptedHasCompleteRows(t *testing.T) {
	t.Parallel()
	dir, _ := inDir(t, strings.Replace(seriesLab, "5ms", "1h", 1))
	c := exec.Command(testlab.Weft(t), "sim", "lab.yaml", "--series", "x.csv", "--every", "1ms")
	c.Dir = dir
	p, file := testlab.Launch(t, c), filepath.Join(dir, "x.csv")
	p.Await(t, "its series grows", func() bool {
		s, err := os.Stat(file)
		return err == nil && s.Size() > 1000
	})
	_ = c.Process.Signal(os.Interrupt)
	if err := p.WaitEnd(t); err == nil {
		t.Error("a run that was interrupted succeeds")
	}
	text, err := os.ReadFile(file)
	if err != nil || len(text) < 1000 || text[len(text)-1] != '\n' {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if rows := testlab.ReadSeries(t, file); len(rows)%2 != 0 || rows[len(rows)-1].Port != "s1:h2" {
		t.Errorf("%d rows", len(rows))
	}
}

// TestReport_SumsUpAndDrawsSeries: sums on standard output, pictures if requested, and nothing
// half-written on an error.
func TestReport_SumsUpAndDrawsSeries(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, seriesLab)
	if _, e, code := run("sim", "lab.yaml", "--series", "a.csv", "--stream-records", "f.csv"); code != 0 {
		t.Fatal(e)
	}
	if o, e, code := run("report", "a.csv", "-o", "a.png", "--size", "640x400"); code != 0 || e != "" || !strings.Contains(o, "s1:h1") || !strings.Contains(o, "queue mean") {
		t.Errorf("exit code %d\n%s%s", code, o, e)
	}
	f, err := os.Open(filepath.Join(dir, "a.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if i, err := png.Decode(f); err != nil || i.Bounds().Dx() != 640 || i.Bounds().Dy() != 400 {
		t.Errorf("%v", err)
	}
	if o, e, code := run("report", "f.csv", "-o", "f.svg", "--what", "delay", "--log-x"); code != 0 || !strings.Contains(o, "delay-p99") {
		t.Errorf("exit code %d\n%s%s", code, o, e)
	}
	var sums struct {
		Queues []series.Statistics `json:"queues"`
	}
	if o, _, code := run("report", "a.csv", "--json", "--port", "s1:h1"); code != 0 || json.Unmarshal([]byte(o), &sums) != nil || len(sums.Queues) != 1 || sums.Queues[0].Dropped == 0 {
		t.Errorf("exit code %d\n%s", code, o)
	}
	for _, c := range []struct{ args, want string }{
		{"report lab.yaml", "neither a series"},
		{"report none.csv", "no such file"},
		{"report a.csv f.csv", "different kinds"},
		{"report a.csv -o x.jpg", "end the name in .png, .svg or .pdf"},
		{"report a.csv --html x.html --json", "--html excludes"},
		{"report a.csv --what rate", "add -o FILE.png"},
		{"report a.csv -o x.png --what speed", "must be one of queue"},
		{"report a.csv -o x.png --port s1:h8", `did you mean "s1:h1"?`},
		{"report a.csv -o x.png --what trims --log-y", "all values are 0"},
		{"report a.csv --from 2ms --to 1ms", "is not before"},
		{"report a.csv -o x.png --size 10x10", "write for example 800x500"},
		{"report a.csv -o x.png --size 800x500x3", "write for example 800x500"},
		{"report", "requires at least 1 arg"},
	} {
		if o, e, code := run(strings.Fields(c.args)...); code != testlab.ExitBadInput || !strings.Contains(e, c.want) || o != "" {
			t.Errorf("weft %s: exit code %d, %s%s", c.args, code, o, e)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x.png")); err == nil {
		t.Error("a picture was left of something that is wrong")
	}
}

const flowSeriesLab = `
name: flows
duration: 2ms
topology:
  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}
  kinds: {host: {attach: none, nic: {cc: dcqcn}}, switch: {queue: {mark: {step: {k: 20KB}}}}}
workload:
  - {write: {name: first, from: h1, to: h3, size: 500KB, for: 2ms}}
  - {write: {name: second, from: h2, to: h3, size: 500KB, count: 1, at: 500us}}
`

// TestFlowSeries_AddsUpToTheTransfers: weft sim writes a series of flows beside one of queues,
// whose rows add up to the records of the transfers, and weft report sums it up and draws it.
func TestFlowSeries_AddsUpToTheTransfers(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, flowSeriesLab)
	lab := filepath.Join(dir, "lab.yaml")
	plain := testlab.Simulate(t, testlab.Weft(t), lab)
	r := testlab.Simulate(t, testlab.Weft(t), lab, "--series", filepath.Join(dir, "q.csv"), "--flow-series", filepath.Join(dir, "f.csv"), "--every", "10us")
	if r.Trace != plain.Trace || r.Events != plain.Events {
		t.Errorf("trace %s over %d events, without series %s over %d", r.Trace, r.Events, plain.Trace, plain.Events)
	}
	if s := r.FlowSeries; s == nil || s.Flows != 2 || s.Every != 10_000_000 || s.Rows < 300 || r.Series == nil || r.Series.Rows != 600 {
		t.Errorf("%+v, %+v", r.FlowSeries, r.Series)
	}
	o, e, code := run("report", "f.csv", "--json", "--flow", "second")
	var sums struct {
		Flows []struct {
			Transfer string
			From, To string
			Values   []struct {
				Name string
				Mean float64
				Max  float64
			}
		}
	}
	if err := json.Unmarshal([]byte(o), &sums); code != 0 || err != nil || len(sums.Flows) != 1 || sums.Flows[0].Transfer != "second" || len(sums.Flows[0].Values) < 10 {
		t.Fatalf("exit code %d, %v, %s%s", code, err, o, e)
	}
	// 500 KB between the first sample and the end of the run, at 2ms.
	if v := sums.Flows[0].Values[1]; v.Name != "goodput" || v.Mean < 0.99*500e3*8/1.51e-3 || v.Mean > 1.01*500e3*8/1.5e-3 {
		t.Errorf("%+v", v)
	}
	for _, what := range []string{"rate", "goodput", "alpha"} {
		if _, e, code := run("report", "f.csv", "-o", what+".png", "--what", what); code != 0 || e != "" {
			t.Errorf("--what %s: exit code %d, %s", what, code, e)
		}
		f, err := os.Open(filepath.Join(dir, what+".png"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(f); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	if o, _, code := run("sim", "lab.yaml", "--flow-series", "g.csv", "--flow", "first", "--every", "100us"); code != 0 || !strings.Contains(o, "series   g.csv: 20 rows, 1 flows every 100us") {
		t.Errorf("exit code %d, %s", code, o)
	}
	if _, e, code := run("sim", "lab.yaml", "--flow-series", "x.csv", "--flow", "third"); code != testlab.ExitBadInput || !strings.Contains(e, `no flow can match "third"`) {
		t.Errorf("exit code %d, %s", code, e)
	}
}
