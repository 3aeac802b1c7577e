package packet

// stack is a stack of free packets of one kind, linked by Next.
type stack struct {
	first *Packet
	n     int
	used  bool // some had to be allocated
}

func (s *stack) pushPacket(p *Packet) {
	p.Next, s.first = s.first, p
	s.n++
}

// popPacket removes the packet that was freed last. The stack must not be empty.
func (s *stack) popPacket() *Packet {
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

// eachStack calls f for each kind of packet, with its bit.
func (l *Pool) eachStack(f func(bit uint64, s *stack)) {
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

// ScarceKinds returns the kinds that l uses and has few of, a bit each.
func (l *Pool) ScarceKinds() (kinds uint64) {
	l.eachStack(func(bit uint64, s *stack) {
		if s.used && s.n < fewPackets {
			kinds |= bit
		}
	})
	return kinds
}

// SparePackets returns packets of kinds that l has many of, for the pool of another worker.
func (l *Pool) SparePackets(kinds uint64) (all List) {
	l.eachStack(func(bit uint64, s *stack) {
		if kinds&bit == 0 || s.n < manyPackets {
			return
		}
		for range chunk {
			all.Push(s.popPacket())
		}
	})
	return all
}

// AdoptPackets takes the packets that another pool has spared, and empties gift.
func (l *Pool) AdoptPackets(spares *List) {
	for p := spares.Pop(); p != nil; p = spares.Pop() {
		l.stackFor(p).pushPacket(p)
	}
}
