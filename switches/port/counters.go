package port

import (
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// Counters counts what a port did since the start of the run.
type Counters struct {
	RxPackets, RxBytes uint64 // received, including those with a bad FCS
	TxPackets, TxBytes uint64 // whose sending has begun, including those lost on the link
	QueueCounters
	Losses
}

// QueueCounters counts events in a port's queue, and frames that the port sends and
// consumes itself.
type QueueCounters struct {
	Marked        uint64
	Trimmed       uint64
	Returned      uint64      // trimmed and sent back
	Originated    uint64      // MAC control frames that the port generated
	Consumed      uint64      // MAC control frames that it consumed
	PausesIgnored uint64      // of those, frames that asked for a pause that the port does not obey
	MaxQueue      units.Bytes // maximum length of the queue
	area          area
	since         units.Time // of the last change of the queue
}

// Losses counts packets that were lost at a port or on its link.
type Losses struct {
	Drops     [packet.FateCount]uint64 // by reason
	DropBytes uint64
}

// losses are the Losses of a port and who had them.
type losses struct {
	Losses
	losers losers
}

// area is ∫ queue dt in byte·picoseconds: 128 bits.
type area struct{ high, low uint64 }

func (a *area) addBytes(n units.Bytes, t units.Time) {
	high, low := bits.Mul64(uint64(n), uint64(t))
	var carry uint64
	a.low, carry = bits.Add64(a.low, low, 0)
	a.high += high + carry
}

func (a *area) subtractBytes(n units.Bytes, t units.Time) {
	high, low := bits.Mul64(uint64(n), uint64(t))
	var borrow uint64
	a.low, borrow = bits.Sub64(a.low, low, 0)
	a.high -= high + borrow
}

// addArea adds another area.
func (a *area) addArea(b area) {
	var carry uint64
	a.low, carry = bits.Add64(a.low, b.low, 0)
	a.high += b.high + carry
}

// meanOver returns the mean in bytes over a time, or 0 if t is 0.
func (a area) meanOver(t units.Time) float64 {
	if t <= 0 {
		return 0
	}
	return (float64(a.high)*(1<<64) + float64(a.low)) / float64(t)
}

// integrateQueue accounts for a queue length of n bytes since the last change.
func (c *QueueCounters) integrateQueue(now units.Time, n units.Bytes) {
	c.area.addBytes(n, now-c.since)
	c.since = now
}

// MeanQueue returns the time average of the queue's length in bytes between two
// snapshots of one port's counters; from is the earlier one.
func (c Counters) MeanQueue(from Counters) float64 {
	if c.since <= from.since {
		return 0
	}
	low, borrow := bits.Sub64(c.area.low, from.area.low, 0)
	high, _ := bits.Sub64(c.area.high, from.area.high, borrow)
	return area{high, low}.meanOver(c.since - from.since)
}

// DroppedPackets returns the sum of Drops.
func (c *Counters) DroppedPackets() (n uint64) {
	for _, d := range c.Drops {
		n += d
	}
	return n
}

// Counters returns a copy as of now.
func (p *Port) Counters(now units.Time) Counters {
	p.drainDeparted(now)
	c := Counters{QueueCounters: p.counters}
	if p.losses != nil {
		c.Losses = p.losses.Losses
	}
	c.MaxQueue = max(c.MaxQueue, p.longest)
	c.RxPackets, c.RxBytes, c.TxPackets, c.TxBytes = p.rx.packets, p.rx.bytes, p.tx.packets, p.tx.bytes
	if p.classes != nil {
		p.classes.sumCounters(now, &c)
		return c
	}
	if !p.ahead {
		c.integrateQueue(now, p.bytes)
		return c
	}
	// Departures computed ahead of time have not happened yet.
	p.subtractWait(&c.QueueCounters, now)
	c.since = now
	c.TxPackets -= uint64(p.promised.Len())
	c.TxBytes -= uint64(p.bytes)
	return c
}

// trace is a sum of hashes of all actions of a port and their times. Each port has
// a separate sum, and a sum has no order. So it depends neither on the order in
// which ports of different parts of a fabric act nor on when the port computes a
// later event.
type trace uint64

func (t *trace) addAction(at units.Time, pkt *packet.Packet, fate packet.Fate) {
	*t += hashAction(at, pkt.ID, pkt, fate)
}

// addTrain adds each packet of a train.
func (t *trace) addTrain(at units.Time, pkt *packet.Packet, fate packet.Fate) {
	for i := range uint64(pkt.PacketCount()) {
		*t += hashAction(at, pkt.ID+i, pkt, fate)
	}
}

func (t *trace) removeAction(at units.Time, pkt *packet.Packet, fate packet.Fate) {
	*t -= hashAction(at, pkt.ID, pkt, fate)
}

// hashAction returns the hash of one action with a packet like pkt that has this ID.
func hashAction(at units.Time, id uint64, pkt *packet.Packet, fate packet.Fate) trace {
	x := (uint64(at) ^ id<<20 ^ id>>44) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32 ^ uint64(pkt.Size)<<40 ^ uint64(fate)<<56) * 0xd6e8feb86659fd93
	return trace(x ^ x>>32)
}

// Trace returns the hash of all packets that the port has sent and dropped up to
// now, with times.
func (p *Port) Trace(now units.Time) uint64 {
	p.drainDeparted(now)
	t := p.trace
	for i := range p.promised.Len() {
		d := p.promised.At(i)
		t.removeAction(d.start, d.packet, d.packet.Fate)
	}
	return uint64(t)
}
