// Package queue holds the containers of the hot paths: a FIFO in a ring, and a list whose
// links are fields of its elements. Neither allocates once it has been as long as it gets.
package queue

// FIFO is a first-in-first-out queue in a ring that grows when it is full. It holds less than
// 1<<31 elements. Positions count from 0, the oldest. The zero FIFO is empty.
type FIFO[T any] struct {
	ring    []T // a power of two, or none
	head, n uint32
}

// minRing is the length of the shortest ring that is not empty: most queues of a NIC never
// hold more, and their elements are large.
const minRing = 2

// Len returns the number of elements.
func (f *FIFO[T]) Len() int { return int(f.n) }

// Cap returns the number of elements that it has room for before it grows.
func (f *FIFO[T]) Cap() int { return len(f.ring) }

// At returns the i-th oldest element, 0 <= i < Len. It stays there until the next push.
func (f *FIFO[T]) At(i int) *T { return &f.ring[(int(f.head)+i)&(len(f.ring)-1)] }

// First returns the oldest element. There must be one.
func (f *FIFO[T]) First() *T { return &f.ring[f.head] }

// Last returns the newest element. There must be one.
func (f *FIFO[T]) Last() *T { return f.At(int(f.n) - 1) }

// Push adds an element at the end.
func (f *FIFO[T]) Push(v T) {
	if int(f.n) == len(f.ring) {
		// As in grow: a call here would keep the compiler from inlining Push.
		ring := make([]T, max(minRing, 2*f.n))
		copy(ring[copy(ring, f.ring[f.head:]):], f.ring)
		f.ring, f.head = ring, 0
	}
	f.ring[int(f.head+f.n)&(len(f.ring)-1)] = v
	f.n++
}

// PushReused adds an element at the end and returns it. It is zero or has the contents of an
// element that DropFirst, DropLast or Clear removed, whose memory can so be used again.
func (f *FIFO[T]) PushReused() *T {
	f.growRing()
	f.n++
	return f.Last()
}

// PushFirst adds an element before all others.
func (f *FIFO[T]) PushFirst(v T) {
	f.growRing()
	f.head = (f.head - 1) & uint32(len(f.ring)-1)
	f.n++
	f.ring[f.head] = v
}

// Pop removes and returns the oldest element. There must be one.
func (f *FIFO[T]) Pop() (v T) {
	p := f.First()
	v, *p = *p, v // what it points to may now be collected
	f.DropFirst()
	return v
}

// DropFirst removes the oldest element and leaves its contents to PushReused. There must be one.
func (f *FIFO[T]) DropFirst() {
	f.head = (f.head + 1) & uint32(len(f.ring)-1)
	f.n--
}

// DropLast removes the n newest elements and leaves their contents to PushReused. n is at most
// Len.
func (f *FIFO[T]) DropLast(n int) { f.n -= uint32(n) }

// Clear removes all elements and leaves their contents to PushReused.
func (f *FIFO[T]) Clear() { f.head, f.n = 0, 0 }

// DeleteFunc removes the elements for which del returns true and returns how many. The others
// keep their order.
func (f *FIFO[T]) DeleteFunc(del func(v *T) bool) int {
	n, kept := f.Len(), 0
	for i := range n {
		if v := f.At(i); !del(v) {
			*f.At(kept) = *v
			kept++
		}
	}
	var zero T
	for i := kept; i < n; i++ {
		*f.At(i) = zero
	}
	f.DropLast(n - kept)
	return n - kept
}

// ReleaseMemory releases unused memory.
func (f *FIFO[T]) ReleaseMemory() {
	n := 0
	for n < f.Len() {
		n = max(minRing, 2*n)
	}
	if n < len(f.ring) {
		f.resizeRing(n)
	}
}

// growRing makes room for one more element.
func (f *FIFO[T]) growRing() {
	if f.Len() == len(f.ring) {
		f.resizeRing(max(minRing, 2*f.Len()))
	}
}

// resizeRing moves the elements to a ring of n, a power of two or 0, that has room for them.
func (f *FIFO[T]) resizeRing(n int) {
	ring := make([]T, n)
	for i := range f.Len() {
		ring[i] = *f.At(i)
	}
	f.ring, f.head = ring, 0
}
