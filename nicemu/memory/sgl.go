package memory

import (
	"fmt"
	"syscall"
)

// SGE is an element of a scatter/gather list. If it has 0 bytes, its key and address are ignored.
type SGE struct {
	VA     uint64
	Length uint32
	LKey   uint32
}

// ListLength returns the number of bytes of a list.
func ListLength(list []SGE) (n uint64) {
	for _, e := range list {
		n += uint64(e.Length)
	}
	return n
}

// CheckCount checks that a list has no more elements than limit.
func CheckCount(list []SGE, limit int) error {
	if len(list) > limit {
		return fmt.Errorf("%w: the scatter/gather list has %d elements: the queue was made for up to %d", syscall.EINVAL, len(list), limit)
	}
	return nil
}

// CheckList checks every element: LocalRead for data to be sent, LocalWrite for data to be received
// or returned. It returns the first fault.
func (v View) CheckList(list []SGE, a Access) Fault {
	for _, e := range list {
		if f := v.CheckSpan(Span{e.LKey, e.VA, e.Length, a}); f != OK {
			return f
		}
	}
	return OK
}

// GatherBytes appends n bytes of a list, from offset on, to dst. On a fault, or if bytes of any element
// are not modelled, it returns dst unchanged.
func (v View) GatherBytes(list []SGE, offset, n uint32, dst []byte) ([]byte, Fault) {
	data, modelled := dst, true
	for i := range list {
		s, f := takePiece(&list[i], &offset, &n, LocalRead)
		if f != OK {
			return dst, f
		} else if s.Length == 0 {
			continue
		}
		got, f := v.LoadSpan(s, data)
		if f != OK {
			return dst, f
		}
		modelled = modelled && len(got) > len(data)
		data = got
	}
	switch {
	case n > 0:
		return dst, ListShort
	case !modelled:
		return dst, OK
	}
	return data, OK
}

// ScatterBytes writes n bytes, data or nothing if they are not modelled, to a list from offset on. A
// fault may occur after some of them are written.
func (v View) ScatterBytes(list []SGE, offset, n uint32, data []byte) Fault {
	if len(data) > 0 && len(data) != int(n) {
		return OutOfBounds
	}
	for i := range list {
		s, f := takePiece(&list[i], &offset, &n, LocalWrite)
		if f != OK {
			return f
		} else if s.Length == 0 {
			continue
		}
		part := data
		if len(data) > 0 {
			part, data = data[:s.Length], data[s.Length:]
		}
		if f := v.StoreSpan(s, part); f != OK {
			return f
		}
	}
	if n > 0 {
		return ListShort
	}
	return OK
}

// takePiece returns the part of an element within the n bytes from offset on, and counts both down.
// Addresses do not wrap around to 0.
func takePiece(e *SGE, offset, n *uint32, a Access) (s Span, f Fault) {
	if *offset >= e.Length {
		*offset -= e.Length
		return s, OK
	}
	s = Span{e.LKey, e.VA + uint64(*offset), min(e.Length-*offset, *n), a}
	if s.VA < e.VA && s.Length > 0 {
		return s, OutOfBounds
	}
	*offset = 0
	*n -= s.Length
	return s, OK
}
