package fabric

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// moment is an entry as a shard records it. No two shards record the same one.
type moment struct {
	at         units.Time
	kind, by   string
	link, dir  int // link is -1 if there is none
	nth        int // index among the entries of the direction at this instant
	node, port int // of a watchdog
	prio       uint8
	text       string
}

// maxStorms is the maximum number of watchdog entries of a port in a timeline.
// Counters count all of them.
const maxStorms = 200

// recordChange records a change that is about to be made to a direction of a link, in the
// shard that it leaves from.
func (f *Fabric) recordChange(s *Shard, now units.Time, by string, link, dir int, wasUp bool, p *change.LinkPatch) {
	m := moment{at: now, by: by, link: link, dir: dir}
	for i := len(s.timeline) - 1; i >= 0 && s.timeline[i].at == now; i-- {
		if s.timeline[i].link == link && s.timeline[i].dir == dir {
			m.nth++
		}
	}
	if p.State != nil && bool(*p.State) != wasUp {
		if m.kind = status.LinkDown; *p.State == links.Up {
			m.kind = status.LinkUp
		}
		s.timeline = append(s.timeline, m)
		m.nth++
	}
	rest := *p
	rest.State = nil
	if m.text = rest.String(); m.text != "" {
		m.kind = status.LinkSet
		s.timeline = append(s.timeline, m)
	}
}

// storm returns a function that records what the watchdog of a port does, up to maxStorms
// entries.
func (f *Fabric) storm(s *Shard, node, port int) func(now units.Time, prio uint8, begins bool) {
	noted := 0
	return func(now units.Time, prio uint8, begins bool) {
		if noted++; noted > maxStorms {
			return
		}
		kind := status.WatchdogOver
		if begins {
			kind = status.Watchdog
		}
		s.timeline = append(s.timeline, moment{at: now, kind: kind, link: -1, node: node, port: port, prio: prio, text: f.className(node, port, prio)})
	}
}

func (f *Fabric) className(node, port int, prio uint8) string {
	for _, c := range f.Plan.Nodes[node].Ports[port].Classes {
		if c.Priority == prio {
			return "class " + c.Name
		}
	}
	return ""
}

// recordLinkChange records that a direction of a link goes down or up.
func (s *Shard) recordLinkChange(now units.Time, link, dir int, up bool) {
	bit := uint8(1) << dir
	switch {
	case up:
		if s.down[link] &^= bit; s.down[link] == 0 {
			delete(s.cut, link)
		}
		if len(s.cut) == 0 {
			s.links.Close(now)
		}
	case s.down[link]&bit == 0:
		s.down[link] |= bit
		s.cut[link] = true
		s.links.Open(now)
	}
}

// Timeline returns what has happened to the network so far, ordered by time. No
// shard may run meanwhile.
func (f *Fabric) Timeline() []status.Moment {
	var all []moment
	for _, s := range f.Shards {
		all = append(all, s.timeline...)
	}
	// Entries of one instant are in an order that does not depend on the
	// shards, with both directions of a link side by side.
	slices.SortStableFunc(all, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), b.link-a.link, a.node-b.node, a.port-b.port, a.nth-b.nth, a.dir-b.dir, cmp.Compare(a.kind, b.kind), int(a.prio)-int(b.prio))
	})
	var out []status.Moment
	for i, m := range all {
		e := status.Moment{At: m.at, Event: m.kind, By: m.by, Text: m.text}
		switch {
		case m.kind == status.Rerouted:
		case m.link < 0:
			e.Where = f.Plan.PortName(m.node, m.port)
		default:
			if i > 0 && m.dir == 1 { // the other direction of the previous entry
				before := all[i-1]
				before.dir = 1
				if before == m {
					out[len(out)-1].OneWay = false
					continue
				}
			}
			ends := f.Plan.Links[m.link].Ends
			near, far := ends[m.dir], ends[1-m.dir]
			e.Where, e.Peer, e.OneWay = f.Plan.PortName(near.Node, near.Port), f.Plan.PortName(far.Node, far.Port), true
		}
		out = append(out, e)
	}
	for i := range f.deadlocks {
		d := &f.deadlocks[i]
		e := status.Moment{At: d.Since, Event: status.Stuck, Where: d.Cycle[0], Text: "class " + d.Class + ": " + d.String()}
		out = append(out, e)
		if d.Ended > 0 {
			e.At, e.Event = d.Ended, status.StuckOver
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b status.Moment) int { return cmp.Compare(a.At, b.At) })
	return out
}

// Outages returns the times during which flows and transfers stood still because links
// were down. No shard may run meanwhile.
func (f *Fabric) Outages() (all []workload.Outage) {
	for _, r := range f.Records {
		all = append(all, r.Outages()...)
	}
	for _, t := range f.transfers {
		t.poster.Count()
		all = append(all, t.Outages()...)
	}
	return all
}
