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
	dogs    [8]Watchdog // by priority
	paused  uint8       // classes, a bit each
	stormed uint8       // classes whose pause the watchdog has ended
	stuck   uint8       // paused classes with packets that wait
	until   [8]units.Time
	since   [8]units.Time // paused
	stuckAt [8]units.Time // since when nothing could be sent
	quiet   [8]units.Time // since when it has not been paused
	got     [8]Got
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

// NewReceiver makes the receiver of a port, with a watchdog for each class.
func NewReceiver(dogs [8]Watchdog) *Receiver { return &Receiver{dogs: dogs} }

// Blocked tells which classes may not be sent now, a bit each.
func (r *Receiver) Blocked() uint8 { return r.paused &^ r.stormed }

// Dropping tells for which classes the watchdog discards what waits and comes.
func (r *Receiver) Dropping() (classes uint8) {
	for m := r.stormed; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.dogs[prio].Action == Drop {
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
		if f.Quanta[prio] == 0 {
			r.got[prio].Resumes++
			r.resume(now, prio)
			continue
		}
		r.got[prio].Pauses++
		r.until[prio] = now + PauseTime(f.Quanta[prio], rate)
		if r.paused&(1<<prio) == 0 {
			r.paused |= 1 << prio
			r.since[prio] = now
		}
	}
	r.Backlog(now, backlog)
}

func (r *Receiver) resume(now units.Time, prio int) {
	if r.paused&(1<<prio) != 0 {
		r.paused &^= 1 << prio
		r.stuck &^= 1 << prio
		r.quiet[prio] = now
		r.got[prio].Time += now - r.since[prio]
	}
}

// Backlog is told which classes have packets that wait, when that may have
// changed for a class that is paused.
func (r *Receiver) Backlog(now units.Time, backlog uint8) {
	for m := r.paused & backlog &^ r.stuck &^ r.stormed; m != 0; m &= m - 1 {
		r.stuckAt[bits.TrailingZeros8(m)] = now
	}
	r.stuck = r.paused & backlog &^ r.stormed
}

// Paused tells which classes the peer has asked to hold off, a bit each.
func (r *Receiver) Paused() uint8 { return r.paused }

// Due is when Expire is to be called; units.Never while nothing is to come.
func (r *Receiver) Due() units.Time {
	due := units.Never
	for m := r.paused; m != 0; m &= m - 1 {
		due = min(due, r.until[bits.TrailingZeros8(m)])
	}
	for m := r.stuck; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.dogs[prio].Detect > 0 {
			due = min(due, r.stuckAt[prio]+r.dogs[prio].Detect)
		}
	}
	for m := r.stormed &^ r.paused; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		due = min(due, r.quiet[prio]+r.dogs[prio].Restore)
	}
	return due
}

// Expire ends the pauses whose time is over, lets watchdogs bite, and ends
// what they do when the peer has been quiet for long enough. It tells for
// which classes a watchdog has stepped in, and for which it lets go.
func (r *Receiver) Expire(now units.Time) (bitten, released uint8) {
	for m := r.paused; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.until[prio] <= now {
			r.resume(now, prio)
		}
	}
	for m := r.stormed &^ r.paused; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.quiet[prio]+r.dogs[prio].Restore <= now {
			r.stormed &^= 1 << prio
			released |= 1 << prio
		}
	}
	for m := r.stuck; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if d := r.dogs[prio].Detect; d > 0 && r.stuckAt[prio]+d <= now {
			r.stormed |= 1 << prio
			r.stuck &^= 1 << prio
			r.got[prio].Storms++
			bitten |= 1 << prio
		}
	}
	return bitten, released
}

// Got tells what has happened to a class up to now.
func (r *Receiver) Got(now units.Time, prio uint8) Got {
	g := r.got[prio]
	g.Storm = r.stormed&(1<<prio) != 0
	if r.paused&(1<<prio) != 0 {
		g.Paused = true
		g.Time += now - r.since[prio]
	}
	return g
}

// StuckSince tells since when a class has been paused with packets that wait.
func (r *Receiver) StuckSince(prio uint8) (since units.Time, stuck bool) {
	return r.stuckAt[prio], r.stuck&(1<<prio) != 0
}
