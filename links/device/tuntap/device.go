// Package tuntap joins a port of the fabric to the device of a real host: a
// TAP, which carries Ethernet frames, or a TUN, which carries IP packets and for
// which this package adds and strips Ethernet headers and answers ARP and neighbour
// discovery on behalf of the host. Either may carry super-packets (offload.go).
//
// The engine's thread reads and writes the devices with raw, non-blocking system
// calls or through its io_uring (reader.go, writer.go); the fd must not be
// registered with Go's poller. Kernel side: drivers/net/tun.c.
//
// With a ring the kernel reads into packets that it was given, and completes reads only
// within the engine's own system call. Writes wait until there are maxWrites or the turn
// ends. They never block (RWF_NOWAIT), so a packet is free when the call returns. Devices
// with offload keep their system calls: writing 64 KB before the next are read keeps them
// in the cache.
package tuntap

import (
	"bytes"
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// Entrance is where packets from a device enter the fabric.
type Entrance interface {
	// Enter is given a packet whose Frame has been parsed, and owns it.
	Enter(now units.Time, p *packet.Packet)
	// EnterSuper is given a super-packet to split and the common fields of its
	// pieces, as made by gso.PrepareSuper. It owns s.
	EnterSuper(now units.Time, s *packet.Super, head *packet.Packet)
	// Malformed is given a packet whose Frame is not a valid frame, and owns it.
	Malformed(now units.Time, p *packet.Packet)
	// Refused is called for a delivered packet that the host's kernel did not take.
	// The packet is valid only during the call.
	Refused(now units.Time, p *packet.Packet)
}

// Config holds the parameters of a device.
type Config struct {
	FD  int // opened with IFF_NO_PI; with IFF_VNET_HDR if and only if Offload is set
	MTU int // bytes of layer-3 packet
	// More are the descriptors of further queues of the device, into which the
	// host's kernel sorts its packets. They are only read: all delivered packets are
	// written to FD, in order.
	More []int
	// Ignore is a frame that is dropped when it is read; nil if there is none.
	Ignore   []byte
	Pool     *packet.Pool
	Entrance Entrance
	// Delivered is called after every write with the number of packets in it
	// and the emulated time of the write. May be nil.
	Delivered func(now units.Time, packets int)

	// Offload means that the device carries super-packets. Then Engine is the engine
	// of Pool, and Window is how long a packet may wait to be joined with others.
	Offload bool
	Engine  *sim.Engine
	Window  units.Time
}

// device is the common part of TAP and TUN.
type device struct {
	Config
	front   int                     // bytes of Ethernet header that the device does not carry
	dress   func(frame []byte) bool // fills in those; false drops the frame; nil if front is 0
	room    int                     // bytes of read buffer: a layer-3 packet of the MTU and headers
	scratch []byte
	offload *offload // nil without
	ignored uint64
	queue   uint16 // being read
	queues  []*Queue
	writer  *writer // nil without a ring
}

// Queue is one of the queues of a device, to be polled.
type Queue struct {
	device *device
	number uint16
	fd     int
	reader *reader // nil without a ring
}

// FD is the queue's file descriptor, for epoll.
func (q *Queue) FD() int { return q.fd }

// PollInput reads up to max packets of the queue and lets them enter the fabric at now.
// It returns how many it read; super-packets may exceed max (superCost). In of the
// packets is the queue's number; FD is queue 0.
func (q *Queue) PollInput(now units.Time, max int) int {
	q.device.queue = q.number
	if q.reader != nil {
		return q.reader.pollPackets(now, max)
	}
	return q.device.pollQueue(q.fd, now, max)
}

// Queues returns the queues of FD and More, to be polled one by one.
func (d *device) Queues() []*Queue {
	if d.queues == nil {
		for i, fd := range append([]int{d.FD}, d.More...) {
			d.queues = append(d.queues, &Queue{device: d, number: uint16(i), fd: fd})
		}
	}
	return d.queues
}

// slack is the room beyond the MTU for an Ethernet header and two VLAN tags.
const slack = wire.EthernetHeader + 2*wire.VLANTag

// SetMTU adapts to layer-3 packets of up to mtu bytes.
func (d *device) SetMTU(mtu int) {
	d.room = min(mtu+slack, packet.MaxFrame)
	for _, q := range d.queues {
		if q.reader != nil {
			q.reader.resizeBuffers()
		}
	}
}

// IgnoredFrames returns the number of frames that were dropped because they equal Config.Ignore.
func (d *device) IgnoredFrames() uint64 { return d.ignored }

// Poll reads up to max packets of the first queue and lets them enter the fabric at now. It
// returns how many it read; super-packets may exceed max (superCost).
func (d *device) Poll(now units.Time, max int) int { return d.pollQueue(d.FD, now, max) }

func (d *device) pollQueue(fd int, now units.Time, max int) int {
	if d.offload != nil {
		return d.offload.pollQueue(fd, now, max)
	}
	for i := range max {
		p := d.readFrame(fd)
		if p == nil {
			return i
		}
		d.admitFrame(now, p)
	}
	return max
}

// admitFrame lets a frame that was read enter the fabric, unless it is to be dropped.
func (d *device) admitFrame(now units.Time, p *packet.Packet) {
	if !d.acceptFrame(p.Frame) {
		d.Pool.Free(p)
		return
	}
	d.enterFrame(now, p)
}

// acceptFrame reports whether a frame that was read enters the fabric, and fills in the
// Ethernet header that the device does not carry.
func (d *device) acceptFrame(frame []byte) bool {
	return !d.ignoresFrame(frame[d.front:]) && (d.dress == nil || d.dress(frame))
}

// ignoresFrame reports whether b, which was read, equals Ignore, and counts it.
func (d *device) ignoresFrame(b []byte) bool {
	if d.Ignore == nil || !bytes.Equal(b, d.Ignore) {
		return false
	}
	d.ignored++
	return true
}

// readFrame reads one frame into a packet. It returns nil when nothing is waiting.
func (d *device) readFrame(fd int) *packet.Packet {
	p := d.Pool.NewFrame(d.room)
	n := readFrame(fd, p.Frame[d.front:])
	if n == 0 {
		d.Pool.Free(p)
		return nil
	}
	p.Frame = p.Frame[:d.front+n]
	return p
}

// enterFrame lets a frame into the fabric.
func (d *device) enterFrame(now units.Time, p *packet.Packet) {
	if !p.Parse() {
		d.Entrance.Malformed(now, p)
		return
	}
	p.In = d.queue
	d.Entrance.Enter(now, p)
}

// deliverPacket hands a packet to the host, or holds it to be joined with others.
func (d *device) deliverPacket(now units.Time, p *packet.Packet) {
	if d.offload != nil {
		d.offload.addPacket(now, p)
		return
	}
	if d.writer != nil {
		d.writer.addPacket(now, p)
		return
	}
	b := p.Frame
	if b == nil || p.Sum != 0 {
		d.scratch = gso.RenderPacket(p, d.scratch)
		b = d.scratch
	}
	if d.writeFrame(b[d.skippedBytes(p):]) != nil {
		d.Entrance.Refused(now, p)
	}
	if d.Delivered != nil {
		d.Delivered(now, 1)
	}
	d.Pool.Free(p)
}

// deliverTrain is deliver for all packets of a train.
func (d *device) deliverTrain(now units.Time, p *packet.Packet) {
	if d.offload != nil {
		d.offload.addPacket(now, p)
		return
	}
	d.Pool.SplitTrain(p, func(q *packet.Packet) { d.deliverPacket(now, q) })
}

// skippedBytes returns the number of bytes of a frame that the device does not carry.
func (d *device) skippedBytes(p *packet.Packet) int {
	if d.front > 0 {
		return int(p.L3)
	}
	return 0
}

// readFrame fills b from a queue; it returns 0 when nothing is waiting.
func readFrame(fd int, b []byte) int {
	for {
		// Raw: the call does not block, so Go's scheduler need not know.
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch {
		case errno == 0:
			return int(n)
		case errno == unix.EINTR:
			continue
		default:
			// EAGAIN: the ring is empty. Reading again would not clear any other
			// error (EBADFD while the device goes away).
			return 0
		}
	}
}

// writeFrame hands b to the host's kernel, which runs its receive path at once.
func (d *device) writeFrame(b []byte) error {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(d.FD), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno == 0 {
			return nil
		}
		if !errors.Is(errno, syscall.EINTR) {
			return errno
		}
	}
}
