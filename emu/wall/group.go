package wall

import (
	"sync"
	"sync/atomic"

	"github.com/weftlab/weft/sim/units"
)

// Exchange is how an engine that shares a fabric with others hands packets
// over.
type Exchange interface {
	// Post hands over what the engine has sent, and calls notify with the
	// number of each engine that was handed something and the earliest
	// arrival among it.
	Post(notify func(to int, earliest units.Time))
	// Collect takes over what others have posted.
	Collect()
}

// Group is the drivers of the engines that share one fabric, each on a thread
// of its own. Nothing reaches an engine sooner than the look-ahead after it
// was sent, so an engine may run that far beyond what the others have done
// (conservative synchronisation: Chandy and Misra, 1979).
type Group struct {
	lookahead units.Time
	members   []*member
}

// member is what a driver tells the others.
type member struct {
	_    [64]byte
	done atomic.Int64 // all that it sends at this time or before is posted
	_    [64]byte

	// While it is asleep it does nothing before next, or before somebody
	// posts to it, or before a packet comes from outside, which is not before
	// the present.
	mu     sync.Mutex
	asleep bool
	next   units.Time
	mail   bool // something was posted to it
	wake   func()
}

// NewGroup prepares a group of n drivers. Packets take at least lookahead from
// one engine to another.
func NewGroup(n int, lookahead units.Time) *Group {
	g := &Group{lookahead: lookahead}
	for range n {
		g.members = append(g.members, &member{})
	}
	return g
}

// horizon is how far member i may run.
func (g *Group) horizon(i int) units.Time {
	limit := units.Never
	// First what the awake have done, then who is asleep: a post to a sleeper
	// lowers its next before the poster says that it is done.
	var done [maxMembers]units.Time
	for j, m := range g.members {
		done[j] = units.Time(m.done.Load())
	}
	for j, m := range g.members {
		if j == i {
			continue
		}
		t := done[j]
		m.mu.Lock()
		if m.asleep {
			t = m.next
		}
		m.mu.Unlock()
		if t < units.Never-g.lookahead {
			limit = min(limit, t+g.lookahead-1)
		}
	}
	return limit
}

// maxMembers is how many drivers a group may have.
const maxMembers = 64

// notify tells member to that something was posted that arrives at the
// earliest at a time.
func (g *Group) notify(to int, earliest units.Time) {
	m := g.members[to]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mail = true
	if m.asleep && earliest < m.next { // else it wakes early enough by itself
		m.next = earliest
		m.wake()
	}
}

// sleep says that member i is about to sleep until next. It reports false when
// there is mail to be looked at first.
func (g *Group) sleep(i int, next units.Time) bool {
	m := g.members[i]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mail {
		return false
	}
	m.asleep, m.next = true, next
	return true
}

// awake says that member i sleeps no more and is about to look at its mail.
func (g *Group) awake(i int) {
	m := g.members[i]
	m.mu.Lock()
	m.asleep, m.mail = false, false
	m.mu.Unlock()
}
