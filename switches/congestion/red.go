package congestion

import (
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

type red struct {
	Passive
	RED
	rand *rand.Rand
}

func (r *red) OnEnqueue(_ units.Time, q Queue, p *packet.Packet) packet.Fate {
	// Draw a random number only if needed: most packets find a short queue.
	chance := r.MarkProbability(q.Bytes)
	if chance <= 0 || chance < 1 && r.rand.Float64() >= chance {
		return packet.Fine
	}
	return markPacket(p, r.NotECT)
}

// MarkProbability returns the probability of a mark at a queue of q bytes.
func (r RED) MarkProbability(q units.Bytes) float64 {
	switch {
	case q <= r.KMin:
		return 0
	case q > r.KMax:
		return 1
	}
	return float64(r.PMax) * float64(q-r.KMin) / float64(r.KMax-r.KMin)
}

// ArrivalsOnly marks the point as one that only judges arrivals.
func (*red) ArrivalsOnly() {}

// Adjusted implements Adjuster.
func (r *red) Adjusted() Settings { c := r.RED; return &c }

// Adjust implements Adjuster.
func (r *red) Adjust(to Settings) { r.RED = *to.(*RED) }
