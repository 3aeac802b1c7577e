package netnslab

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The kernel checks a token bucket when a packet joins it, and when the packet at
// its head is due at the rate at which it began to wait. In a queue that was held,
// that packet is due in minutes, and all senders may be waiting: so a frame is sent
// to the queue to make the kernel notice that it may continue.

// kickMark is the mark (SO_MARK) of such frames, to which the queue number is added.
// The steering program recognises it.
const kickMark = 0x77656600

// kickQueue masks the queue number in the mark.
const kickQueue = MaxQueues - 1

// Kick is a frame that may be read from a device with Classes after a queue has been
// resumed, and that no program of the host has sent. Readers of the device drop it.
// It is an Ethernet frame with IEEE 802's first EtherType for local experiments,
// even on a TUN, where it is not an IP packet.
var Kick = kickFrame()

func kickFrame() []byte {
	frame := make([]byte, 60)
	n := copy(frame, "\x02weft0\x02weft0\x88\xb5")
	copy(frame[n:], "weft: a traffic class may go on")
	return frame
}

// kickRoom is the send buffer of a kicker, in bytes: a frame takes some 800 and
// waits behind the held packets. An ordinary user gets net.core.wmem_max, which is
// enough for 500.
const kickRoom = 8_000_000

// kicker sends kicks from inside a host.
type kicker struct {
	fd    int
	steer bool // by mark, to one of several queues
}

// newKicker makes a kicker for a device of the calling thread's namespace.
func newKicker(index int, steer bool) (*kicker, error) {
	// Protocol 0: the socket receives nothing.
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

// kickQueue makes the kernel check a queue.
func (k *kicker) kickQueue(queue int) error {
	if k.steer {
		if err := unix.SetsockoptInt(k.fd, unix.SOL_SOCKET, unix.SO_MARK, kickMark|queue&kickQueue); err != nil {
			return fmt.Errorf("mark a frame that resumes a queue: %w", err)
		}
	}
	_, err := unix.Write(k.fd, Kick)
	// If the frame does not fit, the kernel has checked the queue anyway, and in a
	// device that is down nothing is waiting.
	if err == nil || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENETDOWN) {
		return nil
	}
	return fmt.Errorf("send a frame that resumes a queue: %w", err)
}

func (k *kicker) closeKicker() {
	if k != nil {
		unix.Close(k.fd)
	}
}
