package port

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// PassesAtOnce reports whether the packets of a train, or a packet like pkt, would leave the port and arrive
// at the other end now.
func (p *Port) PassesAtOnce(now units.Time, pkt *packet.Packet) bool {
	return p.ahead && p.point == nil && p.bytes == 0 && p.freeAt <= now && pkt.Size <= p.limit && p.link.PassesAtOnce(pkt.Layer3())
}

// sendTrain sends a train whole if it PassesAtOnce, else packet by packet.
func (p *Port) sendTrain(now units.Time, pkt *packet.Packet) {
	if !p.PassesAtOnce(now, pkt) {
		p.pool.SplitTrain(pkt, func(q *packet.Packet) { p.Send(now, q) })
		return
	}
	p.freeAt = now
	p.tx.addTrain(pkt)
	p.trace.addTrain(now, pkt, packet.Fine)
	p.link.PassTrain(now, pkt)
}

// receiveTrain receives a train. An observer sees its packets.
func (p *Port) receiveTrain(now units.Time, pkt *packet.Packet) {
	if p.observer != nil || p.classes != nil {
		p.pool.SplitTrain(pkt, func(q *packet.Packet) { p.ReceivePacket(now, q) })
		return
	}
	p.rx.addTrain(pkt)
	p.owner.InputPacket(now, p, pkt)
}
