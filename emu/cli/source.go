package cli

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/spec"
)

const (
	// standardInput is the argument that stands for it in place of a file.
	standardInput = "-"
	// stdinName is what a lab file from there is called, in errors and where
	// it gives the lab no name.
	stdinName = "stdin"
)

// allStdin reads standard input once, for all who want it. A lab file is never
// so long that the limit cuts it: that much is refused.
var allStdin = sync.OnceValues(func() ([]byte, error) { return io.ReadAll(io.LimitReader(os.Stdin, 16<<20)) })

// readStdin gives all of standard input, or the cause of the end of ctx.
func readStdin(ctx context.Context) (text []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = allStdin()
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done(): // Ctrl-C at a terminal, on which nothing is typed
		return nil, context.Cause(ctx)
	}
}

// parse reads a lab file, or standard input, with a seed in place of its own
// if there is one.
func parse(ctx context.Context, path string, seed *uint64) (*plan.Plan, error) {
	name, read := path, func() ([]byte, error) { return os.ReadFile(path) }
	if path == standardInput {
		name, read = stdinName, func() ([]byte, error) { return readStdin(ctx) }
	}
	src, err := read()
	switch {
	case err != nil:
		return nil, err
	case seed != nil:
		return spec.ParseSeed(name, src, *seed)
	}
	return spec.Parse(name, src)
}

// load reads a lab file; every error in it is bad input.
func load(ctx context.Context, path string) (*plan.Plan, error) { return loadSeed(ctx, path, nil) }

func loadSeed(ctx context.Context, path string, seed *uint64) (*plan.Plan, error) {
	p, err := parse(ctx, path, seed)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, badInput(err)
	}
	return p, nil
}
