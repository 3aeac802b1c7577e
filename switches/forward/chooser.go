// Package forward chooses among the ways that lead from a switch to a
// destination: by a hash of the flow, at random, in turn, by flowlets, or as
// the source asks. It is pure: it is told the time and gives the number of a
// way.
package forward

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Chooser chooses for one switch.
type Chooser interface {
	// SetGroups says how many sets of ways there are, at the beginning and whenever
	// the switch gets a new table. What was remembered of them is of others.
	SetGroups(n int)
	// Choose decides about a packet, whose ways are those of a group, 0 to n-1. It is
	// asked once for each packet that has more than one.
	Choose(now units.Time, p *packet.Packet, group uint16) Choice
	// Stateful tells whether a choice depends on those before it and changes those
	// behind it.
	Stateful() bool
}

// Env is what a chooser has of its switch.
type Env struct {
	Seed uint64     // of hashes, the switch's own
	Rand *rand.Rand // the switch's own
}

// Hash is the hash of a packet's flow with the switch's seed.
func (e Env) Hash(p *packet.Packet) uint64 { return packet.Mix(p.Hash ^ e.Seed) }

// New makes a chooser. Seed decides how flows fall on ways by their hash;
// random draws what is drawn.
func New(c Config, seed uint64, random *rand.Rand) Chooser {
	if c.Settings == nil {
		c.Settings = &ECMP{}
	}
	return c.Settings.New(Env{packet.Mix(seed), random})
}

// Choice is what decides the way of one packet, whatever the number of ways.
type Choice struct {
	number uint64
	modulo bool // the number counts; otherwise its bits are random
}

// Drawn is a choice by random bits, such as those of a hash: all ways are equally likely.
func Drawn(bits uint64) Choice { return Choice{bits, false} }

// Numbered is a choice by a number that counts: the way is the number modulo that of the
// ways.
func Numbered(n uint64) Choice { return Choice{n, true} }

// Among gives one of n ways, 0 to n-1.
func (c Choice) Among(n uint32) uint32 {
	if c.modulo {
		return uint32(c.number) % n
	}
	return scale(uint32(c.number>>32), n)
}

// Others gives one of others ways, 0 to others-1, for a packet that cannot
// take the one that Among has given it among n. It depends on what Among did
// not look at, so such packets spread evenly over the rest.
func (c Choice) Others(n, others uint32) uint32 {
	if c.modulo {
		return uint32(c.number) / n % others
	}
	return scale(uint32(c.number), others)
}

// scale makes a number from 0 to n-1 of 32 random bits, without the bias or
// the cost of a division.
func scale(bits, n uint32) uint32 { return uint32(uint64(bits) * uint64(n) >> 32) }
