package transport

import (
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/sim/units"
)

// chunks is what was read from memory before it is sent, and what has come and is not
// in memory yet (Config.ChunkSize). Nil is none of that: every packet is read and
// written alone.
type chunks struct {
	size units.Bytes

	sent, asked readAhead   // of the message that is sent, of the READ that is responded to
	came, read  writeBehind // of the message that comes, of what a READ brings back
}

// loader reads n bytes of a message from offset on, behind dst.
type loader func(offset, n uint32, dst []byte) ([]byte, memory.Fault)

// storer writes n bytes at a place.
type storer func(at uint64, n uint32, data []byte) memory.Fault

// send gives dst with n bytes from offset on of a message that is sent, which has
// length bytes and begins with PSN of.
func (c *chunks) send(dst []byte, of PSN, length, offset, n uint32, load loader) ([]byte, memory.Fault) {
	if c == nil {
		return load(offset, n, dst)
	}
	return c.sent.append(dst, c.size, of, length, offset, n, load)
}

// respond is send for the response to a READ.
func (c *chunks) respond(dst []byte, of PSN, length, offset, n uint32, load loader) ([]byte, memory.Fault) {
	if c == nil {
		return load(offset, n, dst)
	}
	return c.asked.append(dst, c.size, of, length, offset, n, load)
}

// forget is told that a message is over.
func (c *chunks) forget(of PSN) {
	if c != nil {
		c.sent.forget(of)
	}
}

// forgetRead is told that a READ has been responded to, or is responded to again.
func (c *chunks) forgetRead(of PSN) {
	if c != nil {
		c.asked.forget(of)
	}
}

// begin is told that a message begins to come, and put of n bytes of it, the last ones
// or not.
func (c *chunks) begin() {
	if c != nil {
		c.came.begin()
	}
}

func (c *chunks) put(at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
	if c == nil {
		return store(at, n, data)
	}
	return c.came.put(c.size, at, n, data, last, store)
}

// beginRead and putRead are begin and put of what a READ brings back.
func (c *chunks) beginRead() {
	if c != nil {
		c.read.begin()
	}
}

func (c *chunks) putRead(at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
	if c == nil {
		return store(at, n, data)
	}
	return c.read.put(c.size, at, n, data, last, store)
}

// clear forgets everything.
func (c *chunks) clear() {
	if c != nil {
		c.sent.data, c.asked.data = c.sent.data[:0], c.asked.data[:0]
		c.came.begin()
		c.read.begin()
	}
}

// readAhead is bytes of a message.
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

func (a *readAhead) forget(of PSN) {
	if a.of == of {
		a.data = a.data[:0]
	}
}

// append is chunks.send. If a chunk cannot be read, the packet's own bytes decide.
func (a *readAhead) append(dst []byte, chunk units.Bytes, of PSN, length, offset, n uint32, load loader) ([]byte, memory.Fault) {
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

// writeBehind is bytes that come for places one behind the other.
type writeBehind struct {
	at   uint64 // where data begins, in the message or in memory
	data []byte
}

// begin drops what is left of another message.
func (b *writeBehind) begin() { b.data = b.data[:0] }

// put adds bytes, and writes what there is if they are the last, or a chunk.
func (b *writeBehind) put(chunk units.Bytes, at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
	if len(data) == 0 || last && len(b.data) == 0 {
		return store(at, n, data)
	}
	if len(b.data) == 0 {
		b.at = at
	}
	b.data = append(b.data, data...)
	if !last && len(b.data) < int(chunk) {
		return memory.OK
	}
	f := store(b.at, uint32(len(b.data)), b.data)
	b.begin()
	return f
}
