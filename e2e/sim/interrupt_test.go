package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traffic/workload"
)

// endlessLab is a lab that runs longer than any test. It has few pauses, and
// few events per millisecond.
const endlessLab = `
duration: 100h
topology:
  kinds: {switch: {pause: {xoff: 20KB}}}
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 10us}}
workload:
  - {cbr: {from: [h1, h2], to: h3, rate: 20Mbps, size: 1000B}}
`

// interrupt runs weft sim, sends it a signal when a file has grown, and returns
// what it printed and its exit code.
func interrupt(t *testing.T, dir string, with unix.Signal, grows string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := exec.Command(testlab.Weft(t), append([]string{"sim", "lab.yaml"}, args...)...)
	c.Dir = dir
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	p := testlab.Launch(t, c)
	p.Await(t, grows+" grows", func() bool {
		i, err := os.Stat(filepath.Join(dir, grows))
		return err == nil && i.Size() > 10_000
	})
	if err := c.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
	_ = p.WaitEnd(t)
	return out.String(), said.String(), c.ProcessState.ExitCode()
}

// TestSim_InterruptedReportsTheRunSoFar: Ctrl-C ends a run in virtual time with the report so far,
// marked as partial, and with all output files.
func TestSim_InterruptedReportsTheRunSoFar(t *testing.T) {
	t.Parallel()
	dir, _ := inDir(t, endlessLab)
	o, e, code := interrupt(t, dir, unix.SIGINT, "q.csv", "--json", "--stream-records", "f.csv", "--series", "q.csv", "--every", "50ms", "-w", "c.pcapng", "-p", "s1:h3")
	if code != 130 || !strings.Contains(e, "weft: interrupted at ") || !strings.Contains(e, "of 360000s: the report and the files cover the run so far") {
		t.Errorf("exit code %d, %s", code, e)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(o), &r); err != nil {
		t.Fatalf("%v\n%s", err, o)
	}
	if r.Partial == nil || r.Partial.Why != "interrupted" || r.Partial.Until == 0 || r.Trace != "" || r.Emulated == 0 || r.Accounts.Delivered == 0 || !r.Accounts.Balanced() {
		t.Errorf("%+v, %v, trace %q, %+v", r.Partial, r.Emulated, r.Trace, r.Accounts)
	}
	f, err := os.Open(filepath.Join(dir, "f.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flows, err := workload.ReadCSV(f)
	if err != nil || len(flows) != 2 || flows[0].Received == 0 || flows[0].Received != r.Flows[0].Received {
		t.Errorf("the records: %v, %+v", err, flows)
	}
	if r.Series == nil || r.Series.Error != "" {
		t.Errorf("the series: %+v", r.Series)
	}
	if o, e, code := testlab.RunWeft(t, testlab.Weft(t), "report", filepath.Join(dir, "q.csv")); code != 0 {
		t.Errorf("weft report of the series: exit code %d\n%s%s", code, o, e)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "c.pcapng")); err != nil || len(b) == 0 {
		t.Errorf("the capture: %d bytes, %v", len(b), err)
	}
}

// TestSim_TerminatedReportsTheRunSoFar: the same as text, from several workers, by another signal.
func TestSim_TerminatedReportsTheRunSoFar(t *testing.T) {
	t.Parallel()
	dir, _ := inDir(t, endlessLab)
	o, e, code := interrupt(t, dir, unix.SIGTERM, "q.csv", "--workers", "2", "--series", "q.csv", "--for", "50h", "--every", "50ms")
	if code != 128+15 || !strings.Contains(e, "weft: ended by SIGTERM at ") || strings.Contains(e, "\r") {
		t.Errorf("exit code %d, %q", code, e)
	}
	if lines := strings.SplitN(o, "\n", 3); len(lines) < 3 || !strings.HasPrefix(lines[1], "PARTIAL  ended by SIGTERM at ") || !strings.Contains(lines[1], " of 180000s") ||
		strings.Contains(o, "do not add up") || strings.Contains(o, "trace ") {
		t.Errorf("the report:\n%s", o)
	}
}
