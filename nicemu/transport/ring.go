package transport

// ring is a queue in an array that grows to a power of two. Elements keep their buffers when they
// leave, for reuse.
type ring[T any] struct {
	buf  []T
	head int
	n    int
}

// at returns the i-th oldest element.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// push adds an element, which is a former one or zero.
func (r *ring[T]) push() *T {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	return r.at(r.n - 1)
}

func (r *ring[T]) pop() {
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
}

func (r *ring[T]) grow() {
	bigger := make([]T, max(2, 2*len(r.buf)))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.buf, r.head = bigger, 0
}

func (r *ring[T]) clear() { r.head, r.n = 0, 0 }
