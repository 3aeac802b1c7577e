package tuntap

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/links/device/uring"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// ringBuffers is how many packets of a queue are read ahead of the engine: as many
// as it takes in a turn.
const ringBuffers = 32

// reader reads a queue through a ring, directly into the memory of packets.
type reader struct {
	queue   *Queue
	ring    *uring.Ring
	handler int
	file    int
	buffers *uring.Buffers
	ready   func()
	armed   bool // a read is in progress
	removed bool // the device is gone

	packets []*packet.Packet // by buffer
	got     []arrival
	first   int // first of got that has not entered
}

// arrival is a filled buffer.
type arrival struct {
	buffer uint16
	length int
}

// UsesRing reports whether the device should use a ring. Super-packets are better read
// one at a time: if each is written before the next is read, it is still in the
// processor's cache.
func (q *Queue) UsesRing() bool { return q.device.offload == nil }

// Start makes r read the queue and write the device, in place of separate system
// calls. ready is called when there is something for Poll. Until Stop the descriptor
// is blocking.
func (q *Queue) Start(r *uring.Ring, ready func()) (err error) {
	n := &reader{queue: q, ring: r, ready: ready, packets: make([]*packet.Packet, ringBuffers)}
	n.handler = r.RegisterHandler(n)
	if n.file, err = r.Open(q.fd); err != nil {
		return err
	}
	if n.buffers, err = r.NewBuffers(uint16(n.handler), ringBuffers); err != nil {
		return err
	}
	if err := unix.SetNonblock(q.fd, false); err != nil {
		n.buffers.Close()
		return fmt.Errorf("make a device blocking: %w", err)
	}
	for i := range n.packets {
		n.fillBuffer(uint16(i))
	}
	n.buffers.PublishBuffers()
	n.armRead()
	q.reader = n
	if q.number == 0 {
		q.device.writer = newWriter(q.device, r, n.file)
	}
	return nil
}

// Stop goes back to system calls. The ring has been closed; packets that it has read
// and that have not entered the fabric are lost, like those waiting in the device's
// own ring.
func (q *Queue) Stop() {
	n := q.reader
	if n == nil {
		return
	}
	n.buffers.Close()
	for _, p := range n.packets {
		q.device.Pool.Free(p)
	}
	q.reader, q.device.writer = nil, nil
	_ = unix.SetNonblock(q.fd, true)
}

// NeedsPoll reports whether Poll should be called.
func (q *Queue) NeedsPoll() bool {
	n := q.reader
	return n.first < len(n.got) || !n.armed && !n.removed
}

// fillBuffer gives the kernel a packet to read into.
func (n *reader) fillBuffer(buffer uint16) {
	d := n.queue.device
	p := d.Pool.NewFrame(d.room)
	n.packets[buffer] = p
	n.buffers.PutBuffer(buffer, p.Frame[d.front:])
}

// resizeBuffers replaces the kernel's buffers with packets of another size. The kernel
// accesses them only within Enter, on this thread.
func (n *reader) resizeBuffers() {
	d := n.queue.device
	filled := make([]bool, len(n.packets))
	for _, a := range n.got[n.first:] {
		filled[a.buffer] = true
	}
	for i, p := range n.packets {
		if !filled[i] {
			d.Pool.Free(p)
			n.packets[i] = d.Pool.NewFrame(d.room)
			n.buffers.ReplaceBuffer(uint16(i), n.packets[i].Frame[d.front:])
		}
	}
}

func (n *reader) armRead() {
	n.armed = true
	n.ring.ReadMultishot(n.handler, n.file, n.buffers)
}

// OnCompletion takes a completed read.
func (n *reader) OnCompletion(_ uint32, result int, buffer uint16, more bool) {
	if result > 0 {
		n.got = append(n.got, arrival{buffer, result})
	}
	if !more {
		n.armed = false
		switch unix.Errno(max(-result, 0)) {
		case 0, unix.ENOBUFS, unix.EAGAIN, unix.EINTR, unix.ENOMEM: // no buffer is left: Poll reads on
		default:
			n.removed = true
		}
	}
	if n.queue.NeedsPoll() {
		n.ready()
	}
}

// pollPackets lets up to max packets enter the fabric.
func (n *reader) pollPackets(now units.Time, max int) (count int) {
	d := n.queue.device
	for ; count < max && n.first < len(n.got); count++ {
		a := n.got[n.first]
		n.first++
		p := n.packets[a.buffer]
		n.fillBuffer(a.buffer)
		p.Frame = p.Frame[:d.front+a.length]
		d.admitFrame(now, p)
	}
	if n.first == len(n.got) {
		n.got, n.first = n.got[:0], 0
	}
	n.buffers.PublishBuffers()
	if !n.armed && !n.removed {
		n.armRead()
	}
	return count
}
