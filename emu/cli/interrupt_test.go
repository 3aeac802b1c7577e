package cli

import (
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestIgnoredSignals: a command that a shell script has started with &, and so with SIGINT
// ignored, still ends on kill -INT; one under nohup survives SIGHUP.
func TestIgnoredSignals(t *testing.T) {
	for s, ends := range map[unix.Signal]bool{unix.SIGINT: true, unix.SIGHUP: false} {
		signal.Ignore(s)
		ctx, stop := withSignals(t.Context())
		if err := unix.Kill(unix.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		limit := time.Minute
		if !ends {
			limit = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			if !ends {
				t.Errorf("%v ends what ignores it", s)
			}
		case <-time.After(limit):
			if ends {
				t.Errorf("%v is ignored", s)
			}
		}
		stop()
		signal.Reset(s)
	}
}
