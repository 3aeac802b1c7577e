package memory

import "encoding/binary"

// Span is a range of bytes to be accessed.
type Span struct {
	Key    uint32 // local or, if Access has a remote right, remote
	VA     uint64
	Length uint32
	Access Access // LocalRead, LocalWrite, or one of the remote rights
}

// View is the memory that a queue pair may use. Its methods do not allocate.
type View struct {
	table *Table
	pd    *PD
	qp    uint32
}

// View returns the view of a queue pair in a protection domain.
func (t *Table) View(p *PD, qp uint32) View { return View{t, p, qp} }

// isWithin reports whether n bytes from va on are within length bytes from base on. It needs no more
// than 64 bits.
func isWithin(base, length, va, n uint64) bool {
	off := va - base
	return va >= base && off <= length && n <= length-off
}

// findBacking checks an access of at least one byte and returns the position of its bytes.
func (v View) findBacking(s Span) (b Backing, addr uint64, f Fault) {
	if i := s.Key >> 8; uint64(i) >= uint64(len(v.table.entries)) {
		return nil, 0, BadKey
	} else if w := v.table.entries[i].window; w != nil {
		return v.findWindow(w, s)
	}
	r := v.table.regionOf(s.Key)
	switch {
	case r == nil:
		return nil, 0, BadKey
	case r.pd != v.pd:
		return nil, 0, WrongPD
	case s.Access&^r.access != 0:
		return nil, 0, NoRight
	case !isWithin(r.base, r.length, s.VA, uint64(s.Length)):
		return nil, 0, OutOfBounds
	}
	return r.backing, r.addr + (s.VA - r.base), checkAligned(s)
}

// findWindow does so through a window, whose key is valid only for remote access.
func (v View) findWindow(w *Window, s Span) (b Backing, addr uint64, f Fault) {
	switch {
	case w.key != s.Key || w.region == nil || s.Access&remote == 0:
		return nil, 0, BadKey
	case w.pd != v.pd:
		return nil, 0, WrongPD
	case w.kind == Type2 && w.qp != v.qp:
		return nil, 0, WrongQP
	case s.Access&^w.access != 0:
		return nil, 0, NoRight
	case !isWithin(w.base, w.length, s.VA, uint64(s.Length)):
		return nil, 0, OutOfBounds
	}
	return w.region.backing, w.addr + (s.VA - w.base), checkAligned(s)
}

// checkAligned checks that atomics have 8 bytes at a multiple of 8 (§9.4.5).
func checkAligned(s Span) Fault {
	if s.Access&RemoteAtomic != 0 && (s.Length != 8 || s.VA%8 != 0) {
		return Misaligned
	}
	return OK
}

// CheckSpan checks whether the span may be accessed. Whether the backing has the bytes is known only
// when they are used.
func (v View) CheckSpan(s Span) Fault {
	if s.Length == 0 && s.Access&RemoteAtomic == 0 {
		return OK
	}
	_, _, f := v.findBacking(s)
	return f
}

// LocateSpan returns the position of a span of at least one byte in the backing.
func (v View) LocateSpan(s Span) (addr uint64, f Fault) {
	_, addr, f = v.findBacking(s)
	return addr, f
}

// Place is the location of bytes.
type Place struct {
	Backing Backing
	Addr    uint64
	Length  uint32
}

// Overlaps reports whether two places have bytes in common. Memory that is mapped twice, or belongs
// to two processes, is not recognized as the same.
func (p Place) Overlaps(o Place) bool {
	return p.Backing == o.Backing && p.Addr-o.Addr < uint64(o.Length) || p.Backing == o.Backing && o.Addr-p.Addr < uint64(p.Length)
}

// PlaceOf returns the place of a span's bytes, whatever key leads there.
func (v View) PlaceOf(s Span) (Place, Fault) {
	if s.Length == 0 {
		return Place{}, OK
	}
	b, addr, f := v.findBacking(s)
	return Place{b, addr, s.Length}, f
}

// LoadSpan appends the span's bytes to dst. If bytes are not modelled it returns dst unchanged.
func (v View) LoadSpan(s Span, dst []byte) ([]byte, Fault) {
	if s.Length == 0 {
		return dst, OK
	}
	b, addr, f := v.findBacking(s)
	if f != OK {
		return dst, f
	}
	data, f := b.LoadBytes(dst, addr, s.Length)
	if f != OK {
		return dst, f
	}
	return data, OK
}

// StoreSpan writes data, which is as long as the span, or empty if bytes are not
// modelled: then it only checks.
func (v View) StoreSpan(s Span, data []byte) Fault {
	if s.Length == 0 {
		return OK
	}
	if len(data) > 0 && len(data) != int(s.Length) {
		return OutOfBounds
	}
	b, addr, f := v.findBacking(s)
	if f == OK && len(data) > 0 {
		return b.StoreBytes(addr, data)
	}
	return f
}

// CompareSwap writes swap to the 8 bytes of the span if they equal compare, and returns the old
// value (§9.4.5). Bytes are little-endian, as on the hosts. It is atomic among the operations of
// this NIC (IBV_ATOMIC_HCA).
func (v View) CompareSwap(s Span, compare, swap uint64) (old uint64, f Fault) {
	b, addr, old, f := v.atomicWord(s)
	if f != OK || old != compare {
		return old, f
	}
	return old, v.setWord(b, addr, swap)
}

// FetchAdd adds to the 8 bytes of the span, without carry beyond them, and returns the old value
// (§9.4.5).
func (v View) FetchAdd(s Span, add uint64) (old uint64, f Fault) {
	b, addr, old, f := v.atomicWord(s)
	if f != OK {
		return 0, f
	}
	return old, v.setWord(b, addr, old+add)
}

func (v View) atomicWord(s Span) (b Backing, addr, value uint64, f Fault) {
	s.Access |= RemoteAtomic
	if b, addr, f = v.findBacking(s); f != OK {
		return nil, 0, 0, f
	}
	data, f := b.LoadBytes(v.table.word[:0], addr, 8)
	switch {
	case f != OK:
		return nil, 0, 0, f
	case len(data) < 8:
		return b, addr, 0, OK
	}
	return b, addr, binary.LittleEndian.Uint64(data), OK
}

func (v View) setWord(b Backing, addr, value uint64) Fault {
	binary.LittleEndian.PutUint64(v.table.word[:], value)
	return b.StoreBytes(addr, v.table.word[:])
}
