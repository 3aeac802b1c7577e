package port

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
)

// TestTakeMaxQueue: the maxima of intervals are those of the queue after every
// arrival, the counter's maximum is that of the whole run, and sampling does not
// change the behaviour of a port.
func TestTakeMaxQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked, quiet := newRig(units.Gbps, 6000), newRig(units.Gbps, 6000)
		if rapid.Bool().Draw(t, "watched") {
			var w watcher
			asked.from.SetObserver(0, &w)
		}
		var now units.Time
		var longest, whole units.Bytes
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += units.Time(rapid.SampledFrom([]int64{0, 0, 672_000, 12_304_000, 5_000_000}).Draw(t, "gap"))
			asked.until(now)
			quiet.until(now)
			if rapid.IntRange(0, 3).Draw(t, "ask") == 0 {
				if got := asked.from.TakeMaxQueue(now); got != longest {
					t.Fatalf("the longest queue was %d, want %d", got, longest)
				}
				_, longest = quiet.from.QueueLength(now)
				continue
			}
			size := units.Bytes(rapid.SampledFrom([]int{60, 590, 1514}).Draw(t, "size"))
			asked.send(now, size)
			quiet.send(now, size)
			_, bytes := quiet.from.QueueLength(now)
			longest, whole = max(longest, bytes), max(whole, bytes)
			if got := asked.from.Counters(now).MaxQueue; got != whole {
				t.Fatalf("the counter says %d, want %d", got, whole)
			}
		}
		asked.finish()
		quiet.finish()
		if a, b := asked.from.Trace(units.Never-1), quiet.from.Trace(units.Never-1); a != b {
			t.Fatal("asking for the longest queue changes what the port does")
		}
	})
}
