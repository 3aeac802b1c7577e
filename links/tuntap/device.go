// Package tuntap joins a port of the fabric to the device of a real host: a
// TAP, which carries Ethernet frames, or a TUN, which carries IP packets and
// for which this package adds and strips Ethernet and answers for the host in
// ARP and neighbour discovery.
//
// The devices are read and written by raw, non-blocking system calls of the
// engine's thread; the fd must not be known to Go's poller. Kernel side:
// drivers/net/tun.c.
package tuntap

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
)

// Entry is where a frame read from a device enters the fabric; it owns the
// packet, whose Frame it has yet to parse.
type Entry func(now units.Time, p *packet.Packet)

// device is what TAP and TUN share.
type device struct {
	fd    int
	pool  *packet.Pool
	entry Entry
	room  int // bytes to read into: a layer-3 packet of the MTU and headers
}

// slack is the room beyond the MTU for an Ethernet header and two VLAN tags.
const slack = 14 + 2*4

// FD is the device's file descriptor, for epoll.
func (d *device) FD() int { return d.fd }

// SetMTU prepares for layer-3 packets of up to mtu bytes.
func (d *device) SetMTU(mtu int) { d.room = min(mtu+slack, packet.MaxFrame) }

// read fills b from the device; it returns 0 when nothing waits.
func (d *device) read(b []byte) int {
	for {
		// Raw: the call does not block, so Go's scheduler need not know.
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(d.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch {
		case errno == 0:
			return int(n)
		case errno == unix.EINTR:
			continue
		default:
			// EAGAIN: the ring is empty. Anything else (EBADFD while the
			// device goes away) will not mend itself by reading again.
			return 0
		}
	}
}

// write hands b to the host's kernel, which runs its receive path at once.
func (d *device) write(b []byte) error {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(d.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno == 0 {
			return nil
		}
		if !errors.Is(errno, syscall.EINTR) {
			return errno
		}
	}
}
