package bbr

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config has the parameters by the names of the draft. A pointer to it is cc.Settings.
type Config struct {
	// InitialCwnd is the window at the beginning, in packets (RFC 6928).
	InitialCwnd int `yaml:"initial_cwnd,omitempty" json:"initial_cwnd" jsonschema_description:"window at the beginning of a flow, in packets"`
	// HighGain is the gain of rate and window in Startup (BBRHighGain).
	HighGain float64 `yaml:"high_gain,omitempty" json:"high_gain" jsonschema_description:"gain of rate and window in Startup; its inverse is that of the rate in Drain"`
	// CwndGain is how many BDPs the window is in ProbeBW.
	CwndGain float64 `yaml:"cwnd_gain,omitempty" json:"cwnd_gain" jsonschema_description:"window in ProbeBW, in bandwidth-delay products"`
	// Margin is by how much the pacing rate is less than its gain says, so that the queue
	// that estimates make too long drains, as in Linux.
	Margin units.Fraction `yaml:"margin,omitempty" json:"margin" jsonschema_description:"by how much less than its gain says the rate is"`
	// BtlBwRounds is over how many round trips BtlBw is the largest delivery rate.
	BtlBwRounds int `yaml:"btlbw_rounds,omitempty" json:"btlbw_rounds" jsonschema_description:"round trips over which the bottleneck's bandwidth is the largest delivery rate"`
	// RTpropFilter is over how long RTprop is the least RTT, ProbeRTT how long the queue is
	// kept empty then to measure it again.
	RTpropFilter units.Time `yaml:"rtprop_filter,omitempty" json:"rtprop_filter" jsonschema_description:"time over which RTprop is the least RTT"`
	ProbeRTT     units.Time `yaml:"probe_rtt,omitempty" json:"probe_rtt" jsonschema_description:"how long ProbeRTT lasts at least"`
	// SendQuantum is for how long a sender paces the packets that leave together: at least
	// two at 1.2 Mb/s and more, and 64 KB at most. 0 has each packet leave alone.
	SendQuantum units.Time `yaml:"send_quantum,omitempty" json:"send_quantum" jsonschema_description:"how much leaves together, as time at the pacing rate; 0 paces each packet"`
	// AckAggregation means that the window has room for acknowledgements that come together.
	AckAggregation bool `yaml:"ack_aggregation,omitempty" json:"ack_aggregation" jsonschema_description:"whether acknowledgements that come together widen the window"`
	// LongTerm means that the control detects the rate of a policer from its losses, and keeps to it.
	LongTerm bool `yaml:"long_term,omitempty" json:"long_term" jsonschema_description:"whether the rate of a policer is found out by its losses, and kept to"`
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
	check.Number("initial_cwnd", c.InitialCwnd, 1, maxWindow)
	gain := func(key string, v float64) {
		if !(v > 1 && v <= maxGain) {
			check.Bad(key, v, "a number above 1, up to %d", maxGain)
		}
	}
	gain("high_gain", c.HighGain)
	gain("cwnd_gain", c.CwndGain)
	check.Share("margin", c.Margin, 0, 0.5)
	check.Number("btlbw_rounds", c.BtlBwRounds, 1, maxRounds)
	check.Time("rtprop_filter", c.RTpropFilter, units.Picosecond)
	check.Time("probe_rtt", c.ProbeRTT, units.Picosecond)
	check.Time("send_quantum", c.SendQuantum, 0)
	return check.Err()
}

// Presets are the names that Preset knows, the default first.
var Presets = []string{"v1"}

// Preset gives the parameters that name, one of Presets, stands for: v1 is Linux's.
func Preset(name string) Config {
	if name != "v1" {
		panic("bbr: " + name + " is none of Presets")
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
