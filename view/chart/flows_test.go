package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
)

// recordFile writes a file of flow records: n done flows of each of some sizes, of which the i-th
// takes i ms and half of that alone; one that has failed, one that is unfinished, and one outside
// the window.
func recordFile(t *testing.T, name string, n int, sizes ...units.Bytes) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	names := records.Names{Traffic: []string{"load", "bulk"}, Hosts: []string{"h1", "h2", "h3"}}
	var s records.Sink = records.NewCSV(f, names)
	if filepath.Ext(name) == ".parquet" {
		s = records.NewParquet(f, names)
	}
	all := []records.Record{
		{To: 1, Size: 1, State: records.Failed, Counted: true, Started: units.Never, Arrived: units.Never},
		{To: 1, Size: 1, State: records.Unfinished, Counted: true, Started: units.Never, Arrived: units.Never},
		{To: 1, Size: 1, End: units.Second, Ideal: 1},
	}
	for k, size := range sizes {
		for i := 1; i <= n; i++ {
			all = append(all, records.Record{
				Traffic: int32(min(k, 1)), To: int32(1 + min(k, 1)), Size: size, Counted: true,
				End: units.Time(i) * ms, Ideal: units.Time(i) * ms / units.Time(k+2),
			})
		}
	}
	for i := range all {
		if err := s.PutRecord(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFlows_PercentilesAndSizes: flow records have percentiles of completion time, slowdown and
// goodput over the done flows that count, and the first two by size; CSV and Parquet alike.
func TestFlows_PercentilesAndSizes(t *testing.T) {
	a := recordFile(t, "a.csv", 100, 1000, 2000)
	b := recordFile(t, "b.parquet", 100, 1000, 2000)
	texts := map[string]string{}
	for _, file := range []string{a, b} {
		var text bytes.Buffer
		open(t, Options{}, file).Write(&text)
		var lines []string
		for _, l := range strings.Split(strings.TrimSpace(text.String()), "\n") {
			lines = append(lines, strings.Join(strings.Fields(l), " "))
		}
		texts[file] = strings.Join(lines, "\n")
		for _, want := range []string{
			": 202 flows, 200 done, 1 failed, 1 unfinished; 1 outside the window do not count\n",
			"\nover flows mean min p50 p90 p95 p99 max\n",
			"\ncompletion 50.5ms 1ms 50ms 90ms 95ms 99ms 100ms\n",
			"\nslowdown 2.5 2 2 3 3 3 3\n",
			"\ncompletion of size flows mean min p50 p90 p95 p99 max\n1KB 100 50.5ms 1ms 50ms 90ms 95ms 99ms 100ms\n2KB 100 ",
			"\nslowdown of size flows mean min p50 p90 p95 p99 max\n1KB 100 2 2 2 2 2 2 2\n2KB 100 3 3 3 3 3 3 3",
		} {
			if !strings.Contains(texts[file], want) {
				t.Errorf("no %q in\n%s", want, texts[file])
			}
		}
	}
	if one, other := strings.ReplaceAll(texts[a], a, ""), strings.ReplaceAll(texts[b], b, ""); one != other {
		t.Errorf("CSV:\n%s\nParquet:\n%s", one, other)
	}
	r := open(t, Options{Flows: []string{"bul*"}}, a)
	j, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(j), `"flows":100,"flows_outside_window":0,`) || !strings.Contains(string(j), `"by_size":[{"from_bytes":2000,"to_bytes":2000,"flows":100,`) {
		t.Errorf("%v\n%s", err, j)
	}
}

// TestFlows_Pictures: the cumulative distributions reach 1, and slowdown by size has a point for
// each size of each file.
func TestFlows_Pictures(t *testing.T) {
	var sizes []units.Bytes
	for i := range 40 {
		sizes = append(sizes, units.Bytes(1000*(i+1)))
	}
	a, b := recordFile(t, "a.csv", 10, sizes...), recordFile(t, "b.parquet", 10, sizes[:20]...)
	for _, what := range FlowPictures() {
		f, p, _ := figureIn(t, open(t, Options{What: what}, a, b))
		drawPNG(t, f)
		if what == bySize {
			if len(p.X.Names) != maxBins || len(p.Series) != 6 || len(p.Series[0].X) != maxBins || len(p.Series[3].X) >= maxBins || p.X.Label != "flow size, up to" {
				t.Errorf("%d sizes, %q: %d and %d points", len(p.X.Names), lineNames(p), len(p.Series[0].X), len(p.Series[3].X))
			}
			continue
		}
		for _, s := range p.Series {
			if s.Y[0] != 0 || s.Y[len(s.Y)-1] != 1 {
				t.Errorf("%s: %s goes from %v to %v", what, s.Name, s.Y[0], s.Y[len(s.Y)-1])
			}
		}
		if got := lineNames(p); len(got) != 2 || got[0] != "a" || got[1] != "b" {
			t.Errorf("%s: lines %q", what, got)
		}
	}
}

// TestFlows_Errors: what flow records do not have is refused.
func TestFlows_Errors(t *testing.T) {
	good := recordFile(t, "good.csv", 2, 1000)
	head := strings.Join(records.Columns, ",") + "\n"
	for _, c := range []struct {
		file string
		o    Options
		want string
	}{
		{good, Options{Ports: []string{"s1:1"}}, "flow records have no ports and no samples"},
		{good, Options{What: "delay"}, "must be one of completion, slowdown, slowdown-by-size, goodput"},
		{good, Options{LogY: true}, "not shown on a logarithmic axis"},
		{good, Options{LogX: true, What: bySize}, "--log-x is not for slowdown-by-size"},
		{good, Options{Flows: []string{"h9"}}, "no traffic and no host matches --flow h9"},
		{good, Options{Flows: []string{"h["}}, "a [ needs its ]"},
		{write(t, "head.csv", head), Options{}, "has no records"},
		{write(t, "cut.csv", "traffic,fct_s\n"), Options{}, "missing column from, to"},
	} {
		c.o.To = units.Never
		_, err := Open([]string{c.file}, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", fmt.Sprintf("%+v", c.o), err, c.want)
		}
	}
	r := open(t, Options{}, write(t, "open.csv", head+strings.Repeat("1,a,0,0,h1,h2,1,unfinished,,true,0,,1,,,,,0,0,0,\n", 1)))
	if _, _, err := r.Figure(); err == nil || !strings.Contains(err.Error(), "no flow is done") {
		t.Errorf("a file without done flows: error %v", err)
	}
}
