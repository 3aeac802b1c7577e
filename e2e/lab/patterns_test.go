package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
)

// TestPatterns_ReportSumsUpTheRecords: patterns of flows in wall-clock time, beside a real host, with
// one worker and with two: the report sums up the records in the file.
func TestPatterns_ReportSumsUpTheRecords(t *testing.T) {
	t.Parallel()
	testlab.Need(t)
	for name, workers := range map[string]string{"one": "1", "two": "2"} {
		t.Run(name, func(t *testing.T) {
			weft := testlab.Need(t)
			dir := t.TempDir()
			l := testlab.New(t, weft, dir, `
topology:
  generate: {dumbbell: {left: 2, right: 2, rate: 100Mbps, delay: 100us, mtu: 4200}}
  kinds: {host: {attach: none, nic: roce}}
  nodes: {h1: {attach: tap}}
workload:
  - {flow-permutation: {sizes: 10KB, count: 20}}
  - {flow-permutation: {name: kept, sizes: 10KB, count: 20, connections: per-pair}}
  - {requests: {aggregators: h2, request: 100B, response: 1KB, think: 1ms, count: 20}}
  - {flow-permutation: {name: tcp, sizes: 10KB, count: 20, by: tcp}}
  - {flow-permutation: {name: ndp, sizes: 10KB, count: 20, by: ndp}}
  - {tcp: {from: h2, to: h4, size: 10KB, at: 20ms, cc: reno}}
`)
			l.Workers = workers
			file := filepath.Join(dir, "f.csv")
			const want = 4*20 + 4*20 + 2*3*20 + 4*20 + 4*20 + 1
			var r report.Report
			out := l.Must("up", "--workload", "--for", "1s", "--json", "--flow-records", file, "--size-bins", "5KB", l.File)
			if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &r); err != nil {
				t.Fatal(err)
			}
			if r.Patterns == nil || len(r.Patterns.Patterns) != 6 || len(r.Patterns.Bins) != 2 {
				t.Fatalf("patterns %+v", r.Patterns)
			}
			b := r.Patterns.Bins
			if b[0].Done != 120 || b[1].Done != 321 || b[1].FCT50 < 500e-6 || len(r.Patterns.Open) > 0 {
				t.Errorf("%+v", r.Patterns)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), ",done,"); n != want {
				t.Errorf("%d flows in the file, not %d", n, want)
			}
		})
	}
}
