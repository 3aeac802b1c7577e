package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestCommands_BadInputExitsWith2: whatever command names a lab, a host or a port that does not
// exist, or is not written as its usage says, has the exit code of bad input, and does nothing.
func TestCommands_BadInputExitsWith2(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts)
	kept := filepath.Join(t.TempDir(), "kept.pcapng")
	if err := os.WriteFile(kept, []byte("an older capture"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command, said string
	}{
		{"set -l LAB s9:1 loss=1%", `no node "s9"`},
		{"set -l LAB h1:eth0 loss=110%", "loss"},
		{"set -l no-lab h1:eth0 loss=1%", "no-lab"},
		{"capture -l LAB s1:9 -w " + kept, `no port "9"`},
		{"capture -l LAB s1:1 -f nonsense( -w " + kept, "nonsense"},
		{"capture -l no-lab s1:1 -w " + kept, "no-lab"},
		{"why-no-pause -l LAB s1:9", `no port "9"`},
		{"why-no-pause -l LAB h1:eth0", "h1"},
		{"nic -l LAB h9", "h9"},
		{"qp -l LAB h9", "h9"},
		{"edge -l LAB h9", "h9"},
		{"ps -l no-lab", "no-lab"},
		{"ps no-lab", "no-lab"},
		{"top --once -l no-lab", "no-lab"},
		{"exec -l LAB h9 true", "h9"},
		{"exec no-lab/h1 true", "no-lab"},
		{"shell -l LAB h9", "h9"},
		{"down no-lab", "no-lab"},
		{"down -l no-lab", "no-lab"},
		{"down --all LAB", "--all"},
		{"ps -l LAB no-lab", "two labs"},
		{"capture -l LAB s1:1", `"write" not set`},
		{"nonsense", "unknown command"},
		{"set -l LAB h1:eth0", "at least 2 arg"},
		{"ps --nonsense", "unknown flag"},
	} {
		out, said, code := l.Run(strings.Fields(strings.ReplaceAll(c.command, "LAB", l.Name))...)
		if code != 2 || !strings.Contains(said, c.said) || out != "" {
			t.Errorf("weft %s: exit code %d, want 2; it said %q, without %q; standard output %q", c.command, code, said, c.said, out)
		}
	}
	if b, err := os.ReadFile(kept); err != nil || string(b) != "an older capture" {
		t.Errorf("a refused capture left %q, %v in the file", b, err)
	}
}
