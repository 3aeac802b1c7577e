package port

import (
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/wire"
)

// credits is the state of a port with credits, apart from the state of each class, which
// is in its classQueue.
type credits struct {
	gives  uint8          // classes that offer credit to the peer, one bit each
	frame  *packet.Packet // a waiting credit frame; it is filled in when it leaves
	asks   bool           // the frame reports what was sent
	period units.Time     // shortest period of the classes that need credit
}

// startCredits sets up the credits of a port. peer has the configs of the peer's classes.
func (p *Port) startCredits(peer *credit.Configs) {
	c := p.classes
	c.flow.asks = units.Never
	for i := range c.queues {
		q := &c.queues[i]
		if s := c.settings[i].Credits; s != nil {
			c.haveCredits()
			c.credits.gives |= 1 << q.prio
			gives := credit.NewReceiver(s)
			q.gives = &gives
		}
		if s := peer[q.prio]; s != nil {
			c.haveCredits()
			c.gated |= 1 << q.prio
			q.spends = credit.NewSender(s)
			q.leaving |= credited
			c.credits.period = min(c.credits.period, s.Period)
		}
	}
	if c.credits != nil && c.credits.gives != 0 {
		p.owner = &giver{p.owner, p}
	}
}

// giver wraps the owner of a port that gives credits: most packets leave without waiting,
// and their credit is free when the owner is done with them.
type giver struct {
	Owner
	port *Port
}

// InputPacket passes a packet to the owner, and updates the peer if enough has left.
func (g *giver) InputPacket(now units.Time, in *Port, pkt *packet.Packet) {
	g.Owner.InputPacket(now, in, pkt)
	c := g.port.classes
	for m := c.credits.gives; m != 0; m &= m - 1 {
		if c.queue[bits.TrailingZeros8(m)].gives.UpdateIsDue() {
			g.port.sendCredits(now)
			return
		}
	}
}

func (c *classes) haveCredits() {
	if c.credits == nil {
		c.credits = &credits{period: units.Never}
	}
}

// offersCredit reports whether the port gives credits of a class to its peer.
func (c *classes) offersCredit(prio uint8) bool {
	return c.credits != nil && c.credits.gives>>prio&1 != 0
}

// maxFrame returns the longest frame of the link, including two VLAN tags.
func (p *Port) maxFrame() units.Bytes { return p.link.MTU() + wire.EthernetHeader + 8 }

// checkCredit checks whether there is credit for the next packet of a class. If no packet waits,
// it checks for the longest possible one, because an idle port does not check again.
func (p *Port) checkCredit(now units.Time, prio uint8) {
	c, bit := p.classes, uint8(1)<<prio
	q := c.queue[prio]
	var next units.Bytes
	switch {
	case c.ready&bit == 0:
		next = p.maxFrame()
	case c.feedsNext(prio):
		next = q.feeds - wire.EthernetOverhead
	default:
		next = q.headPacket().Size
	}
	lacks := !q.spends.HasCreditFor(next)
	if lacks {
		c.lacking |= bit
	} else {
		c.lacking &^= bit
	}
	c.blocked = c.flow.rx.BlockedClasses() | c.lacking
	waits := lacks && c.ready&bit != 0
	if at := p.freeAt; waits && at != units.Never {
		now = max(now, at) // the line is busy until then
	}
	q.spends.Wait(now, waits)
}

// hasCredit reports whether there is credit for the next packet of a class that is otherwise
// ready to send, and blocks the class if there is none.
func (p *Port) hasCredit(now units.Time, prio uint8) bool {
	p.checkCredit(now, prio)
	return p.classes.lacking>>prio&1 == 0
}

// spendCredit spends the credit of a packet that begins to leave.
func (p *Port) spendCredit(now units.Time, q *classQueue, n units.Bytes) {
	q.spends.SpendCredit(n)
	p.checkCredit(now, q.prio)
	if f := &p.classes.flow; f.asks == units.Never {
		f.asks = now + p.classes.credits.period
		f.armTimer()
	}
}

// reportSent reports what was sent, and repeats the report while not all credit has returned.
func (p *Port) reportSent(now units.Time) {
	c := p.classes
	if c.flow.asks = c.nextAsk(now); c.flow.asks != units.Never {
		c.credits.asks = true
		p.sendCredits(now)
	}
}

func (c *classes) nextAsk(now units.Time) units.Time {
	for m := c.gated; m != 0; m &= m - 1 {
		if !c.queue[bits.TrailingZeros8(m)].spends.AllReturned() {
			return now + c.credits.period
		}
	}
	return units.Never
}

// sendCredits sends a credit frame after the packet being sent. A frame that already waits
// is enough.
func (p *Port) sendCredits(now units.Time) {
	c := p.classes
	if p.link == nil || c.credits.frame != nil {
		return
	}
	pkt := p.pool.NewFrame(wire.CreditFrame)
	pkt.Size, pkt.Dest, pkt.L3, pkt.Ether = wire.CreditFrame, packet.MACControl, wire.EthernetHeader, wire.EtherTypeMACControl
	p.counters.Originated++
	pkt.ID = p.counters.Originated
	c.credits.frame = pkt
	if p.freeAt <= now && c.control.Empty() {
		p.fillCredits(pkt)
		p.transmitPacket(now, pkt)
	} else {
		c.control.Push(pkt)
	}
	p.armNext()
}

// startControl puts the first waiting MAC control frame on the link.
func (p *Port) startControl(now units.Time) {
	c := p.classes
	pkt := c.control.Pop()
	if c.credits != nil && c.credits.frame == pkt {
		p.fillCredits(pkt)
	}
	p.transmitPacket(now, pkt)
}

// fillCredits fills in a frame with the current values. A capture shows with it how much
// has come in and waits in the classes that give credit.
func (p *Port) fillCredits(pkt *packet.Packet) {
	c := p.classes
	says := wire.Credits{Grants: c.credits.gives}
	if c.credits.asks {
		says.Sends = c.gated
	}
	var held units.Bytes
	for m := says.Grants; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		says.Limit[i] = uint16(c.queue[i].gives.CreditUpdate())
		held += c.queue[i].gives.Statistics().Held
	}
	for m := says.Sends; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		says.Sent[i] = uint16(c.queue[i].spends.SentBlocks())
	}
	says.PutFrame(pkt.Frame, c.flow.mac)
	pkt.Fate, pkt.Depth = packet.Credit, uint32(held)
	c.credits.frame, c.credits.asks = nil, false
}

// takeCredits acts on a credit frame.
func (p *Port) takeCredits(now units.Time, says *wire.Credits) {
	c := p.classes
	if c.credits == nil {
		return
	}
	for m := says.Sends & c.credits.gives; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		c.queue[i].gives.ApplySent(credit.Counter(says.Sent[i]))
	}
	for m := says.Grants & c.gated; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		c.queue[i].spends.ApplyLimit(credit.Counter(says.Limit[i]))
		p.checkCredit(now, uint8(i))
	}
	// A copy that the link made may have brought more credit than there is, after all had
	// returned.
	if next := c.nextAsk(now); (next == units.Never) != (c.flow.asks == units.Never) {
		c.flow.asks = next
		c.flow.armTimer()
	}
	if says.Sends&c.credits.gives != 0 {
		p.sendCredits(now)
	}
	if p.freeAt <= now {
		p.startClasses(now)
	} else {
		p.armNext()
	}
}

// heldUp handles a blocked class that now has something to send.
func (p *Port) heldUp(now units.Time, prio uint8) {
	c := p.classes
	if c.gated>>prio&1 != 0 && p.hasCredit(now, prio) && c.blocked>>prio&1 == 0 {
		if p.freeAt != units.Never {
			p.list.timer.Arm(max(now, p.freeAt))
		}
		return
	}
	c.flow.setBacklog(now, c.ready)
}
