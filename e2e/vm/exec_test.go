package vm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestExecInAGuest: commands run in a virtual machine through its agent, with the
// same error messages; the losses of its sockets are in the report.
func TestExecInAGuest(t *testing.T) {
	needVM(t, "iperf3")
	const guest = `
topology:
  nodes:
    h1: {kind: host}
    v1: {kind: vm, exec: [%s]}
  links:
    - {endpoints: ["h1:eth0", "v1:eth0"]}
`
	l := testlab.Start(t, fmt.Sprintf(guest, `{run: "touch /tmp/up; echo $WORD; sleep 1000", env: {WORD: it is me}, ready: {file: /tmp/up}}, `+
		`{run: [iperf3, -s, -1], ready: {port: 5201}}, {run: "echo done", ready: {output: done}}`))
	if out := l.Exec("h1", "iperf3", "-c", "v1", "-n", "100K"); !strings.Contains(out, "receiver") {
		t.Error(out)
	}
	l.WaitFor("the end of iperf3 in the log", func() bool { return strings.Contains(l.Log(), "the command \"iperf3 -s -1\" has ended: exit code 0") })
	if !strings.Contains(l.Log(), "v1: it is me\n") {
		t.Error(l.Log())
	}
	l.Exec("h1", "python3", "-c", testlab.SendDatagrams, "10.0.0.2", "9999", "7")
	l.WaitQuiet()
	r := l.Down()
	if len(r.Sockets) != 2 || r.Sockets[1].Host != "v1" || r.Sockets[1].Unopened != 7 || r.Sockets[1].Error != "" {
		t.Errorf("%+v", r.Sockets)
	}
	broken := testlab.New(t, l.Weft, t.TempDir(), fmt.Sprintf(guest, `{run: "echo is broken; exit 3", ready: {exit: true}}`))
	if _, said, code := broken.Run("up", "-d", broken.File); code != testlab.ExitFailed || !strings.Contains(said, "v1: the command \"echo is broken; exit 3\" ended before it was ready: exit code 3; its output:\n  is broken") {
		t.Errorf("exit code %d, %s", code, said)
	}
}
