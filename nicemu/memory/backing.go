package memory

// Backing is the memory behind regions, addressed as in its process. Its methods are called only
// for bytes within a region, at least one. They return OK; Unmapped: the memory is not there, or
// may not be read or written; or Gone. Backings are compared with ==.
type Backing interface {
	// LoadBytes appends n bytes at addr to dst; if bytes are not modelled it returns dst unchanged.
	LoadBytes(dst []byte, addr uint64, n uint32) ([]byte, Fault)
	// StoreBytes writes the bytes at addr.
	StoreBytes(addr uint64, data []byte) Fault
}

// Bytes is memory in a slice.
type Bytes struct {
	Base uint64 // the address of the first byte
	Data []byte
}

// bytesAt finds n bytes at addr.
func (b *Bytes) bytesAt(addr, n uint64) ([]byte, Fault) {
	size := uint64(len(b.Data))
	off := addr - b.Base
	if addr < b.Base || off > size || n > size-off {
		return nil, Unmapped
	}
	return b.Data[off : off+n], OK
}

// LoadBytes appends n bytes at addr to dst.
func (b *Bytes) LoadBytes(dst []byte, addr uint64, n uint32) ([]byte, Fault) {
	p, f := b.bytesAt(addr, uint64(n))
	return append(dst, p...), f
}

// StoreBytes writes the bytes at addr.
func (b *Bytes) StoreBytes(addr uint64, data []byte) Fault {
	p, f := b.bytesAt(addr, uint64(len(data)))
	copy(p, data)
	return f
}

// Sizes is memory of which only lengths are modelled: nothing is kept, and atomics return 0.
type Sizes struct{}

// LoadBytes returns no bytes.
func (Sizes) LoadBytes(dst []byte, _ uint64, _ uint32) ([]byte, Fault) { return dst, OK }

// StoreBytes discards the bytes.
func (Sizes) StoreBytes(uint64, []byte) Fault { return OK }
