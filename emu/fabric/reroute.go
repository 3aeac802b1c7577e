package fabric

import (
	"slices"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// rerouting is what one shard knows about the state of all links, and when it
// recomputes the tables of its switches. Every shard is told of every change,
// so all of them compute at the same emulated time from the same state.
type rerouting struct {
	fabric  *Fabric
	shard   *Shard
	timer   sim.Timer
	up      [][2]bool // by link and direction, as the tables have it
	changes []change  // not in the tables yet, by time
}

// change is a state of a link's direction, and the time at which the tables adopt it.
type change struct {
	at              units.Time
	link, direction int
	up              bool
}

// addRerouting prepares for changes of links, if the plan wants switches to react to them.
func (f *Fabric) addRerouting() {
	if f.Plan.Reroute == units.Never {
		return
	}
	for _, s := range f.Shards {
		r := &rerouting{fabric: f, shard: s, up: make([][2]bool, len(f.Plan.Links))}
		for i, l := range f.Plan.Links {
			r.up[i] = [2]bool{l.Dir[0].Up, l.Dir[1].Up}
		}
		r.timer = s.Engine.NewTimer(r)
		f.rerouting = append(f.rerouting, r)
	}
}

// usable reports whether packets may be sent over a link. A link that is down
// in one direction is down in both: a receiver that hears nothing tells its
// peer, which stops sending (link fault signalling, IEEE 802.3 §46.3.4).
func (r *rerouting) usable(link int) bool { return r.up[link][0] && r.up[link][1] }

// note records at now that the state of a link's direction has been set.
func (r *rerouting) note(now units.Time, link, direction int, up bool) {
	c := change{now + r.fabric.Plan.Reroute, link, direction, up}
	at := len(r.changes)
	for at > 0 && r.changes[at-1].at > c.at {
		at--
	}
	r.changes = slices.Insert(r.changes, at, c)
	r.timer.Arm(r.changes[0].at)
}

// Fire applies all due changes to the tables, in one computation.
func (r *rerouting) Fire(now units.Time) {
	before := map[int]bool{}
	for len(r.changes) > 0 && r.changes[0].at <= now {
		c := r.changes[0]
		r.changes = r.changes[1:]
		if _, seen := before[c.link]; !seen {
			before[c.link] = r.usable(c.link)
		}
		r.up[c.link][c.direction] = c.up
	}
	for link, was := range before {
		if r.usable(link) != was {
			r.fabric.route(r.shard, r.usable)
			if len(r.changes) == 0 {
				r.shard.links.Close(now) // the tables leave out what is down
			}
			if r.shard.Number == 0 { // all shards do the same
				r.shard.timeline = append(r.shard.timeline, moment{at: now, kind: status.Rerouted, link: -1})
			}
			break
		}
	}
	if len(r.changes) > 0 {
		r.timer.Arm(r.changes[0].at)
	}
}
