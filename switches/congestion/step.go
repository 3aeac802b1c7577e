package congestion

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

type step struct {
	Passive
	Step
}

func (s *step) OnEnqueue(_ units.Time, q Queue, p *packet.Packet) packet.Fate {
	if q.Bytes <= s.K {
		return packet.Fine
	}
	return markPacket(p, s.NotECT)
}

// ArrivalsOnly marks the point as one that only judges arrivals.
func (*step) ArrivalsOnly() {}

// Adjusted implements Adjuster.
func (s *step) Adjusted() Settings { c := s.Step; return &c }

// Adjust implements Adjuster.
func (s *step) Adjust(to Settings) { s.Step = *to.(*Step) }
