package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/internal/await"
)

// terminal is the screen of a real terminal, run by tmux.
type terminal struct {
	t      *testing.T
	socket string
}

// newTerminal runs a shell command in a terminal of 80 by 24 cells, which ends
// with the test.
func newTerminal(t *testing.T, command string) *terminal {
	t.Helper()
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command)
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// shows waits until the screen is as wanted and returns it.
func (term *terminal) shows(what string, good func(screen string) bool) (screen string) {
	term.t.Helper()
	shown := false
	defer func() {
		if !shown {
			term.t.Logf("the screen shows:\n%s", plain(screen))
		}
	}()
	await.True(term.t, "the screen shows "+what, func() bool {
		screen = term.tmux("capture-pane", "-p", "-e")
		shown = good(plain(screen))
		return shown
	})
	return screen
}

// plain removes the styles from the output of tmux.
func plain(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(rest, "m")
	}
}

// TestTop_FollowsALab watches a lab while a program sends: rates appear, the view adapts to
// the terminal's size and the state of links, survives the lab, and q ends it.
func TestTop_FollowsALab(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts, "iperf3", "tmux")
	exit := filepath.Join(t.TempDir(), "exit")
	term := newTerminal(t, fmt.Sprintf("%s top --interval 300ms %s; echo exit $? >%s", l.Weft, l.Name, exit))
	term.shows("the lab", func(s string) bool {
		return strings.Contains(s, "lab "+l.Name) && strings.Contains(s, "PORT") && testlab.PortField(s, "s1:2", 2) >= 0
	})
	l.StartServer("h2", "iperf3", "-s")
	l.WaitListening("h2", "5201")
	client := l.StartServer("h1", "iperf3", "-c", "h2", "-t", "600")
	screen := term.shows("rates at s1:2 while iperf3 sends", func(s string) bool {
		return testlab.PortField(s, "s1:2", 2) > 1 && testlab.PortField(s, "s1:1", 1) > 1
	})
	if f := testlab.PortField(plain(screen), "h1:eth0", 3); f < 1 || f > 101 {
		t.Errorf("h1 uses %v%% of its link", f)
	}

	term.tmux("resize-window", "-x", "150", "-y", "12")
	term.shows("more columns in a wider terminal", func(s string) bool { return strings.Contains(s, "OUT pkt/s") && strings.Contains(s, "q quit") })
	term.tmux("resize-window", "-x", "80", "-y", "24")
	term.shows("fewer again", func(s string) bool { return !strings.Contains(s, "OUT pkt/s") && strings.Contains(s, "q quit") })

	term.tmux("send-keys", "t")
	term.shows("switches only", func(s string) bool { return strings.Contains(s, "s1:1") && !strings.Contains(s, "h1:eth0") })
	term.tmux("send-keys", "/", "1", ":", "2", "Enter")
	term.shows("s1:2 only", func(s string) bool { return strings.Contains(s, "s1:2") && !strings.Contains(s, "s1:1") })

	_ = client.Process.Kill()
	l.Must("set", "-l", l.Name, "s1:2", "state=down")
	screen = term.shows("the link that is down", func(s string) bool { return strings.Contains(s, "down") })
	if !strings.Contains(screen, "\x1b[31mdown") {
		t.Errorf("a link that is down is not red:\n%q", screen)
	}
	bare := newTerminal(t, fmt.Sprintf("NO_COLOR=yes %s top %s", l.Weft, l.Name))
	if screen = bare.shows("the link that is down", func(s string) bool { return strings.Contains(s, "down") }); strings.Contains(screen, "\x1b[31m") {
		t.Errorf("with NO_COLOR there are colours:\n%q", screen)
	}
	bare.tmux("send-keys", "C-c")

	l.Down()
	term.shows("that the lab has ended", func(s string) bool {
		return strings.Contains(s, "the lab has ended") && strings.Contains(s, "s1:2")
	})
	term.tmux("send-keys", "q")
	var said []byte
	await.True(t, "weft top ends after q", func() bool { said, _ = os.ReadFile(exit); return len(said) > 0 })
	if string(said) != "exit 0\n" {
		t.Errorf("after q: %q", said)
	}
}

// TestTopOnce_PrintsATable: a table for scripts, also without --once if there is no terminal
// to draw on; and what is refused.
func TestTopOnce_PrintsATable(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts, "ping", "script")
	for _, args := range [][]string{{"top", "--once", "--interval", "200ms", l.Name}, {"top", "--interval", "200ms", "-l", l.Name}} {
		o := l.Must(args...)
		if !strings.HasPrefix(o, "# lab "+l.Name) || !strings.Contains(o, "\nPORT ") || testlab.PortField(o, "s1:2", 2) < 0 {
			t.Errorf("weft %v:\n%s", args, o)
		}
	}
	dumb, err := exec.Command("script", "-qec", "TERM=dumb "+l.Weft+" top --interval 200ms "+l.Name, "/dev/null").CombinedOutput()
	if err != nil || strings.Contains(string(dumb), "\x1b") || !strings.Contains(string(dumb), "PORT") {
		t.Errorf("a dumb terminal: %v\n%q", err, dumb)
	}
	for _, args := range [][]string{{"--interval", "1ms"}, {"--interval", "2h"}, {"--interval", "1"}, {"-l", "other"}} {
		if _, e, code := l.Run(append([]string{"top", l.Name}, args...)...); code != testlab.ExitBadInput || e == "" {
			t.Errorf("weft top %v: exit code %d, %q", args, code, e)
		}
	}
	if _, e, code := l.Run("top", "no-such-lab"); code != testlab.ExitBadInput || !strings.Contains(e, "no-such-lab") {
		t.Errorf("an unknown lab: exit code %d, %q", code, e)
	}
}
