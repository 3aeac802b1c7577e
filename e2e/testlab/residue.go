package testlab

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Residue lists everything on the machine that has a lab's name.
func Residue(t *testing.T, name string) (found []string) {
	t.Helper()
	for _, pattern := range []string{"/run/netns/weft-" + name + "-*", "/run/weft/" + name, "/run/weft/" + name + ".*", "/etc/netns/weft-" + name + "-*"} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, m...)
	}
	return found
}

// CheckNothingLeft checks that nothing on the machine has a lab's name.
func CheckNothingLeft(t *testing.T, name string) {
	t.Helper()
	if left := Residue(t, name); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Kill ends the lab's process with SIGKILL.
func (l *Lab) Kill() {
	l.T.Helper()
	if err := syscall.Kill(l.PID(), syscall.SIGKILL); err != nil {
		l.T.Fatal(err)
	}
}

// Crash kills the lab's process and waits until weft ps shows it as crashed.
func (l *Lab) Crash() {
	l.T.Helper()
	l.Kill()
	l.WaitFor("a crash of the lab in weft ps", func() bool {
		o := l.Must("ps")
		return strings.Contains(o, l.Name) && strings.Contains(o, "crashed")
	})
}
