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

// interruption is the cause of a context that a signal has canceled.
type interruption struct{ signal unix.Signal }

func (i *interruption) Error() string {
	if i.signal == unix.SIGINT {
		return "interrupted"
	}
	return "ended by " + unix.SignalName(i.signal)
}

// Is makes an interruption match context.Canceled.
func (i *interruption) Is(target error) bool { return target == context.Canceled }

// exitError returns an error with the exit code for the signal.
func (i *interruption) exitError(format string, args ...any) error {
	return &exitError{exitSignal + int(i.signal), fmt.Errorf("%w %s", i, fmt.Sprintf(format, args...))}
}

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP cancels, with
// an interruption as its cause. SIGHUP stays ignored under nohup(1). SIGINT does not: a
// shell script starts its background jobs with SIGINT ignored, and ends them with kill -INT.
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

// nextSignalKills restores the default action of the signals, so that a second
// signal ends this process: the remaining work may take long.
func nextSignalKills() { signal.Reset(unix.SIGINT, unix.SIGTERM, unix.SIGHUP) }
