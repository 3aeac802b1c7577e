package series

import (
	"sync/atomic"
	"time"
)

// waitNap is how long a producer that waits for room sleeps between checks.
const waitNap = 50 * time.Microsecond

// cacheLine separates what one thread writes from what the other reads.
const cacheLine = 64

// ring holds samples between one producer and one consumer. head and tail count
// samples since the start; the index is the count modulo the length, a power of
// two.
type ring[T any] struct {
	slots    []T
	overruns atomic.Uint64 // samples; written by the producer
	until    atomic.Int64  // everything up to this instant is or was in the ring
	_        [cacheLine]byte
	head     atomic.Uint64 // the producer moves it
	_        [cacheLine]byte
	tail     atomic.Uint64 // the consumer moves it
	_        [cacheLine]byte
}

// allocateSlots allocates at least the given number of slots.
func (r *ring[T]) allocateSlots(minSlots int) {
	n := 1
	for n < minSlots {
		n *= 2
	}
	r.slots = make([]T, n)
}

func (r *ring[T]) slotAt(i uint64) *T { return &r.slots[i&uint64(len(r.slots)-1)] }

// hasRoom reports whether n more samples fit.
func (r *ring[T]) hasRoom(n uint64) bool {
	return r.head.Load()+n-r.tail.Load() <= uint64(len(r.slots))
}
