package router

import (
	"net/netip"
	"slices"
)

// Prefixes is a set of prefixes with a number each. It finds the longest prefix
// that covers an address by trying the lengths that occur, which are few.
type Prefixes struct {
	numbers map[netip.Prefix]int32
	lengths [2][]int // of IPv4 and IPv6, descending
}

// Set sets the number of a masked prefix, replacing any earlier one.
func (s *Prefixes) Set(p netip.Prefix, number int32) {
	if s.numbers == nil {
		s.numbers = map[netip.Prefix]int32{}
	}
	s.numbers[p] = number
	lengths := &s.lengths[familyOf(p.Addr())]
	at, there := slices.BinarySearchFunc(*lengths, p.Bits(), func(have, want int) int { return want - have })
	if !there {
		*lengths = slices.Insert(*lengths, at, p.Bits())
	}
}

// Get returns the number of exactly this prefix.
func (s *Prefixes) Get(p netip.Prefix) (number int32, ok bool) {
	number, ok = s.numbers[p]
	return number, ok
}

// FindPrefix returns the number and the length of the longest prefix that covers a. The
// length is -1 if none does.
func (s *Prefixes) FindPrefix(a netip.Addr) (number int32, bits int) {
	for _, bits := range s.lengths[familyOf(a)] {
		p, _ := a.Prefix(bits)
		if n, ok := s.numbers[p]; ok {
			return n, bits
		}
	}
	return 0, -1
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}
