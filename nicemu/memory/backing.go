package memory

// Backing is the memory behind regions, addressed as in its process. Its methods are called only
// for bytes within a region, at least one. They return OK; Unmapped: the memory is not there, or
// may not be read or written; or Gone. Backings are compared with ==.
type Backing interface {
	// Load appends n bytes at addr to dst; if bytes are not modelled it returns dst unchanged.
	Load(dst []byte, addr uint64, n uint32) ([]byte, Fault)
	// Store writes the bytes at addr.
	Store(addr uint64, data []byte) Fault
}

// Bytes is memory in a slice.
type Bytes struct {
	Base uint64 // the address of the first byte
	Data []byte
}

// at finds n bytes at addr.
func (b *Bytes) at(addr, n uint64) ([]byte, Fault) {
	size := uint64(len(b.Data))
	off := addr - b.Base
	if addr < b.Base || off > size || n > size-off {
		return nil, Unmapped
	}
	return b.Data[off : off+n], OK
}

// Load appends n bytes at addr to dst.
func (b *Bytes) Load(dst []byte, addr uint64, n uint32) ([]byte, Fault) {
	p, f := b.at(addr, uint64(n))
	return append(dst, p...), f
}

// Store writes the bytes at addr.
func (b *Bytes) Store(addr uint64, data []byte) Fault {
	p, f := b.at(addr, uint64(len(data)))
	copy(p, data)
	return f
}

// Sizes is memory of which only lengths are modelled: nothing is kept, and atomics return 0.
type Sizes struct{}

// Load returns no bytes.
func (Sizes) Load(dst []byte, _ uint64, _ uint32) ([]byte, Fault) { return dst, OK }

// Store discards the bytes.
func (Sizes) Store(uint64, []byte) Fault { return OK }
