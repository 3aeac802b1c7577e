package pfc

import (
	"math/bits"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Receiver tracks the pauses that the peer of one port has asked for, and runs the
// watchdogs. A packet that is being sent when a frame arrives is sent to its end (IEEE
// 802.1Q §36.1.3); the reaction time that the standard allows is not used.
type Receiver struct {
	configs *Configs
	obeys   Obeyed
	paused  uint8     // classes, one bit each
	stormed uint8     // classes whose pause the watchdog has ended
	stuck   uint8     // paused classes with packets that wait
	pauses  [8]*pause // by priority; nil for a class that no frame has named
}

// pause is the state of one class that the peer has asked to pause. Most ports are
// never paused, so it is allocated on first use.
type pause struct {
	until   units.Time
	since   units.Time // paused
	stuckAt units.Time // since when nothing could be sent
	quiet   units.Time // since when it has not been paused
	got     Got
}

// Got has the statistics of a Receiver for one class.
type Got struct {
	Paused       bool
	Storm        bool
	Time         units.Time // total time paused
	Pauses       uint64     // pauses that have begun; a frame that extends one begins none
	PauseFrames  uint64     // frames that asked for a pause
	ResumeFrames uint64     // frames that said that one ends
	Ignored      uint64     // frames that asked for a pause that the port does not obey
	Storms       uint64     // times that the watchdog triggered
}

// NewReceiver returns the receiver of a port. It uses the watchdogs of the configs.
func NewReceiver(c *Configs, o Obeyed) *Receiver { return &Receiver{configs: c, obeys: o} }

// Obeyed returns which requests the port obeys.
func (r *Receiver) Obeyed() Obeyed { return r.obeys }

// obeyed returns the classes of a frame for which the port obeys it.
func (r *Receiver) obeyed(f *wire.Pause) uint8 {
	switch {
	case !f.Global:
		return f.Classes & r.obeys.Classes
	case r.obeys.Pause:
		return f.Classes
	}
	return 0
}

// watchdogConfig returns the watchdog of a class.
func (r *Receiver) watchdogConfig(prio int) Watchdog {
	if c := r.configs[prio]; c != nil {
		return c.Watchdog
	}
	return Watchdog{}
}

// BlockedClasses returns the classes that must not be sent now, one bit each.
func (r *Receiver) BlockedClasses() uint8 { return r.paused &^ r.stormed }

// DroppedClasses returns the classes for which the watchdog discards packets that wait or
// arrive.
func (r *Receiver) DroppedClasses() (classes uint8) {
	for m := r.stormed; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.watchdogConfig(prio).Action == Drop {
			classes |= 1 << prio
		}
	}
	return classes
}

// ApplyFrame applies a frame. backlog has a bit for each class with waiting packets. It returns
// whether the frame asks for a pause that the port does not obey, which is counted for the
// classes that it names.
func (r *Receiver) ApplyFrame(now units.Time, f *wire.Pause, rate units.Rate, backlog uint8) (ignored bool) {
	obeyed := r.obeyed(f)
	for m := f.Classes; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if r.pauses[prio] == nil {
			r.pauses[prio] = new(pause)
		}
		p := r.pauses[prio]
		switch {
		case obeyed&(1<<prio) == 0:
			if f.Quanta[prio] > 0 {
				p.got.Ignored++
				ignored = true
			}
		case f.Quanta[prio] == 0:
			p.got.ResumeFrames++
			r.resumeClass(now, prio)
		default:
			p.got.PauseFrames++
			p.until = now + PauseTime(f.Quanta[prio], rate)
			if r.paused&(1<<prio) == 0 {
				r.paused |= 1 << prio
				p.since = now
				p.got.Pauses++
			}
		}
	}
	r.SetBacklog(now, backlog)
	return ignored
}

func (r *Receiver) resumeClass(now units.Time, prio int) {
	if r.paused&(1<<prio) != 0 {
		r.paused &^= 1 << prio
		r.stuck &^= 1 << prio
		p := r.pauses[prio]
		p.quiet = now
		p.got.Time += now - p.since
	}
}

// SetBacklog records which classes have waiting packets. It is called when that may have
// changed for a paused class.
func (r *Receiver) SetBacklog(now units.Time, backlog uint8) {
	for m := r.paused & backlog &^ r.stuck &^ r.stormed; m != 0; m &= m - 1 {
		r.pauses[bits.TrailingZeros8(m)].stuckAt = now
	}
	r.stuck = r.paused & backlog &^ r.stormed
}

// PausedClasses returns the classes that the peer has paused, one bit each.
func (r *Receiver) PausedClasses() uint8 { return r.paused }

// NextExpiry returns when ExpirePauses must be called, or units.Never.
func (r *Receiver) NextExpiry() units.Time {
	due := units.Never
	for m := r.paused; m != 0; m &= m - 1 {
		due = min(due, r.pauses[bits.TrailingZeros8(m)].until)
	}
	for m := r.stuck; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if d := r.watchdogConfig(prio).Detect; d > 0 {
			due = min(due, r.pauses[prio].stuckAt+d)
		}
	}
	for m := r.stormed &^ r.paused; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		due = min(due, r.pauses[prio].quiet+r.watchdogConfig(prio).Restore)
	}
	return due
}

// ExpirePauses ends pauses whose time is over, triggers watchdogs, and releases them when
// the peer has been quiet for long enough. It returns the classes for which a watchdog
// has triggered, and those for which one was released.
func (r *Receiver) ExpirePauses(now units.Time) (bitten, released uint8) {
	for m := r.paused; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.pauses[prio].until <= now {
			r.resumeClass(now, prio)
		}
	}
	for m := r.stormed &^ r.paused; m != 0; m &= m - 1 {
		if prio := bits.TrailingZeros8(m); r.pauses[prio].quiet+r.watchdogConfig(prio).Restore <= now {
			r.stormed &^= 1 << prio
			released |= 1 << prio
		}
	}
	for m := r.stuck; m != 0; m &= m - 1 {
		prio := bits.TrailingZeros8(m)
		if d := r.watchdogConfig(prio).Detect; d > 0 && r.pauses[prio].stuckAt+d <= now {
			r.stormed |= 1 << prio
			r.stuck &^= 1 << prio
			r.pauses[prio].got.Storms++
			bitten |= 1 << prio
		}
	}
	return bitten, released
}

// Statistics returns the statistics of a class up to now.
func (r *Receiver) Statistics(now units.Time, prio uint8) Got {
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

// StuckSince returns since when a class has been paused with waiting packets, and
// whether it is.
func (r *Receiver) StuckSince(prio uint8) (since units.Time, stuck bool) {
	if r.stuck&(1<<prio) == 0 {
		return 0, false
	}
	return r.pauses[prio].stuckAt, true
}
