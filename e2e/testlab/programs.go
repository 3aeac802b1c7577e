package testlab

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// CheckSignalsAndTerminal checks that a signal to weft exec reaches the program, and that a
// terminal stays a terminal.
func (l *Lab) CheckSignalsAndTerminal() {
	l.T.Helper()
	c := l.Command("exec", "-l", l.Name, "h1", "--", "sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done")
	out, _ := c.StdoutPipe()
	if err := c.Start(); err != nil {
		l.T.Fatal(err)
	}
	_, _ = out.Read(make([]byte, 6))
	_ = c.Process.Signal(syscall.SIGTERM)
	if _ = c.Wait(); c.ProcessState.ExitCode() != 7 {
		l.T.Errorf("SIGTERM gave %v, want the program's exit code 7", c.ProcessState)
	}
	tty := exec.Command("script", "-qec", l.Weft+" exec -l "+l.Name+" h1 -- tty", "/dev/null")
	if l.As != nil {
		l.As(tty)
	}
	if o, e, code := RunCommand(l.T, tty); code != 0 || !strings.Contains(o, "/dev/pts/") {
		l.T.Errorf("tty inside a host: exit code %d, %q, %q", code, o, e)
	}
}

// MinRTT returns the shortest round trip of n pings, in ms. A busy machine makes some longer, so
// the shortest shows what the network does.
func (l *Lab) MinRTT(from, to string, n int) (shortest float64) {
	l.T.Helper()
	for got := 0; got < n; {
		l.WaitFor(from+" reaches "+to, func() bool {
			out, _, _ := l.Run("exec", "-l", l.Name, from, "--", "ping", "-4", "-c", "1", "-W", "1", to)
			_, rest, ok := strings.Cut(out, "time=")
			if !ok {
				return false
			}
			rtt, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				l.T.Fatal(err)
			}
			if got++; got == 1 || rtt < shortest {
				shortest = rtt
			}
			return true
		})
	}
	return shortest
}
