package outage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/units"
)

func TestWindow(t *testing.T) {
	w := None
	var l Log
	if l.RecordGap(&w, 0, 50, 1); l.Gaps() != nil {
		t.Errorf("a gap without a window: %+v", l.Gaps())
	}
	w.Close(5)
	if w != None {
		t.Errorf("closed before it was opened: %+v", w)
	}
	w.Open(100)
	w.Open(110) // a second link
	if want := (Window{1, 100, units.Never}); w != want {
		t.Errorf("%+v, want %+v", w, want)
	}
	l.RecordGap(&w, 10, 99, 1) // over before
	l.RecordGap(&w, 90, 105, 2)
	l.RecordGap(&w, 105, 108, 3)
	w.Close(200)
	w.Close(300)
	l.RecordGap(&w, 150, 260, 4)
	l.RecordGap(&w, 201, 900, 5) // began after the window had closed
	w.Open(1000)
	l.RecordGap(&w, 950, 1001, 6)
	want := []Gap{{1, 150, 260, 4}, {2, 950, 1001, 6}}
	if diff := cmp.Diff(want, l.Gaps()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range units.Time(2 * maxGaps) {
		w.Close(2000 + 10*i)
		w.Open(2001 + 10*i)
		l.RecordGap(&w, 2000+10*i, 2002+10*i, 1)
	}
	if len(l.Gaps()) != maxGaps {
		t.Errorf("%d gaps are kept", len(l.Gaps()))
	}
}
