package pfc

import (
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Sender pauses the peer of one port. It repeats the request while a pause lasts,
// because pauses expire at the peer.
type Sender struct {
	global  bool
	asking  uint8      // classes
	refresh units.Time // when the next frame is due; units.Never if none is
	configs *Configs
	pauses  [8]*pauseState // by priority; nil for a class that has never been paused
}

// pauseState is the state of the pauses of one class of the peer. Most ports never pause
// their peer, so it is allocated on first use.
type pauseState struct {
	since  units.Time
	time   units.Time
	pauses uint64 // begun
	frames uint64 // that asked for a pause
	ended  uint64
	cause  int          // port whose queue was filling when the pause began
	causes []units.Time // by port: time of pauses that it caused
}

// Sent has the statistics of a Sender for one class.
type Sent struct {
	Asking       bool
	Time         units.Time   // of all pauses
	Pauses       uint64       // pauses that have begun
	PauseFrames  uint64       // frames that asked for a pause, including refreshes
	ResumeFrames uint64       // frames that ended one
	Causes       []units.Time // by port of the switch: Time of pauses that its queues caused
}

// NewSender returns the sender of a port.
func NewSender(global bool, c *Configs) *Sender {
	return &Sender{global: global, configs: c, refresh: units.Never}
}

// PauseTime returns how long quanta last on a link.
func PauseTime(quanta uint16, rate units.Rate) units.Time {
	return rate.TimeOf(units.Bytes(quanta) * (wire.QuantumBits / 8))
}

// PauseClass begins a pause of a class and returns the frame to send. cause is the number
// of the port whose queue the last packet joined.
func (s *Sender) PauseClass(now units.Time, prio uint8, cause int, rate units.Rate) wire.Pause {
	s.asking |= 1 << prio
	if s.pauses[prio] == nil {
		s.pauses[prio] = new(pauseState)
	}
	a := s.pauses[prio]
	a.since, a.cause = now, cause
	a.pauses++
	a.frames++
	if next := now + s.refreshGap(prio, rate); next < s.refresh {
		s.refresh = next
	}
	return s.makeFrame(1<<prio, s.configs[prio].Quanta)
}

// ResumeClass ends a pause of a class and returns the frame to send.
func (s *Sender) ResumeClass(now units.Time, prio uint8) wire.Pause {
	s.asking &^= 1 << prio
	a := s.pauses[prio]
	a.ended++
	lasted := now - a.since
	a.time += lasted
	*a.timeByCause() += lasted
	if s.asking == 0 {
		s.refresh = units.Never
	}
	return s.makeFrame(1<<prio, 0)
}

// NextRefresh returns when Refresh must be called, or units.Never if no pause lasts.
func (s *Sender) NextRefresh() units.Time { return s.refresh }

// RefreshPauses repeats the requests of all current pauses.
func (s *Sender) RefreshPauses(now units.Time, rate units.Rate) wire.Pause {
	s.refresh = units.Never
	f := wire.Pause{Global: s.global, Classes: s.asking}
	for prio := range uint8(8) {
		if s.asking&(1<<prio) == 0 {
			continue
		}
		s.pauses[prio].frames++
		f.Quanta[prio] = s.configs[prio].Quanta
		s.refresh = min(s.refresh, now+s.refreshGap(prio, rate))
	}
	return f
}

// refreshGap returns the time between two frames of one pause.
func (s *Sender) refreshGap(prio uint8, rate units.Rate) units.Time {
	c := s.configs[prio]
	if c.Refresh > 0 {
		return c.Refresh
	}
	// A frame that has to wait for another packet must still arrive in time.
	return max(PauseTime(c.Quanta, rate)/2, 1)
}

func (s *Sender) makeFrame(classes uint8, quanta uint16) wire.Pause {
	f := wire.Pause{Global: s.global, Classes: classes}
	for prio := range uint8(8) {
		if classes&(1<<prio) != 0 {
			f.Quanta[prio] = quanta
		}
	}
	return f
}

// timeByCause returns the total time of pauses with the same cause as the current one.
func (a *pauseState) timeByCause() *units.Time {
	for len(a.causes) <= a.cause {
		a.causes = append(a.causes, 0)
	}
	return &a.causes[a.cause]
}

// RequestedClasses returns the classes of the peer that are paused, one bit each.
func (s *Sender) RequestedClasses() uint8 { return s.asking }

// Statistics returns the statistics of a class up to now.
func (s *Sender) Statistics(now units.Time, prio uint8) Sent {
	a := s.pauses[prio]
	if a == nil {
		return Sent{}
	}
	x := Sent{Time: a.time, Pauses: a.pauses, PauseFrames: a.frames, ResumeFrames: a.ended, Causes: slices.Clone(a.causes)}
	if s.asking&(1<<prio) != 0 {
		x.Asking = true
		lasted := now - a.since
		x.Time += lasted
		for len(x.Causes) <= a.cause {
			x.Causes = append(x.Causes, 0)
		}
		x.Causes[a.cause] += lasted
	}
	return x
}
