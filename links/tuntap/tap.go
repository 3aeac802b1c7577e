package tuntap

import (
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// TAP is a device that carries Ethernet frames.
type TAP struct{ device }

// NewTAP takes over the fd of a TAP.
func NewTAP(c Config) *TAP {
	t := &TAP{device{Config: c}}
	t.SetMTU(c.MTU)
	if c.Offload {
		t.offload = newOffload(&t.device, nil)
	}
	return t
}

// Poll reads up to max packets of the first queue and lets them enter the fabric at now. It
// returns how many it read; a super-packet may exceed max.
func (t *TAP) Poll(now units.Time, max int) int { return t.poll(t.FD, now, max) }

// Queues are those of FD and More, to be polled one by one.
func (t *TAP) Queues() []*Queue { return t.queues(t.poll) }

func (t *TAP) poll(fd int, now units.Time, max int) int {
	if t.offload != nil {
		return t.offload.poll(fd, now, max)
	}
	for i := range max {
		p := t.readFrame(fd)
		if p == nil {
			return i
		}
		if t.ignores(p.Frame) {
			t.Pool.Free(p)
			continue
		}
		t.enter(now, p)
	}
	return max
}

// Deliver gives a packet to the host, which owns it from then on.
func (t *TAP) Deliver(now units.Time, p *packet.Packet) { t.deliver(now, p) }
