// Command suite runs the stages of the test suite for scripts/test.sh, which installs what they
// need. It runs in the directory of go.mod.
//
// When everything is built, stages run in two lanes beside each other: one has tests with real
// programs and real time, most of which wait, the other has what computes. While it runs, it says
// which tests run, how many are done, how much time has passed, and what fails; at the end, which
// tests were skipped and why, what took long, what failed, and one line for each stage. It exits
// with 1 if anything failed. No test is tried a second time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	form := flag.String("form", "plain", "quick, plain or all")
	part := flag.String("part", "", "also run the `i/n`-th part of what only the form all runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fixSeed(*form)
	s := &suite{start: time.Now(), stages: map[*stage]*outcome{}}
	phases, err := stagesOf(*form, *part)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	ok := s.runPhases(ctx, phases)
	s.printSummary(os.Stdout)
	if !ok {
		os.Exit(1)
	}
}

// fixSeed sets the seed of randomised tests (pgregory.net/rapid), so that the suite does the same
// each time, unless the environment has a seed. The form all looks further: each run has another
// seed, which it prints. A test that fails with some seed says how to repeat that.
func fixSeed(form string) {
	const name = "RAPID_SEED"
	if _, set := os.LookupEnv(name); set {
		return
	}
	seed := uint64(1)
	if form == "all" {
		seed = uint64(time.Now().Unix())
		fmt.Printf("%s=%d\n", name, seed)
	}
	os.Setenv(name, strconv.FormatUint(seed, 10))
}

// suite is one run of the stages.
type suite struct {
	start time.Time

	mu     sync.Mutex
	stages map[*stage]*outcome // those that have begun
	order  []*stage            // in which they began
}

// runPhases runs the phases one after another, the lanes of a phase beside each other, and the stages of
// a lane one after another. It reports whether all stages passed. A stage that fails does not keep
// others from running.
func (s *suite) runPhases(ctx context.Context, phases [][][]*stage) bool {
	shown := make(chan struct{})
	done, over := context.WithCancel(ctx)
	go func() {
		defer close(shown)
		s.showProgress(done, os.Stdout)
	}()
	for _, lanes := range phases {
		var wait sync.WaitGroup
		for _, lane := range lanes {
			wait.Go(func() {
				for _, st := range lane {
					s.runStage(ctx, st)
				}
			})
		}
		wait.Wait()
	}
	over()
	<-shown
	for _, o := range s.stages {
		if o.verdict == failed {
			return false
		}
	}
	return ctx.Err() == nil
}

// runStage runs one stage. If a command fails, it prints what that has printed; tests that fail are
// printed when they do.
func (s *suite) runStage(ctx context.Context, st *stage) {
	o := &outcome{start: time.Now(), tests: map[testID]*testRun{}}
	s.mu.Lock()
	s.stages[st] = o
	s.order = append(s.order, st)
	s.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		err = st.runStage(ctx, s, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.took = time.Since(o.start)
	switch {
	case err != nil:
		o.verdict, o.err = failed, err
	case st.skip != "":
		o.verdict = skipped
	default:
		o.verdict = passed
	}
	s.printLine("%s  %s", o.verdict, s.lineOf(st, o))
	if o.verdict == failed && len(st.packages) == 0 {
		printEnd(os.Stdout, o.failedOutput(), maxFailureLines)
	}
}

// Verdicts of stages.
const (
	running verdict = iota
	passed
	skipped
	failed
)

type verdict int

func (v verdict) String() string { return [...]string{"...", "ok  ", "SKIP", "FAIL"}[v] }
