package packet

// Capacities of the two kinds of frame buffers: the usual MTU, and jumbo
// frames up to an MTU of 9216 with two VLAN tags.
const (
	smallFrame = 2048
	largeFrame = 9728
)

// MaxFrame is the longest frame that a pool hands out, in bytes.
const MaxFrame = largeFrame

// chunk is how many packets a pool allocates at a time.
const chunk = 256

// Pool recycles packets so that moving one costs no allocation. It belongs to
// one engine.
type Pool struct {
	bare, small, large *Packet
	live               int

	supers    *Super
	superLive int
}

// Live counts the packets taken and not yet freed.
func (l *Pool) Live() int { return l.live }

// New gives a zeroed packet without wire bytes, for modelled traffic.
func (l *Pool) New() *Packet {
	if l.bare == nil {
		ps := make([]Packet, chunk)
		for i := range ps {
			ps[i].Next, l.bare = l.bare, &ps[i]
		}
	}
	p := l.bare
	l.bare = p.Next
	*p = Packet{Flow: Real}
	l.live++
	return p
}

// NewFrame gives a zeroed packet with a Frame of n bytes of undefined
// content. n is at most MaxFrame.
func (l *Pool) NewFrame(n int) *Packet {
	list, size := &l.small, smallFrame
	if n > smallFrame {
		list, size = &l.large, largeFrame
	}
	if *list == nil {
		ps := make([]Packet, chunk)
		mem := make([]byte, chunk*size)
		for i := range ps {
			ps[i].buf = mem[i*size : (i+1)*size : (i+1)*size]
			ps[i].Next, *list = *list, &ps[i]
		}
	}
	p := *list
	*list = p.Next
	*p = Packet{Flow: Real, buf: p.buf, Frame: p.buf[:n]}
	l.live++
	return p
}

// Clone gives a copy of p with bytes of its own; pieces of a super-packet
// share what they are cut from.
func (l *Pool) Clone(p *Packet) *Packet {
	if p.Frame == nil {
		c := l.New()
		*c = *p
		c.Next, c.buf = nil, nil
		if s := c.Piece.Of; s != nil {
			s.refs++
		}
		return c
	}
	c := l.NewFrame(len(p.Frame))
	buf, frame := c.buf, c.Frame
	copy(frame, p.Frame)
	*c = *p
	c.Next, c.buf, c.Frame = nil, buf, frame
	return c
}

// Free takes p back; the caller must not touch it again.
func (l *Pool) Free(p *Packet) {
	l.live--
	if s := p.Piece.Of; s != nil {
		l.Release(s)
	}
	switch cap(p.buf) {
	case 0:
		p.Next, l.bare = l.bare, p
	case smallFrame:
		p.Next, l.small = l.small, p
	default:
		p.Next, l.large = l.large, p
	}
}
