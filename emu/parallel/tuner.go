package parallel

import "time"

// tuner finds out how many workers run a fabric fastest. Workers meet after every window,
// so one whose core is also used by other programs holds up all: then fewer are faster.
// It compares how many events a number of workers handles in a period with the numbers
// for half and for twice as many. It is given the time, and knows nothing about workers.
type tuner struct {
	maxWorkers int
	active     int // workers at present
	stays      int // the settled number; a trial has another one
	down       bool
	rate       float64       // events per nanosecond in the last period with that many
	interval   time.Duration // time between trials
	left       time.Duration // rest of it
	begun      time.Duration // start of the period
	events     uint64        // handled until then
}

const (
	// period is how long a rate is measured: a few time slices of the kernel.
	period = 20 * time.Millisecond
	// calmest bounds the time between trials. The time doubles with each trial that
	// changes nothing, so that trials cost little if nothing changes.
	calmest = 5 * time.Second
	// gain is how much faster another number of workers must be to be adopted.
	gain = 1.05
)

func newTuner(maxWorkers int) *tuner {
	return &tuner{maxWorkers: maxWorkers, active: maxWorkers, stays: maxWorkers, down: true, interval: period, left: period}
}

// looks decides in which windows the tuner looks: in each if windows are long, else in every
// few, since asking for the time takes long compared with a short window.
type looks struct {
	every   int // windows
	windows int // since the last look
	last    time.Duration
}

// maxWindows bounds the windows between two looks.
const maxWindows = 16

// due is called once a window.
func (l *looks) due() bool {
	l.windows++
	return l.windows >= l.every
}

// looked is called after a look, with the time.
func (l *looks) looked(now time.Duration) {
	took := max(1, now-l.last)
	l.every = int(min(maxWindows, max(1, time.Duration(l.windows)*(period/4)/took)))
	l.last, l.windows = now, 0
}

// look takes the number of events that have been handled after so much time of work, and
// returns how many workers are to run from now on.
func (t *tuner) look(now time.Duration, events uint64) (active int) {
	if t.maxWorkers == 1 {
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
		t.stays, t.rate, t.interval = t.active, rate, period
		t.left = t.interval
	case t.active != t.stays:
		t.active, t.down = t.stays, !t.down
		t.interval = min(2*t.interval, calmest)
		t.left = t.interval
	default:
		t.rate = rate
		if t.left -= took; t.left <= 0 {
			t.active = t.other()
		}
	}
	return t.active
}

// other returns the number to try: half as many or twice as many, in turn if both are
// possible.
func (t *tuner) other() int {
	if t.stays == 1 || !t.down && t.stays < t.maxWorkers {
		return min(2*t.stays, t.maxWorkers)
	}
	return (t.stays + 1) / 2
}
