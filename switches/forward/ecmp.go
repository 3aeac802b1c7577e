package forward

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// ECMP gives each flow one path, by a hash of its addresses, protocol and ports
// with a seed specific to the switch (RFC 2992).
type ECMP struct{ always }

func init() {
	Kinds.Register(Default, Kind{
		Summary:  "each flow has one path, by a hash of its addresses, protocol and ports with the switch's own seed (RFC 2992)",
		Settings: func() Settings { return &ECMP{} },
	})
}

// New implements Settings.
func (*ECMP) New(env Env) Chooser { return &ecmp{env: env} }

type ecmp struct {
	stateless
	env Env
}

func (c *ecmp) ChoosePath(_ units.Time, p *packet.Packet, _ uint16) Choice {
	return RandomChoice(c.env.HashFlow(p))
}
