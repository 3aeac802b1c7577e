package hpcc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/telemetry"
)

// Config holds the parameters, with the paper's names. *Config implements cc.Settings.
type Config struct {
	// Eta is the share of a link that the flows aim at (η). Above 0, up to 100%.
	Eta units.Fraction `yaml:"eta,omitempty" json:"eta" jsonschema_description:"share of a link that flows aim to use"`
	// MaxStage is the number of additive increases in a row before U sets the window again
	// (maxStage). From 0, which always sets it by U.
	MaxStage int `yaml:"max_stage,omitempty" json:"max_stage" jsonschema_description:"additive increases in a row before the window is set by U again"`
	// WAI is the additive increase (W_AI), in bytes on the wire. 0 means the rule of §3.3:
	// W_init·(1-η)/N.
	WAI units.Bytes `yaml:"w_ai,omitempty" json:"w_ai" jsonschema_description:"additive increase of the window; 0 means the paper's rule, by eta and n"`
	// N is the expected number of flows on a link, for that rule. Above 0.
	N int `yaml:"n,omitempty" json:"n" jsonschema_description:"number of flows expected to share a link, for the additive increase"`
	// BaseRTT is T, the same for all flows. 0 means the RTT of the flow's own path. It should
	// not be less than the longest RTT in an idle fabric: otherwise the window does not let a
	// flow fill a link.
	BaseRTT units.Time `yaml:"base_rtt,omitempty" json:"base_rtt" jsonschema_description:"T, the RTT without queues; 0 means that of the flow's own path"`
	// Reaction is when the window changes.
	Reaction Reaction `yaml:"reaction,omitempty" json:"reaction" jsonschema_description:"when the window changes: combined, ack or rtt"`
	// MinRate is the minimum rate; 0 leaves it to W_AI, below which the window never falls.
	MinRate units.Rate `yaml:"min_rate,omitempty" json:"min_rate" jsonschema_description:"minimum rate; unlimited leaves it to the additive increase"`
	// INTHops is the number of hops that packets have room for, 1 to 7. Switch ports beyond
	// that are not seen.
	INTHops int `yaml:"int_hops,omitempty" json:"int_hops" jsonschema_description:"number of switch ports that the telemetry of packets has room for, 1 to 7"`
}

// Reaction is when the window changes (§3.2 and §5.4, "per-ACK" and "per-RTT").
type Reaction uint8

const (
	// Combined is HPCC: every acknowledgement sets W from the reference window W_c, and one per
	// round trip makes W the next W_c.
	Combined Reaction = iota
	// PerACK makes W the reference at every acknowledgement, which reacts to the same
	// bytes more than once.
	PerACK
	// PerRTT looks at only one acknowledgement per round trip.
	PerRTT
)

var reactionNames = [...]string{"combined", "ack", "rtt"}

// String returns the name used in lab files.
func (r Reaction) String() string { return reactionNames[r] }

// Names returns the names that a lab file can use.
func (Reaction) Names() []string { return reactionNames[:] }

// MarshalText returns the name used in lab files.
func (r Reaction) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name used in lab files.
func (r *Reaction) UnmarshalText(b []byte) error {
	s := strings.Trim(string(b), `"' `)
	for i, name := range reactionNames {
		if name == s {
			*r = Reaction(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a reaction of HPCC (there are %s)", s, strings.Join(reactionNames[:], ", "))
}

// maxFlows and maxMaxStage are limits beyond any useful value.
const (
	maxFlows    = 1_000_000
	maxMaxStage = 1_000_000
)

// Validate implements cc.Settings.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("HPCC needs the rate of the port's link: the first window is what it carries in a round trip; give the link a rate"))
	}
	if c.Eta <= 0 {
		check.AddRange("eta", c.Eta, "a share above 0%%, up to 100%%")
	} else {
		check.CheckShare("eta", c.Eta, 0, 1)
	}
	check.CheckNumber("max_stage", c.MaxStage, 0, maxMaxStage)
	if c.WAI < 0 {
		check.AddRange("w_ai", c.WAI, "an amount such as 80B, or 0 for the rule by eta and n")
	} else if c.WAI == 0 && c.Eta == 1 {
		check.AddRange("w_ai", c.WAI, "an amount such as 80B: with eta 100%% the rule gives no increase")
	}
	check.CheckNumber("n", c.N, 1, maxFlows)
	check.CheckTime("base_rtt", c.BaseRTT, 0)
	if c.MinRate != 0 {
		check.CheckRate("min_rate", c.MinRate, line, "100Mbps")
	}
	check.CheckNumber("int_hops", c.INTHops, 1, telemetry.MaxHops)
	return check.Err()
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"paper", "hpcc"}

// Preset returns the parameters of the preset name, one of Presets, for a port at line rate
// line:
//
//   - paper: η, maxStage and the rule for W_AI of §3.3 with N = 100: 81 bytes at
//     100 Gb/s and the 13 us that the paper's simulations take for T.
//   - hpcc: "hp" in simulation/run.py of
//     github.com/alibaba-edu/High-Precision-Congestion-Control. maxStage is 0, which
//     according to its authors is also what the paper's simulations had. Its additive
//     increase is the line rate's 2500th, the rule's with N = 125. The least rate is
//     1 Gb/s there; below 25 Gb/s it is taken as a 25th of the line rate, since it
//     would otherwise leave nothing to control.
func Preset(name string, line units.Rate) Config {
	c := Config{Eta: 0.95, MaxStage: 5, N: 100, INTHops: 5}
	switch name {
	case "paper":
	case "hpcc":
		c.MaxStage, c.N, c.MinRate = 0, 125, max(1, min(units.Gbps, line/25))
	default:
		panic("hpcc: unknown preset " + name)
	}
	return c
}

// Traits implements cc.Settings: packets carry telemetry, and every one is acknowledged.
func (c *Config) Traits() cc.Traits {
	return cc.Traits{Telemetry: c.INTHops, AskEvery: 1, NeedsPath: true, NeedsAcks: true}
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f) }
