package capture

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	// prefix precedes each record: its length, in 8 bytes so that all
	// records are aligned.
	prefix = 8

	// wrapped in place of a length says that the rest of the buffer is not
	// used and that the next record stands at its begin.
	wrapped = 1<<64 - 1

	// cacheLine keeps what one thread writes away from what the other reads.
	cacheLine = 64
)

// ring is a queue of records of bytes between one producer (reserve, commit)
// and one consumer (next, release), without locks. Records lie in one piece
// each, so that neither side copies for the other.
//
// head and tail count bytes since the begin and never wrap around; the place
// in the buffer is the count modulo its length. Each side keeps the last
// value it saw of the other's count and looks again only when it must.
type ring struct {
	buf []byte // length is a power of two

	_        [cacheLine]byte
	head     atomic.Uint64 // end of the committed records; the producer moves it
	pending  uint64        // producer: where head will be after commit
	tailSeen uint64        // producer

	_        [cacheLine]byte
	tail     atomic.Uint64 // begin of the oldest record; the consumer moves it
	after    uint64        // consumer: where tail will be after release
	headSeen uint64        // consumer
	_        [cacheLine]byte
}

// newRing makes a ring of at least size bytes, and large enough for any two
// records of up to record bytes: a record that does not fit behind the last
// one then always finds room at the begin once the ring is empty.
func newRing(size, record int) *ring {
	size = max(size, 2*recordSpan(record))
	n := 1
	for n < size {
		n *= 2
	}
	r := &ring{buf: make([]byte, n)}
	// Have the kernel back the pages now and not while the producer writes.
	for i := 0; i < n; i += 4096 {
		r.buf[i] = 0
	}
	return r
}

// recordSpan is what a record of n bytes takes in the buffer.
func recordSpan(n int) int { return (prefix + n + 7) &^ 7 }

// reserveRecord returns room for a record of n bytes, or nil if there is none. The record is
// the consumer's after commit.
func (r *ring) reserveRecord(n int) []byte {
	size, need := uint64(len(r.buf)), uint64(recordSpan(n))
	head := r.head.Load()
	at := head & (size - 1)
	var unused uint64
	if rest := size - at; need > rest {
		unused = rest
	}
	r.pending = head + unused + need
	if r.pending-r.tailSeen > size {
		r.tailSeen = r.tail.Load()
		if r.pending-r.tailSeen > size {
			return nil
		}
	}
	if unused > 0 {
		binary.LittleEndian.PutUint64(r.buf[at:], wrapped)
		at = 0
	}
	binary.LittleEndian.PutUint64(r.buf[at:], uint64(n))
	return r.buf[at+prefix:][:n:n]
}

// commitRecord hands the reserved record to the consumer.
func (r *ring) commitRecord() { r.head.Store(r.pending) }

// nextRecord returns the oldest record, or nil if there is none. It stays valid until release.
func (r *ring) nextRecord() []byte {
	size, tail := uint64(len(r.buf)), r.tail.Load()
	if tail == r.headSeen {
		r.headSeen = r.head.Load()
		if tail == r.headSeen {
			return nil
		}
	}
	at := tail & (size - 1)
	n := binary.LittleEndian.Uint64(r.buf[at:])
	if n == wrapped {
		tail += size - at
		at = 0
		n = binary.LittleEndian.Uint64(r.buf)
	}
	r.after = tail + uint64(recordSpan(int(n)))
	return r.buf[at+prefix:][:n:n]
}

// releaseRecord gives the room of the record that next returned back to the
// producer.
func (r *ring) releaseRecord() { r.tail.Store(r.after) }
