// Package links connects two ports: a Link is one direction of a cable, with its
// propagation delay and its faults.
//
// A port serialises (see package switches); a Link carries. The fate of a packet is
// decided when its first bit leaves the port, by the Settings at that moment.
//
// A Link is the near half, in the engine of the sending port; the far half, the Flight, is
// in the engine of the receiving port. A flight has one heap entry, for its first arrival;
// the other packets wait in a list. Packets that may overtake are in a small heap of their
// own. A link without rate and delay delivers at once, without an event.
//
// A port may have launched packets ahead of time into the inbox or flight of another
// process. To take them back it keeps its own references and sends a message
// (Link.RecallLast); no recalled packet can arrive before the message is read. If the link
// goes down meanwhile, the far half keeps the packets that it loses until the next window
// (Inbox.FreeLostPackets).
package links

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Settings are the properties of one direction of a link.
type Settings struct {
	Rate  units.Rate  // of serialisation, including Ethernet's overhead; 0 means unlimited
	Delay units.Time  // propagation, last bit to last bit; not negative
	MTU   units.Bytes // largest layer-3 packet; a longer one is dropped and counted
	Up    bool        // a link that is down loses packets being sent and in flight

	Loss      units.Fraction // of packets, independently
	Corrupt   units.Fraction // of packets, corrupted so that the receiver's FCS check drops them
	Duplicate units.Fraction // of packets, delivered twice
	Reorder   units.Fraction // of packets, held back by ReorderBy so that later ones overtake
	ReorderBy units.Time

	Jitter             units.Time   // scale of the random extra delay; see Distribution
	JitterDistribution Distribution // of the extra delay
	JitterReorder      bool         // whether jitter may let packets overtake each other

	DropMatch Match // packets dropped by rule: scripted loss
}

// State says whether a link carries anything.
type State bool

// The states of a link.
const (
	Down State = false
	Up   State = true
)

// String returns the name that a lab file uses.
func (s State) String() string {
	if s {
		return "up"
	}
	return "down"
}

// MarshalText returns the name that a lab file uses.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name that a lab file uses.
func (s *State) UnmarshalText(b []byte) error {
	switch string(b) {
	case "up":
		*s = Up
	case "down":
		*s = Down
	default:
		return fmt.Errorf("%q must be one of up, down", b)
	}
	return nil
}

// Distribution is the distribution of a link's jitter. The extra delay is never
// negative, and Settings.Jitter (J) is its scale.
type Distribution uint8

// Distributions of jitter.
const (
	Uniform     Distribution = iota // between 0 and J
	Normal                          // mean J, standard deviation J/4, cut at 0
	Exponential                     // mean J
	Pareto                          // shape 3, mean J, with the heavy tail of measured paths
)

var distributionNames = [...]string{"uniform", "normal", "exponential", "pareto"}

// String returns the name used in lab files.
func (d Distribution) String() string { return distributionNames[d] }

// MarshalText returns the name used in lab files.
func (d Distribution) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name used in lab files.
func (d *Distribution) UnmarshalText(b []byte) error {
	s := strings.Trim(string(b), `"' `)
	for i, n := range distributionNames {
		if n == s {
			*d = Distribution(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a distribution of jitter (there are %s)", s, strings.Join(distributionNames[:], ", "))
}
