package parallel

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// This file contains what a worker does in the windows of a run in virtual time.

// begin prepares the shard for a run.
func (s *Shard) begin() {
	s.look()
	for _, o := range s.peers.out {
		if o != nil {
			o.BeginHalf(0)
		}
	}
}

// look brings the agenda up to date.
func (s *Shard) look() {
	if s.parallel {
		for _, p := range s.Processes {
			p.inbox.DeliverMessages()
			p.updateAgenda()
		}
	}
}

// updateAgenda records in the agenda when the process next has something to do.
func (p *Process) updateAgenda() { p.colour.agenda.Set(p.number, p.Engine.Next()) }

// next returns when the processes of each colour next have something to do, or when
// packets that the shard has sent to others of that colour arrive; units.Never if
// neither. It may be too early. If windows run all processes, only the earlier one
// counts.
func (s *Shard) next() (next [2]units.Time) {
	if !s.parallel {
		return [2]units.Time{s.Engine.Next(), units.Never}
	}
	next = s.firsts()
	if s.fences {
		next[0] = min(next[0], s.Engine.Next())
	}
	for _, o := range s.peers.out {
		if o != nil {
			next[s.far] = min(next[s.far], o.FirstArrival())
		}
	}
	return next
}

// firsts returns when the processes of each colour next have something to do.
func (s *Shard) firsts() [2]units.Time {
	return [2]units.Time{s.colours[0].agenda.FirstTime(), s.colours[1].agenda.FirstTime()}
}

// receive takes over what other workers have sent in the previous window, and
// from now on writes to the other half.
func (s *Shard) receive(turn int) {
	for j, o := range s.peers.in {
		if o == nil {
			continue
		}
		o.DeliverHalf((turn + 1) % 2)
		s.peers.out[j].BeginHalf(turn % 2)
	}
	s.freeLostPackets()
}

// freeLostPackets handles what was lost in the previous window, now that everything sent
// in it has arrived.
func (s *Shard) freeLostPackets() {
	if s.fenced {
		s.fenced = false
		for _, p := range s.Processes {
			p.inbox.FreeLostPackets()
		}
	}
}

// trade passes spare packets to the pools of others that are short of some, and
// takes over what they gave in the previous window.
func (s *Shard) trade(all []*Shard, turn int, plan []window) {
	if len(all) == 1 {
		return
	}
	for j, other := range all {
		if j == s.Number {
			continue
		}
		spares := &other.peers.sparePackets[(turn+1)%2][s.Number]
		s.Pool.AdoptPackets(spares)
		if short := plan[j].short; short != 0 {
			s.peers.sparePackets[turn%2][j].AppendList(s.Pool.SparePackets(short))
		}
	}
}

// run lets the processes do what is due up to and including end, or part of it: it may
// stop after so many events if no other shard relies on the rest.
func (s *Shard) run(end units.Time, events int) {
	if !s.parallel {
		s.handled += uint64(s.Engine.Run(end, events))
		return
	}
	if s.fences {
		s.runFenced(end)
	}
	s.runWindows(end, events)
}

// runWindows lets the processes do everything due up to and including end, window
// after window.
func (s *Shard) runWindows(end units.Time, events int) {
	lookahead := min(s.Lookahead, maxWindow)
	for events > 0 {
		first := s.firsts()
		if min(first[0], first[1]) > end {
			return
		}
		c, to := 0, first[0]+lookahead-1
		if s.coloured {
			c, to = turnOf(first, lookahead)
		}
		events -= s.runWindow(c, min(to, end))
	}
}

// turnOf returns which colour has its turn, the one that has something to do first, and
// how far it may go. Nothing reaches it until a lookahead after the other colour does
// something, and the other colour does either what it already has to do or what a packet
// of this colour triggers.
func turnOf(first [2]units.Time, lookahead units.Time) (colour int, to units.Time) {
	if first[1] < first[0] {
		colour = 1
	}
	return colour, min(first[1-colour], first[colour]+lookahead) + lookahead - 1
}

// runWindow lets the processes of a colour do what is due up to and including to. Each
// process does everything that it has to do before the next has its turn, so that the data
// it touches stays in the cache.
func (s *Shard) runWindow(c int, to units.Time) (events int) {
	all := &s.colours[c]
	for i, next := all.agenda.NextDue(0, to), 0; i >= 0; i = next {
		p := all.processes[i]
		// Nothing that p does reaches another process of its colour in this window, so the
		// next one is known already.
		if next = all.agenda.NextDue(i+1, to); next >= 0 {
			all.processes[next].prefetch()
		}
		p.inbox.DeliverMessages()
		p.Engine.Prefetch(to)
		events += p.Engine.Run(to, math.MaxInt)
		p.updateAgenda()
	}
	s.handled += uint64(events)
	return events
}

// prefetch prefetches what the process will need first: where its messages land, and all its
// state if there is a message for each part of it on average.
func (p *Process) prefetch() {
	p.inbox.Prefetch()
	if p.Prefetch != nil && p.inbox.WaitingMessages() >= p.Parts {
		p.Prefetch()
	}
}

// Fence marks the place of shard-wide events among the timers of its processes:
// timers registered so far come first at one instant. Without processes of their own engines
// it does nothing.
func (s *Shard) Fence() {
	if !s.parallel {
		return
	}
	s.fences = true
	for _, p := range s.Processes {
		p.fence = p.Engine.NewTimer(nil)
	}
}

// runFenced runs shard-wide events. First it brings the processes to the same point:
// to the place in the instant that such an event would have if they shared an engine
// with it.
func (s *Shard) runFenced(end units.Time) {
	for at := s.Engine.NextDue(); at <= end; at = s.Engine.NextDue() {
		s.runWindows(at-1, math.MaxInt)
		for _, p := range s.Processes {
			p.inbox.DeliverMessages()
			p.Engine.RunTo(at, p.fence)
			p.Engine.AdvanceTo(at)
			p.updateAgenda()
		}
		s.Engine.Run(at, 1)
		s.fenced = true
		s.look()
	}
}

// Rest hands over what is between processes while none of them runs.
func (s *Shard) Rest() {
	if !s.parallel {
		return
	}
	for _, o := range s.peers.in {
		if o != nil {
			o.DeliverHalf(0)
			o.DeliverHalf(1)
		}
	}
	for _, p := range s.Processes {
		p.inbox.FreeLostPackets()
	}
}

// Due returns the time of the earliest event in the shard; units.Never if there is none.
// It is exact, unlike next. Nothing runs meanwhile.
func (s *Shard) Due() units.Time {
	due := s.Engine.NextDue()
	for _, p := range s.Processes {
		due = min(due, p.Engine.NextDue())
	}
	return due
}

// Now returns the latest time that any process has reached.
func (s *Shard) Now() units.Time {
	now := s.Engine.Now()
	for _, p := range s.Processes {
		now = max(now, p.Engine.Now())
	}
	return now
}

// Advance moves the time of the shard forward.
func (s *Shard) Advance(at units.Time) {
	s.Engine.AdvanceTo(at)
	for _, p := range s.Processes {
		p.Engine.AdvanceTo(at)
	}
}

// Fired returns how many events the shard has handled.
func (s *Shard) Fired() (n uint64) {
	if s.parallel {
		n = s.Engine.FiredEvents()
	}
	for _, p := range s.Processes {
		n += p.Engine.FiredEvents()
	}
	return n
}
