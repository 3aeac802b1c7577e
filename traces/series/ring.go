package series

import (
	"sync/atomic"
	"time"
)

// waitNap is how long a producer that waits for room sleeps between two looks.
const waitNap = 50 * time.Microsecond

// cacheLine keeps what one thread writes away from what the other reads.
const cacheLine = 64

// ring is samples between one producer and one consumer. Head and tail count
// samples since the begin; the place is the count modulo the length, a power of
// two.
type ring[T any] struct {
	slots    []T
	overruns atomic.Uint64 // samples; the producer counts
	until    atomic.Int64  // all up to this instant is in the ring, or was
	_        [cacheLine]byte
	head     atomic.Uint64 // the producer moves it
	_        [cacheLine]byte
	tail     atomic.Uint64 // the consumer moves it
	_        [cacheLine]byte
}

// sized gives the ring at least so many places.
func (r *ring[T]) sized(least int) {
	n := 1
	for n < least {
		n *= 2
	}
	r.slots = make([]T, n)
}

func (r *ring[T]) at(i uint64) *T { return &r.slots[i&uint64(len(r.slots)-1)] }

// room tells whether n samples more fit.
func (r *ring[T]) room(n uint64) bool {
	return r.head.Load()+n-r.tail.Load() <= uint64(len(r.slots))
}
