package fabric

import (
	"fmt"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// script carries out the events of the plan that concern one shard, in order. A
// direction of a link between two shards concerns both, and the state of a link
// concerns all: their flows may stall. Where nodes have their own engines, these
// reach the same point first (parallel.Shard.Fence).
type script struct {
	fabric *Fabric
	shard  *Shard
	timer  sim.Timer
	events []*plan.Event
}

func (f *Fabric) addEvents() {
	for _, shard := range f.Shards {
		if len(f.Plan.Events) > 0 || f.rerouting != nil {
			shard.Fence()
		}
		s := &script{fabric: f, shard: shard}
		for i := range f.Plan.Events {
			e := &f.Plan.Events[i]
			ends := f.Plan.Links[e.Link].Ends
			if f.ShardOf(ends[0].Node) == shard || f.ShardOf(ends[1].Node) == shard || e.Set.State != nil {
				s.events = append(s.events, e)
			}
		}
		if len(s.events) > 0 {
			s.timer = shard.Engine.NewTimer(s)
			s.timer.Arm(s.events[0].At)
		}
	}
}

// Fire carries out all due events.
func (s *script) Fire(now units.Time) {
	for len(s.events) > 0 && s.events[0].At <= now {
		s.carryOut(s.events[0])
		s.events = s.events[1:]
	}
	if len(s.events) > 0 {
		s.timer.Arm(s.events[0].At)
	}
}

func (s *script) carryOut(e *plan.Event) {
	f := s.fabric
	ends := f.Plan.Links[e.Link].Ends
	for d, end := range ends {
		if !e.Dir[d] {
			continue
		}
		link := f.Links[e.Link][d]
		if f.ShardOf(end.Node) == s.shard {
			settings, err := e.Set.Apply(link.Settings())
			if err != nil {
				if f.Failed != nil {
					f.Failed(fmt.Errorf("event at %v on the link of %s: %w", e.At, f.Plan.PortName(end.Node, end.Port), err))
				}
				if e.Set.State == nil {
					continue
				}
				// Other shards do not know that the other settings have failed.
				settings = link.Settings()
				settings.Up = bool(*e.Set.State)
			}
			f.logChange(s.shard, e.At, status.ByEvent, e.Link, d, link.Settings().Up, &e.Set)
			f.set(e.Link, d, settings)
		}
		if link.CrossesEngines() && f.ShardOf(ends[1-d].Node) == s.shard && e.Set.State != nil {
			link.SetFarHalf(*e.Set.State == links.Up)
		}
		if e.Set.State != nil {
			s.shard.recordLinkChange(e.At, e.Link, d, *e.Set.State == links.Up)
			f.flushMACs(s.shard, e.Link, *e.Set.State == links.Up)
			f.tellNICs(s.shard, e.Link)
		}
		if f.rerouting != nil && e.Set.State != nil {
			f.rerouting[s.shard.Number].recordLinkState(e.At, e.Link, d, *e.Set.State == links.Up)
		}
	}
}
