package workload

import (
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// Sender is the host port from which a flow's packets leave.
type Sender interface {
	// OriginatePacket takes a packet at the instant the host hands it to its NIC, and
	// owns it.
	OriginatePacket(now units.Time, p *packet.Packet)
}

// Source sends one flow. The rate is kept exactly over time: the n-th packet of
// a constant-rate flow leaves n·Size/Rate after its start, even if Size/Rate is
// not a whole number of picoseconds.
type Source struct {
	flow     Flow
	template packet.Packet
	record   *Record
	rand     *rand.Rand
	pool     *packet.Pool
	to       Sender
	clock    *nodeclock.Clock
	timer    sim.Timer

	seq uint32
	// Times that the clock shows.
	begin units.Time  // of the current run of packets
	on    units.Time  // end of the current On phase
	sent  units.Bytes // in the current run
}

// NewSource makes the source of a flow and arms it for Flow.At. template holds
// the fields that all its packets share; its Size is the size of the frame.
// record records what is sent. salt determines the order among sources that send at one
// instant (sim.Engine.NewArrival). The host's clock measures the times between packets and the
// phases; nil means an exact one. Flow.At and Flow.For are emulated times, whatever the clock.
func NewSource(e *sim.Engine, pool *packet.Pool, random *rand.Rand, salt uint64, clock *nodeclock.Clock, f Flow, template packet.Packet, record *Record, to Sender) *Source {
	s := &Source{flow: f, template: template, record: record, rand: random, pool: pool, to: to, clock: clock, begin: clock.ReadAt(f.At)}
	s.timer = e.NewArrival(s, salt)
	switch f.Pattern {
	case Poisson:
		s.timer.Arm(clock.ReachedAt(s.begin + s.drawGap()))
	case OnOff:
		s.on = s.begin + s.drawPhase(f.On)
		s.timer.Arm(f.At)
	default:
		s.timer.Arm(f.At)
	}
	return s
}

// Fire sends a packet and arms for the next.
func (s *Source) Fire(now units.Time) {
	f := &s.flow
	if f.For > 0 && now >= f.At+f.For {
		return
	}
	p := s.pool.CopyTemplate(&s.template)
	p.Seq, p.IPID = s.seq, uint16(s.seq)
	s.seq++
	s.record.countSent(now)
	s.to.OriginatePacket(now, p)

	var next units.Time
	switch f.Pattern {
	case Poisson:
		next = s.clock.ReadAt(now) + s.drawGap()
	default:
		s.sent += f.Size
		next = s.begin + f.Rate.TimeOf(s.sent)
		if f.Pattern == OnOff && next >= s.on {
			next = max(s.on, s.clock.ReadAt(now)) + s.drawPhase(f.Off)
			s.begin, s.sent = next, 0
			s.on = next + s.drawPhase(f.On)
		}
	}
	if next = s.clock.ReachedAt(next); f.For == 0 || next < f.At+f.For {
		s.timer.Arm(next)
	}
}

// drawGap draws the time between two packets of a Poisson flow.
func (s *Source) drawGap() units.Time {
	return units.Time(s.rand.ExpFloat64() * float64(s.flow.Rate.TimeOf(s.flow.Size)))
}

// drawPhase returns the length of a phase with this mean.
func (s *Source) drawPhase(mean units.Time) units.Time {
	if s.flow.Exponential {
		return units.Time(s.rand.ExpFloat64() * float64(mean))
	}
	return mean
}
