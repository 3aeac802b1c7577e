package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/wire"
)

// SetClock sets the clock of the port's node, which is named for the port: nil means an exact one.
// It is called before ConnectLink.
//
// The clock determines how long the serialisation of a packet takes, and the length of pauses,
// which are counted in bit times. Its jitter is between the port's decision to send and the first
// bit on the link: the port begins the next packet as if there were none, so a busy port
// keeps its rate, and the packets keep their order. A link without a rate has neither.
func (p *Port) SetClock(c *nodeclock.Clock) { p.clock = c }

// updateJitter updates the bound of the jitter after a change of the link.
func (p *Port) updateJitter() {
	if p.clock == nil || p.link == nil {
		return
	}
	p.jitter = p.clock.Jitter.On(p.link.Rate(), packet.OnWire(wire.EthernetHeader+p.link.MTU()))
	p.delays = p.jitter > 0
}

// delayPacket adds the jitter of a packet that has been counted as sent.
func (p *Port) delayPacket(pkt *packet.Packet) {
	delay := p.clock.DelayOf(p.tx.packets-1, p.jitter)
	pkt.At += delay
	pkt.Tail += delay // of a link with cut-through; else nobody reads it
}
