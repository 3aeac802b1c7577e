package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestExperiment_FailedTrafficHasAnExitCode: cells in which transfers or flows failed count, the
// report's first lines and a list say which, and the exit code is 4.
func TestExperiment_FailedTrafficHasAnExitCode(t *testing.T) {
	t.Parallel()
	weft := testlab.Weft(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "failing.yaml")
	if err := os.WriteFile(file, []byte(`
title: a link that loses everything
lab:
  topology:
    kinds: {host: {attach: none, nic: roce}, link: {rate: 10Gbps, delay: 1us}}
    nodes: {h1: {kind: host}, h2: {kind: host}}
    links: [{endpoints: ["h1:eth0", "h2:eth0"]}]
  duration: 10s
  workload:
    - {write: {from: h1, to: h2, size: 1MB}}
    - {flow-permutation: {sizes: 1MB, count: 1}}
vary:
  loss: {path: "topology.links[0].loss", values: [0%, 100%]}
seeds: 1
measure:
  failed: {of: transfers, column: failed_messages, stat: sum}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		o, e, code := testlab.RunWeft(t, weft, "experiment", file, "-o", filepath.Join(dir, "out"))
		if code != testlab.ExitTraffic || !strings.Contains(e, "modelled traffic failed in 1 of 2 cells") {
			t.Fatalf("again %v: exit code %d\n%s%s", again, code, o, e)
		}
		if lines := strings.Split(o, "\n"); lines[2] != "FAILED   modelled traffic of 1 of 2 cells, see below" {
			t.Errorf("the third line is %q", lines[2])
		}
		if !strings.Contains(o, "loss=100% seed 1: 2 of 2 flows (IBV_WC_RETRY_EXC_ERR), messages of 1 of 1 transfers") && !strings.Contains(o, "2 of 2 flows (IBV_WC_RETRY_EXC_ERR), messages of 1 of 1 transfers") {
			t.Errorf("the list lacks the cell:\n%s", o)
		}
	}
	r, _ := result(t, filepath.Join(dir, "out"))
	if r.CountTraffic() != 1 || r.HasFailed() {
		t.Errorf("%+v", r.Cells)
	}
}
