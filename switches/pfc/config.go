// Package pfc implements priority flow control (IEEE 802.1Q-2022 §36, formerly
// 802.1Qbb) and the PAUSE of IEEE 802.3 annex 31B: when pauses begin and end, and
// their statistics. It is pure: the port passes the time, and sends the frames.
package pfc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Config says how a class (or with global PAUSE a port) pauses its senders.
type Config struct {
	// A pause begins when the bytes that have come in through a port and still wait,
	// beyond the ingress reserve, reach Xoff (static) or Alpha times the free shared
	// buffer (dynamic). Exactly one is set. With global PAUSE, the bytes that count
	// are those of all classes together beyond the sum of the classes' reserves.
	Xoff  units.Bytes
	Alpha float64
	// Offset is the hysteresis: the pause ends when these bytes have fallen to Offset
	// below the threshold.
	Offset units.Bytes
	// Quanta is the pause time that a frame asks for, in units of 512 bit
	// times, 1 to 65535.
	Quanta uint16
	// Refresh is how long after a frame the next one is sent while the pause lasts; 0
	// means half of the pause time.
	Refresh units.Time
	// Watchdog ends pauses that last too long; the zero Watchdog never does.
	Watchdog Watchdog
}

// Configs has the configs of a port by priority, nil for a class without pauses. With
// global PAUSE every class has the port's config.
type Configs [8]*Config

// Obeyed says which requests of its peer a port obeys. The zero Obeyed ignores all.
//
// IEEE 802.1Q-2022 §36.1.3.3 makes a port ignore what a PFC frame says of a priority for
// which PFC is not enabled. PAUSE and PFC exclude each other at a port (§36.1): with PFC,
// switches ignore PAUSE frames, and the reverse.
type Obeyed struct {
	Classes uint8 // PFC frames may pause these priorities, one bit each
	Pause   bool  // PAUSE frames pause the port; Classes is 0 then
}

// DefaultQuanta is the longest pause that a frame can ask for: an xon ends it
// earlier.
const DefaultQuanta = 65535

// Watchdog watches paused queues. A queue that has not been allowed to send anything
// for Detect is considered to be in a pause storm or a deadlock. Action then applies
// to it until the peer has let it send for Restore.
type Watchdog struct {
	Detect  units.Time // 0 means no watchdog
	Restore units.Time
	Action  Action
}

// Action is what a watchdog does with a queue whose pause lasts too long.
type Action uint8

// The actions.
const (
	// Drop discards packets that wait or arrive.
	Drop Action = iota
	// Forward sends despite the pause.
	Forward
)

var actionNames = []string{"drop", "forward"}

// String returns the name that a lab file uses.
func (a Action) String() string { return actionNames[a] }

// MarshalText returns the name that a lab file uses.
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
