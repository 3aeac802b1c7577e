// Package dgram joins a port of the fabric to the NIC of a virtual machine: a
// datagram socket each message of which is one Ethernet frame without FCS, as
// QEMU's -netdev dgram has it (net/dgram.c).
//
// The socket is read and written by raw, non-blocking system calls of the engine's
// thread; it must not be known to Go's poller.
//
// A NIC of a virtual machine has no shaper. What it sends is read as long as the
// port's queue in the fabric is short, which lets it go at the link's rate; when
// that is long the socket is left alone until it has drained. Then the socket
// fills, QEMU leaves packets in the ring of the guest's NIC, and what the guest
// has to send waits in the guest's own queueing discipline, as it does behind a
// real NIC.
package dgram

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/links/gso"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Entrance is where what a NIC sends enters the fabric.
type Entrance interface {
	// Enter is given a packet with a Frame that has been parsed, and owns it.
	Enter(now units.Time, p *packet.Packet)
	// Malformed is given a packet with a Frame that is none, and owns it.
	Malformed(now units.Time, p *packet.Packet)
	// Refused is told of a packet that was delivered and that the guest did not
	// take. It is lent.
	Refused(now units.Time, p *packet.Packet)
}

// Queue is what waits to leave by a port.
type Queue interface {
	Queued(now units.Time) (packets int, bytes units.Bytes)
}

// Config is what a NIC needs.
type Config struct {
	FD       int // one of a pair of AF_UNIX sockets of SOCK_DGRAM, connected
	Pool     *packet.Pool
	Entrance Entrance
	// Queue is that in which what the NIC sends waits for its link. Once it holds
	// more than High, nothing is read until it holds Low at most; Low is less
	// than High, and not negative. Rate is the link's. Engine is that of Pool.
	Queue     Queue
	High, Low units.Bytes
	Rate      units.Rate
	Engine    *sim.Engine
	// Delivered is called after every write with the number of packets in it and
	// the emulated time of the write. May be nil.
	Delivered func(now units.Time, packets int)
}

const (
	// batch is how many frames are read by one system call.
	batch = 16
	// soonest and latest bound how long after it was found full a queue is looked
	// at again.
	soonest = 20 * units.Microsecond
	latest  = units.Millisecond
)

// NIC is the fabric's side of a virtual machine's network interface.
type NIC struct {
	Config
	// epoll watches the socket, and is itself watched by the engine's thread:
	// a socket that is left alone is taken out of it.
	epoll int
	holds uint64
	timer sim.Timer

	messages [batch]message
	iov      [batch]unix.Iovec
	memory   []byte // of batch frames
	scratch  []byte
}

// message is a struct mmsghdr (recvmmsg(2)).
type message struct {
	unix.Msghdr
	length uint32
	_      [4]byte
}

// New takes over a socket.
func New(c Config) (*NIC, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	n := &NIC{Config: c, epoll: epoll, memory: make([]byte, batch*packet.MaxFrame)}
	for i := range n.messages {
		n.iov[i].Base = &n.memory[i*packet.MaxFrame]
		n.iov[i].SetLen(packet.MaxFrame)
		n.messages[i].Iov, n.messages[i].Iovlen = &n.iov[i], 1
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, c.FD, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		unix.Close(epoll)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	n.timer = c.Engine.NewTimer(n)
	return n, nil
}

// FD is readable when a frame waits that is to be read.
func (n *NIC) FD() int { return n.epoll }

// Holds counts how often the guest was held because the queue of its port was
// long.
func (n *NIC) Holds() uint64 { return n.holds }

// Follow takes over the bounds and the rate of a link that has changed.
func (n *NIC) Follow(high, low units.Bytes, rate units.Rate) {
	n.High, n.Low, n.Rate = high, low, rate
}

// Close closes the socket. Nobody polls it any more.
func (n *NIC) Close() error { return errors.Join(unix.Close(n.epoll), unix.Close(n.Config.FD)) }

// Poll reads up to max frames and lets them enter the fabric at now. It returns how
// many it read.
func (n *NIC) Poll(now units.Time, max int) (read int) {
	for read < max {
		if n.full(now, n.High) {
			n.hold(now)
			return read
		}
		got := n.receive(min(max-read, batch))
		for i := range got {
			n.enter(now, i)
		}
		if read += got; got < batch {
			return read
		}
	}
	return read
}

func (n *NIC) full(now units.Time, bound units.Bytes) bool {
	_, queued := n.Queue.Queued(now)
	return queued > bound
}

// receive reads up to want frames; 0 when nothing waits.
func (n *NIC) receive(want int) int {
	for {
		// Raw: the call does not block, so Go's scheduler need not know.
		got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(n.Config.FD), uintptr(unsafe.Pointer(&n.messages)), uintptr(want), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(got)
		case unix.EINTR:
		default:
			// EAGAIN: nothing waits. Anything else will not go away by
			// reading again.
			return 0
		}
	}
}

// enter lets a frame that was read into the fabric.
func (n *NIC) enter(now units.Time, i int) {
	m := &n.messages[i]
	p := n.Pool.NewFrame(int(m.length))
	copy(p.Frame, n.memory[i*packet.MaxFrame:])
	// One that was cut is longer than any link's.
	if m.Flags&unix.MSG_TRUNC != 0 || !p.Parse() {
		n.Entrance.Malformed(now, p)
		return
	}
	n.Entrance.Enter(now, p)
}

// hold leaves the socket alone until the queue is short.
func (n *NIC) hold(now units.Time) {
	n.holds++
	n.watch(0)
	n.timer.Arm(now + n.drained(now))
}

// drained is how long from now the queue will be short, if nothing pauses it.
func (n *NIC) drained(now units.Time) units.Time {
	_, queued := n.Queue.Queued(now)
	return min(max(n.Rate.TimeOf(queued-n.Low), soonest), latest)
}

// Fire looks whether the queue is short again.
func (n *NIC) Fire(now units.Time) {
	if n.full(now, n.Low) {
		n.timer.Arm(now + n.drained(now))
		return
	}
	n.watch(unix.EPOLLIN)
}

func (n *NIC) watch(events uint32) {
	// It is in the set for as long as there is a NIC, so this cannot fail.
	_ = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, n.Config.FD, &unix.EpollEvent{Events: events})
}

// Deliver gives a packet to the guest, which owns it from then on. What its socket
// has no room for is refused.
func (n *NIC) Deliver(now units.Time, p *packet.Packet) {
	b := p.Frame
	if b == nil || p.Sum != 0 {
		n.scratch = gso.Render(p, n.scratch)
		b = n.scratch
	}
	if !n.send(b) {
		n.Entrance.Refused(now, p)
	}
	if n.Delivered != nil {
		n.Delivered(now, 1)
	}
	n.Pool.Free(p)
}

func (n *NIC) send(b []byte) bool {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(n.Config.FD), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}
