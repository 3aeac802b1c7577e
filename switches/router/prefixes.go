package router

import (
	"net/netip"
	"slices"
)

// Prefixes is a set of prefixes with a number each. It finds the longest that
// covers an address by trying the lengths that occur, which are few.
type Prefixes struct {
	numbers map[netip.Prefix]int32
	lengths [2][]int // those of IPv4 and of IPv6, falling
}

// Set gives a masked prefix its number, in place of one that it had.
func (s *Prefixes) Set(p netip.Prefix, number int32) {
	if s.numbers == nil {
		s.numbers = map[netip.Prefix]int32{}
	}
	s.numbers[p] = number
	lengths := &s.lengths[family(p.Addr())]
	at, there := slices.BinarySearchFunc(*lengths, p.Bits(), func(have, want int) int { return want - have })
	if !there {
		*lengths = slices.Insert(*lengths, at, p.Bits())
	}
}

// Get gives the number of a prefix itself.
func (s *Prefixes) Get(p netip.Prefix) (number int32, ok bool) {
	number, ok = s.numbers[p]
	return number, ok
}

// Find gives the number and the length of the longest prefix that covers a;
// the length is -1 when none does.
func (s *Prefixes) Find(a netip.Addr) (number int32, bits int) {
	for _, bits := range s.lengths[family(a)] {
		p, _ := a.Prefix(bits)
		if n, ok := s.numbers[p]; ok {
			return n, bits
		}
	}
	return 0, -1
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}
