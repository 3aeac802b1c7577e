package port

import (
	"math"
	"math/bits"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/buffer"
	"github.com/weftlab/weft/switches/credit"
	"github.com/weftlab/weft/switches/pfc"
)

// ClassCounters is one class of a port at one moment, with its counts since
// the start.
type ClassCounters struct {
	Name     string
	Priority uint8

	QueuePackets             int
	QueueBytes               units.Bytes
	Limit                    units.Bytes // at this moment; 0 means none
	MaxQueue                 units.Bytes
	MeanQueue                float64 // bytes, since the start
	TxPackets, TxBytes       uint64
	RxPackets                uint64
	Marked, Trimmed, Dropped uint64

	Gauges []float64 // of the congestion point, in the order of its Kind; nil without one

	Got     pfc.Got
	Sent    pfc.Sent      // with global PAUSE those of the whole port
	Spent   *credit.Spent // nil for a class that needs no credit from the peer
	Given   *credit.Given // nil for one that gives none
	Ingress buffer.Ingress
	Egress  buffer.Egress
}

// Classes returns the classes of a port by ascending priority, nil for a plain
// port.
func (p *Port) Classes(now units.Time) []ClassCounters {
	if p.classes == nil {
		return nil
	}
	out := make([]ClassCounters, len(p.classes.queues))
	for i := range out {
		out[i] = p.Class(now, i)
	}
	return out
}

// Class returns class number i, by ascending priority, of a port with classes.
func (p *Port) Class(now units.Time, i int) ClassCounters {
	c := p.classes
	s, q := &c.settings[i], &c.queues[i]
	limit := c.Buffer.QueueLimit(p.Index, s.Priority)
	if limit == math.MaxInt64 {
		limit = 0
	}
	held := q.area
	held.addBytes(q.bytes, now-q.since)
	x := ClassCounters{
		Name: s.Name, Priority: s.Priority,
		QueuePackets: int(q.count), QueueBytes: q.bytes, Limit: limit, MaxQueue: max(q.longest, q.ever), MeanQueue: held.meanOver(now),
		TxPackets: q.tx.packets, TxBytes: q.tx.bytes, RxPackets: q.received, Marked: q.marked, Trimmed: q.trimmed, Dropped: q.dropped,
		Gauges: p.ClassGauges(now, i, nil),
		Got:    c.flow.rx.Statistics(now, s.Priority), Sent: c.flow.tx.Statistics(now, p.pauseClass(s.Priority)),
		Ingress: c.Buffer.Ingress(uint16(p.Index), s.Priority), Egress: c.Buffer.Egress(p.Index, s.Priority),
	}
	if q.spends != nil {
		spent := q.spends.Statistics(now)
		x.Spent = &spent
	}
	if c.offersCredit(s.Priority) {
		given := q.gives.Statistics()
		x.Given = &given
	}
	return x
}

// sumCounters adds the counts of the classes to those of their port.
func (c *classes) sumCounters(now units.Time, to *Counters) {
	to.since = now
	for i := range c.queues {
		q := &c.queues[i]
		held := q.area
		held.addBytes(q.bytes, now-q.since)
		to.area.addArea(held)
	}
}

// countWaiting returns the number of waiting packets, including MAC control frames.
func (c *classes) countWaiting() (n int) {
	for i := range c.queues {
		n += int(c.queues[i].count)
	}
	for pkt := c.control.First(); pkt != nil; pkt = pkt.Next {
		n++
	}
	return n
}

// creditWait returns how long packets of a class have waited for credit.
func (q *classQueue) creditWait(now units.Time) units.Time {
	if q.spends == nil {
		return 0
	}
	return q.spends.Statistics(now).Time
}

// BlockedQueue is a queue with waiting packets that is paused or without credit.
type BlockedQueue struct {
	Priority uint8
	Since    units.Time
	In       []int // numbers of the ports that its packets came in through, sorted
}

// BlockedQueues returns the queues with packets that are paused or without credit.
func (p *Port) BlockedQueues() []BlockedQueue {
	c := p.classes
	if c == nil {
		return nil
	}
	var out []BlockedQueue
	for m := c.blocked & c.ready; m != 0; m &= m - 1 {
		prio := uint8(bits.TrailingZeros8(m))
		since, stuck := c.flow.rx.StuckSince(prio)
		if c.lacking>>prio&1 != 0 {
			since, stuck = c.queue[prio].spends.WaitingSince()
		}
		if !stuck {
			continue
		}
		j := BlockedQueue{Priority: prio, Since: since}
		from := make([]bool, len(c.Ports))
		c.queue[prio].eachPacket(func(pkt *packet.Packet) {
			if pkt.In != buffer.Own {
				from[pkt.In] = true
			}
		})
		for i, is := range from {
			if is {
				j.In = append(j.In, i)
			}
		}
		out = append(out, j)
	}
	return out
}

// eachPacket calls f for every waiting packet.
func (q *classQueue) eachPacket(f func(*packet.Packet)) {
	if q.fair != nil {
		q.fair.EachPacket(f)
		return
	}
	for pkt := q.packets.First(); pkt != nil; pkt = pkt.Next {
		f(pkt)
	}
}

// RequestedClasses returns the classes of the peer that the port has paused, one bit each;
// with global PAUSE all of them.
func (p *Port) RequestedClasses() uint8 {
	if p.classes == nil {
		return 0
	}
	asking := p.classes.flow.tx.RequestedClasses()
	if p.classes.Pause != nil && asking != 0 {
		return 0xff
	}
	return asking
}
