package transport

import (
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/sim/units"
)

// chunks holds data read from memory before it is sent, and received data not yet in memory
// (Config.ChunkSize). With a nil chunks, every packet is read and written separately.
type chunks struct {
	size units.Bytes

	sent, asked readAhead   // of the message being sent, of the READ being answered
	came, read  writeBehind // of the message being received, of a READ's response
}

// loader appends n bytes of a message from offset on to dst.
type loader func(offset, n uint32, dst []byte) ([]byte, memory.Fault)

// storer writes n bytes at a place.
type storer func(at uint64, n uint32, data []byte) memory.Fault

// appendSend returns dst with n bytes from offset on of a message being sent, which has length bytes and
// begins with PSN of.
func (c *chunks) appendSend(dst []byte, of PSN, length, offset, n uint32, load loader) ([]byte, memory.Fault) {
	if c == nil {
		return load(offset, n, dst)
	}
	return c.sent.appendPiece(dst, c.size, of, length, offset, n, load)
}

// appendResponse is send for the response to a READ.
func (c *chunks) appendResponse(dst []byte, of PSN, length, offset, n uint32, load loader) ([]byte, memory.Fault) {
	if c == nil {
		return load(offset, n, dst)
	}
	return c.asked.appendPiece(dst, c.size, of, length, offset, n, load)
}

// dropMessage drops a finished message.
func (c *chunks) dropMessage(of PSN) {
	if c != nil {
		c.sent.dropRead(of)
	}
}

// forgetRead drops the response of a READ that is complete or is sent again.
func (c *chunks) forgetRead(of PSN) {
	if c != nil {
		c.asked.dropRead(of)
	}
}

// beginMessage starts a received message, and put adds n bytes of it, the last ones or not.
func (c *chunks) beginMessage() {
	if c != nil {
		c.came.beginMessage()
	}
}

func (c *chunks) putBytes(at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
	if c == nil {
		return store(at, n, data)
	}
	return c.came.putBytes(c.size, at, n, data, last, store)
}

// beginRead and putRead are begin and put for the response to a READ.
func (c *chunks) beginRead() {
	if c != nil {
		c.read.beginMessage()
	}
}

func (c *chunks) putRead(at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
	if c == nil {
		return store(at, n, data)
	}
	return c.read.putBytes(c.size, at, n, data, last, store)
}

// clearChunks drops everything.
func (c *chunks) clearChunks() {
	if c != nil {
		c.sent.data, c.asked.data = c.sent.data[:0], c.asked.data[:0]
		c.came.beginMessage()
		c.read.beginMessage()
	}
}

// readAhead holds bytes of a message.
type readAhead struct {
	of   PSN    // the message's first PSN
	at   uint32 // offset of data in the message
	data []byte
}

// pieceAt returns n bytes of a message from offset on, if they are there.
func (a *readAhead) pieceAt(of PSN, offset, n uint32) ([]byte, bool) {
	begin := offset - a.at
	if a.of != of || offset < a.at || uint64(begin)+uint64(n) > uint64(len(a.data)) {
		return nil, false
	}
	return a.data[begin:][:n], true
}

func (a *readAhead) dropRead(of PSN) {
	if a.of == of {
		a.data = a.data[:0]
	}
}

// appendPiece is chunks.appendSend. If a chunk cannot be read, the packet's own bytes decide.
func (a *readAhead) appendPiece(dst []byte, chunk units.Bytes, of PSN, length, offset, n uint32, load loader) ([]byte, memory.Fault) {
	if data, ok := a.pieceAt(of, offset, n); ok {
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

// writeBehind holds received bytes for consecutive places.
type writeBehind struct {
	at   uint64 // start of data, in the message or in memory
	data []byte
}

// beginMessage drops the rest of another message.
func (b *writeBehind) beginMessage() { b.data = b.data[:0] }

// putBytes adds bytes, and writes all of them if they are the last, or fill a chunk.
func (b *writeBehind) putBytes(chunk units.Bytes, at uint64, n uint32, data []byte, last bool, store storer) memory.Fault {
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
	b.beginMessage()
	return f
}
