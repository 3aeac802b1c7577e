package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/status"
)

// TestExecInAFile_StartsInOrder: commands start in their hosts, in order, and the lab is up when
// they are ready; their output is in the log, and their ends are in the timeline.
func TestExecInAFile_StartsInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	marker, late, pid := filepath.Join(dir, "marker"), filepath.Join(dir, "late"), filepath.Join(dir, "pid")
	l := testlab.Start(t, testlab.TwoHostsRunning(
		`"sleep 0.3; echo one >> `+marker+`; touch `+late+`; sleep 1000", {run: [ip, -br, addr], ready: {exit: true}}, `+
			`{run: "echo $$ > `+pid+`; sleep 0.5; echo $WORD and no more; exec sleep 1000", env: {WORD: "hello there"}, ready: {output: "^hello .* more$"}}, `+
			`{run: "true", ready: {file: `+late+`}}`,
		`{run: [iperf3, -s, -1], ready: {port: 5201}}`), "iperf3", "ip")
	// No waiting here: the server was ready before the lab was up.
	if out := l.Exec("h1", "iperf3", "-c", "h2", "-n", "100K"); !strings.Contains(out, "receiver") {
		t.Error(out)
	}
	if b, err := os.ReadFile(marker); err != nil || string(b) != "one\n" {
		t.Errorf("%v, %q", err, b)
	}
	l.WaitFor("the end of iperf3 -s -1 in the log", func() bool { return strings.Contains(l.Log(), "the command \"iperf3 -s -1\" has ended: exit code 0") })
	for _, want := range []string{"h1: hello there and no more\n", "h1: eth0 ", "10.0.0.1/16", "h2: Server listening on 5201"} {
		if !strings.Contains(l.Log(), want) {
			t.Errorf("the log lacks %q:\n%s", want, l.Log())
		}
	}
	// The death of a program is reported.
	l.Exec("h1", "sh", "-c", "kill -9 $(cat "+pid+")")
	l.WaitFor("the killed program in the log", func() bool { return strings.Contains(l.Log(), "has ended: signal killed") })
	r := l.Down()
	var seen []string
	for _, m := range r.Timeline {
		seen = append(seen, m.Where+" "+m.Event+" "+m.Text)
	}
	all := strings.Join(seen, "\n")
	for _, want := range []string{
		"h1 program-ready ip -br addr", "h1 program-ended true: exit code 0", "h2 program-ready iperf3 -s -1", "h2 program-ended iperf3 -s -1: exit code 0", "signal killed", "h1 program-ready echo $$ > " + pid[:20],
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the timeline lacks %q:\n%s", want, all)
		}
	}
	if n := strings.Count(all, status.ProgramEnded); n != 3 {
		t.Errorf("%d programs have ended before the lab:\n%s", n, all)
	}
}

// TestExecInAFile_ThatFailsKeepsTheLabDown: a command that does not become ready keeps the lab from coming
// up. The error has its last output, and nothing is left behind.
func TestExecInAFile_ThatFailsKeepsTheLabDown(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t, "ip")
	for name, c := range map[string]struct{ exec, say string }{
		"ends":     {`{run: "echo is broken; exit 3", ready: {port: 80}}`, "h2: the command \"echo is broken; exit 3\" ended before it was ready: exit code 3; its output:\n  is broken"},
		"fails":    {`{run: ["false"], ready: {exit: true}}`, "the command \"false\" ended before it was ready: exit code 1; it printed nothing"},
		"missing":  {`{run: [no-such-program], ready: {exit: true}}`, "no-such-program"},
		"no port":  {`{run: "sleep 1000", ready: {port: 80, within: 300ms}}`, "is not ready within 300ms: nothing listens on TCP port 80"},
		"no file":  {`{run: "sleep 1000", ready: {file: /no/such, within: 300ms}}`, "is not ready within 300ms: there is no file /no/such"},
		"silent":   {`{run: "echo no", ready: {output: "^yes$"}}`, "closed its output and is not ready: no line of its output matches \"^yes$\""},
		"too long": {`{run: "sleep 1000", ready: {exit: true, within: 300ms}}`, "is not ready within 300ms: it has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, flags := range [][]string{{"-d"}, {"--for", "60s"}} {
				l := testlab.New(t, weft, t.TempDir(), testlab.TwoHostsRunning(`"sleep 999"`, c.exec))
				out, said, code := l.Run(append([]string{"up", l.File}, flags...)...)
				if code != testlab.ExitFailed || !strings.Contains(said, c.say) || !strings.Contains(said, "lab.yaml:6: h2: ") {
					t.Errorf("%v: exit code %d, want %d and %q in\n%s%s", flags, code, testlab.ExitFailed, c.say, out, said)
				}
				if list, _ := exec.Command("ip", "netns", "list").Output(); strings.Contains(string(list), l.Name) {
					t.Errorf("%v: hosts are left:\n%s", flags, list)
				}
				if _, err := os.Stat("/run/weft/" + l.Name); err == nil {
					t.Errorf("%v: the state directory is left", flags)
				}
			}
		})
	}
}

// TestExecInAFile_EndsWithTheLab: also if the lab is killed, then with its remains.
func TestExecInAFile_EndsWithTheLab(t *testing.T) {
	t.Parallel()
	testlab.Need(t)
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprint("kill ", kill), func(t *testing.T) {
			pid := filepath.Join(t.TempDir(), "pid")
			l := testlab.Start(t, testlab.TwoHostsRunning(`{run: "trap '' TERM; (while :; do touch `+pid+`; sleep 0.05; done) & wait", ready: {file: `+pid+`}}`, ""))
			if n := running(t, pid); n < 2 {
				t.Errorf("%d processes run the program", n)
			}
			if kill {
				l.Kill()
			}
			l.Must("down", l.Name)
			if n := running(t, pid); n > 0 {
				t.Errorf("%d processes still run the program", n)
			}
		})
	}
}

// running returns how many processes of the machine have a text in their arguments.
func running(t *testing.T, text string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if args, err := os.ReadFile(f); err == nil && strings.Contains(string(args), text) { // it may have ended
			n++
		}
	}
	return n
}

// TestExecInAFile_HasNoEffectInVirtualTime: a file with commands runs, with a note that they do not.
func TestExecInAFile_HasNoEffectInVirtualTime(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t), t.TempDir(), testlab.TwoHostsRunning(`"exit 1"`, "")+"workload: [{cbr: {from: h1, to: h2, rate: 1Mbps, size: 100B, for: 10ms}}]\n")
	if _, said, code := l.Run("sim", l.File); code != 0 || !strings.Contains(said, "exec has no effect in virtual time") {
		t.Errorf("exit code %d, %s", code, said)
	}
}
