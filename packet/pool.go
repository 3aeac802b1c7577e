package packet

// Capacities of the kinds of frame buffers: for frames that ports send each other, the
// usual MTU, and jumbo frames up to an MTU of 9216 with two VLAN tags.
const (
	tinyFrame  = 128
	smallFrame = 2048
	largeFrame = 9728
)

// MaxFrame is the longest frame that a pool hands out, in bytes.
const MaxFrame = largeFrame

// chunk is how many packets a pool allocates at a time.
const chunk = 256

// Pool recycles packets so that moving one costs no allocation. It belongs to one
// thread. Among the pools of NewPools, a packet returns to the pool that it came
// from: if another pool frees it, it waits among that pool's foreign packets to be
// collected. Pools of NewTradingPools keep the packets that they free, which are
// still in the processor's cache, and trade their surplus.
type Pool struct {
	number uint8 // the same for all trading pools

	bare               stack
	tiny, small, large stack   // with a Frame each
	nics               stack   // with a RoCE each
	messages           []stack // with a Message each, by protocol
	live               int
	foreignPackets     []List // by the number of their home pool

	// Render returns the complete wire bytes of a packet that HasBytes, made in buf
	// unless Frame has them: for MakeBytes, for ClonePacket if there are several pools,
	// and for routers. If the packet's Size fits into buf, the result is in buf.
	Render func(p *Packet, buf []byte) []byte

	supers    *Super
	superLive int
}

// NewPools returns n pools, one for each engine of a fabric; at most 256.
func NewPools(n int) []*Pool {
	pools := make([]*Pool, n)
	for i := range pools {
		pools[i] = &Pool{number: uint8(i), foreignPackets: make([]List, n)}
	}
	return pools
}

// NewTradingPools returns n pools, one for each worker of a fabric in virtual time.
// They have no super-packets, which must be counted in the pool they come from.
func NewTradingPools(n int) []*Pool {
	pools := make([]*Pool, n)
	for i := range pools {
		pools[i] = &Pool{foreignPackets: make([]List, 1)}
	}
	return pools
}

// TakeForeign removes and returns the packets that l has freed and that came from the pool from.
func (l *Pool) TakeForeign(from *Pool) List {
	s := l.foreignPackets[from.number]
	l.foreignPackets[from.number] = List{}
	return s
}

// LivePackets returns the number of packets taken from l and not yet returned to it. For
// trading pools, only the sum is meaningful.
func (l *Pool) LivePackets() int { return l.live }

// New returns a zeroed packet without wire bytes, for modelled traffic.
func (l *Pool) New() *Packet {
	if l.bare.n == 0 {
		l.growBare()
	}
	p := l.bare.popPacket()
	*p = Packet{Kind: Real, home: l.number}
	l.live++
	return p
}

func (l *Pool) growBare() {
	l.bare.used = true
	ps := make([]Packet, chunk)
	for i := range ps {
		l.bare.pushPacket(&ps[i])
	}
}

// CopyTemplate returns a copy of a modelled packet, without zeroing it first.
func (l *Pool) CopyTemplate(template *Packet) *Packet {
	if l.bare.n == 0 {
		l.growBare()
	}
	p := l.bare.popPacket()
	*p = *template
	p.home = l.number
	l.live++
	return p
}

// NewFrame returns a zeroed packet with a Frame of n bytes of undefined content. n
// is at most MaxFrame.
func (l *Pool) NewFrame(n int) *Packet {
	list, size := &l.small, smallFrame
	switch {
	case n <= tinyFrame:
		list, size = &l.tiny, tinyFrame
	case n > smallFrame:
		list, size = &l.large, largeFrame
	}
	if list.n == 0 {
		list.used = true
		ps := make([]Packet, chunk)
		mem := make([]byte, chunk*size)
		for i := range ps {
			ps[i].Frame = mem[i*size : (i+1)*size : (i+1)*size]
			list.pushPacket(&ps[i])
		}
	}
	p := list.popPacket()
	*p = Packet{Kind: Real, home: l.number, Frame: p.Frame[:n]}
	l.live++
	return p
}

// ClonePacket returns a copy of p with its own bytes and RoCE; pieces of a super-packet
// share the super-packet.
func (l *Pool) ClonePacket(p *Packet) *Packet {
	if p.Kind == NIC {
		return l.cloneRoCE(p)
	}
	if p.Kind == Protocol {
		return l.cloneMessage(p)
	}
	if p.Piece.Of != nil && p.home != l.number {
		// Only the pool that a super-packet came from counts its references.
		c := l.RestoreFrame(p)
		c.Frame = l.Render(p, c.Frame)
		return c
	}
	if p.Frame == nil {
		c := l.CopyTemplate(p)
		c.Next = nil
		if s := c.Piece.Of; s != nil {
			s.refs++
		}
		return c
	}
	c := l.NewFrame(len(p.Frame))
	frame := c.Frame
	copy(frame, p.Frame)
	*c = *p
	c.Next, c.Frame, c.home = nil, frame, l.number
	return c
}

// RestoreFrame returns a packet with the fields of p, which is a piece of a super-packet, a NIC's
// packet or one with a Message. In place of that content it has its own Frame, of undefined
// content, for the bytes.
func (l *Pool) RestoreFrame(p *Packet) *Packet {
	c := l.NewFrame(int(p.Size))
	frame := c.Frame
	*c = *p
	c.Next, c.Frame, c.Piece, c.home = nil, frame, Piece{}, l.number
	c.Kind, c.RoCE, c.Message = Real, nil, nil
	return c
}

// MakeBytes replaces p, which HasBytes, with a packet that has its complete wire
// bytes in its own Frame. A NIC's packet then looks like one of a real program. It
// needs Render.
func (l *Pool) MakeBytes(p *Packet) *Packet {
	c := l.RestoreFrame(p)
	c.Frame = l.Render(p, c.Frame)
	c.Sum = 0
	l.Free(p)
	return c
}

// Free returns p to the pool; the caller must not touch it again.
func (l *Pool) Free(p *Packet) {
	if p.Kind == Protocol && p.Message.Inner != nil {
		l.Free(p.Message.Inner)
		p.Message.Inner = nil
	}
	if p.home != l.number {
		l.foreignPackets[p.home].Push(p)
		return
	}
	l.live--
	if s := p.Piece.Of; s != nil {
		l.ReleaseSuper(s)
	}
	l.stackFor(p).pushPacket(p)
}

// DropFree releases the free packets and the memory attached to them. New ones are
// allocated when needed.
func (l *Pool) DropFree() {
	l.eachStack(func(_ uint64, s *stack) {
		// Queues and rings may still point at packets that have left them. Those must
		// not keep other memory alive.
		for s.n > 0 {
			*s.popPacket() = Packet{}
		}
		*s = stack{}
	})
	l.supers = nil
}

// stackFor returns the stack of free packets to which p belongs.
func (l *Pool) stackFor(p *Packet) *stack {
	switch cap(p.Frame) {
	case tinyFrame:
		return &l.tiny
	case smallFrame:
		return &l.small
	case 0:
		switch p.Kind {
		case NIC:
			return &l.nics
		case Protocol:
			return l.messagesOf(p.Message.Protocol)
		}
		return &l.bare
	}
	return &l.large
}
