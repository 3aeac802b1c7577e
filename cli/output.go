package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// stdout is what commands print to. Most printing ignores errors; so stdout keeps the first
// one, and Main ends with it: a result that is not whole must not look like a success.
var stdout = &output{to: os.Stdout}

// output is a writer that keeps its first error.
type output struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

// Write implements io.Writer. After an error it writes nothing more.
func (o *output) Write(b []byte) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	if n, err = o.to.Write(b); err != nil {
		o.err = err
	}
	return n, err
}

// firstError returns the error of the first write that failed, nil if none did.
func (o *output) firstError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("standard output: %w", o.err)
}

// printText, printLine and printf print to stdout.
func printText(a ...any)             { fmt.Fprint(stdout, a...) }
func printLine(a ...any)             { fmt.Fprintln(stdout, a...) }
func printf(format string, a ...any) { fmt.Fprintf(stdout, format, a...) }
