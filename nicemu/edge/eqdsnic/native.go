package eqdsnic

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds/tunnel"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Native is the native EQIF of an interface (§6), for Go programs that use EQDS itself, instead of
// TCP or UDP above it: they send messages, see the queue to each destination, its pull queue, the
// RTT of packets and paths, and are notified when a message has been delivered. Messages are cut
// into packets as there is room in the EQIF; until then they use no memory except the program's.
//
// A tunnel delivers packets in order and resends lost ones, so messages between two sockets arrive
// whole, once, and in the order in which they were sent. There are these exceptions. Data that a
// host does not take for as long as give-up is dropped, and the sender is told. Messages beyond a
// socket's room, and those to ports without a socket, are dropped, and the sender is not told:
// delivery is to the host. If the receiving end of a tunnel drops its state in the middle of a
// message, messages may change their order.
//
// It belongs to the goroutine of the host's engine, as a nicemu.Device does: use it in processes of
// that engine, in handlers of its timers, or while the engine does not run. fabric.GoEdge starts
// such a process, in virtual time and in a running lab.
type Native struct {
	service *service
	sockets map[uint16]*Socket
	opened  uint32

	sent, received, lost uint64 // messages
}

// NativeOf returns the native EQIF of an interface's edge service (fabric.EdgeOf). It fails if the
// service is not EQDS.
func NativeOf(x edge.Service) (*Native, error) {
	s, ok := x.(*service)
	if !ok {
		return nil, errors.New("eqds: the host has another edge service: write edge: eqds for it in the lab file")
	}
	return s.native, nil
}

// Limits of messages and sockets.
const (
	// MaxMessage is the longest message.
	MaxMessage = 16 << 20
	// DefaultRoom replaces a SocketConfig.Room of 0.
	DefaultRoom = 64 * units.MB

	firstFree = 49152 // of the ports that Open chooses (RFC 6335 §6)
)

// SocketConfig is the configuration of a socket.
type SocketConfig struct {
	Port uint16 // 0 for a free one
	// Room is how many bytes of messages may wait for the program, 0 for DefaultRoom. A message
	// beyond that is dropped.
	Room units.Bytes
	// Packet, if set, is called for each packet of the socket's messages that was
	// delivered or given up: the per-packet feedback of §6, for congestion controls. It is
	// called while the EQIF is at work: it must not use the EQIF, but may arm a timer or
	// wake a process.
	Packet func(now units.Time, r PacketReport)
}

// PacketReport is the result of a packet.
type PacketReport struct {
	To     netip.AddrPort
	Number uint32      // of its message, as in Sending.Number
	Size   units.Bytes // of the payload
	// Outcome has the packet's path, how often it was sent, and its RTT if it was measured.
	tunnel.Outcome
}

// Open makes a socket. It fails if the port is taken, or none is free.
func (n *Native) Open(c SocketConfig) (*Socket, error) {
	if c.Port == 0 {
		for port := firstFree; port < 1<<16 && c.Port == 0; port++ {
			if n.sockets[uint16(port)] == nil {
				c.Port = uint16(port)
			}
		}
		if c.Port == 0 {
			return nil, errors.New("eqds: all ports from 49152 on are in use: close sockets, or choose a port")
		}
	}
	if n.sockets[c.Port] != nil {
		return nil, fmt.Errorf("eqds: port %d is in use by another socket of the host", c.Port)
	}
	if c.Room == 0 {
		c.Room = DefaultRoom
	}
	n.opened++
	s := &Socket{
		SocketConfig: c, native: n, session: uint32(n.service.env.Now()/units.Microsecond) + n.opened,
		numbers: map[netip.AddrPort]uint32{}, streams: map[netip.AddrPort]*stream{},
	}
	n.sockets[c.Port] = s
	return s, nil
}

// Destination is the native EQIF's state for a destination address.
type Destination struct {
	Messages       int         // not yet entirely in the queue
	Backlog        units.Bytes // bytes of them not in the queue
	Packets        int         // in the EQIF's queue to the destination
	Queue          units.Bytes // likewise, as frames of the tunnel
	Unacknowledged int         // packets sent
	Credit         units.Bytes // remaining
	PullQueue      int         // packets of credit requested and not received
	Busy           units.Time  // until when the receiver has said that it has enough to receive; 0 for never
	SRTT           units.Time  // smoothed round-trip time over all paths, 0 before the first
}

// Destination returns the state for an address. It is the zero Destination if nothing was sent to
// the address, or not for so long that its tunnel was closed.
func (n *Native) Destination(to netip.Addr) (d Destination) {
	x := n.service.senders[address{to, nativeEQIF}]
	if x == nil {
		return d
	}
	d.Packets, d.Queue = x.Queue()
	d.Unacknowledged, d.Credit, d.PullQueue, d.Busy, d.SRTT = x.Unacknowledged(), x.Credit(), x.PullQueue(), x.BusyUntil(), x.SRTT()
	for m := x.out.first; m != nil; m = m.next {
		d.Messages++
		d.Backlog += m.size - m.offset
	}
	return d
}

// Paths returns the state of each path to an address, by path ID: packets sent, lost and trimmed
// there, and the smoothed round-trip time. It is nil if there is no tunnel to the address (see
// Destination), and is valid until the engine continues.
func (n *Native) Paths(to netip.Addr) []tunnel.Path {
	if x := n.service.senders[address{to, nativeEQIF}]; x != nil {
		return x.Paths()
	}
	return nil
}

// Socket sends and receives messages on a port of the host.
type Socket struct {
	SocketConfig
	native  *Native
	session uint32
	closed  bool
	numbers map[netip.AddrPort]uint32  // of the last message, by destination
	streams map[netip.AddrPort]*stream // by source
	inbox   []Message
	waiting units.Bytes // in inbox
	came    sim.Cond
}

// Message is a received message.
type Message struct {
	From netip.AddrPort
	At   units.Time // when its last packet arrived
	Size units.Bytes
	Data []byte // the program's; nil if it was sent by SendSize
}

// Send sends a message without copying data: it must not change before it is delivered or given up.
// Messages to one address leave in the order of Send, across all sockets. It fails if the message
// is longer than MaxMessage or no host with EQDS has the address, or with net.ErrClosed.
func (s *Socket) Send(to netip.AddrPort, data []byte) (*Sending, error) {
	if data == nil {
		data = []byte{}
	}
	return s.sendMessage(to, data, units.Bytes(len(data)))
}

// SendSize sends a message of which only the size matters: it takes the same packets and the same
// time, but no memory.
func (s *Socket) SendSize(to netip.AddrPort, size units.Bytes) (*Sending, error) {
	return s.sendMessage(to, nil, size)
}

func (s *Socket) sendMessage(to netip.AddrPort, data []byte, size units.Bytes) (*Sending, error) {
	switch {
	case s.closed:
		return nil, net.ErrClosed
	case size < 0 || size > MaxMessage:
		return nil, fmt.Errorf("eqds: a message of %d bytes is too long: the maximum is %d", size, units.Bytes(MaxMessage))
	}
	service := s.native.service
	x := service.senderFor(address{to.Addr(), nativeEQIF})
	if x == nil {
		return nil, fmt.Errorf("eqds: no other host with edge: eqds has the address %v", to.Addr())
	}
	s.numbers[to]++
	m := &Sending{socket: s, to: to, number: s.numbers[to], data: data, size: size, posted: service.env.Now()}
	x.out.pushMessage(m)
	service.now = m.posted
	s.native.makePackets(m.posted, x)
	service.armTimer()
	return m, nil
}

// Receive takes the oldest message, waiting up to timeout for one; units.Never means no limit. The
// error wraps syscall.ETIMEDOUT or, after Close, is net.ErrClosed.
func (s *Socket) Receive(p *sim.Process, timeout units.Time) (Message, error) {
	for end := deadlineAfter(p, timeout); ; {
		if m, ok := s.TakeMessage(); ok {
			return m, nil
		}
		switch {
		case s.closed:
			return Message{}, net.ErrClosed
		case end <= p.Now():
			return Message{}, fmt.Errorf("%w: no message within %v", syscall.ETIMEDOUT, timeout)
		case end == units.Never:
			s.came.Wait(p, units.Never)
		default:
			s.came.Wait(p, end-p.Now())
		}
	}
}

// deadlineAfter is the time when a timeout ends.
func deadlineAfter(p *sim.Process, timeout units.Time) units.Time {
	if timeout >= units.Never-p.Now() {
		return units.Never
	}
	return p.Now() + timeout
}

// TakeMessage takes the oldest message; false if there is none.
func (s *Socket) TakeMessage() (m Message, ok bool) {
	if len(s.inbox) == 0 {
		return m, false
	}
	m = s.inbox[0]
	s.inbox[0] = Message{}
	if s.inbox = s.inbox[1:]; len(s.inbox) == 0 {
		s.inbox = nil
	}
	s.waiting -= m.Size
	return m, true
}

// Close frees the port. Messages of which nothing has left are not sent, and messages that have
// partly left are cut off; both end with net.ErrClosed. A waiting Receive returns that error, too.
func (s *Socket) Close() {
	if s.closed {
		return
	}
	s.closed = true
	delete(s.native.sockets, s.Port)
	service := s.native.service
	now := service.env.Now()
	for x := range service.order.All() {
		for _, m := range x.out.takeOf(s) {
			m.failRest(now, net.ErrClosed)
		}
	}
	s.inbox, s.waiting = nil, 0
	s.came.Broadcast()
}

// Sending is a message on its way.
type Sending struct {
	socket         *Socket
	next           *Sending // in the outbox of its destination
	to             netip.AddrPort
	number         uint32
	data           []byte
	size, offset   units.Bytes // offset is the amount cut into packets
	posted, ended  units.Time
	packets, left  int // packets made, and those of them without a result so far
	tries          int
	rtt            units.Time
	whole, settled bool // all of it has been cut into packets; the result is known
	err            error
	cond           sim.Cond
}

// ErrGivenUp is the error of a message whose receiver did not answer for as long as the setting
// give-up says.
var ErrGivenUp = errors.New("eqds: message abandoned: the receiver does not answer")

// Delivery is the result of a message.
type Delivery struct {
	Posted, Done units.Time // Send, and when the result was known
	Packets      int
	Resent       int        // transmissions beyond one for each packet
	RTT          units.Time // minimum of its packets, 0 if none was measured
}

// Number counts the messages of a socket to a destination, from 1 on.
func (m *Sending) Number() uint32 { return m.number }

// Done reports whether the result of the message is known.
func (m *Sending) Done() bool { return m.settled }

// Delivery returns the result of a message that is Done. If it was not delivered, the error is
// ErrGivenUp or net.ErrClosed; otherwise it is nil.
func (m *Sending) Delivery() (Delivery, error) {
	return Delivery{Posted: m.posted, Done: m.ended, Packets: m.packets, Resent: m.tries - m.packets, RTT: m.rtt}, m.err
}

// Wait waits until the message is Done, for up to timeout, and returns its Delivery. The error is
// that of Delivery, or wraps syscall.ETIMEDOUT.
func (m *Sending) Wait(p *sim.Process, timeout units.Time) (Delivery, error) {
	if !m.settled {
		m.cond.Wait(p, timeout)
	}
	if !m.settled {
		return Delivery{}, fmt.Errorf("%w: no delivery within %v", syscall.ETIMEDOUT, timeout)
	}
	return m.Delivery()
}

// failRest ends the part of a message not cut into packets yet.
func (m *Sending) failRest(now units.Time, err error) {
	m.whole, m.err = true, err
	m.checkResult(now)
}

// checkResult checks whether the result is known.
func (m *Sending) checkResult(now units.Time) {
	if m.settled || !m.whole || m.left > 0 {
		return
	}
	m.settled, m.ended, m.data = true, now, nil
	if n := m.socket.native; m.err == nil {
		n.sent++
	} else {
		n.lost++
	}
	m.cond.Broadcast()
}

// outbox holds the messages to a destination that are not entirely in the EQIF's queue.
type outbox struct{ first, last *Sending }

func (o *outbox) pushMessage(m *Sending) {
	if o.first == nil {
		o.first = m
	} else {
		o.last.next = m
	}
	o.last = m
}

func (o *outbox) popMessage() (m *Sending) {
	m = o.first
	o.first, m.next = m.next, nil
	return m
}

// takeOf removes and returns the messages of a socket.
func (o *outbox) takeOf(s *Socket) (taken []*Sending) {
	var rest outbox
	for o.first != nil {
		if m := o.popMessage(); m.socket == s {
			taken = append(taken, m)
		} else {
			rest.pushMessage(m)
		}
	}
	*o = rest
	return taken
}

// makePackets makes packets of a program's messages, as long as there is room for them. Every change of a
// queue of the native EQIF ends with it.
func (n *Native) makePackets(now units.Time, x *sender) {
	if x.filling {
		return
	}
	s := n.service
	x.filling = true
	for x.out.first != nil {
		if waiting, _ := x.Queue(); waiting >= s.NativePackets {
			break
		}
		m := x.out.first
		p := n.makePart(m)
		if p == nil {
			m.failRest(now, fmt.Errorf("eqds: the host no longer has an address of the IP version of %v", m.to.Addr()))
		} else {
			s.env.Admit(now, p)
			m.packets++
			m.left++
			s.queuePacket(now, x, p)
		}
		if m.whole {
			if x.out.first == m {
				x.out.popMessage()
			}
			m.checkResult(now)
		}
	}
	x.filling = false
}

// makePart makes the next packet of a message; nil if it cannot be addressed.
func (n *Native) makePart(m *Sending) *packet.Packet {
	s := n.service
	p := s.env.Pool.NewMessage(nativeProtocol)
	b := p.Message.Body.(*segment)
	size := min(m.size-m.offset, s.chunkSize(versionOf(m.to.Addr())))
	b.from, b.to, b.session, b.number = m.socket.Port, m.to.Port(), m.socket.session, m.number
	b.total, b.offset, b.size, b.sending = uint32(m.size), uint32(m.offset), int(size), m
	if m.data != nil {
		b.data = m.data[m.offset : m.offset+size]
	}
	p.Message.To, p.SrcPort = m.to.Addr(), NativePort
	if !s.env.Address(p) {
		s.env.Pool.Free(p)
		return nil
	}
	m.offset += size
	m.whole = m.offset == m.size
	return p
}

// handleOutcome handles the result of a packet.
func (n *Native) handleOutcome(now units.Time, p *packet.Packet, o tunnel.Outcome) {
	b := p.Message.Body.(*segment)
	m := b.sending
	m.left--
	m.tries += int(o.Tries)
	if o.RTT > 0 && (m.rtt == 0 || o.RTT < m.rtt) {
		m.rtt = o.RTT
	}
	if report := m.socket.Packet; report != nil && !m.socket.closed {
		report(now, PacketReport{To: m.to, Number: m.number, Size: units.Bytes(b.size), Outcome: o})
	}
	if !o.Delivered && m.err == nil {
		m.err = ErrGivenUp
		m.dropRest()
	}
	m.checkResult(now)
}

// dropRest drops the part of a message not cut into packets yet.
func (m *Sending) dropRest() {
	if m.whole {
		return
	}
	m.whole = true
	x := m.socket.native.service.senders[address{m.to.Addr(), nativeEQIF}]
	if x == nil {
		return
	}
	var rest outbox
	for x.out.first != nil {
		if o := x.out.popMessage(); o != m {
			rest.pushMessage(o)
		}
	}
	x.out = rest
}

// stream is a socket's state for the messages of another one.
type stream struct {
	session uint32
	highest uint32 // number of a received message
	had     uint64 // bit i means that highest-i was received
	parts   map[uint32]*partial
}

// partial is a message that is partly received.
type partial struct {
	data  []byte
	size  units.Bytes
	left  units.Bytes
	have  []uint64 // bit by part
	chunk units.Bytes
}

// window is how many messages may arrive out of order: from ended incarnations of a tunnel.
const window = 64

// TakenProtocol implements edge.Taker.
func (s *service) TakenProtocol() *packet.MessageProtocol { return nativeProtocol }

// TakePacket implements edge.Taker.
func (s *service) TakePacket(now units.Time, p *packet.Packet) {
	if !p.Trimmed && !p.Returned {
		s.native.storePart(now, p.Message.From, p.Message.Body.(*segment), s.chunkSize(p.Version))
	}
	s.env.Pool.Free(p)
}

// storePart handles a part of a message.
func (n *Native) storePart(now units.Time, from netip.Addr, b *segment, chunk units.Bytes) {
	s := n.sockets[b.to]
	if s == nil {
		if b.offset == 0 {
			n.lost++
		}
		return
	}
	source := netip.AddrPortFrom(from, b.from)
	st := s.streams[source]
	switch {
	case st == nil || int32(b.session-st.session) > 0:
		st = &stream{session: b.session, parts: map[uint32]*partial{}}
		s.streams[source] = st
	case st.session != b.session:
		return // of a socket that is gone
	}
	if st.wasReceived(b.number) {
		return // a repeat, after the tunnel has started over
	}
	part := st.parts[b.number]
	if part == nil {
		part = &partial{size: units.Bytes(b.total), left: units.Bytes(b.total), chunk: chunk}
		part.have = make([]uint64, (int(b.total)/int(chunk))/64+1)
		if b.data != nil {
			part.data = make([]byte, b.total)
		}
		st.parts[b.number] = part
	}
	if !part.storePart(b) || part.left > 0 {
		return
	}
	delete(st.parts, b.number)
	n.lost += st.recordMessage(b.number)
	if s.waiting+part.size > s.Room {
		n.lost++
		return
	}
	n.received++
	s.waiting += part.size
	s.inbox = append(s.inbox, Message{From: source, At: now, Size: part.size, Data: part.data})
	s.came.Signal()
}

// storePart stores a part in its place; false if it was there, or has no place.
func (x *partial) storePart(b *segment) bool {
	i := uint32(units.Bytes(b.offset) / x.chunk)
	if units.Bytes(b.total) != x.size || units.Bytes(b.offset)+units.Bytes(b.size) > x.size || x.have[i/64]>>(i%64)&1 != 0 {
		return false
	}
	x.have[i/64] |= 1 << (i % 64)
	x.left -= units.Bytes(b.size)
	if x.data != nil {
		copy(x.data[b.offset:], b.data)
	}
	return true
}

// wasReceived reports whether a message was received, or is too old to know.
func (st *stream) wasReceived(number uint32) bool {
	behind := int32(st.highest - number)
	return behind >= window || behind >= 0 && st.had>>behind&1 != 0
}

// recordMessage records a received message, and returns how many are too old to become whole.
func (st *stream) recordMessage(number uint32) (lost uint64) {
	behind := int32(st.highest - number)
	if behind >= 0 {
		st.had |= 1 << behind
		return 0
	}
	st.had = st.had<<min(-behind, window) | 1
	st.highest = number
	if len(st.parts) == 0 {
		return 0
	}
	for k := range st.parts {
		if int32(number-k) >= window {
			delete(st.parts, k)
			lost++
		}
	}
	return lost
}
