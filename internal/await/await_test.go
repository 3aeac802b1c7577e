package await

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin_LooksUntilTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, start := 0, time.Now()
		if !within(Limit, func() bool { looks++; return looks == 3 }) || time.Since(start) != 2*interval {
			t.Errorf("%d looks in %v", looks, time.Since(start))
		}
	})
}

func TestWithin_GivesUpAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if within(Limit, func() bool { return false }) || time.Since(start) != Limit+interval {
			t.Errorf("gave up after %v", time.Since(start))
		}
	})
}

func TestWithin_LooksOnceMoreAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !within(0, func() bool { return time.Since(start) >= 0 }) {
			t.Error("a condition that is true at once was not seen")
		}
	})
}
