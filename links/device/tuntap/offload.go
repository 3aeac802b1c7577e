package tuntap

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// offload is the part of a device that carries super-packets: a read returns up to
// 64 KB of TCP or UDP, which are split into packets, and a write takes a run of
// joined packets.
type offload struct {
	device *device
	joiner *gso.Joiner
	timer  sim.Timer // the end of the oldest open run's window
	now    units.Time

	spare *packet.Super // for the next read
	head  packet.Packet

	counts Offloaded
	held   *hdrhistogram.Histogram // ns
}

// Offloaded counts the packets that a device has split and joined. It also says how
// long packets that opened a run waited for others, in emulated time: this is the
// delay added by the join window.
type Offloaded struct {
	Supers uint64 // super-packets read from the host
	Pieces uint64 // packets they were split into

	Written uint64 // packets written to the host
	Writes  uint64 // system calls for them

	HeldP50, HeldP99, HeldMax units.Time
}

// maxHeld bounds the histogram of waiting times: windows are at most a millisecond.
const maxHeld = 10 * units.Millisecond

func newOffload(d *device) *offload {
	o := &offload{device: d, held: hdrhistogram.New(1, int64(maxHeld/units.Nanosecond), 2)}
	o.joiner = gso.NewJoiner(d.Pool, o, d.front > 0)
	o.timer = d.Engine.NewTimer(o)
	return o
}

// OffloadCounters returns the device's counters of split and joined packets; zero without offload.
func (d *device) OffloadCounters() Offloaded {
	o := d.offload
	if o == nil {
		return Offloaded{}
	}
	c := o.counts
	at := func(percent float64) units.Time {
		return units.Time(o.held.ValueAtQuantile(percent)) * units.Nanosecond
	}
	c.HeldP50, c.HeldP99, c.HeldMax = at(50), at(99), at(100)
	return c
}

// Flush writes the packets that are held for joining.
func (d *device) Flush(now units.Time) {
	if d.offload != nil {
		d.offload.now = now
		d.offload.joiner.Flush()
	}
}

// superCost is how many packets a super-packet counts as in a turn, unless it has
// fewer: the kernel's copies and its TCP take about as long for 64 KB as for ten
// packets that come alone. If all 45 counted, a turn would end after each of them.
const superCost = 8

// pollQueue reads a queue until it has as many packets as most or nothing is waiting.
func (o *offload) pollQueue(fd int, now units.Time, maxPackets int) (n int) {
	// The virtio header comes before the frame, or where the Ethernet header that the
	// device does not carry will be.
	front := o.device.front
	begin := max(front, gso.HeaderLen)
	for cost := 0; cost < maxPackets; {
		s := o.spare
		if s == nil {
			s = o.device.Pool.NewSuper()
			o.spare = s
		}
		room := s.DataRoom()
		length := readFrame(fd, room[begin-gso.HeaderLen:])
		if length < gso.HeaderLen {
			return n
		}
		h := gso.DecodeHeader(room[begin-gso.HeaderLen:])
		frame := room[begin-front : begin+length-gso.HeaderLen]
		if !o.device.acceptFrame(frame) {
			n++
			cost++
			continue
		}
		packets := o.enterPackets(now, s, h, frame)
		n += packets
		cost += min(packets, superCost)
	}
	return n
}

// enterPackets lets the packets of a read enter the fabric and returns their number.
func (o *offload) enterPackets(now units.Time, s *packet.Super, h gso.Header, frame []byte) int {
	d := o.device
	if h.GSOType == gso.GSONone {
		p := o.copyFrame(frame)
		if len(frame) > packet.MaxFrame || !p.Parse() || gso.MarkPartial(p, h, d.front) != nil {
			d.Entrance.Malformed(now, p)
		} else {
			p.In = d.queue
			d.Entrance.Enter(now, p)
		}
		return 1
	}
	s.Data = frame
	if gso.PrepareSuper(s, h, &o.head) != nil {
		d.Entrance.Malformed(now, o.copyFrame(frame))
		return 1
	}
	o.spare, o.head.In = nil, d.queue
	n := (len(s.Data) - int(s.Payload) + int(s.Segment) - 1) / int(s.Segment)
	o.counts.Supers++
	o.counts.Pieces += uint64(n)
	d.Entrance.EnterSuper(now, s, &o.head)
	return n
}

// copyFrame makes a packet with its own copy of the frame, so that a short frame does not
// pin 64 KB.
func (o *offload) copyFrame(frame []byte) *packet.Packet {
	p := o.device.Pool.NewFrame(min(len(frame), packet.MaxFrame))
	copy(p.Frame, frame)
	return p
}

// addPacket takes a packet for the host.
func (o *offload) addPacket(now units.Time, p *packet.Packet) {
	o.now = now
	o.joiner.AddPacket(now, p)
	if o.timer.DueTime() == units.Never {
		if first, open := o.joiner.OldestRun(); open {
			o.timer.Arm(first + o.device.Window)
		}
	}
}

// Fire ends the window of the oldest open run.
func (o *offload) Fire(now units.Time) {
	first, open := o.joiner.OldestRun()
	switch {
	case !open:
	case first+o.device.Window > now: // the run that the timer was for is gone
		o.timer.Arm(first + o.device.Window)
	default:
		o.now = now
		o.joiner.Flush()
	}
}

// WriteRun hands a run to the host's kernel.
func (o *offload) WriteRun(r *gso.Run) {
	d := o.device
	if o.writev(r.Iov) == nil {
		o.countRun(r)
	} else {
		for p := r.List; p != nil; p = p.Next {
			d.Entrance.Refused(o.now, p)
		}
	}
	if d.Delivered != nil {
		d.Delivered(o.now, r.Packets)
	}
}

// countRun counts a run that has been written.
func (o *offload) countRun(r *gso.Run) {
	o.counts.Written += uint64(r.Packets)
	o.counts.Writes++
	if r.Packets > 1 || o.now > r.First {
		_ = o.held.RecordValue(min(int64((o.now-r.First)/units.Nanosecond), o.held.HighestTrackableValue()))
	}
}

func (o *offload) writev(iov []unix.Iovec) error {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(o.device.FD), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
		if errno == 0 {
			return nil
		}
		if !errors.Is(errno, syscall.EINTR) {
			return errno
		}
	}
}
