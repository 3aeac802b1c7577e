package sim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traffic/workload"
)

// TestTransfers_OfALabWithoutAnyAreRefused: writing the transfers of a lab without any is refused
// before the run, and no file is created.
func TestTransfers_OfALabWithoutAnyAreRefused(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, seriesLab)
	for args, want := range map[string]string{
		"sim lab.yaml --transfer-records t.csv": "--transfer-records t.csv: the workload of lab.yaml has no RDMA transfers",
		"sim lab.yaml --transfer-records t.txt": "end the name in .csv or .json",
	} {
		if _, e, code := run(strings.Fields(args)...); code != testlab.ExitBadInput || !strings.Contains(e, want) {
			t.Errorf("weft %s: exit code %d, %s", args, code, e)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("files %v", files)
	}
}

// TestReport_SumsUpAndDrawsTransfers: weft report recognizes its input, sums it up and draws it.
func TestReport_SumsUpAndDrawsTransfers(t *testing.T) {
	t.Parallel()
	dir, run := inDir(t, seriesLab)
	r := &report.Report{}
	r.SetTransfers([]workload.TransferResult{
		{Transfer: "a", Posted: 1, Completed: 1, MessageSize: 1000, Goodput: 1e9, End: 1, Ideal: 1, CompletionMin: 2, CompletionMax: 2, CompletionMean: 2},
		{Transfer: "b", Posted: 1, Completed: 1, MessageSize: 4096, Goodput: 1e9, End: 1, Ideal: 2, CompletionMin: 3, CompletionMax: 3, CompletionMean: 3},
	})
	f, err := os.Create(filepath.Join(dir, "t.json"))
	if err == nil {
		err = errors.Join(workload.WriteTransfersJSON(f, r.Transfers), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"", " -o x.png --log-x", " -o y.svg --what slowdown-by-size --log-y", " -o z.png --what goodput"} {
		o, e, code := run(strings.Fields("report t.json" + args)...)
		if code != 0 || e != "" || !strings.Contains(o, "t.json: 2 transfers") || !strings.Contains(o, "4.1KB") {
			t.Errorf("%s: exit code %d\n%s%s", args, code, o, e)
		}
	}
	for _, name := range []string{"x.png", "y.svg", "z.png"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if o, _, code := run("report", "t.json", "--json"); code != 0 || !strings.Contains(o, `"transfer_records"`) || !strings.Contains(o, `"fairness": 1`) {
		t.Errorf("exit code %d\n%s", code, o)
	}
	if _, e, code := run("report", "t.json", "-o", "w.png", "--what", "delay"); code != testlab.ExitBadInput || !strings.Contains(e, "must be one of completion, slowdown, slowdown-by-size, goodput") {
		t.Errorf("exit code %d\n%s", code, e)
	}
}
