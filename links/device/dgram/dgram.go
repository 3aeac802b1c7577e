// Package dgram joins a port of the fabric to the NIC of a virtual machine: a
// datagram socket on which each message is one Ethernet frame without FCS, as in
// QEMU's -netdev dgram (net/dgram.c).
//
// The engine's thread reads and writes the socket with raw, non-blocking system
// calls; the socket must not be registered with Go's poller.
//
// A NIC of a virtual machine has no shaper. Its frames are read as long as the
// port's queue in the fabric, which drains at the link's rate, is short. When the
// queue is long, the socket is not read until the queue has drained. The socket then
// fills, QEMU leaves packets in the ring of the guest's NIC, and further packets
// wait in the guest's own queueing discipline, as they do behind a real NIC.
package dgram

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Entrance is where packets from a NIC enter the fabric.
type Entrance interface {
	// Enter is given a packet whose Frame has been parsed, and owns it.
	Enter(now units.Time, p *packet.Packet)
	// Malformed is given a packet whose Frame is not a valid frame, and owns it.
	Malformed(now units.Time, p *packet.Packet)
	// Refused is called for a delivered packet that the guest did not take. The
	// packet is valid only during the call.
	Refused(now units.Time, p *packet.Packet)
}

// Queue is the egress queue of a port.
type Queue interface {
	QueueLength(now units.Time) (packets int, bytes units.Bytes)
}

// Config holds the parameters of a NIC.
type Config struct {
	FD       int // one of a pair of AF_UNIX sockets of SOCK_DGRAM, connected
	Pool     *packet.Pool
	Entrance Entrance
	// Queue is where the NIC's packets wait for its link. Once it holds more than
	// High, nothing is read until it holds at most Low; Low is less than High and
	// not negative. Rate is the link's rate. Engine is the engine of Pool.
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
	// soonest and latest bound the time until a full queue is checked again.
	soonest = 20 * units.Microsecond
	latest  = units.Millisecond
)

// NIC is the fabric's side of a virtual machine's network interface.
type NIC struct {
	Config
	// epoll watches the socket, and is itself watched by the engine's thread: a
	// socket that is on hold is removed from it.
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

// FD returns a descriptor that is readable when a frame is waiting to be read.
func (n *NIC) FD() int { return n.epoll }

// HeldCount returns how often the guest was held because its port's queue was long.
func (n *NIC) HeldCount() uint64 { return n.holds }

// AdoptLink adopts the bounds and the rate of a link that has changed.
func (n *NIC) AdoptLink(high, low units.Bytes, rate units.Rate) {
	n.High, n.Low, n.Rate = high, low, rate
}

// Close closes the socket. It must no longer be polled.
func (n *NIC) Close() error { return errors.Join(unix.Close(n.epoll), unix.Close(n.Config.FD)) }

// PollInput reads up to max frames and lets them enter the fabric at now. It returns how
// many it read.
func (n *NIC) PollInput(now units.Time, max int) (read int) {
	for read < max {
		if n.isFull(now, n.High) {
			n.pauseReading(now)
			return read
		}
		got := n.receiveFrames(min(max-read, batch))
		for i := range got {
			n.enterFrame(now, i)
		}
		if read += got; got < batch {
			return read
		}
	}
	return read
}

func (n *NIC) isFull(now units.Time, bound units.Bytes) bool {
	_, queued := n.Queue.QueueLength(now)
	return queued > bound
}

// receiveFrames reads up to want frames and returns their number, 0 when none is waiting.
func (n *NIC) receiveFrames(want int) int {
	for {
		// Raw: the call does not block, so Go's scheduler need not know.
		got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(n.Config.FD), uintptr(unsafe.Pointer(&n.messages)), uintptr(want), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(got)
		case unix.EINTR:
		default:
			// EAGAIN: nothing is waiting. Reading again would not clear any other error.
			return 0
		}
	}
}

// enterFrame lets a frame that was read into the fabric.
func (n *NIC) enterFrame(now units.Time, i int) {
	m := &n.messages[i]
	p := n.Pool.NewFrame(int(m.length))
	copy(p.Frame, n.memory[i*packet.MaxFrame:])
	// A truncated frame is longer than any link carries.
	if m.Flags&unix.MSG_TRUNC != 0 || !p.Parse() {
		n.Entrance.Malformed(now, p)
		return
	}
	n.Entrance.Enter(now, p)
}

// pauseReading stops reading the socket until the queue is short.
func (n *NIC) pauseReading(now units.Time) {
	n.holds++
	n.watchEvents(0)
	n.timer.Arm(now + n.timeToDrain(now))
}

// timeToDrain returns the time until the queue is short, if nothing pauses it.
func (n *NIC) timeToDrain(now units.Time) units.Time {
	_, queued := n.Queue.QueueLength(now)
	return min(max(n.Rate.TimeOf(queued-n.Low), soonest), latest)
}

// Fire checks whether the queue is short again.
func (n *NIC) Fire(now units.Time) {
	if n.isFull(now, n.Low) {
		n.timer.Arm(now + n.timeToDrain(now))
		return
	}
	n.watchEvents(unix.EPOLLIN)
}

func (n *NIC) watchEvents(events uint32) {
	// The socket is in the set for as long as the NIC exists, so this cannot fail.
	_ = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, n.Config.FD, &unix.EpollEvent{Events: events})
}

// DeliverPacket gives a packet to the guest and takes ownership of it. A packet that the
// socket has no room for is refused.
func (n *NIC) DeliverPacket(now units.Time, p *packet.Packet) {
	b := p.Frame
	if b == nil || p.Sum != 0 {
		n.scratch = gso.RenderPacket(p, n.scratch)
		b = n.scratch
	}
	if !n.sendFrame(b) {
		n.Entrance.Refused(now, p)
	}
	if n.Delivered != nil {
		n.Delivered(now, 1)
	}
	n.Pool.Free(p)
}

func (n *NIC) sendFrame(b []byte) bool {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(n.Config.FD), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}
