package doctor

import (
	"cmp"
	"slices"
	"time"
)

// effort is how long the measurements take: about eight seconds in total, or
// one. Each result is the median of several rounds, so that one disturbance
// does not matter.
type effort struct {
	rounds  int
	sleeps  int           // per round
	pings   int           // of the wake-up, per round
	warm    time.Duration // of traffic before the first round
	traffic time.Duration // per round
	virtual time.Duration // per round
}

func effortOf(o Options) effort {
	if o.Quick {
		return effort{rounds: 3, sleeps: 150, pings: 300, warm: 30 * time.Millisecond, traffic: 20 * time.Millisecond, virtual: 25 * time.Millisecond}
	}
	return effort{rounds: 5, sleeps: 800, pings: 1500, warm: 100 * time.Millisecond, traffic: 140 * time.Millisecond, virtual: 100 * time.Millisecond}
}

// medianValue returns the median of at least one value; of an even number, the lower of the two
// in the middle.
func medianValue[T cmp.Ordered](v []T) T {
	s := slices.Sorted(slices.Values(v))
	return s[(len(s)-1)/2]
}
