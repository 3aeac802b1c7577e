package lab

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestUp_ReadsStandardInput: also if another process runs the lab.
func TestUp_ReadsStandardInput(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t), t.TempDir(), testlab.TwoHosts)
	text := "name: " + l.Name + "\n" + testlab.TwoHosts
	c := l.Command("up", "-d", "-")
	c.Stdin = strings.NewReader(text)
	if o, e, code := testlab.RunCommand(t, c); code != 0 {
		t.Fatalf("up -d -: exit code %d\n%s%s", code, o, e)
	}
	if o := l.Must("ps"); !strings.Contains(o, l.Name) || !strings.Contains(o, "stdin") {
		t.Errorf("weft ps:\n%s", o)
	}
	l.Down()
	c = l.Command("up", "--for", "100ms", "-")
	c.Stdin = strings.NewReader(text)
	if o, e, code := testlab.RunCommand(t, c); code != 0 || !strings.Contains(o, "fidelity") {
		t.Errorf("up -: exit code %d\n%s%s", code, o, e)
	}
}
