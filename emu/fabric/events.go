package fabric

import (
	"fmt"

	"github.com/weftlab/weft/emu/sim"
	"github.com/weftlab/weft/emu/units"
)

// script carries out the plan's events in their order.
type script struct {
	fabric *Fabric
	timer  sim.Timer
	next   int
}

func (f *Fabric) addEvents() {
	if len(f.Plan.Events) == 0 {
		return
	}
	s := &script{fabric: f}
	s.timer = f.Engine.NewTimer(s)
	s.timer.Arm(f.Plan.Events[0].At)
}

// Fire carries out all events that are due.
func (s *script) Fire(now units.Time) {
	events := s.fabric.Plan.Events
	for ; s.next < len(events) && events[s.next].At <= now; s.next++ {
		e := &events[s.next]
		if err := s.fabric.Set(e.Link, e.Dir, e.Set); err != nil && s.fabric.Failed != nil {
			end := s.fabric.Plan.Links[e.Link].Ends[0]
			s.fabric.Failed(fmt.Errorf("event at %v on the link of %s: %w", e.At, s.fabric.Plan.PortName(end.Node, end.Port), err))
		}
	}
	if s.next < len(events) {
		s.timer.Arm(events[s.next].At)
	}
}
