package routing

import (
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestLinkStates_AdoptChangesWhenTheyAreDue: changes count a delay after they happen, in
// the order of time; one direction decides; and what leaves a link as it was is no change.
func TestLinkStates_AdoptChangesWhenTheyAreDue(t *testing.T) {
	l := newLab(t, "topology: {reroute: {after: 5ns}, generate: {star: {hosts: 2}}}\n").links
	const ns = units.Nanosecond
	adopt := func(now, due units.Time, changed, usable bool) {
		t.Helper()
		if got := l.Adopt(now); got != changed || l.Usable(0) != usable || l.Due() != due {
			t.Errorf("at %v: changed %v, usable %v, due %v; want %v, %v, %v", now, got, l.Usable(0), l.Due(), changed, usable, due)
		}
	}
	adopt(0, units.Never, false, true)
	l.RecordState(20*ns, 0, 0, true)
	l.RecordState(10*ns, 0, 0, false)
	adopt(15*ns-1, 15*ns, false, true)
	adopt(15*ns, 25*ns, true, false)
	l.RecordState(18*ns, 0, 1, false)
	adopt(24*ns, 25*ns, false, false) // the other direction was down already
	adopt(25*ns, units.Never, false, false)
	l.RecordState(30*ns, 0, 1, true)
	adopt(40*ns, units.Never, true, true)
	l.RecordState(50*ns, 0, 1, false)
	l.RecordState(50*ns, 0, 1, true)
	adopt(55*ns, units.Never, false, true)
}
