package packet

// stack is a stack of free packets of one kind, linked by Next.
type stack struct {
	first *Packet
	n     int
	used  bool // some had to be allocated
}

func (s *stack) push(p *Packet) {
	p.Next, s.first = s.first, p
	s.n++
}

// pop removes the packet that was freed last. The stack must not be empty.
func (s *stack) pop() *Packet {
	p := s.first
	s.first = p.Next
	s.n--
	return p
}

const (
	// fewPackets is the number below which a pool is short of a kind: it would soon
	// allocate some.
	fewPackets = chunk / 2
	// manyPackets is the number from which it has more than enough.
	manyPackets = 3 * chunk
)

// shelves calls f for each kind of packet, with its bit.
func (l *Pool) shelves(f func(bit uint64, s *stack)) {
	bit := uint64(1)
	for _, s := range []*stack{&l.bare, &l.nics, &l.tiny, &l.small, &l.large} {
		f(bit, s)
		bit <<= 1
	}
	for i := range l.messages {
		f(bit, &l.messages[i])
		bit <<= 1
	}
}

// Short returns the kinds that l uses and has few of, a bit each.
func (l *Pool) Short() (kinds uint64) {
	l.shelves(func(bit uint64, s *stack) {
		if s.used && s.n < fewPackets {
			kinds |= bit
		}
	})
	return kinds
}

// Spare returns packets of kinds that l has many of, for the pool of another worker.
func (l *Pool) Spare(kinds uint64) (all List) {
	l.shelves(func(bit uint64, s *stack) {
		if kinds&bit == 0 || s.n < manyPackets {
			return
		}
		for range chunk {
			all.Push(s.pop())
		}
	})
	return all
}

// Adopt takes the packets that another pool has spared, and empties gift.
func (l *Pool) Adopt(gift *List) {
	for p := gift.Pop(); p != nil; p = gift.Pop() {
		l.shelf(p).push(p)
	}
}
