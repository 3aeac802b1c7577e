package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// exitSignal is added to the number of the signal that ended a command early,
// as shells do: 130 after Ctrl-C.
const exitSignal = 128

// interruption is the cause of a context that a signal has ended.
type interruption struct{ signal unix.Signal }

func (i *interruption) Error() string {
	if i.signal == unix.SIGINT {
		return "interrupted"
	}
	return "ended by " + unix.SignalName(i.signal)
}

// Is makes it a context.Canceled.
func (i *interruption) Is(target error) bool { return target == context.Canceled }

// exit is an error with the exit code that tells of the signal.
func (i *interruption) exit(format string, args ...any) error {
	return &exitError{exitSignal + int(i.signal), fmt.Errorf("%w %s", i, fmt.Sprintf(format, args...))}
}

// withSignals gives a context that ends, with an interruption as its cause, at
// the first signal by which a user ends a program. SIGHUP stays ignored under nohup(1).
// SIGINT does not: a shell script ignores it for what it starts with &, and ends that by
// kill -INT.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	come := make(chan os.Signal, 1)
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if s != unix.SIGHUP || !signal.Ignored(s) {
			signal.Notify(come, s)
		}
	}
	go func() {
		select {
		case s := <-come:
			cancel(&interruption{s.(unix.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); signal.Stop(come) }
}

// nextSignalKills lets a second signal end this process as if it had not been
// caught, for what is left to do may take long.
func nextSignalKills() { signal.Reset(unix.SIGINT, unix.SIGTERM, unix.SIGHUP) }
