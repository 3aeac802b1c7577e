package testlab

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/weftlab/weft/internal/await"
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

// Ping sends n pings, the next when the one before is answered, and fails the test if one is not.
// args are more options of ping, and the target. It returns what ping printed.
//
// It takes a ping for each: one that sends several waits for the last answer only as long as for
// two round trips or its interval, which is too short on a busy machine.
func (l *Lab) Ping(from string, n int, args ...string) string {
	l.T.Helper()
	return l.Exec(from, PingCommand(n, args...)...)
}

// PingCommand returns the command of Ping, which exits with 1 at the first ping without an answer.
func PingCommand(n int, args ...string) []string {
	loop := fmt.Sprintf(`for i in $(seq %d); do ping -c 1 -W %.0f "$@" || exit 1; done`, n, await.Limit.Seconds())
	return append([]string{"sh", "-c", loop, "ping"}, args...)
}

// Arping waits until arping says that somebody answers for an address on eth0's link. Whoever
// answers on a busy machine may be later than arping waits, so that it asks again.
func (l *Lab) Arping(from, address string) {
	l.T.Helper()
	l.WaitFor("an answer to arping "+address+" from "+from, func() bool {
		_, _, code := l.Run("exec", "-l", l.Name, from, "--", "arping", "-c", "1", "-i", "eth0", address)
		return code == 0
	})
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
