package netnslab

import (
	"testing"
	"time"
)

// A program that ignores SIGTERM is killed, and so are its orphaned children.
func TestStubbornProcessesEnd(t *testing.T) {
	l := makeLab(t, hostsN(2)...)
	program := helper("exec", l.Info().Name, "h1", "sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000 & wait; sleep 1000")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the programs to run", func() bool { return livesIn(t, l, "h1") == 3 })
	start := time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	if err := program.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the program ended with %v, want SIGKILL", err)
	}
	if took < grace || took > grace+2*time.Second {
		t.Errorf("Close took %v, want a little more than %v", took, grace)
	}
}
