// Package links is what joins two ports: one direction of a cable, with its
// propagation delay and everything that can go wrong on it.
//
// A port serialises (see package switches); a Link carries. What a Link does
// to a packet is decided when the packet's first bit leaves the port, from
// the Settings of that moment.
package links

import (
	"fmt"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Settings is what one direction of a link does to the packets on it.
type Settings struct {
	Rate  units.Rate  // of serialisation, including Ethernet's overhead; 0 is unlimited
	Delay units.Time  // propagation, last bit to last bit; not negative
	MTU   units.Bytes // largest layer-3 packet; a longer one is dropped and counted
	Up    bool        // a link that is down loses what is sent and what is on the way

	Loss      units.Fraction // of packets, independently
	Corrupt   units.Fraction // of packets, damaged so that the receiver's FCS check drops them
	Duplicate units.Fraction // of packets, delivered twice
	Reorder   units.Fraction // of packets, held back by ReorderBy so that later ones overtake
	ReorderBy units.Time

	Jitter             units.Time   // scale of the random extra delay; its meaning is the distribution's
	JitterDistribution Distribution // of the extra delay
	JitterReorder      bool         // whether jitter may let packets overtake each other

	DropMatch Match // packets dropped by rule: scripted loss
}

// Distribution names the law of a link's jitter. In each the extra delay is
// never negative and Settings.Jitter (J) is its scale.
type Distribution uint8

// The distributions of jitter.
const (
	Uniform     Distribution = iota // between 0 and J
	Normal                          // mean J, standard deviation J/4, cut at 0
	Exponential                     // mean J
	Pareto                          // shape 3, mean J, with the heavy tail of measured paths
)

var distributionNames = [...]string{"uniform", "normal", "exponential", "pareto"}

// String gives the name that a lab file uses.
func (d Distribution) String() string { return distributionNames[d] }

// MarshalText gives the name that a lab file uses.
func (d Distribution) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name that a lab file uses.
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
