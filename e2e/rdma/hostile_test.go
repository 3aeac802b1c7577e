package rdma

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestHostileProgram_DoesNotDisturbOthers: while a program of a host misbehaves, another on the
// same host continues with its peer, and new ones can start afterwards.
func TestHostileProgram_DoesNotDisturbOthers(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "rping")
	program := filepath.Join(t.TempDir(), "hostile")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread", "-I../../nicemu/verbs", "-o", program, "testdata/hostile/hostile.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	list, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	// -V compares all bytes, at both ends.
	l.StartServing("h1", "rping", "-s", "-V", "-S", "3000")
	client := l.StartProgram("h2", "rping", "-c", "-a", "10.0.0.1", "-V", "-S", "3000")
	continues := func(l *testlab.Lab) {
		l.T.Helper()
		counted := counts(l, "h1")
		client.WaitFor(l, "it goes on", func() bool { return counted("received_payload") > 10*3000 })
	}
	continues(l)
	for _, name := range strings.Fields(string(list)) {
		t.Run(name, func(t *testing.T) {
			l := l.In(t)
			if o, e, code := l.Run("exec", "-l", l.Name, "h1", "--", program, name); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, o, e)
			}
			continues(l)
			l.RunRDMA([]string{"rping", "-s", "-p", "7175", "-C", "3", "-V"}, []string{"rping", "-c", "-p", "7175", "-a", "10.0.0.1", "-C", "3", "-V"})
		})
	}
}
