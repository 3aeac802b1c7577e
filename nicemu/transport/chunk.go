package transport

import "github.com/weftlab/weft/nicemu/memory"

// readAhead is bytes of a message that were read from memory before their packets
// are made (Config.ChunkSize).
type readAhead struct {
	of   PSN    // the message's first
	at   uint32 // where in the message data begins
	data []byte
}

// piece gives n bytes of a message from offset on, if they are there.
func (a *readAhead) piece(of PSN, offset, n uint32) ([]byte, bool) {
	begin := offset - a.at
	if a.of != of || offset < a.at || uint64(begin)+uint64(n) > uint64(len(a.data)) {
		return nil, false
	}
	return a.data[begin:][:n], true
}

// forget is told that a message is over, or is read anew.
func (a *readAhead) forget(of PSN) {
	if a.of == of {
		a.data = a.data[:0]
	}
}

// append gives dst with n bytes of a message of length bytes from offset on. load
// reads from memory. If a chunk cannot be read, the packet's own bytes decide.
func (a *readAhead) append(dst []byte, chunk int, of PSN, length, offset, n uint32, load func(offset, n uint32, dst []byte) ([]byte, memory.Fault)) ([]byte, memory.Fault) {
	if data, ok := a.piece(of, offset, n); ok {
		return append(dst, data...), memory.OK
	}
	size := uint32(min(uint64(chunk), uint64(length-offset)))
	if size <= n {
		return load(offset, n, dst)
	}
	var f memory.Fault
	a.of, a.at = of, offset
	if a.data, f = load(offset, size, a.data[:0]); f != memory.OK || len(a.data) < int(size) {
		a.data = a.data[:0]
		return load(offset, n, dst)
	}
	return append(dst, a.data[:n]...), memory.OK
}

// writeBehind is bytes of a message that have come and are not yet in memory
// (Config.ChunkSize).
type writeBehind struct {
	at   uint64 // where data begins, in the message or in memory
	data []byte
}

// begin drops what is left of another message.
func (b *writeBehind) begin() { b.data = b.data[:0] }

// put adds n bytes at a place, which goes on from the last one, and writes them with
// store if they are the last of a message, or a chunk.
func (b *writeBehind) put(chunk int, at uint64, n uint32, data []byte, last bool, store func(at uint64, n uint32, data []byte) memory.Fault) memory.Fault {
	if chunk == 0 || len(data) == 0 || last && len(b.data) == 0 {
		return store(at, n, data)
	}
	if len(b.data) == 0 {
		b.at = at
	}
	b.data = append(b.data, data...)
	if !last && len(b.data) < chunk {
		return memory.OK
	}
	f := store(b.at, uint32(len(b.data)), b.data)
	b.begin()
	return f
}
