package qcn

import (
	"errors"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters of the reaction point under the standard's names
// (rpgTimeReset and so on), spelled as Linux's struct ieee_qcn does.
type Config struct {
	// RPGTimeReset is the period of the timer in fast recovery; beyond it the period is
	// half as long. Above 0, up to 1 h.
	RPGTimeReset units.Time `yaml:"rpg_time_reset,omitempty" json:"rpg_time_reset" jsonschema_description:"time between increases by the timer in fast recovery, half of it afterwards"`
	// RPGByteReset is the number of bytes that the byte counter counts to in fast
	// recovery, half as many beyond it. Above 0. Packets count with all bytes that they
	// occupy on the wire.
	RPGByteReset units.Bytes `yaml:"rpg_byte_reset,omitempty" json:"rpg_byte_reset" jsonschema_description:"data sent between increases by the byte counter in fast recovery, half of it afterwards"`
	// RPGThreshold is the number of fast-recovery increases of a counter. 0 to 31.
	RPGThreshold int `yaml:"rpg_threshold,omitempty" json:"rpg_threshold" jsonschema_description:"number of increases in fast recovery, 0 to 31"`
	// RPGMaxRate is the highest rate of a limited flow. 0 means the line rate, as does
	// any rate above it.
	RPGMaxRate units.Rate `yaml:"rpg_max_rate,omitempty" json:"rpg_max_rate" jsonschema_description:"maximum rate of a limited flow; unlimited means the line rate"`
	// RPGAIRate is the amount that an active increase adds to the target. Above 0.
	RPGAIRate units.Rate `yaml:"rpg_ai_rate,omitempty" json:"rpg_ai_rate" jsonschema_description:"amount that an active increase adds to the target rate"`
	// RPGHAIRate is the amount that a hyper increase adds to the target for each
	// increase beyond rpg_threshold that both counters have had. Above 0.
	RPGHAIRate units.Rate `yaml:"rpg_hai_rate,omitempty" json:"rpg_hai_rate" jsonschema_description:"amount that the first hyper increase adds to the target rate; the second adds twice that, and so on"`
	// RPGGD is the binary logarithm of the divisor that turns feedback into the share
	// of the rate that a message takes away: 7 is an rpgGd of 1/128, with which the
	// largest feedback, 63, takes half. 0 to 31.
	RPGGD int `yaml:"rpg_gd,omitempty" json:"rpg_gd" jsonschema_description:"binary logarithm of the divisor that turns feedback, 1 to 63, into the share by which the rate decreases; 0 to 31"`
	// RPGMinDecFac is the smallest share of the rate that a message leaves. 0% to 100%.
	RPGMinDecFac units.Fraction `yaml:"rpg_min_dec_fac,omitempty" json:"rpg_min_dec_fac" jsonschema_description:"minimum share of the rate left by a message"`
	// RPGMinRate is the minimum rate. Above 0, up to the line rate.
	RPGMinRate units.Rate `yaml:"rpg_min_rate,omitempty" json:"rpg_min_rate" jsonschema_description:"minimum rate"`
	// Jitter is the share by which the periods of timer and byte counter vary at
	// random, up and down, so that flows do not increase in step. 0% to 100%. The
	// standard does not have this parameter.
	Jitter units.Fraction `yaml:"jitter,omitempty" json:"jitter" jsonschema_description:"share by which the periods of timer and byte counter vary, up and down"`
}

// variation is the default jitter of periods, and the jitter of sample intervals.
const variation = 0.15

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"standard"}

// Preset returns the parameters of the preset name, one of Presets, for a port at line
// rate line. standard has the defaults of IEEE8021-CN-MIB. Its minimum rate is 5 Mb/s,
// or the line rate if that is lower.
func Preset(name string, line units.Rate) Config {
	if name != "standard" {
		panic("qcn: unknown preset " + name)
	}
	return Config{
		RPGTimeReset: 15 * units.Millisecond, RPGByteReset: 150 * units.KB, RPGThreshold: 5,
		RPGAIRate: 5 * units.Mbps, RPGHAIRate: 50 * units.Mbps,
		RPGGD: 7, RPGMinDecFac: 0.5, RPGMinRate: max(1, min(5*units.Mbps, line)), Jitter: variation,
	}
}

// Validate checks c for a port at line rate line. The error joins a registry.RangeError
// for each invalid parameter, and another error for a line without a rate.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("QCN needs the rate of the port's link: flows start at it and recover to it; give the link a rate"))
	}
	check.CheckTime("rpg_time_reset", c.RPGTimeReset, units.Picosecond)
	if c.RPGByteReset <= 0 {
		check.AddRange("rpg_byte_reset", c.RPGByteReset, "an amount above 0, such as 150KB")
	}
	check.CheckNumber("rpg_threshold", c.RPGThreshold, 0, 31)
	if r := c.RPGMaxRate; r < 0 || r > 0 && r < c.RPGMinRate {
		check.AddRange("rpg_max_rate", r, "at least rpg_min_rate (%v), or unlimited for the line rate", c.RPGMinRate)
	}
	check.CheckRate("rpg_ai_rate", c.RPGAIRate, 0, "5Mbps")
	check.CheckRate("rpg_hai_rate", c.RPGHAIRate, 0, "50Mbps")
	check.CheckNumber("rpg_gd", c.RPGGD, 0, 31)
	check.CheckShare("rpg_min_dec_fac", c.RPGMinDecFac, 0, 1)
	check.CheckRate("rpg_min_rate", c.RPGMinRate, line, "5Mbps")
	check.CheckShare("jitter", c.Jitter, 0, 1)
	return check.Err()
}

// Traits implements cc.Settings. NICs only have to deliver messages.
func (c *Config) Traits() cc.Traits { return cc.Traits{} }

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f.Line, f.Rand) }
