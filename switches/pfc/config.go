// Package pfc is priority flow control (IEEE 802.1Q-2022 §36, formerly
// 802.1Qbb) and the PAUSE of IEEE 802.3 annex 31B: who pauses whom, for how
// long, and what became of it. It is pure: it is told the time, and the port
// that it serves sends the frames.
package pfc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Config is how a class (or with global PAUSE a port) holds off those who
// send to it.
type Config struct {
	// A pause begins when what has come in through a port and still waits,
	// beyond the ingress reserve, reaches Xoff (static) or Alpha times what
	// is free of the shared buffer (dynamic). Exactly one is set. With global
	// PAUSE this is the sum over the classes of what each has beyond its own
	// reserve.
	Xoff  units.Bytes
	Alpha float64
	// Offset is the hysteresis: the pause ends when that has fallen to Offset
	// below the threshold.
	Offset units.Bytes
	// Quanta is the pause time that a frame asks for, in units of 512 bit
	// times, 1 to 65535.
	Quanta uint16
	// Refresh is how long after a frame the next one is sent while the pause
	// lasts; 0 is half of the pause time.
	Refresh units.Time
	// Watchdog ends pauses that last too long; the zero Watchdog never does.
	Watchdog Watchdog
}

// Configs are the configs of a port by priority, nil for a class without a pause. With
// global PAUSE every class has that of the port.
type Configs [8]*Config

// DefaultQuanta is the longest pause that a frame can ask for: an xon ends it
// before.
const DefaultQuanta = 65535

// Watchdog watches the queues that are paused: one that has not been allowed
// to send anything for Detect is taken to be in a pause storm or a deadlock.
// It is then treated by Action until the peer has let it send for Restore.
type Watchdog struct {
	Detect  units.Time // 0 is no watchdog
	Restore units.Time
	Action  Action
}

// Action is what a watchdog does with a queue whose pause lasts too long.
type Action uint8

// The actions.
const (
	// Drop discards what waits and what comes.
	Drop Action = iota
	// Forward sends in spite of the pause.
	Forward
)

var actionNames = []string{"drop", "forward"}

// String gives the name that a lab file uses.
func (a Action) String() string { return actionNames[a] }

// MarshalText gives the name that a lab file uses.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the name that a lab file uses.
func (a *Action) UnmarshalText(b []byte) error {
	i := slices.Index(actionNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q is not an action of a watchdog (there are %s)", b, strings.Join(actionNames, " and "))
	}
	*a = Action(i)
	return nil
}
