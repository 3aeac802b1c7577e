package sim

import (
	"hash/fnv"
	"math/rand/v2"
)

// NewRand returns the random number stream of one named thing in a run. It depends
// on the seed and the name alone, so adding a link or a flow to a file does not
// change what happens on the others.
func NewRand(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, HashName(name)))
}

// HashName returns a 64-bit hash of a name, the same on every machine.
func HashName(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// MixBits returns a hash of x in which each bit depends on all of x: the finaliser of SplitMix64
// (Steele, Lea and Flood, OOPSLA 2014).
func MixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
