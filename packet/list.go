package packet

// List is a list of packets linked by Next, in order.
type List struct{ first, last *Packet }

// Empty reports whether l is empty.
func (l *List) Empty() bool { return l.first == nil }

// First returns the first packet without removing it, nil when there is none.
func (l *List) First() *Packet { return l.first }

// Last returns the last packet of a list that is not empty, without removing it.
func (l *List) Last() *Packet { return l.last }

// Push adds p at the end.
func (l *List) Push(p *Packet) {
	p.Next = nil
	l.AppendList(List{p, p})
}

// Pop removes and returns the first packet, nil when there is none.
func (l *List) Pop() *Packet {
	p := l.first
	if p != nil {
		l.first = p.Next
	}
	return p
}

// AppendList adds the packets of other at the end.
func (l *List) AppendList(other List) {
	switch {
	case other.first == nil:
		return
	case l.first == nil:
		l.first = other.first
	default:
		l.last.Next = other.first
	}
	l.last = other.last
}
