package cli

import (
	"context"
	"errors"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
)

// TestSignals_IgnoredHangupStaysIgnored: a command that a shell script has started with &, and so
// with SIGINT ignored, still ends on kill -INT; one under nohup survives SIGHUP. Go passes on
// signals that wait by their numbers, so that the hangup would be the first. The test runs alone:
// signals are for the whole process.
func TestSignals_IgnoredHangupStaysIgnored(t *testing.T) {
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGHUP} {
		signal.Ignore(s)
		defer signal.Reset(s)
	}
	ctx, stop := withSignals(t.Context())
	defer stop()
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT} {
		if err := unix.Kill(unix.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	await.Receive(t, "the end of the command", ctx.Done())
	var why *interruption
	if !errors.As(context.Cause(ctx), &why) || why.signal != unix.SIGINT {
		t.Errorf("it has ended because of %v", context.Cause(ctx))
	}
}
