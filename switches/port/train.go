package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// Passes reports whether the packets of a train, or a packet like k, would leave the port and arrive
// at the other end now.
func (p *Port) Passes(now units.Time, k *packet.Packet) bool {
	return p.ahead && p.point == nil && p.bytes == 0 && p.freeAt <= now && k.Size <= p.limit && p.link.Passes(k.Layer3())
}

// sendTrain sends a train whole if it Passes, else packet by packet.
func (p *Port) sendTrain(now units.Time, k *packet.Packet) {
	if !p.Passes(now, k) {
		p.pool.Split(k, func(q *packet.Packet) { p.Send(now, q) })
		return
	}
	p.freeAt = now
	p.tx.addTrain(k)
	p.trace.addTrain(now, k, packet.Fine)
	p.link.PassTrain(now, k)
}

// receiveTrain receives a train. An observer sees its packets.
func (p *Port) receiveTrain(now units.Time, k *packet.Packet) {
	if p.observer != nil || p.classes != nil {
		p.pool.Split(k, func(q *packet.Packet) { p.Receive(now, q) })
		return
	}
	p.rx.addTrain(k)
	p.owner.Input(now, p, k)
}
