package routing

import (
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
)

// LinkStates is the state of all links as the tables have it. Tables adopt a change some
// time after it has happened.
type LinkStates struct {
	after   units.Time
	up      [][2]bool // by link and direction, as the tables have it
	changes []change  // not in the tables yet, by time
}

// change is a state of a link's direction, and the time at which the tables adopt it.
type change struct {
	at              units.Time
	link, direction int
	up              bool
}

// NewLinkStates returns the states with which a plan begins. Tables adopt changes after
// the plan's Reroute.
func NewLinkStates(p *plan.Plan) *LinkStates {
	s := &LinkStates{after: p.Reroute, up: make([][2]bool, len(p.Links))}
	for i, l := range p.Links {
		s.up[i] = [2]bool{l.Dir[0].Up, l.Dir[1].Up}
	}
	return s
}

// Usable reports whether packets may be sent over a link. A link that is down
// in one direction is down in both: a receiver that hears nothing tells its
// peer, which stops sending (link fault signalling, IEEE 802.3 §46.3.4).
func (s *LinkStates) Usable(link int) bool { return s.up[link][0] && s.up[link][1] }

// RecordState records at now that the state of a link's direction has been set.
func (s *LinkStates) RecordState(now units.Time, link, direction int, up bool) {
	c := change{now + s.after, link, direction, up}
	at := len(s.changes)
	for at > 0 && s.changes[at-1].at > c.at {
		at--
	}
	s.changes = slices.Insert(s.changes, at, c)
}

// Due returns when the tables adopt the next change; units.Never if none is left.
func (s *LinkStates) Due() units.Time {
	if len(s.changes) == 0 {
		return units.Never
	}
	return s.changes[0].at
}

// Adopt adopts all changes that are due, and reports whether other links are usable now,
// so that tables must be computed again.
func (s *LinkStates) Adopt(now units.Time) (changed bool) {
	before := map[int]bool{}
	for len(s.changes) > 0 && s.changes[0].at <= now {
		c := s.changes[0]
		s.changes = s.changes[1:]
		if _, seen := before[c.link]; !seen {
			before[c.link] = s.Usable(c.link)
		}
		s.up[c.link][c.direction] = c.up
	}
	for link, was := range before {
		if s.Usable(link) != was {
			return true
		}
	}
	return false
}
