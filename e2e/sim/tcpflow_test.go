package sim

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTCPFlow_StartsAtItsTime: a flow of the entry tcp starts at the time in the file, whatever the
// seed, and has the name of its hosts in the records.
func TestTCPFlow_StartsAtItsTime(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, `
topology:
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 5us}}
  kinds: {host: {attach: none}}
workload:
  - {tcp: {from: h1, to: h3, size: 1MB}}
  - {tcp: {name: late, from: h2, to: h3, size: 20KB, at: 3ms, cc: reno}}
`)
	for _, seed := range []string{"1", "2"} {
		if _, e, code := run("sim", "lab.yaml", "--seed", seed, "--flow-records", "f.csv"); code != 0 {
			t.Fatalf("exit code %d: %s", code, e)
		}
		text, err := os.ReadFile(filepath.Join(dir, "f.csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows[1:] {
			var picked []string
			for _, column := range []string{"traffic", "from", "to", "size_bytes", "state", "created_s", "started_s"} {
				picked = append(picked, r[slices.Index(rows[0], column)])
			}
			got = append(got, strings.Join(picked, " "))
		}
		slices.Sort(got)
		if want := []string{"h1-h3 h1 h3 1000000 done 0 0", "late h2 h3 20000 done 0.003 0.003"}; !slices.Equal(got, want) {
			t.Errorf("seed %s: %q, want %q", seed, got, want)
		}
	}
}
