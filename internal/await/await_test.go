package await

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin_LooksUntilTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, start := 0, time.Now()
		if !within(Limit, func() bool { looks++; return looks == 3 }) || time.Since(start) != 2*minInterval {
			t.Errorf("%d looks in %v", looks, time.Since(start))
		}
	})
}

func TestWithin_LooksLessOftenAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, start := 0, time.Now()
		within(Limit, func() bool { looks++; return time.Since(start) > 10*time.Second })
		if looks < 50 || looks > 100 {
			t.Errorf("%d looks in ten seconds", looks)
		}
	})
}

func TestWithin_GivesUpAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if within(Limit, func() bool { return false }) || time.Since(start) < Limit || time.Since(start) > Limit+maxInterval {
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
