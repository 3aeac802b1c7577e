package sim

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// TestRunTo: at the instant of the fence, only timers registered before it fire,
// including those armed by a timer that fires.
func TestRunTo(t *testing.T) {
	var e Engine
	var order []string
	var early Timer
	late := func(name string) Timer { return e.NewTimer(fires(func(units.Time) { order = append(order, name) })) }
	early = late("early")
	first := e.NewTimer(fires(func(now units.Time) {
		order = append(order, "first")
		early.Arm(now)
	}))
	moved := late("moved")
	fence := e.NewTimer(nil)
	last := late("last")
	past := late("past")
	first.Arm(10)
	last.Arm(10)
	past.Arm(9)
	moved.Arm(8)
	moved.Arm(11)
	e.RunTo(10, fence)
	if want := []string{"past", "first", "early"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	e.Run(20, 10)
	if want := []string{"past", "first", "early", "last", "moved"}; !slices.Equal(order, want) {
		t.Errorf("afterwards %q, want %q", order, want)
	}
}

// fires is a handler made of a function.
type fires func(now units.Time)

func (f fires) Fire(now units.Time) { f(now) }
