package tuntap

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// TAP is a device that carries Ethernet frames.
type TAP struct{ device }

// NewTAP takes over the fd of a TAP.
func NewTAP(c Config) *TAP {
	t := &TAP{device{Config: c}}
	t.SetMTU(c.MTU)
	if c.Offload {
		t.offload = newOffload(&t.device)
	}
	return t
}

// DeliverPacket gives a packet to the host and takes ownership of it.
func (t *TAP) DeliverPacket(now units.Time, p *packet.Packet) { t.deliverPacket(now, p) }

// DeliverTrain hands the packets of a packet.Train to the host.
func (t *TAP) DeliverTrain(now units.Time, p *packet.Packet) { t.deliverTrain(now, p) }
