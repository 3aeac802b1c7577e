package fabric

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// What a worker does in the windows of a run in virtual time.

// begin makes the shard ready.
func (s *Shard) begin() {
	s.look()
	for _, o := range s.mail.out {
		if o != nil {
			o.Begin(0)
		}
	}
}

// look brings the agenda up to date.
func (s *Shard) look() {
	if s.parallel {
		for _, p := range s.processes {
			p.inbox.Land()
			p.note()
		}
	}
}

// note puts into the agenda when the process has something to do next.
func (p *process) note() { p.colour.agenda.Set(p.number, p.engine.Next()) }

// next is when the processes of each colour have something to do, or something arrives
// that the shard has sent to others of that colour; units.Never is that neither is so. It
// may be early. Where the windows are those of all processes only the earlier one counts.
func (s *Shard) next() (next [2]units.Time) {
	if !s.parallel {
		return [2]units.Time{s.Engine.Next(), units.Never}
	}
	next = s.firsts()
	if s.fences {
		next[0] = min(next[0], s.Engine.Next())
	}
	for _, o := range s.mail.out {
		if o != nil {
			next[s.far] = min(next[s.far], o.First())
		}
	}
	return next
}

// firsts is when the processes of each colour have something to do.
func (s *Shard) firsts() [2]units.Time {
	return [2]units.Time{s.colours[0].agenda.First(), s.colours[1].agenda.First()}
}

// receive takes over what other workers have sent in the window before, and
// writes from now on to the other half.
func (s *Shard) receive(turn int) {
	for j, o := range s.mail.in {
		if o == nil {
			continue
		}
		o.Deliver((turn + 1) % 2)
		s.mail.out[j].Begin(turn % 2)
	}
	s.settle()
}

// settle ends what was lost in the window before, now that all has come that was
// sent in it.
func (s *Shard) settle() {
	if s.fenced {
		s.fenced = false
		for _, p := range s.processes {
			p.inbox.Settle()
		}
	}
}

// trade passes spare packets on to the pools of others that are short of some, and
// takes over what they have given in the window before.
func (s *Shard) trade(all []*Shard, turn int, plan []window) {
	if len(all) == 1 {
		return
	}
	for j, other := range all {
		if j == s.Number {
			continue
		}
		gift := &other.mail.gifts[(turn+1)%2][s.Number]
		s.Pool.Adopt(gift)
		if short := plan[j].short; short != 0 {
			s.mail.gifts[turn%2][j].Append(s.Pool.Spare(short))
		}
	}
}

// run lets the processes do what is due up to and including end, or some of it: it may
// stop after some events, where nobody else relies on the rest.
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

// runWindows lets the processes do what is due up to and including end, window after
// window.
func (s *Shard) runWindows(end units.Time, events int) {
	lookahead := min(s.lookahead, maxWindow)
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

// turnOf tells which colour has its turn, the one that has something to do first, and how
// far it may go: nothing reaches it before a lookahead has passed since the other colour
// does something, and that does what it has to do already, or what a packet of this one
// makes it do.
func turnOf(first [2]units.Time, lookahead units.Time) (colour int, to units.Time) {
	if first[1] < first[0] {
		colour = 1
	}
	return colour, min(first[1-colour], first[colour]+lookahead) + lookahead - 1
}

// runWindow lets the processes of a colour do what is due up to and including to. Each does
// all that it has to do before the next has its turn, so that what it touches stays in the
// cache.
func (s *Shard) runWindow(c int, to units.Time) (events int) {
	all := &s.colours[c]
	for i := all.agenda.Due(0, to); i >= 0; i = all.agenda.Due(i+1, to) {
		p := all.processes[i]
		p.inbox.Land()
		p.engine.Prefetch(to)
		events += p.engine.Run(to, math.MaxInt)
		p.note()
	}
	s.handled += uint64(events)
	return events
}

// fence marks the place of what concerns the shard as a whole among the timers of its
// processes: those registered so far come first at one instant.
func (s *Shard) fence() {
	s.fences = true
	for _, p := range s.processes {
		p.fence = p.engine.NewTimer(nil)
	}
}

// runFenced carries out what concerns the shard as a whole. Its processes are brought
// to the same point before: to the place in the instant that such an event would
// have if they shared an engine with it.
func (s *Shard) runFenced(end units.Time) {
	for at := s.Engine.Due(); at <= end; at = s.Engine.Due() {
		s.runWindows(at-1, math.MaxInt)
		for _, p := range s.processes {
			p.inbox.Land()
			p.engine.RunTo(at, p.fence)
			p.engine.Advance(at)
			p.note()
		}
		s.Engine.Run(at, 1)
		s.fenced = true
		s.look()
	}
}

// rest hands over what is between processes when none of them runs.
func (s *Shard) rest() {
	if !s.parallel {
		return
	}
	for _, o := range s.mail.in {
		if o != nil {
			o.Deliver(0)
			o.Deliver(1)
		}
	}
	for _, p := range s.processes {
		p.inbox.Settle()
	}
}

// due is the time of the earliest thing that will happen in the shard; exact, where
// next is not. Nothing runs.
func (s *Shard) due() units.Time {
	due := s.Engine.Due()
	for _, p := range s.processes {
		due = min(due, p.engine.Due())
	}
	return due
}

// now is the latest time that any process has reached.
func (s *Shard) now() units.Time {
	now := s.Engine.Now()
	for _, p := range s.processes {
		now = max(now, p.engine.Now())
	}
	return now
}

// advance moves the time of the shard forward.
func (s *Shard) advance(at units.Time) {
	s.Engine.Advance(at)
	for _, p := range s.processes {
		p.engine.Advance(at)
	}
}

// fired is how many events the shard has handled.
func (s *Shard) fired() (n uint64) {
	if s.parallel {
		n = s.Engine.Fired()
	}
	for _, p := range s.processes {
		n += p.engine.Fired()
	}
	return n
}
