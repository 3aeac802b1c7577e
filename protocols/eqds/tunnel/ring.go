package tunnel

// ring is a double-ended queue. It never shrinks.
type ring[T any] struct {
	slots []T // a power of two of them, or none
	first int
	count int
}

// at returns the i-th element from the front, which must exist.
func (r *ring[T]) at(i int) *T { return &r.slots[(r.first+i)&(len(r.slots)-1)] }

// grow makes room for one more.
func (r *ring[T]) grow() {
	if r.count < len(r.slots) {
		return
	}
	more := make([]T, max(4, 2*len(r.slots)))
	for i := range r.count {
		more[i] = *r.at(i)
	}
	r.slots, r.first = more, 0
}

// push adds an element at the back.
func (r *ring[T]) push(v T) {
	r.grow()
	r.count++
	*r.at(r.count - 1) = v
}

// unshift adds an element at the front.
func (r *ring[T]) unshift(v T) {
	r.grow()
	r.first = (r.first - 1) & (len(r.slots) - 1)
	r.count++
	*r.at(0) = v
}

// popFront removes and returns the first element.
func (r *ring[T]) popFront() (v T) {
	p := r.at(0)
	*p, v = v, *p
	r.first = (r.first + 1) & (len(r.slots) - 1)
	r.count--
	return v
}
