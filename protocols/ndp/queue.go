package ndp

// queue is a FIFO that never shrinks.
type queue[T any] struct {
	all  []T // a power of two of them
	head int
	n    int
}

func (q *queue[T]) len() int  { return q.n }
func (q *queue[T]) clear()    { q.head, q.n = 0, 0 }
func (q *queue[T]) first() *T { return &q.all[q.head] }

func (q *queue[T]) push(v T) {
	if q.n == len(q.all) {
		more := make([]T, max(16, 2*len(q.all)))
		copy(more[copy(more, q.all[q.head:]):], q.all[:q.head])
		q.all, q.head = more, 0
	}
	q.all[(q.head+q.n)&(len(q.all)-1)] = v
	q.n++
}

func (q *queue[T]) pop() T {
	v := q.all[q.head]
	q.head = (q.head + 1) & (len(q.all) - 1)
	q.n--
	return v
}
