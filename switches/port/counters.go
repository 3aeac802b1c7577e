package port

import (
	"math/bits"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
)

// Counters counts what a port did since the start of the run.
type Counters struct {
	RxPackets, RxBytes uint64 // received, also those with a bad FCS
	TxPackets, TxBytes uint64 // begun to be sent, also those lost on the link
	Marked             uint64
	Drops              [packet.FateCount]uint64 // packets that ended at this port or on the link behind it, by reason
	DropBytes          uint64
	MaxQueue           units.Bytes // the longest the queue has been

	since        units.Time // of the last change of the queue
	areaH, areaL uint64     // ∫ queue dt in byte·picoseconds, 128 bits
}

// queued accounts for a queue that has been bytes long since the last change.
func (c *Counters) queued(now units.Time, bytes units.Bytes) {
	h, l := bits.Mul64(uint64(bytes), uint64(now-c.since))
	var carry uint64
	c.areaL, carry = bits.Add64(c.areaL, l, 0)
	c.areaH += h + carry
	c.since = now
}

// MeanQueue is the time average of the queue's length in bytes between two
// snapshots of one port's counters, the earlier being from.
func (c Counters) MeanQueue(from Counters) float64 {
	if c.since <= from.since {
		return 0
	}
	low, borrow := bits.Sub64(c.areaL, from.areaL, 0)
	high, _ := bits.Sub64(c.areaH, from.areaH, borrow)
	return (float64(high)*(1<<64) + float64(low)) / float64(c.since-from.since)
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
	p.counters.queued(now, p.bytes)
	return p.counters
}

// trace is a running hash of everything a port did and when. Each port has
// its own, so the hash of a run does not depend on how the ports of different
// parts of a fabric interleave.
type trace uint64

func (t *trace) add(now units.Time, k *packet.Packet, fate packet.Fate) {
	x := uint64(*t) ^ uint64(now)
	x = (x ^ k.ID ^ uint64(k.Size)<<40 ^ uint64(fate)<<56) * 0x9e3779b97f4a7c15
	*t = trace(x ^ x>>29)
}

// Trace is the hash of what the port has sent and dropped, and when.
func (p *Port) Trace() uint64 { return uint64(p.trace) }
