package cli

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
)

const (
	// standardInput is the file argument that stands for standard input.
	standardInput = "-"
	// stdinName names a lab file from standard input, in errors and if the file
	// gives the lab no name.
	stdinName = "stdin"
)

// allStdin reads standard input once, for all callers. The limit exceeds the
// maximum size of a lab file, so that input cut off here is refused later.
var allStdin = sync.OnceValues(func() ([]byte, error) { return io.ReadAll(io.LimitReader(os.Stdin, 16<<20)) })

// readStdin returns all of standard input, or the cause of ctx's cancellation.
func readStdin(ctx context.Context) (text []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = allStdin()
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done(): // Ctrl-C at a terminal without input
		return nil, context.Cause(ctx)
	}
}

// parseFile reads a lab file or standard input, for virtual time. seed, if not nil, overrides the
// file's seed.
func parseFile(ctx context.Context, path string, seed *uint64) (*plan.Plan, error) {
	name, src, err := readFile(ctx, path)
	switch {
	case err != nil:
		return nil, err
	case seed != nil:
		return resolve.ParseSeed(name, src, *seed)
	}
	return resolve.Parse(name, src)
}

// readFile reads a lab file or standard input. name is its name in errors.
func readFile(ctx context.Context, path string) (name string, src []byte, err error) {
	if path == standardInput {
		src, err = readStdin(ctx)
		return stdinName, src, err
	}
	src, err = os.ReadFile(path)
	return path, src, err
}

// loadFile reads a lab file for virtual time; every error in it is bad input.
func loadFile(ctx context.Context, path string) (*plan.Plan, error) { return loadSeed(ctx, path, nil) }

func loadSeed(ctx context.Context, path string, seed *uint64) (*plan.Plan, error) {
	p, err := parseFile(ctx, path, seed)
	return checkLoaded(ctx, p, err)
}

// loadWallClock is loadFile for wall-clock time.
func loadWallClock(ctx context.Context, path string) (*plan.Plan, error) {
	name, src, err := readFile(ctx, path)
	if err != nil {
		return checkLoaded(ctx, nil, err)
	}
	p, err := resolve.ParseWallClock(name, src, nil)
	return checkLoaded(ctx, p, err)
}

// checkLoaded returns a plan, or why it could not be read.
func checkLoaded(ctx context.Context, p *plan.Plan, err error) (*plan.Plan, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, badInput(err)
	}
	return p, nil
}
