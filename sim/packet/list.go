package packet

// List is packets linked by Next, in order.
type List struct{ first, last *Packet }

// Empty tells whether l holds nothing.
func (l *List) Empty() bool { return l.first == nil }

// First lends the first packet, nil when there is none.
func (l *List) First() *Packet { return l.first }

// Last lends the last packet of a list that is not empty.
func (l *List) Last() *Packet { return l.last }

// Push adds p at the end.
func (l *List) Push(p *Packet) {
	p.Next = nil
	l.Append(List{p, p})
}

// Pop takes the first packet, nil when there is none.
func (l *List) Pop() *Packet {
	p := l.first
	if p != nil {
		l.first = p.Next
	}
	return p
}

// Append adds the packets of other at the end.
func (l *List) Append(other List) {
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
