package doctor

import (
	"cmp"
	"slices"
	"time"
)

// effort is how long the measurements take: about eight seconds in all, or
// one. Each is the median of rounds, so that one disturbance does not count.
type effort struct {
	rounds  int
	sleeps  int           // in a round
	pings   int           // of the wake-up, in a round
	warm    time.Duration // of traffic before the first round
	traffic time.Duration // a round
	virtual time.Duration // a round
}

func effortOf(o Options) effort {
	if o.Quick {
		return effort{rounds: 3, sleeps: 150, pings: 300, warm: 30 * time.Millisecond, traffic: 20 * time.Millisecond, virtual: 25 * time.Millisecond}
	}
	return effort{rounds: 5, sleeps: 800, pings: 1500, warm: 100 * time.Millisecond, traffic: 140 * time.Millisecond, virtual: 100 * time.Millisecond}
}

// median of at least one value; the lower of the two in the middle.
func median[T cmp.Ordered](v []T) T {
	s := slices.Sorted(slices.Values(v))
	return s[(len(s)-1)/2]
}
