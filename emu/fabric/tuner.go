package fabric

import "time"

// tuner finds out how many workers run a fabric fastest. Workers meet after every window,
// so one whose core other programs use as well holds up all: then fewer are faster. It
// compares how many events a number of workers handles in a while with what half as many
// and twice as many do. It is given the time, and knows nothing of workers.
type tuner struct {
	most   int
	active int // workers at present
	stays  int // with how many it stays; a trial has another number
	down   bool
	rate   float64       // events a nanosecond in the last period with so many
	calm   time.Duration // until the next trial
	left   time.Duration // of it
	begun  time.Duration // of the period
	events uint64        // until then
}

const (
	// period is how long a rate is measured: some time slices of the kernel.
	period = 20 * time.Millisecond
	// calmest bounds the time between trials. It doubles with each that changes nothing,
	// so that trials cost little where nothing changes.
	calmest = 5 * time.Second
	// gain is how much faster another number of workers has to be.
	gain = 1.05
)

func newTuner(most int) *tuner {
	return &tuner{most: most, active: most, stays: most, down: true, calm: period, left: period}
}

// look tells the tuner how many events have been handled after so much time of work, and
// gives how many workers are to run from now on.
func (t *tuner) look(now time.Duration, events uint64) (active int) {
	if t.most == 1 {
		return 1
	}
	took := now - t.begun
	if took < period {
		return t.active
	}
	rate := float64(events-t.events) / float64(took)
	t.begun, t.events = now, events
	switch {
	case t.active != t.stays && rate > gain*t.rate:
		t.stays, t.rate, t.calm = t.active, rate, period
		t.left = t.calm
	case t.active != t.stays:
		t.active, t.down = t.stays, !t.down
		t.calm = min(2*t.calm, calmest)
		t.left = t.calm
	default:
		t.rate = rate
		if t.left -= took; t.left <= 0 {
			t.active = t.other()
		}
	}
	return t.active
}

// other is the number to try: half as many or twice as many, by turns where there are both.
func (t *tuner) other() int {
	if t.stays == 1 || !t.down && t.stays < t.most {
		return min(2*t.stays, t.most)
	}
	return (t.stays + 1) / 2
}
