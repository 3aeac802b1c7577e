// Package await lets tests wait for a condition, where a sleep would hope that some time is
// enough.
package await

import (
	"testing"
	"time"
)

// Limit is how long a test waits for something that happens at once on an idle machine. It is
// only reached if the condition never comes true: a busy machine is slower, but not by that much.
const Limit = 2 * time.Minute

// The time between two looks at a condition that a test cannot be told of is an eighth of the time
// so far, within these bounds: a test that waits for long leaves the processor to others.
const minInterval, maxInterval = 5 * time.Millisecond, 250 * time.Millisecond

// True waits until a condition is true. After Limit it fails the test with the name of what it
// has waited for. It must be called from the test's own goroutine.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !within(Limit, is) {
		t.Fatalf("after %v still not true: %s", Limit, what)
	}
}

// Receive waits until a channel has a value or is closed, like True.
func Receive[T any](t testing.TB, what string, c <-chan T) (value T) {
	t.Helper()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case value = <-c:
	case <-limit.C:
		t.Fatalf("after %v still not true: %s", Limit, what)
	}
	return value
}

// within reports whether a condition comes true within some time.
func within(limit time.Duration, is func() bool) bool {
	for start := time.Now(); ; time.Sleep(min(max(time.Since(start)/8, minInterval), maxInterval)) {
		if is() {
			return true
		}
		if time.Since(start) > limit {
			return false
		}
	}
}
