package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestFlows_WrittenAreThoseThatARunStarts: the flows written for HPCC's simulator are those that a
// run starts, and a lab that reads them back starts the same flows.
func TestFlows_WrittenAreThoseThatARunStarts(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir := t.TempDir()
	lab := filepath.Join(dir, "lab.yaml")
	write := func(workload string) {
		t.Helper()
		text := "topology: {kinds: {host: {nic: roce}}, generate: {star: {hosts: 6, rate: 10Gbps, delay: 1us}}}\nwindow: {end: 2ms}\nworkload:\n" + workload
		if err := os.WriteFile(lab, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// run returns the flows that a run starts, as numbers of hosts and bytes, in any order.
	run := func() (all []string) {
		t.Helper()
		records := filepath.Join(dir, "flows.csv")
		if _, e, code := testlab.RunWeft(t, weft, "sim", lab, "--flow-records", records); code != 0 {
			t.Fatalf("exit code %d\n%s", code, e)
		}
		data, err := os.ReadFile(records)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		column := func(name string) int { return slices.Index(rows[0], name) }
		for _, r := range rows[1:] {
			all = append(all, fmt.Sprint(r[column("from")], " ", r[column("to")], " ", r[column("size_bytes")]))
		}
		slices.Sort(all)
		return all
	}
	write("  - {arrivals: {load: 30%, sizes: {uniform: [1KB, 50KB]}}}\n")
	file := filepath.Join(dir, "flow.txt")
	if _, e, code := testlab.RunWeft(t, weft, "flows", lab, "-o", file, "--priority", "2"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, e)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var written []string
	for _, l := range lines[1:] {
		f := strings.Fields(l)
		if f[2] != "2" {
			t.Fatalf("%q is not of the priority group 2", l)
		}
		written = append(written, fmt.Sprintf("h%c %s %s", f[0][0]+1, "h"+string(f[1][0]+1), f[4]))
	}
	slices.Sort(written)
	drawn := run()
	if !slices.Equal(drawn, written) || lines[0] != fmt.Sprint(len(drawn)) || len(drawn) < 50 {
		t.Errorf("%s flows are written, and %d were drawn:\n%v\n%v", lines[0], len(drawn), written, drawn)
	}
	write("  - {flow-list: {hpcc: flow.txt}}\n")
	if again := run(); !slices.Equal(again, drawn) {
		t.Errorf("read back they are %d flows, not %d:\n%v", len(again), len(drawn), again)
	}
	if _, e, code := testlab.RunWeft(t, weft, "flows", "../../scripts/labs/incast-pfc.yaml"); code != testlab.ExitBadInput || !strings.Contains(e, "no patterns of flows") {
		t.Errorf("a lab without patterns: exit code %d\n%s", code, e)
	}
}
