package sim

import (
	"slices"

	"github.com/weftlab/weft/sim/units"
)

// Cond is a condition on which processes of one engine wait: for example a
// completion has come, or a connection is up. The zero Cond is ready for use; one on
// which processes wait must not be copied.
//
// As with sync.Cond, a signal without a waiting process is lost, and when a process
// resumes the condition may no longer hold, because another was quicker. So a
// process checks the condition before it waits, and again afterwards.
type Cond struct {
	waiting []*Process // in the order in which they began
}

// Wait parks p until a signal reaches it, and then returns true, or until timeout
// has passed, and then returns false; units.Never waits for ever, and 0 or less for
// the rest of this instant. A signal at the instant of the timeout still counts if
// it comes before p resumes. Only p itself may call it.
func (c *Cond) Wait(p *Process, timeout units.Time) bool {
	p.mustRun()
	p.cond, p.signalled = c, false
	c.waiting = append(c.waiting, p)
	p.all.scheduleTurn(p, p.all.timeAfter(timeout))
	p.parkProcess()
	return p.signalled
}

// Signal resumes the process that has waited longest, if there is one, by an event
// at the same instant. If that process is stopped before it resumes, the signal is
// lost. Like Broadcast, it may be called by any code on the engine's goroutine.
func (c *Cond) Signal() {
	if len(c.waiting) > 0 {
		p := c.waiting[0]
		p.leaveCond()
		p.goOn()
	}
}

// Broadcast resumes all waiting processes, in the order in which they began to wait,
// each by an event at the same instant.
func (c *Cond) Broadcast() {
	for _, p := range c.waiting {
		p.cond = nil
		p.goOn()
	}
	clear(c.waiting)
	c.waiting = c.waiting[:0]
}

// goOn ends the wait of a process.
func (p *Process) goOn() {
	p.signalled = true
	p.all.scheduleTurn(p, p.all.engine.now)
}

// leaveCond ends a wait, if the process is in one.
func (p *Process) leaveCond() {
	if c := p.cond; c != nil {
		i := slices.Index(c.waiting, p)
		c.waiting = slices.Delete(c.waiting, i, i+1)
		p.cond = nil
	}
}
