package testlab

import (
	"sync"
	"testing"
)

// Beside runs a subtest for each case, at most n at once, and returns when all have ended.
//
// Subtests of a test that has a turn must not use t.Parallel: they would wait until tests that
// wait for a turn have ended, and those for this one.
func Beside[C any](t *testing.T, n int, cases []C, name func(C) string, run func(*testing.T, C)) {
	next := make(chan C)
	var runners sync.WaitGroup
	for range min(n, len(cases)) {
		runners.Go(func() {
			for c := range next {
				t.Run(name(c), func(t *testing.T) { run(t, c) })
			}
		})
	}
	for _, c := range cases {
		next <- c
	}
	close(next)
	runners.Wait()
}
