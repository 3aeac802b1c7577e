package sim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestOutput_ThatCannotBeWrittenIsAFailure: a command whose standard output takes nothing more
// has not succeeded, whatever it prints.
func TestOutput_ThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	weft, dir := testlab.Weft(t), t.TempDir()
	lab, experiment, series := filepath.Join(dir, "lab.yaml"), filepath.Join(dir, "experiment.yaml"), filepath.Join(dir, "q.csv")
	for file, text := range map[string]string{
		lab: testlab.TwoHosts + `
workload: [{cbr: {from: h1, to: h2, rate: 10Mbps, size: 1000B, for: 10ms}}]
`,
		experiment: `
lab: lab.yaml
vary: {rate: {slow: {}, fast: {"workload[0].cbr.rate": 20Mbps}}}
measure: {received: {of: ports, column: rx_bytes}}
`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, said, code := testlab.RunWeft(t, weft, "sim", lab, "--series", series); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, said)
	}
	for _, command := range []string{
		"sim " + lab, "sim --json " + lab, "validate " + lab, "graph --dot " + lab, "graph " + lab, "report " + series,
		"experiment --list " + experiment, "schema", "dissector", "ps", "ps --json", "version", "--help", "sim --help",
	} {
		_, said, code := testlab.RunCommand(t, exec.Command("sh", "-c", weft+" "+command+" >/dev/full"))
		if code != 1 || !strings.Contains(said, "no space left on device") {
			t.Errorf("weft %s: exit code %d, want 1; it said %q", command, code, said)
		}
	}
}
