package wall

import (
	"sync"
	"sync/atomic"

	"github.com/weftlab/weft/sim/units"
)

// Exchange passes packets between engines that share a fabric.
type Exchange interface {
	// Post passes on what the engine has sent. It calls notify with the number
	// of each engine that receives something and the earliest arrival time
	// there.
	Post(notify func(to int, earliest units.Time))
	// Collect receives what others have posted.
	Collect()
}

// Group is the drivers of the engines that share one fabric, each on its own
// thread. A packet takes at least the look-ahead to reach another engine, so an
// engine may run that far ahead of the others (conservative synchronisation:
// Chandy and Misra, 1979).
type Group struct {
	lookahead units.Time
	members   []*member
}

// member is the state that a driver shares with the others.
type member struct {
	_    [64]byte
	done atomic.Int64 // everything that it sends at this time or before is posted
	_    [64]byte

	// While it is asleep it does nothing before next, or before another member
	// posts to it, or before a packet arrives from outside, which is not before
	// the present.
	mu         sync.Mutex
	asleep     bool
	next       units.Time
	hasPackets bool // something was posted to it
	wake       func()
}

// NewGroup returns a group of n drivers. Packets take at least lookahead from
// one engine to another.
func NewGroup(n int, lookahead units.Time) *Group {
	g := &Group{lookahead: lookahead}
	for range n {
		g.members = append(g.members, &member{})
	}
	return g
}

// horizonOf returns how far member i may run.
func (g *Group) horizonOf(i int) units.Time {
	limit := units.Never
	// First read the progress of all members, then check who is asleep: a post
	// to a sleeper lowers its next before the poster reports its progress.
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

// notifyMember tells member to that something was posted to it that arrives no sooner
// than earliest.
func (g *Group) notifyMember(to int, earliest units.Time) {
	m := g.members[to]
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hasPackets = true
	if m.asleep && earliest < m.next { // otherwise it wakes early enough anyway
		m.next = earliest
		m.wake()
	}
}

// announceSleep announces that member i is about to sleep until next. It returns false
// if there is mail to read first.
func (g *Group) announceSleep(i int, next units.Time) bool {
	m := g.members[i]
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hasPackets {
		return false
	}
	m.asleep, m.next = true, next
	return true
}

// announceAwake announces that member i is awake and about to read its mail.
func (g *Group) announceAwake(i int) {
	m := g.members[i]
	m.mu.Lock()
	m.asleep, m.hasPackets = false, false
	m.mu.Unlock()
}
