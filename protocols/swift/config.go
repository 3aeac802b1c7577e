package swift

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters under the paper's names. *Config implements cc.Settings.
type Config struct {
	// AI is the additive increase per round trip (ai), in payload. 0 means one packet.
	AI units.Bytes `yaml:"ai,omitempty" json:"ai" jsonschema_description:"additive increase of the window per round trip; 0 means a packet"`
	// Beta is how strongly a delay beyond the target decreases the window (β).
	Beta units.Fraction `yaml:"beta,omitempty" json:"beta" jsonschema_description:"weight of the delay beyond the target in a decrease"`
	// MaxMDF is the largest share of the window that a decrease takes (max_mdf).
	MaxMDF units.Fraction `yaml:"max_mdf,omitempty" json:"max_mdf" jsonschema_description:"maximum share of the window that a decrease takes"`

	// The target of a path is BaseTarget plus HopScale (ħ) for each switch. It has to be
	// more than the path's RTT without queues.
	BaseTarget units.Time `yaml:"base_target,omitempty" json:"base_target" jsonschema_description:"target delay, without switches"`
	HopScale   units.Time `yaml:"hop_scale,omitempty" json:"hop_scale" jsonschema_description:"amount that each switch on the path adds to the target"`
	// FSRange is the time that flow scaling adds to the target of a flow whose window is
	// FSMinCwnd packets or less. From FSMaxCwnd packets on it adds nothing.
	FSRange   units.Time     `yaml:"fs_range,omitempty" json:"fs_range" jsonschema_description:"maximum that flow scaling adds to the target"`
	FSMinCwnd units.Fraction `yaml:"fs_min_cwnd,omitempty" json:"fs_min_cwnd" jsonschema_description:"window, as a fraction of a packet, up to which flow scaling adds the maximum"`
	FSMaxCwnd int            `yaml:"fs_max_cwnd,omitempty" json:"fs_max_cwnd" jsonschema_description:"window, in packets, from which flow scaling adds nothing"`

	// InitialCwnd is the initial window, in packets. 0 means the bandwidth-delay product
	// of the path, or ten packets if the path is not known.
	InitialCwnd int `yaml:"initial_cwnd,omitempty" json:"initial_cwnd" jsonschema_description:"initial window, in packets; 0 means the bandwidth-delay product of the path"`
	// MinCwnd and MaxCwnd bound the window (min_cwnd, max_cwnd), as a share of a packet
	// and in packets.
	MinCwnd units.Fraction `yaml:"min_cwnd,omitempty" json:"min_cwnd" jsonschema_description:"minimum window, as a fraction of a packet"`
	MaxCwnd int            `yaml:"max_cwnd,omitempty" json:"max_cwnd" jsonschema_description:"maximum window, in packets"`
	// RetxResetThreshold is the number of consecutive timeouts after which the window is
	// MinCwnd.
	RetxResetThreshold int `yaml:"retx_reset_threshold,omitempty" json:"retx_reset_threshold" jsonschema_description:"timeouts in a row after which the window is the minimum"`
}

// maxPackets bounds windows.
const maxPackets = 1_000_000

// Validate implements cc.Settings.
func (c *Config) Validate(units.Rate) error {
	var check registry.Check
	if c.AI < 0 {
		check.AddRange("ai", c.AI, "an amount such as 1KB, or 0 for a packet")
	}
	positive := func(key string, v units.Fraction) {
		if v <= 0 {
			check.AddRange(key, v, "a share above 0%%, up to 100%%")
		} else {
			check.CheckShare(key, v, 0, 1)
		}
	}
	positive("beta", c.Beta)
	positive("max_mdf", c.MaxMDF)
	check.CheckTime("base_target", c.BaseTarget, units.Picosecond)
	check.CheckTime("hop_scale", c.HopScale, 0)
	check.CheckTime("fs_range", c.FSRange, 0)
	positive("fs_min_cwnd", c.FSMinCwnd)
	check.CheckNumber("fs_max_cwnd", c.FSMaxCwnd, 2, maxPackets)
	check.CheckNumber("initial_cwnd", c.InitialCwnd, 0, maxPackets)
	positive("min_cwnd", c.MinCwnd)
	check.CheckNumber("max_cwnd", c.MaxCwnd, 1, maxPackets)
	check.CheckNumber("retx_reset_threshold", c.RetxResetThreshold, 1, maxPackets)
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"htsim"}

// Preset returns the parameters of the preset name, one of Presets: htsim follows
// sim/swift.cpp of github.com/Broadcom/csg-htsim, whose comments call most of them
// guesses, as the paper does not print them. Its minimum window of 10 bytes is a hundredth
// of a packet here.
func Preset(name string) Config {
	if name != "htsim" {
		panic("swift: unknown preset " + name)
	}
	return Config{
		Beta: 0.8, MaxMDF: 0.5,
		BaseTarget: 20 * units.Microsecond, HopScale: 3053 * units.Nanosecond,
		FSRange: 100 * units.Microsecond, FSMinCwnd: 0.1, FSMaxCwnd: 100,
		MinCwnd: 0.01, MaxCwnd: 1000, RetxResetThreshold: 5,
	}
}

// Traits implements cc.Settings. Swift needs the RTT of every packet.
func (c *Config) Traits() cc.Traits { return cc.Traits{AskEvery: 1, NeedsPath: true, NeedsAcks: true} }

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f) }
