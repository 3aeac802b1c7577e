package rootless

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/status"
)

// TestPrograms_RunAndEndWithTheLab: the commands of a rootless lab run and end with it.
func TestPrograms_RunAndEndWithTheLab(t *testing.T) {
	t.Parallel()
	l := testlab.NewForUser(t, testlab.TwoHostsRunning(`{run: "echo $(id -u) $GREETING; exec sleep 1000", env: {GREETING: hello}, ready: {output: hello}}`, `{run: [iperf3, -s], ready: {port: 5201}}`), "iperf3")
	l.Must("up", "-d", l.File)
	if out := l.Exec("h1", "iperf3", "-c", "h2", "-n", "100K"); !strings.Contains(out, "receiver") {
		t.Error(out)
	}
	r := l.Down()
	ready := 0
	for _, m := range r.Timeline {
		if m.Event == status.ProgramReady {
			ready++
		}
	}
	if ready != 2 {
		t.Errorf("%+v", r.Timeline)
	}
	checkNothingLeft(l)
	broken := testlab.New(t, l.Weft, filepath.Dir(l.File), testlab.TwoHostsRunning(`{run: "echo is broken; exit 3", ready: {exit: true}}`, `"sleep 1000"`))
	broken.As, broken.User = l.As, l.User
	if _, said, code := broken.Run("up", "-d", broken.File); code != testlab.ExitFailed || !strings.Contains(said, "exit code 3; its output:\n  is broken") {
		t.Errorf("exit code %d, %s", code, said)
	}
	checkNothingLeft(broken)
}
