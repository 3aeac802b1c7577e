package wall

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// Time that is neither work, nor waiting for a core, nor a requested sleep is absence, if
// it is long.
func TestPresence_TellsStopsFromLoad(t *testing.T) {
	const ms = units.Millisecond
	for name, c := range map[string]struct {
		work, took, asked units.Time // took and asked: a sleep
		length            units.Time // of the period
		want              units.Time
	}{
		"busy":                         {work: units.Second, length: units.Second},
		"asleep":                       {took: units.Second, asked: units.Second, length: units.Second},
		"slept a little longer":        {took: 1005 * ms, asked: units.Second, length: 1005 * ms},
		"a short absence":              {work: 600 * ms, length: units.Second},
		"stopped at work":              {work: units.Second, length: 9 * units.Second, want: 8 * units.Second},
		"stopped asleep":               {took: 9 * units.Second, asked: units.Second, length: 9 * units.Second, want: 8*units.Second - sleepSlack},
		"waited for a core, for long":  {work: 9 * units.Second, length: 9 * units.Second},
		"stopped in a sleep and a run": {work: 400 * ms, took: 3 * units.Second, asked: 600 * ms, length: 4 * units.Second, want: 3*units.Second - sleepSlack},
	} {
		p := presence{since: 5 * units.Second, worked: 7 * units.Second}
		p.recordSleep(c.took, c.asked)
		p.judgeLoad(p.since+c.length, p.worked+c.work, 0)
		if p.absent != c.want {
			t.Errorf("%s: absent for %v, want %v", name, p.absent, c.want)
		}
		p.judgeLoad(p.since+units.Second, p.worked+units.Second, 0)
		if p.absent != c.want || p.suspended != 0 {
			t.Errorf("%s: a busy second later absent for %v, want %v", name, p.absent, c.want)
		}
	}
	p := presence{ahead: units.Hour}
	p.judgeLoad(0, 0, 3*units.Hour)
	p.judgeLoad(0, 0, 3*units.Hour)
	if p.suspended != 2*units.Hour || p.absent != 0 {
		t.Errorf("suspended for %v, absent for %v", p.suspended, p.absent)
	}
}

// Work is what this thread has done, and grows with it.
func TestPresence_MeasuresTheThread(t *testing.T) {
	err := OnThread(Ordinary, func() error {
		var p presence
		clock := NewClock(1)
		p.beginPeriod(clock.realElapsed())
		defer p.endPeriod()
		if p.stat < 0 {
			t.Log("this kernel has no schedstat: waiting for a core counts as absence")
		}
		before := p.workTime()
		for used := threadTime(); threadTime()-used < 20*units.Millisecond; {
		}
		if did := p.workTime() - before; did < 15*units.Millisecond {
			t.Errorf("20 ms of work count as %v", did)
		}
		p.nextPeriod(clock.realElapsed())
		if p.absent != 0 || p.suspended != 0 {
			t.Errorf("absent for %v, suspended for %v", p.absent, p.suspended)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// threadTime returns the processor time of the calling thread.
func threadTime() units.Time {
	without := presence{stat: -1}
	return without.workTime()
}
