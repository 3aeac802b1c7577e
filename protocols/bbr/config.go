package bbr

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters, with the names of the draft. *Config implements cc.Settings.
type Config struct {
	// InitialCwnd is the initial window in packets (RFC 6928).
	InitialCwnd int `yaml:"initial_cwnd,omitempty" json:"initial_cwnd" jsonschema_description:"initial window of a flow, in packets"`
	// HighGain is the gain of rate and window in Startup (BBRHighGain).
	HighGain float64 `yaml:"high_gain,omitempty" json:"high_gain" jsonschema_description:"gain of rate and window in Startup; its inverse is the gain of the rate in Drain"`
	// CwndGain is the window in ProbeBW, in BDPs.
	CwndGain float64 `yaml:"cwnd_gain,omitempty" json:"cwnd_gain" jsonschema_description:"window in ProbeBW, in bandwidth-delay products"`
	// Margin is the share by which the pacing rate is below what its gain says, so that the
	// queue caused by high estimates drains, as in Linux.
	Margin units.Fraction `yaml:"margin,omitempty" json:"margin" jsonschema_description:"share by which the rate is below what its gain gives"`
	// BtlBwRounds is the number of round trips over which BtlBw is the largest delivery rate.
	BtlBwRounds int `yaml:"btlbw_rounds,omitempty" json:"btlbw_rounds" jsonschema_description:"round trips over which the largest delivery rate is the bottleneck's bandwidth"`
	// RTpropFilter is the time over which RTprop is the least RTT, ProbeRTT how long the queue
	// is then kept empty to measure it again.
	RTpropFilter units.Time `yaml:"rtprop_filter,omitempty" json:"rtprop_filter" jsonschema_description:"time over which RTprop is the lowest RTT"`
	ProbeRTT     units.Time `yaml:"probe_rtt,omitempty" json:"probe_rtt" jsonschema_description:"minimum duration of ProbeRTT"`
	// SendQuantum is the length of a burst as time at the pacing rate: at least two packets at
	// 1.2 Mb/s and more, and at most 64 KB. With 0 each packet leaves alone.
	SendQuantum units.Time `yaml:"send_quantum,omitempty" json:"send_quantum" jsonschema_description:"size of a burst, as time at the pacing rate; 0 paces each packet"`
	// AckAggregation means that the window has room for acknowledgements that arrive together.
	AckAggregation bool `yaml:"ack_aggregation,omitempty" json:"ack_aggregation" jsonschema_description:"whether aggregated acknowledgements widen the window"`
	// LongTerm means that the control detects the rate of a policer from its losses, and keeps to it.
	LongTerm bool `yaml:"long_term,omitempty" json:"long_term" jsonschema_description:"whether the rate of a policer is detected from its losses and used"`
}

// Limits of settings.
const (
	maxWindow = 10_000 // packets
	maxGain   = 100
	maxRounds = 100
)

// Validate implements cc.Settings.
func (c *Config) Validate(units.Rate) error {
	var check registry.Check
	check.CheckNumber("initial_cwnd", c.InitialCwnd, 1, maxWindow)
	gain := func(key string, v float64) {
		if !(v > 1 && v <= maxGain) {
			check.AddRange(key, v, "a number above 1, up to %d", maxGain)
		}
	}
	gain("high_gain", c.HighGain)
	gain("cwnd_gain", c.CwndGain)
	check.CheckShare("margin", c.Margin, 0, 0.5)
	check.CheckNumber("btlbw_rounds", c.BtlBwRounds, 1, maxRounds)
	check.CheckTime("rtprop_filter", c.RTpropFilter, units.Picosecond)
	check.CheckTime("probe_rtt", c.ProbeRTT, units.Picosecond)
	check.CheckTime("send_quantum", c.SendQuantum, 0)
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"v1"}

// Preset returns the parameters of the preset name, one of Presets. v1 has Linux's.
func Preset(name string) Config {
	if name != "v1" {
		panic("bbr: unknown preset " + name)
	}
	return Config{
		InitialCwnd: 10, HighGain: 2.885, CwndGain: 2, Margin: 0.01, BtlBwRounds: 10,
		RTpropFilter: 10 * units.Second, ProbeRTT: 200 * units.Millisecond,
		SendQuantum: units.Second / 1024, AckAggregation: true, LongTerm: true,
	}
}

// Traits implements cc.Settings.
func (c *Config) Traits() cc.Traits {
	return cc.Traits{NeedsAcks: true, NeedsDelivery: true, KeepsWindow: true}
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f) }
