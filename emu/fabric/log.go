package fabric

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/sim/units"
)

// LogEntry is what happened to a direction of a link or to a queue, what a watchdog did, or that
// tables were recomputed, as a shard logs it. No two shards log the same entry. A change of both
// directions of a link is two entries.
type LogEntry struct {
	At         units.Time
	Event      string // as in status.Moment
	By         string // status.ByEvent or status.BySet, for a change of a link or a queue
	Link, Dir  int    // of the plan; Link is -1 if there is none
	Nth        int    // index among the entries of the direction at this instant
	Node, Port int    // of a watchdog or a queue
	Priority   uint8  // of a watchdog
	Text       string // what was set, or the class of a watchdog
}

// maxStorms is the maximum number of watchdog entries of a port in a log.
// Counters count all of them.
const maxStorms = 200

// logChange logs a change that is about to be made to a direction of a link, in the
// shard that it leaves from.
func (f *Fabric) logChange(s *Shard, now units.Time, by string, link, dir int, wasUp bool, p *change.LinkPatch) {
	m := LogEntry{At: now, By: by, Link: link, Dir: dir}
	for i := len(s.log) - 1; i >= 0 && s.log[i].At == now; i-- {
		if s.log[i].Link == link && s.log[i].Dir == dir {
			m.Nth++
		}
	}
	if p.State != nil && bool(*p.State) != wasUp {
		if m.Event = status.LinkDown; *p.State == links.Up {
			m.Event = status.LinkUp
		}
		s.log = append(s.log, m)
		m.Nth++
	}
	rest := *p
	rest.State = nil
	if m.Text = rest.String(); m.Text != "" {
		m.Event = status.LinkSet
		s.log = append(s.log, m)
	}
}

// logStorms returns a function that logs what the watchdog of a port does, up to maxStorms
// entries.
func (f *Fabric) logStorms(s *Shard, node, port int) func(now units.Time, prio uint8, begins bool) {
	noted := 0
	return func(now units.Time, prio uint8, begins bool) {
		if noted++; noted > maxStorms {
			return
		}
		kind := status.WatchdogOver
		if begins {
			kind = status.Watchdog
		}
		m := LogEntry{At: now, Event: kind, Link: -1, Node: node, Port: port, Priority: prio}
		if name := f.Plan.Nodes[node].Ports[port].ClassName(prio); name != "" {
			m.Text = "class " + name
		}
		s.log = append(s.log, m)
	}
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

// Log returns what has happened in the shard so far. It only grows. At the instant of a
// sample it is complete; until then its entries need not be in order of time, since nodes
// run one after the other. The goroutine that runs the shard may read it.
func (s *Shard) Log() []LogEntry { return s.log }

// Log returns what all shards have logged, ordered by time. The entries of one instant are in
// an order that does not depend on the shards, with both directions of a link side by side.
// No shard may run meanwhile.
func (f *Fabric) Log() []LogEntry {
	var all []LogEntry
	for _, s := range f.Shards {
		all = append(all, s.log...)
	}
	slices.SortStableFunc(all, func(a, b LogEntry) int {
		return cmp.Or(cmp.Compare(a.At, b.At), b.Link-a.Link, a.Node-b.Node, a.Port-b.Port, a.Nth-b.Nth, a.Dir-b.Dir, cmp.Compare(a.Event, b.Event), int(a.Priority)-int(b.Priority))
	})
	return all
}
