package series

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/weftlab/weft/sim/units"
)

// CheckQueues checks a recording of queues before it begins: how often it samples,
// and how much data that makes. length is the length of the run, 0 if it is not
// known. The error says what to change.
func CheckQueues(queues int, every, length units.Time, wall bool) error {
	if queues == 0 {
		return errors.New("there is no port to sample")
	}
	return checkSize(queues, "queues", "ports", every, length, wall)
}

// CheckFlows is CheckQueues for a recording of flows, at least as many as given.
func CheckFlows(flows int, every, length units.Time, wall bool) error {
	return checkSize(flows, "flows", "flows", every, length, wall)
}

// checkSize checks the sampling of n things. fewer names what the user can reduce
// to sample fewer of them.
func checkSize(n int, things, fewer string, every, length units.Time, wall bool) error {
	minEvery, clock := MinVirtual, "virtual time"
	if wall {
		minEvery, clock = MinWall, "the wall clock"
	}
	if every > MaxEvery {
		return fmt.Errorf("a sample every %v is less often than every %v", every, MaxEvery)
	}
	var wrong string
	enough := minEvery
	if every < minEvery {
		wrong = fmt.Sprintf("a sample every %v is more often than every %v, the maximum in %s", every, minEvery, clock)
	}
	if wall {
		if need := roundUp(float64(n) * float64(units.Second) / maxRate); every < need {
			enough = max(enough, need)
			wrong = cmp.Or(wrong, fmt.Sprintf("%d %s every %v are %s rows per second, more than the %s that can be written",
				n, things, every, formatCount(float64(n)/every.Seconds()), formatCount(maxRate)))
		}
	}
	rows := float64(n) * float64(length) / float64(max(every, 1))
	if need := roundUp(float64(n) * float64(length) / MaxRows); rows > MaxRows && every < need {
		enough = max(enough, need)
		wrong = cmp.Or(wrong, fmt.Sprintf("%d %s every %v for %v are %s rows (%s GB), more than %s",
			n, things, every, length, formatCount(rows), units.FormatDigits(rows*rowBytes/1e9, 2), formatCount(MaxRows)))
	}
	if wrong != "" {
		return fmt.Errorf("%s: sample every %v or more, or fewer %s", wrong, enough, fewer)
	}
	return nil
}

// roundUp rounds up to 1, 2 or 5 times a power of ten; below 1 it returns 0.
func roundUp(t float64) units.Time {
	if t < 1 {
		return 0
	}
	for p := math.Pow(10, math.Floor(math.Log10(t))); ; p *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if f*p >= t {
				return units.Time(f * p)
			}
		}
	}
}

// formatCount formats a count of rows to two digits.
func formatCount(v float64) string {
	return units.FormatBrief(v, 2, []units.Prefix{{Name: " billion", Per: 1e9}, {Name: " million", Per: 1e6}, {Name: "", Per: 1}})
}
