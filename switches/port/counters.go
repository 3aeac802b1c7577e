package port

import (
	"math/bits"

	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/units"
)

// Counters counts what a port did since the start of the run.
type Counters struct {
	RxPackets, RxBytes uint64 // received, also those with a bad FCS
	TxPackets, TxBytes uint64 // begun to be sent, also those lost on the link
	QueueCounters
	Losses
}

// QueueCounters counts what happened in a port's queue, and its own frames.
type QueueCounters struct {
	Marked     uint64
	Trimmed    uint64
	Returned   uint64      // trimmed and sent back
	Originated uint64      // MAC control frames that the port made
	Consumed   uint64      // MAC control frames that it took
	MaxQueue   units.Bytes // the longest the queue has been
	area       area
	since      units.Time // of the last change of the queue
}

// Losses counts packets that ended at a port or on the link behind it.
type Losses struct {
	Drops     [packet.FateCount]uint64 // by reason
	DropBytes uint64
}

// area is ∫ queue dt in byte·picoseconds: 128 bits.
type area struct{ high, low uint64 }

func (a *area) add(n units.Bytes, t units.Time) {
	high, low := bits.Mul64(uint64(n), uint64(t))
	var carry uint64
	a.low, carry = bits.Add64(a.low, low, 0)
	a.high += high + carry
}

func (a *area) sub(n units.Bytes, t units.Time) {
	high, low := bits.Mul64(uint64(n), uint64(t))
	var borrow uint64
	a.low, borrow = bits.Sub64(a.low, low, 0)
	a.high -= high + borrow
}

// join adds another area.
func (a *area) join(b area) {
	var carry uint64
	a.low, carry = bits.Add64(a.low, b.low, 0)
	a.high += b.high + carry
}

// over is the mean in bytes over a time; 0 for none.
func (a area) over(t units.Time) float64 {
	if t <= 0 {
		return 0
	}
	return (float64(a.high)*(1<<64) + float64(a.low)) / float64(t)
}

// queued accounts for a queue that has been n bytes long since the last
// change.
func (c *QueueCounters) queued(now units.Time, n units.Bytes) {
	c.area.add(n, now-c.since)
	c.since = now
}

// MeanQueue is the time average of the queue's length in bytes between two
// snapshots of one port's counters, the earlier being from.
func (c Counters) MeanQueue(from Counters) float64 {
	if c.since <= from.since {
		return 0
	}
	low, borrow := bits.Sub64(c.area.low, from.area.low, 0)
	high, _ := bits.Sub64(c.area.high, from.area.high, borrow)
	return area{high, low}.over(c.since - from.since)
}

// Dropped is the sum of Drops.
func (c *Counters) Dropped() (n uint64) {
	for _, d := range c.Drops {
		n += d
	}
	return n
}

// Counters gives a copy as of now.
func (p *Port) Counters(now units.Time) Counters {
	p.settle(now)
	c := Counters{QueueCounters: p.counters}
	if p.losses != nil {
		c.Losses = *p.losses
	}
	c.MaxQueue = max(c.MaxQueue, p.longest)
	c.RxPackets, c.RxBytes, c.TxPackets, c.TxBytes = p.rx.packets, p.rx.bytes, p.tx.packets, p.tx.bytes
	if p.classes != nil {
		p.classes.sum(now, &c)
		return c
	}
	if !p.ahead {
		c.queued(now, p.bytes)
		return c
	}
	// What was computed ahead of time has not happened yet.
	p.unwait(&c.QueueCounters, now)
	c.since = now
	c.TxPackets -= uint64(p.promised.len())
	c.TxBytes -= uint64(p.bytes)
	return c
}

// trace is a sum of hashes of everything a port did and when. Each port has
// its own, and a sum has no order, so neither the order in which the ports of
// different parts of a fabric come to act nor the time at which something is
// known that happens later changes it.
type trace uint64

func (t *trace) add(at units.Time, k *packet.Packet, fate packet.Fate) { *t += act(at, k, fate) }

func (t *trace) remove(at units.Time, k *packet.Packet, fate packet.Fate) { *t -= act(at, k, fate) }

// act is the hash of one thing done.
func act(at units.Time, k *packet.Packet, fate packet.Fate) trace {
	x := (uint64(at) ^ k.ID<<20 ^ k.ID>>44) * 0x9e3779b97f4a7c15
	x = (x ^ x>>32 ^ uint64(k.Size)<<40 ^ uint64(fate)<<56) * 0xd6e8feb86659fd93
	return trace(x ^ x>>32)
}

// Trace is the hash of what the port has sent and dropped up to now, and when.
func (p *Port) Trace(now units.Time) uint64 {
	p.settle(now)
	t := p.trace
	for i := p.promised.head; i != p.promised.tail; i++ {
		d := p.promised.at(i)
		t.remove(d.start, d.packet, d.packet.Fate)
	}
	return uint64(t)
}
