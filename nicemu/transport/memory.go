package transport

import "github.com/weftlab/weft/nicemu/memory"

// Memory is the memory of a host as a queue pair may see it: the regions of its
// protection domain. Each method checks that the key is valid, that it grants
// the access and that the span lies within its bounds (§9.7.4.1.5, §10.6). A
// Memory that models only lengths returns no bytes and ignores those it is given.
type Memory interface {
	// Check tells whether the span may be accessed.
	Check(s memory.Span) bool
	// Load appends the span's bytes to dst; if bytes are not modelled it gives
	// dst as it was.
	Load(s memory.Span, dst []byte) (data []byte, ok bool)
	// Store writes data, which is as long as the span, or empty if bytes are not
	// modelled.
	Store(s memory.Span, data []byte) bool
	// CompareSwap puts swap into the 8 bytes of the span if they are compare.
	// It gives what was there before.
	CompareSwap(s memory.Span, compare, swap uint64) (old uint64, ok bool)
	// FetchAdd adds to the 8 bytes of the span, without carry beyond them. It
	// gives what was there before.
	FetchAdd(s memory.Span, add uint64) (old uint64, ok bool)
	// Invalidate makes a remote key invalid; false if it cannot be.
	Invalidate(key uint32) bool
}

// SGE is an element of a scatter/gather list.
type SGE struct {
	VA     uint64
	Length uint32
	Key    uint32 // local
}

// listLength is the number of bytes of a scatter/gather list.
func listLength(list []SGE) (n uint64) {
	for _, e := range list {
		n += uint64(e.Length)
	}
	return n
}

// gather appends n bytes of a list, from offset on, to dst.
func gather(m Memory, list []SGE, offset, n uint32, dst []byte) ([]byte, bool) {
	ok := true
	each(list, offset, n, func(s memory.Span, _, _ uint32) bool {
		s.Access = memory.LocalRead
		dst, ok = m.Load(s, dst)
		return ok
	})
	return dst, ok
}

// scatter writes n bytes, which are data or, if that is empty, not modelled, to a list from offset
// on. It fails if the list is too short.
func scatter(m Memory, list []SGE, offset, n uint32, data []byte) bool {
	return each(list, offset, n, func(s memory.Span, from, to uint32) bool {
		s.Access = memory.LocalWrite
		if len(data) == 0 {
			return m.Store(s, nil)
		}
		return m.Store(s, data[from:to])
	})
}

// each calls f for the pieces of a list that hold n bytes from offset on; from
// and to count within these. It tells whether all of them were there and f
// always said true.
func each(list []SGE, offset, n uint32, f func(s memory.Span, from, to uint32) bool) bool {
	done := uint32(0)
	for _, e := range list {
		if done == n {
			break
		}
		if offset >= e.Length {
			offset -= e.Length
			continue
		}
		take := min(e.Length-offset, n-done)
		if !f(memory.Span{Key: e.Key, VA: e.VA + uint64(offset), Length: take}, done, done+take) {
			return false
		}
		done += take
		offset = 0
	}
	return done == n
}
