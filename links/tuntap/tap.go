package tuntap

import (
	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
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

// Poll reads up to max packets and lets them enter the fabric at now. It
// returns how many it read; a super-packet may exceed max.
func (t *TAP) Poll(now units.Time, max int) int {
	if t.offload != nil {
		return t.offload.poll(now, max)
	}
	for i := range max {
		p := t.readFrame()
		if p == nil {
			return i
		}
		t.enter(now, p)
	}
	return max
}

// Deliver gives a packet to the host, which owns it from then on.
func (t *TAP) Deliver(now units.Time, p *packet.Packet) { t.deliver(now, p) }
