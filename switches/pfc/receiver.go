package pfc

import (
	"math/bits"

	"github.com/weftlab/weft/protocols/wire"
	"github.com/weftlab/weft/sim/units"
)

// Receiver keeps what the peer of one port has asked for, and watches over it.
// What is being sent when a frame comes is sent to its end (IEEE 802.1Q
// §36.1.3); the time that the standard allows for reacting is not used.
type Receiver struct {
	configs *Configs
	paused  uint8     // classes, a bit each
	stormed uint8     // classes whose pause the watchdog has ended
	stuck   uint8     // paused classes with packets that wait
	pauses  [8]*pause // by priority; nil for a class that no frame has spoken of
}

// pause is what the peer has asked for of one class. Most ports are never paused, so it
// is made when that begins.
type pause struct {
	until   units.Time
	since   units.Time // paused
	stuckAt units.Time // since when nothing could be sent
	quiet   units.Time // since when it has not been paused
	got     Got
}

// Got is what a Receiver has been through with one class.
type Got struct {
	Paused  bool
	Storm   bool
	Time    units.Time // paused altogether
	Pauses  uint64     // frames that asked for a pause
	Resumes uint64     // frames that ended one
	Storms  uint64     // times that the watchdog stepped in
}

// NewReceiver makes the receiver of a port. Of the configs it needs the watchdogs.
func NewReceiver(c *Configs) *Receiver { return &Receiver{configs: c} }

// dog is the watchdog of a class.
func (r *Receiver) dog(prio int) Watchdog {
	if c := r.configs[prio]; c != nil {
		return c.Watchdog
	}
	return Watchdog{}
}

// Blocked tells which classes may not be sent now, a bit each.
func (r *Receiver) Blocked() uint8 { return r.paused &^ r.stormed }

// Dropping tells for which classes the watchdog discards what waits and comes.
func (r *Receiver) Dropping() (classes uint8) {
	for m := r.stormed; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.dog(prio).Action == Drop {
			classes |= 1 << prio
		}
	}
	return classes
}

// Frame takes what a frame asks for. backlog has a bit for each class with
// packets that wait.
func (r *Receiver) Frame(now units.Time, f *wire.Pause, rate units.Rate, backlog uint8) {
	for m := f.Classes; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if r.pauses[prio] == nil {
			r.pauses[prio] = new(pause)
		}
		p := r.pauses[prio]
		if f.Quanta[prio] == 0 {
			p.got.Resumes++
			r.resume(now, prio)
			continue
		}
		p.got.Pauses++
		p.until = now + PauseTime(f.Quanta[prio], rate)
		if r.paused&(1<<prio) == 0 {
			r.paused |= 1 << prio
			p.since = now
		}
	}
	r.Backlog(now, backlog)
}

func (r *Receiver) resume(now units.Time, prio int) {
	if r.paused&(1<<prio) != 0 {
		r.paused &^= 1 << prio
		r.stuck &^= 1 << prio
		p := r.pauses[prio]
		p.quiet = now
		p.got.Time += now - p.since
	}
}

// Backlog is told which classes have packets that wait, when that may have
// changed for a class that is paused.
func (r *Receiver) Backlog(now units.Time, backlog uint8) {
	for m := r.paused & backlog &^ r.stuck &^ r.stormed; m != 0; m &= m - 1 {
		r.pauses[bits.TrailingZeros8(m)].stuckAt = now
	}
	r.stuck = r.paused & backlog &^ r.stormed
}

// Paused tells which classes the peer has asked to hold off, a bit each.
func (r *Receiver) Paused() uint8 { return r.paused }

// Due is when Expire is to be called; units.Never while nothing is to come.
func (r *Receiver) Due() units.Time {
	due := units.Never
	for m := r.paused; m != 0; m &= m - 1 {
		due = min(due, r.pauses[bits.TrailingZeros8(m)].until)
	}
	for m := r.stuck; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if d := r.dog(prio).Detect; d > 0 {
			due = min(due, r.pauses[prio].stuckAt+d)
		}
	}
	for m := r.stormed &^ r.paused; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		due = min(due, r.pauses[prio].quiet+r.dog(prio).Restore)
	}
	return due
}

// Expire ends the pauses whose time is over, lets watchdogs bite, and ends
// what they do when the peer has been quiet for long enough. It tells for
// which classes a watchdog has stepped in, and for which it lets go.
func (r *Receiver) Expire(now units.Time) (bitten, released uint8) {
	for m := r.paused; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.pauses[prio].until <= now {
			r.resume(now, prio)
		}
	}
	for m := r.stormed &^ r.paused; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.pauses[prio].quiet+r.dog(prio).Restore <= now {
			r.stormed &^= 1 << prio
			released |= 1 << prio
		}
	}
	for m := r.stuck; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if d := r.dog(prio).Detect; d > 0 && r.pauses[prio].stuckAt+d <= now {
			r.stormed |= 1 << prio
			r.stuck &^= 1 << prio
			r.pauses[prio].got.Storms++
			bitten |= 1 << prio
		}
	}
	return bitten, released
}

// Got tells what has happened to a class up to now.
func (r *Receiver) Got(now units.Time, prio uint8) Got {
	p := r.pauses[prio]
	if p == nil {
		return Got{}
	}
	g := p.got
	g.Storm = r.stormed&(1<<prio) != 0
	if r.paused&(1<<prio) != 0 {
		g.Paused = true
		g.Time += now - p.since
	}
	return g
}

// StuckSince tells since when a class has been paused with packets that wait.
func (r *Receiver) StuckSince(prio uint8) (since units.Time, stuck bool) {
	if r.stuck&(1<<prio) == 0 {
		return 0, false
	}
	return r.pauses[prio].stuckAt, true
}
