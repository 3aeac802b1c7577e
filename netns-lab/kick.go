package netnslab

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The kernel looks at a token bucket when a packet joins it, and when the one
// that waits was due at the rate at which it began to wait. That of a queue
// that was held is due in minutes, and its senders may all be waiting: so a
// frame is sent there by which the kernel finds out that it may go on.

// kickMark is the mark (SO_MARK) of such frames, to which the number of the
// queue is added. The steering program knows it.
const kickMark = 0x77656600

// kickQueue are the bits of the mark that are the queue's number.
const kickQueue = MaxQueues - 1

// Kick is a frame that a device with Classes gives now and then, when a queue
// has been resumed, and that no program of the host has sent. Readers of the
// device drop it. It is an Ethernet frame with IEEE 802's first EtherType for
// local experiments, also at a TUN, where it is no IP packet.
var Kick = kickFrame()

func kickFrame() []byte {
	frame := make([]byte, 60)
	n := copy(frame, "\x02weft0\x02weft0\x88\xb5")
	copy(frame[n:], "weft: a traffic class may go on")
	return frame
}

// kickRoom is the send buffer of a kicker, in bytes: a frame takes some 800 and
// waits behind what was held. An ordinary user gets net.core.wmem_max, which is
// enough for 500.
const kickRoom = 8_000_000

// kicker sends kicks from inside a host.
type kicker struct {
	fd    int
	steer bool // by mark, to one of several queues
}

// newKicker makes a kicker for a device of the calling thread's namespace.
func newKicker(index int, steer bool) (*kicker, error) {
	// Protocol 0: it is not to receive anything.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w (it needs CONFIG_PACKET)", err)
	}
	k := &kicker{fd: fd, steer: steer}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, kickRoom)
	if errors.Is(err, unix.EPERM) {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, kickRoom)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return k, nil
}

// send makes the kernel look at a queue.
func (k *kicker) send(queue int) error {
	if k.steer {
		if err := unix.SetsockoptInt(k.fd, unix.SOL_SOCKET, unix.SO_MARK, kickMark|queue&kickQueue); err != nil {
			return fmt.Errorf("mark a frame that resumes a queue: %w", err)
		}
	}
	_, err := unix.Write(k.fd, Kick)
	// Where the frame does not fit the kernel has looked all the same, and a
	// device that is down has nothing that waits.
	if err == nil || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENETDOWN) {
		return nil
	}
	return fmt.Errorf("send a frame that resumes a queue: %w", err)
}

func (k *kicker) close() {
	if k != nil {
		unix.Close(k.fd)
	}
}
