// Package forward chooses among the paths from a switch to a destination, which the code
// calls ways: by a hash of the flow, at random, in turn, by flowlets, or as the source
// asks. It is pure: it gets the time and returns the number of a path.
package forward

import (
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Chooser chooses the paths of packets at one switch.
type Chooser interface {
	// SetGroups sets the number of groups of paths, at the beginning and whenever the
	// switch gets a new table. It invalidates any state about earlier groups.
	SetGroups(n int)
	// ChoosePath makes the choice for a packet whose paths are those of a group, 0 to n-1. It
	// is called once for each packet with more than one path.
	ChoosePath(now units.Time, p *packet.Packet, group uint16) Choice
	// IsStateful reports whether a choice depends on earlier choices and affects later
	// ones.
	IsStateful() bool
}

// Env is what a switch provides to its chooser.
type Env struct {
	Seed uint64     // of hashes, specific to the switch
	Rand *rand.Rand // specific to the switch
}

// HashFlow returns the hash of a packet's flow with the switch's seed.
func (e Env) HashFlow(p *packet.Packet) uint64 { return sim.MixBits(p.Hash ^ e.Seed) }

// New returns the chooser that settings, which have passed Validate, describe; nil means ECMP.
// seed determines how hashes map flows to paths; random is the source of random choices.
func New(s Settings, seed uint64, random *rand.Rand) Chooser {
	if s == nil {
		s = &ECMP{}
	}
	return s.New(Env{sim.MixBits(seed), random})
}

// Choice determines the path of one packet for any number of paths.
type Choice struct {
	number uint64
	modulo bool // number is a counter; otherwise its bits are random
}

// RandomChoice returns a choice by random bits, such as those of a hash: all paths are equally
// likely.
func RandomChoice(bits uint64) Choice { return Choice{bits, false} }

// NumberedChoice returns a choice by a counter: the path is the number modulo the number of
// paths.
func NumberedChoice(n uint64) Choice { return Choice{n, true} }

// PickAmong returns one of n paths, 0 to n-1.
func (c Choice) PickAmong(n uint32) uint32 {
	if c.modulo {
		return uint32(c.number) % n
	}
	return scaleBits(uint32(c.number>>32), n)
}

// PickOther returns one of others paths, 0 to others-1, for a packet that cannot take the
// one of n paths that PickAmong returned. It uses bits that PickAmong does not, so such packets
// spread evenly over the rest.
func (c Choice) PickOther(n, others uint32) uint32 {
	if c.modulo {
		return uint32(c.number) / n % others
	}
	return scaleBits(uint32(c.number), others)
}

// scaleBits maps 32 random bits to a number from 0 to n-1, without the bias or the cost of a
// division.
func scaleBits(bits, n uint32) uint32 { return uint32(uint64(bits) * uint64(n) >> 32) }
