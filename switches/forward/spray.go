package forward

import (
	"math/rand/v2"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// Random draws a path for each packet (Dixit et al., INFOCOM 2013).
type Random struct{ always }

// RoundRobin takes the paths in turn, packet by packet, separately for each group
// of paths.
type RoundRobin struct{ always }

func init() {
	Kinds.Register("random", Kind{
		Summary:  "each packet takes a random path (Dixit et al., INFOCOM 2013)",
		Settings: func() Settings { return &Random{} },
	})
	Kinds.Register("round-robin", Kind{
		Summary:  "packets take the paths to a destination in turn",
		Settings: func() Settings { return &RoundRobin{} },
	})
}

// New implements Settings.
func (*Random) New(env Env) Chooser { return &random{env.Rand} }

// New implements Settings.
func (*RoundRobin) New(Env) Chooser { return &roundRobin{} }

type random struct{ rand *rand.Rand }

func (c *random) SetGroups(int)    {}
func (c *random) IsStateful() bool { return true }
func (c *random) ChoosePath(units.Time, *packet.Packet, uint16) Choice {
	return RandomChoice(c.rand.Uint64())
}

type roundRobin struct{ turn []uint32 } // by group, packets so far

func (c *roundRobin) SetGroups(n int)  { c.turn = make([]uint32, n) }
func (c *roundRobin) IsStateful() bool { return true }

func (c *roundRobin) ChoosePath(_ units.Time, _ *packet.Packet, group uint16) Choice {
	c.turn[group]++
	return NumberedChoice(uint64(c.turn[group] - 1))
}
