package parallel

import (
	"testing"
	"time"
)

// TestTunerLooks_AreSpacedByWindowLength: the tuner looks in every window that is longer than
// its period, and in one of 16 that are short, and soon again when that changes.
func TestTunerLooks_AreSpacedByWindowLength(t *testing.T) {
	var l looks
	var now time.Duration
	for _, c := range []struct {
		window  time.Duration
		windows int
		want    int // looks in the second half
	}{
		{10 * time.Microsecond, 1600, 50},
		{30 * time.Millisecond, 60, 30},
		{time.Millisecond, 2000, 200},
		{3 * time.Millisecond, 200, 100},
	} {
		n := 0
		for i := range c.windows {
			now += c.window
			if l.due() {
				l.looked(now)
				if i >= c.windows/2 {
					n++
				}
			}
		}
		if n != c.want {
			t.Errorf("%d looks in %d windows of %v, not %d", n, c.windows/2, c.window, c.want)
		}
	}
}

// TestTuner_StaysAtTheFastestNumberOfWorkers: the tuner nearly always stays at the number of
// workers that runs a fabric fastest, and it follows when that changes. The numbers are events
// a microsecond.
func TestTuner_StaysAtTheFastestNumberOfWorkers(t *testing.T) {
	alone := map[int]float64{1: 10, 2: 6, 4: 4, 8: 1}    // other programs use the cores
	idle := map[int]float64{1: 10, 2: 18, 4: 33, 8: 50}  // all are free
	half := map[int]float64{1: 10, 2: 18, 4: 30, 8: 28}  // some of eight cores are used
	equal := map[int]float64{1: 10, 2: 10, 4: 10, 8: 10} // more workers gain nothing
	for _, c := range []struct {
		name       string
		maxWorkers int
		phases     []map[int]float64
		want       []int
		portion    float64 // share of the events that the best number would handle
	}{
		{"others use the cores", 2, []map[int]float64{alone}, []int{1}, 0.98},
		{"the cores are free", 2, []map[int]float64{idle}, []int{2}, 0.98},
		{"free, then used, then free", 2, []map[int]float64{idle, alone, idle}, []int{2, 1, 2}, 0.9},
		{"eight workers alone", 8, []map[int]float64{alone}, []int{1}, 0.95},
		{"eight workers", 8, []map[int]float64{idle}, []int{8}, 0.98},
		{"some cores used, then all free", 8, []map[int]float64{half, idle}, []int{4, 8}, 0.9},
		{"nothing is gained", 8, []map[int]float64{equal}, []int{8}, 1},
		{"three workers, too many and then enough", 3, []map[int]float64{{1: 10, 2: 9, 3: 8}, {1: 10, 2: 18, 3: 25}}, []int{1, 3}, 0.9},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newTuner(c.maxWorkers)
			var now time.Duration
			events, best := 0.0, 0.0
			for i, rates := range c.phases {
				top := 0.0
				for n, r := range rates {
					if n <= c.maxWorkers {
						top = max(top, r)
					}
				}
				stayed := time.Duration(0)
				for end := now + 40*time.Second; now < end; {
					step := 300 * time.Microsecond
					now += step
					events += rates[u.active] * float64(step.Microseconds())
					best += top * float64(step.Microseconds())
					if u.look(now, uint64(events)); u.active == c.want[i] {
						stayed += step
					}
				}
				if u.stays != c.want[i] {
					t.Errorf("phase %d: %d workers, want %d", i, u.stays, c.want[i])
				}
				if stayed < 30*time.Second {
					t.Errorf("phase %d: %v of 40 s with %d workers", i, stayed, c.want[i])
				}
			}
			if events < c.portion*best {
				t.Errorf("%.3f of the events that were possible, want %.3f", events/best, c.portion)
			}
		})
	}
	u := newTuner(1)
	for now := time.Duration(0); now < time.Second; now += time.Millisecond {
		if u.look(now, uint64(now)) != 1 {
			t.Fatal("more than one worker")
		}
	}
}
