package sim

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// This file contains the order of events that are due at one instant.
//
// Two senders of exactly the same rate have all their packets arrive at the same instants
// at the switch between them. If the same one came first each time, it alone would find the
// place that a departure makes in a full queue, and the other would lose everything. So the
// order of arrivals is drawn anew for each instant. It is a hash of the instant and of what
// the arrivals have as salts, and does not depend on what else shares the engine.

// The rank of a timer determines its place in an instant. Timers of equal rank fire in the
// order of their registration.
const (
	firstRank  = 0              // of timers that precede all arrivals
	arrivals   = 1 << 30        // arrivals have ranks from here up to twice that, exclusive
	lastRank   = math.MaxUint32 // of timers that follow all arrivals
	rankOffset = 32             // of the rank in the id of an entry
)

// NewArrival is NewTimer for a handler whose events come from elsewhere, such as the packets
// of a link. At each instant, the arrivals that are due then fire in an order that follows
// from the instant and their salts, and each order is equally likely. Salts are random
// numbers, one for each arrival of an engine.
func (e *Engine) NewArrival(h Handler, salt uint64) Timer {
	e.hasArrivals = true
	// Neither firstRank nor lastRank.
	return e.registerTimer(h, 1+uint32(MixBits(salt)%(lastRank-1)))
}

// NewSalt returns the salt of the named arrival in a run with a seed.
func NewSalt(seed uint64, name string) uint64 { return MixBits(seed) ^ HashName(name) }

// rankOf returns the rank at an instant of a timer with an order: firstRank, lastRank, or
// what an arrival has in its place, which is a hash of both.
func rankOf(order uint32, at units.Time) uint64 {
	if order == firstRank || order == lastRank {
		return uint64(order)
	}
	x := uint64(at) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32 ^ uint64(order)<<32 ^ uint64(order)) * 0xbf58476d1ce4e5b9
	return arrivals + x>>34
}

// isArrival reports whether an entry is of an arrival.
func (a entry) isArrival() bool { return a.id>>rankOffset-arrivals < arrivals }

// moveTo returns the entry of the same timer at another time.
func (e *Engine) moveTo(a entry, at units.Time) entry {
	if !a.isArrival() {
		return entry{at, a.id}
	}
	id := uint32(a.id)
	return entry{at, rankOf(e.orders[id], at)<<rankOffset | uint64(id)}
}
