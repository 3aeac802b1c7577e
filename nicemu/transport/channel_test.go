package transport

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// faults are the faults of a channel.
type faults struct {
	drop, copies, late float64 // probabilities
	budget             int     // how many may be dropped or copied; below 0 for no limit
}

// channel carries packets between two queue pairs and lets time pass.
type channel struct {
	now      units.Time
	random   *rand.Rand
	faults   faults
	ends     [2]*QP
	inFlight []flight // soonest first
	sent     int

	scratch roce.Packet // filled by Next

	dropped int
	each    func(from int, p *roce.Packet) // may be nil; sees every packet sent
	fate    func(n int) fate               // may be nil; decides about the n-th packet sent, in place of faults
	idle    func() bool                    // called at each step; true keeps the channel going
}

// fate is what happens to a packet on its way.
type fate struct {
	lost, copied bool
	late         units.Time
}

type flight struct {
	at units.Time
	to int
	p  roce.Packet
}

const (
	slot    = units.Microsecond // a queue pair sends a packet in each
	flights = 5 * units.Microsecond
)

// run continues until nothing is under way or to be sent, or for the time given. It reports whether
// it came to an end.
func (c *channel) run(limit units.Time) bool {
	for end := c.now + limit; c.now < end; c.now += slot {
		for len(c.inFlight) > 0 && c.inFlight[0].at <= c.now {
			f := c.inFlight[0]
			c.inFlight = slices.Delete(c.inFlight, 0, 1)
			c.ends[f.to].Receive(c.now, &f.p, nil)
		}
		busy := c.idle != nil && c.idle()
		next := units.Never
		for i, q := range c.ends {
			q.DoDueWork(c.now)
			if c.random.IntN(8) > 0 {
				o := q.Offer()
				if q.Next(c.now, &c.scratch) {
					c.send(1-i, c.wire(o))
				}
			}
			busy = busy || q.Offer().Kind != Nothing
			next = min(next, q.NextExpiry())
		}
		if len(c.inFlight) > 0 {
			next = min(next, c.inFlight[0].at)
		}
		switch {
		case busy:
		case next == units.Never:
			return true
		default: // nothing happens in the slots before
			c.now = max(c.now, (min(next, end)-1)/slot*slot)
		}
	}
	return false
}

// wire converts the offered packet, now in scratch, into bytes and back. Headers that scratch has
// from earlier packets must not matter.
func (c *channel) wire(o Offer) (p roce.Packet) {
	s := &c.scratch
	b := make([]byte, s.Len())
	s.Put(b)
	if err := p.Decode(b, len(b)); err != nil {
		panic(err)
	}
	if int(o.Bytes) != len(b) || p.BTH != s.BTH || p.Extensions != s.Extensions || p.Length != s.Length || s.Truncated || s.ICRC != 0 {
		panic(fmt.Sprintf("offered %+v, came %+v, which reads %+v", o, *s, p))
	}
	s.Truncated, s.ICRC = true, 1
	return p
}

func (c *channel) send(to int, p roce.Packet) {
	c.sent++
	if c.each != nil {
		c.each(1-to, &p)
	}
	var f fate
	if c.fate != nil {
		f = c.fate(c.sent)
	} else if f.lost = c.chance(c.faults.drop); !f.lost {
		f.late = c.lateness()
		f.copied = c.chance(c.faults.copies)
	}
	if f.lost {
		c.dropped++
		return
	}
	c.fly(to, p, f.late)
	if f.copied {
		c.fly(to, p, c.lateness())
	}
}

// chance reports whether a fault happens that the budget still allows.
func (c *channel) chance(p float64) bool {
	if c.faults.budget == 0 || c.random.Float64() >= p {
		return false
	}
	c.faults.budget--
	return true
}

// lateness draws by how much a packet arrives later than others.
func (c *channel) lateness() units.Time {
	if c.random.Float64() >= c.faults.late {
		return 0
	}
	return units.Time(c.random.Int64N(int64(60 * units.Microsecond)))
}

func (c *channel) fly(to int, p roce.Packet, late units.Time) {
	f := flight{c.now + flights + late, to, p}
	i, _ := slices.BinarySearchFunc(c.inFlight, f, func(a, b flight) int {
		if a.at <= b.at {
			return -1
		}
		return cmp.Compare(a.at, b.at)
	})
	c.inFlight = slices.Insert(c.inFlight, i, f)
}
