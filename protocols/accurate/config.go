package accurate

import (
	"errors"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters of the reaction point.
type Config struct {
	Clocks `yaml:",inline"`
	// RMin is the minimum rate, whatever FRPs say. Above 0, up to the line rate.
	RMin units.Rate `yaml:"r_min,omitempty" json:"r_min" jsonschema_description:"minimum rate, regardless of FRPs"`
	// Small is the size below which a flow sends no FRPs (§V).
	Small units.Bytes `yaml:"small,omitempty" json:"small" jsonschema_description:"size below which a flow sends no FRPs and is not limited; default 0: all flows send them"`
	// Linger is how long a flow may have nothing to send before it stops. Until then it
	// sends FRPs.
	Linger units.Time `yaml:"linger,omitempty" json:"linger" jsonschema_description:"idle time after which a flow tells switches that it has stopped; default 0"`
	// DSCP is the DSCP of FRPs, 0 to 63.
	DSCP int `yaml:"dscp,omitempty" json:"dscp" jsonschema:"minimum=0,maximum=63" jsonschema_description:"DSCP of FRPs, 0 to 63, for the highest class; default 48"`
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"paper", "programs"}

// Preset returns the parameters of the preset name, one of Presets, for a port at line rate
// line. paper has the RRP of §III, and a flow stops when all its data is sent and acknowledged.
// programs is for flows of programs, which pause between packets: they stop after 1 ms. The
// paper has no minimum rate; here it is a ten-thousandth of the line rate.
func Preset(name string, line units.Rate) Config {
	c := Config{Clocks: Clocks{RRP: paperRRP}, RMin: max(1, line/10000), DSCP: 48}
	switch name {
	case "paper":
	case "programs":
		c.Linger = units.Millisecond
	default:
		panic("accurate: unknown preset " + name)
	}
	return c
}

// Validate implements cc.Settings.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("ACCurate needs the rate of the port's link, at which flows start; give the link a rate"))
	}
	c.checkRanges(&check)
	check.CheckRate("r_min", c.RMin, line, "1Mbps")
	if c.Small < 0 {
		check.AddRange("small", c.Small, "0 or more, such as 4KB")
	}
	check.CheckTime("linger", c.Linger, 0)
	check.CheckNumber("dscp", c.DSCP, 0, 63)
	return check.Err()
}

// Traits implements cc.Settings. A flow that waits for acknowledgements or is idle for a while
// keeps sending FRPs.
func (c *Config) Traits() cc.Traits { return cc.Traits{MessageDSCP: uint8(c.DSCP), WakeIdle: true} }

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control {
	r := New(c, f.Line, f.Rand)
	r.headers = f.Packet - f.MTU
	return r
}
