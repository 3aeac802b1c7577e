package forward

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Flowlet keeps the path of a flow as long as its packets follow each other closely.
// After a gap of at least Gap since its last packet at this switch a new path is drawn
// (LetFlow: Vanini et al., NSDI 2017, §3). If Gap is more than the difference of the
// paths' delays, no packet overtakes another of its flow.
type Flowlet struct {
	Gap units.Time `yaml:"gap" json:"gap" jsonschema_description:"idle time after which a flow draws a new path, above 0"`
	// Table is the number of entries in the table of flowlets, 1 to MaxTable. A flow's
	// hash selects its entry; flows that share one are a single flow to the switch, as
	// in hardware.
	Table int `yaml:"table,omitempty" json:"table" jsonschema:"minimum=1,maximum=1048576" jsonschema_description:"entries of the table of flowlets, 1 to 1048576; flows share them by their hash; default 4096"`
}

// Sizes of the table of flowlets, in entries of 16 bytes.
const (
	DefaultTable = 4096
	MaxTable     = 1 << 20
)

// maxGap bounds gaps, so that their end does not overflow.
const maxGap = 1_000_000 * units.Second

func init() {
	Kinds.Register("flowlet", Kind{
		Summary:  "a flow keeps its path until it pauses, and then draws a new one (LetFlow: Vanini et al., NSDI 2017)",
		Settings: func() Settings { return &Flowlet{Table: DefaultTable} },
		Example:  "{flowlet: {gap: 100us}}",
	})
}

// Validate implements Settings.
func (f *Flowlet) Validate() error {
	var c registry.Check
	if f.Gap <= 0 || f.Gap > maxGap {
		c.AddRange("gap", f.Gap, "a time above 0 and at most %v, such as 100us: without a gap every packet is a flowlet, which is random", maxGap)
	}
	c.CheckNumber("table", f.Table, 1, MaxTable)
	return c.Err()
}

// New implements Settings.
func (f *Flowlet) New(env Env) Chooser {
	return &flowlets{env: env, gap: f.Gap, table: make([]flowlet, f.Table)}
}

type flowlets struct {
	env   Env
	gap   units.Time
	table []flowlet // by hash
}

// flowlet is a series of packets of a flow that follow each other closely.
type flowlet struct {
	until units.Time // it ends then unless a packet arrives before
	draw  uint64     // determines its path
}

func (c *flowlets) SetGroups(int)    {}
func (c *flowlets) IsStateful() bool { return true }

// ChoosePath returns the choice of the flowlet that a packet belongs to. An entry does not
// store a path but the random bits that select it, so flows to different destinations
// may share one.
func (c *flowlets) ChoosePath(now units.Time, p *packet.Packet, _ uint16) Choice {
	f := &c.table[scaleBits(uint32(c.env.HashFlow(p)>>32), uint32(len(c.table)))]
	if now >= f.until {
		f.draw = c.env.Rand.Uint64()
	}
	f.until = now + c.gap
	return RandomChoice(f.draw)
}
