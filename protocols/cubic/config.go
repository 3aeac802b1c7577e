package cubic

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters, with the names of RFC 9438. *Config implements cc.Settings.
type Config struct {
	// InitialCwnd is the initial window in packets (RFC 6928).
	InitialCwnd int `yaml:"initial_cwnd,omitempty" json:"initial_cwnd" jsonschema_description:"initial window of a flow, in packets"`
	// C is the steepness of the window function, in packets per cubic second.
	C float64 `yaml:"c,omitempty" json:"c" jsonschema_description:"steepness of the window function, in packets per cubic second"`
	// Beta is the share of the window that remains after a loss or a mark (β_cubic).
	Beta units.Fraction `yaml:"beta,omitempty" json:"beta" jsonschema_description:"share of the window left after a loss or a mark"`
	// FastConvergence means that a flow whose window is smaller than at the previous loss gives
	// up more of it (§4.7).
	FastConvergence bool `yaml:"fast_convergence,omitempty" json:"fast_convergence" jsonschema_description:"whether a flow whose window shrinks gives up more of it"`
	// RenoFriendly means that the window is not less than NewReno's would be (§4.3).
	RenoFriendly bool `yaml:"reno_friendly,omitempty" json:"reno_friendly" jsonschema_description:"whether the window is at least NewReno's"`
	// AlphaOne means that this window grows by a packet per RTT, as NewReno's does, once it
	// reaches its size at the previous loss (§4.3: then α_cubic is 1). Linux keeps the smaller
	// α.
	AlphaOne bool `yaml:"alpha_one,omitempty" json:"alpha_one" jsonschema_description:"whether NewReno's window grows by a packet per RTT from its size at the previous loss on"`
	// InitialGrowth is by how much the window grows at least in an RTT of congestion avoidance
	// before the first loss and after a timeout, while the cubic function knows no window at which
	// packets were lost (Linux: 5%). 0 is RFC 9438, which has no such bound.
	InitialGrowth units.Fraction `yaml:"initial_growth,omitempty" json:"initial_growth" jsonschema_description:"minimum growth of the window in an RTT of congestion avoidance before the first loss and after a timeout; 0 for none"`
	// HyStart is that slow start ends when the RTT grows or acknowledgements come as spread
	// as the RTT (Ha and Rhee, "Taming the elephants: New TCP slow start", 2011).
	HyStart bool `yaml:"hystart,omitempty" json:"hystart" jsonschema_description:"whether slow start ends before a loss, when the RTT grows or acknowledgements fill it"`
	// ECN means that packets are ECN-capable, and a mark counts as a loss.
	ECN bool `yaml:"ecn,omitempty" json:"ecn" jsonschema_description:"whether packets are ECN-capable and a mark counts as a loss"`
}

// Limits of settings.
const (
	maxWindow = 10_000 // packets
	maxC      = 1000
)

// Validate implements cc.Settings.
func (c *Config) Validate(units.Rate) error {
	var check registry.Check
	check.CheckNumber("initial_cwnd", c.InitialCwnd, 1, maxWindow)
	if !(c.C > 0 && c.C <= maxC) {
		check.AddRange("c", c.C, "a number above 0, up to %d, such as 0.4", maxC)
	}
	if c.Beta <= 0 || c.Beta >= 1 {
		check.AddRange("beta", c.Beta, "a share above 0%% and below 100%%, such as 70%%")
	}
	if c.InitialGrowth < 0 || c.InitialGrowth > 0.5 {
		check.AddRange("initial_growth", c.InitialGrowth, "a share from 0%% to 50%%, such as 5%%")
	}
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"rfc", "linux"}

// Preset gives the parameters that name, one of Presets, stands for: rfc is RFC 9438, linux
// the same with HyStart, with an InitialGrowth of 5%, with β of 717/1024 and without AlphaOne.
func Preset(name string) Config {
	c := Config{InitialCwnd: 10, C: 0.4, Beta: 0.7, FastConvergence: true, RenoFriendly: true, AlphaOne: true}
	switch name {
	case "rfc":
	case "linux":
		c.Beta, c.HyStart, c.AlphaOne, c.InitialGrowth = 717.0/1024, true, false, 0.05
	default:
		panic("cubic: unknown preset " + name)
	}
	return c
}

// Traits implements cc.Settings.
func (c *Config) Traits() cc.Traits {
	t := cc.Traits{NeedsAcks: true, ECT: c.ECN}
	if c.ECN {
		t.Marks, t.AskEvery, t.ClassicECN = cc.AnswerEcho, 1, true
	}
	return t
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f) }
