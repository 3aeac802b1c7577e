package fabric

import (
	"github.com/weftlab/weft/emu/routing"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// rerouting is what one shard knows about the state of all links, and when it
// recomputes the tables of its switches. Every shard is told of every change,
// so all of them compute at the same emulated time from the same state.
type rerouting struct {
	fabric *Fabric
	shard  *Shard
	timer  sim.Timer
	links  *routing.LinkStates
}

// addRerouting prepares for changes of links, if the plan wants switches to react to them.
func (f *Fabric) addRerouting() {
	if f.Plan.Reroute == units.Never {
		return
	}
	for _, s := range f.Shards {
		r := &rerouting{fabric: f, shard: s, links: routing.NewLinkStates(f.Plan)}
		r.timer = s.Engine.NewTimer(r)
		f.rerouting = append(f.rerouting, r)
	}
}

// recordLinkState records at now that the state of a link's direction has been set.
func (r *rerouting) recordLinkState(now units.Time, link, direction int, up bool) {
	r.links.RecordState(now, link, direction, up)
	r.timer.Arm(r.links.Due())
}

// Fire applies all due changes to the tables, in one computation.
func (r *rerouting) Fire(now units.Time) {
	if r.links.Adopt(now) {
		r.fabric.setTables(r.shard, r.links.Usable)
		if r.links.Due() == units.Never {
			r.shard.links.Close(now) // the tables leave out what is down
		}
		if r.shard.Number == 0 { // all shards do the same
			r.shard.log = append(r.shard.log, LogEntry{At: now, Event: status.Rerouted, Link: -1})
		}
	}
	if next := r.links.Due(); next != units.Never {
		r.timer.Arm(next)
	}
}

// setTables computes the tables of the switches of a shard, or of all switches if shard
// is nil, and installs them. Links that are not usable are left out; if usable is nil,
// all links are used.
func (f *Fabric) setTables(shard *Shard, usable func(link int) bool) {
	of := func(node int) bool { return shard == nil || f.ShardOf(node) == shard }
	for _, t := range f.topology.Tables(of, usable) {
		sw := f.Switches[t.Node]
		sw.SetTable(t.Forwarding)
		if t.Routing != nil {
			sw.SetRouting(*t.Routing)
		}
	}
}
