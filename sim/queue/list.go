package queue

import "iter"

// Link is an element's place in a List, and a field of the element. An element that can be in
// several lists has a Link for each. The zero Link is in no list.
type Link[T any] struct {
	before, after *Link[T] // of a ring
	owner         *T
}

// IsLinked reports whether the element is in a list by this link.
func (k *Link[T]) IsLinked() bool { return k.after != nil }

// List is an ordered list of elements that have a Link for it. Adding and removing take
// constant time and no memory. The zero List is empty.
type List[T any] struct {
	first *Link[T]
	n     int
}

// Len returns the number of elements.
func (l *List[T]) Len() int { return l.n }

// First returns the first element, nil if there is none.
func (l *List[T]) First() *T {
	if l.first == nil {
		return nil
	}
	return l.first.owner
}

// Next returns the element after the one with link k, which is in the list; nil if k is the last.
func (l *List[T]) Next(k *Link[T]) *T {
	if k.after == l.first {
		return nil
	}
	return k.after.owner
}

// All yields the elements in order. The loop may remove the element that it has.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n, k := l.n, l.first; n > 0; n-- {
			next := k.after
			if !yield(k.owner) {
				return
			}
			k = next
		}
	}
}

// Push adds an element at the end. k is its link, which must be in no list.
func (l *List[T]) Push(k *Link[T], owner *T) {
	k.owner = owner
	l.n++
	if l.first == nil {
		k.before, k.after, l.first = k, k, k
		return
	}
	k.before, k.after = l.first.before, l.first
	k.before.after, l.first.before = k, k
}

// Remove removes the element with link k, which is in this list or in none.
func (l *List[T]) Remove(k *Link[T]) {
	if !k.IsLinked() {
		return
	}
	l.n--
	switch {
	case k.after == k:
		l.first = nil
	case l.first == k:
		l.first = k.after
	}
	k.before.after, k.after.before = k.after, k.before
	*k = Link[T]{}
}

// Rotate moves the first element, if there is one, to the end.
func (l *List[T]) Rotate() {
	if l.first != nil {
		l.first = l.first.after
	}
}
