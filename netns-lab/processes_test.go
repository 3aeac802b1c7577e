package netnslab

import (
	"testing"
	"time"

	"github.com/weftlab/weft/internal/await"
)

// A program that ignores SIGTERM is killed, and so are its orphaned children.
func TestClose_KillsProcessesThatIgnoreSIGTERM(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	program := helper("exec", l.Info().Name, "h1", "sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000 & wait; sleep 1000")
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "three programs", func() bool { return len(commandsIn(t, l, "h1")) == 3 })
	start := time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	if err := program.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the program ended with %v, want SIGKILL", err)
	}
	if took < grace {
		t.Errorf("Close took %v, want %v at least", took, grace)
	}
}
