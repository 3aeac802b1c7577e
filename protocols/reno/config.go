package reno

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters. *Config implements cc.Settings.
type Config struct {
	// InitialCwnd is the initial window, in packets (RFC 6928).
	InitialCwnd int `yaml:"initial_cwnd,omitempty" json:"initial_cwnd" jsonschema_description:"initial window of a flow, in packets"`
	// Decrease is the share of the window that a loss or a mark leaves.
	Decrease units.Fraction `yaml:"decrease,omitempty" json:"decrease" jsonschema_description:"share of the window left after a loss or a mark"`
	// ECN means that packets are ECN-capable, and a mark counts as a loss (RFC 3168 §6.1.2).
	ECN bool `yaml:"ecn,omitempty" json:"ecn" jsonschema_description:"whether packets are ECN-capable and a mark counts as a loss"`
}

// maxWindow bounds initial windows, in packets.
const maxWindow = 10_000

// Validate implements cc.Settings.
func (c *Config) Validate(units.Rate) error {
	var check registry.Check
	check.CheckNumber("initial_cwnd", c.InitialCwnd, 1, maxWindow)
	if c.Decrease <= 0 || c.Decrease >= 1 {
		check.AddRange("decrease", c.Decrease, "a share above 0%% and below 100%%, such as 50%%")
	}
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"rfc"}

// Preset returns the parameters of the preset name, one of Presets: rfc follows RFC 5681
// with the initial window of RFC 6928.
func Preset(name string) Config {
	if name != "rfc" {
		panic("reno: unknown preset " + name)
	}
	return Config{InitialCwnd: 10, Decrease: 0.5}
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
