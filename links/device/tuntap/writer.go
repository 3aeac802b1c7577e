package tuntap

import (
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/links/device/uring"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// maxWrites is the maximum number of an engine's writes that wait for their system
// call: a host begins with the first while the engine makes the others.
const maxWrites = 16

// writer writes a device through a ring.
type writer struct {
	device  *device
	ring    *uring.Ring
	handler int
	file    int
	waiting []write
	after   func() // finish
}

// write is a packet waiting to be written.
type write struct {
	due    units.Time
	packet *packet.Packet
	failed bool
}

func newWriter(d *device, r *uring.Ring, file int) *writer {
	w := &writer{device: d, ring: r, file: file}
	w.handler = r.RegisterHandler(w)
	w.after = w.freeWritten
	return w
}

// addPacket queues a packet, which is written at the latest when the engine has no more
// work at the present time.
func (w *writer) addPacket(now units.Time, p *packet.Packet) {
	if w.ring.QueuedRequests() >= maxWrites {
		w.ring.SubmitQueued()
	}
	d := w.device
	if p.Frame == nil || p.Sum != 0 {
		c := d.Pool.RestoreFrame(p)
		c.Frame = gso.RenderPacket(p, c.Frame)
		d.Pool.Free(p)
		p = c
	}
	if len(w.waiting) == 0 {
		w.ring.AfterSubmit(w.after)
	}
	w.ring.Write(w.handler, w.file, uint32(len(w.waiting)), p.Frame[d.skippedBytes(p):])
	w.waiting = append(w.waiting, write{due: now, packet: p})
}

// OnCompletion takes the result of a write.
func (w *writer) OnCompletion(number uint32, result int, _ uint16, _ bool) {
	w.waiting[number].failed = result < 0
}

// freeWritten counts and frees the packets that have been written.
func (w *writer) freeWritten() {
	d := w.device
	for i := 0; i < len(w.waiting); {
		due, first := w.waiting[i].due, i
		for ; i < len(w.waiting) && w.waiting[i].due == due; i++ {
			x := &w.waiting[i]
			if x.failed {
				d.Entrance.Refused(due, x.packet)
			}
			d.Pool.Free(x.packet)
		}
		if d.Delivered != nil {
			d.Delivered(due, i-first)
		}
	}
	w.waiting = w.waiting[:0]
}
