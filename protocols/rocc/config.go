package rocc

import (
	"errors"
	"fmt"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// Config holds the parameters of the reaction point.
type Config struct {
	// Delay is how long the NIC takes to react to a message. 0 to 1h.
	Delay units.Time `yaml:"delay,omitempty" json:"delay" jsonschema_description:"how long the NIC takes to react to a message"`
	// Rise is the time without an accepted message after which the rate doubles. Above 0.
	Rise units.Time `yaml:"rise,omitempty" json:"rise" jsonschema_description:"time without feedback after which the rate doubles; more than the t of the congestion points"`
	// RMin is the minimum rate, whatever messages say. Above 0, up to the line rate.
	RMin units.Rate `yaml:"r_min,omitempty" json:"r_min" jsonschema_description:"minimum rate, regardless of messages"`
	// Registry holds the parameters of congestion points with compute: registry, by F_max.
	// Congestion points that it lacks have the paper's parameters.
	Registry []Known `yaml:"registry,omitempty" json:"registry,omitempty" jsonschema_description:"parameters of congestion points with compute: registry, by f_max; default the paper's"`
}

// Known is an entry of the registry in which hosts look up parameters (§3.6).
type Known struct {
	FMax  units.Rate  `yaml:"f_max" json:"f_max" jsonschema_description:"f_max of the congestion points"`
	FMin  units.Rate  `yaml:"f_min" json:"f_min" jsonschema_description:"their f_min"`
	QRef  units.Bytes `yaml:"q_ref" json:"q_ref" jsonschema_description:"their q_ref"`
	QMid  units.Bytes `yaml:"q_mid" json:"q_mid" jsonschema_description:"their q_mid"`
	QMax  units.Bytes `yaml:"q_max" json:"q_max" jsonschema_description:"their q_max"`
	Alpha float64     `yaml:"alpha" json:"alpha" jsonschema_description:"their alpha"`
	Beta  float64     `yaml:"beta" json:"beta" jsonschema_description:"their beta"`
}

// Presets lists the names that Preset accepts, the default first.
var Presets = []string{"paper"}

// Preset returns the parameters of the preset name, one of Presets, for a port at line rate
// line: paper has the NIC's delay of §6. The paper does not print the period of fast
// recovery, so it comes from the authors' simulator (github.com/danushkam/rocc): 55 us.
// Below 10 Gb/s Rise grows as Params.Interval does. The minimum rate is a thousandth of the
// line rate.
func Preset(name string, line units.Rate) Config {
	if name != "paper" {
		panic("rocc: unknown preset " + name)
	}
	c := Config{Delay: 15 * units.Microsecond, Rise: 55 * units.Microsecond, RMin: max(1, line/1000)}
	if t := PaperParams(line).Interval; t > 40*units.Microsecond {
		c.Rise = t / 40 * 55
	}
	return c
}

// Validate implements cc.Settings.
func (c *Config) Validate(line units.Rate) error {
	var check registry.Check
	if line <= 0 {
		check.AddError(errors.New("RoCC needs the rate of the port's link: flows that no congestion point limits send at it; give the link a rate"))
	}
	check.CheckTime("delay", c.Delay, 0)
	check.CheckTime("rise", c.Rise, units.Picosecond)
	check.CheckRate("r_min", c.RMin, line, "10Mbps")
	for i := range c.Registry {
		k := &c.Registry[i]
		p := k.pointParams(10*units.Mbps, 600)
		if err := p.Validate(0); err != nil {
			check.AddError(fmt.Errorf("registry: f_max %v: %w", k.FMax, err))
		}
	}
	return check.Err()
}

// pointParams returns the parameters of an entry's congestion points, with the given
// resolutions.
func (k *Known) pointParams(deltaF units.Rate, deltaQ units.Bytes) Params {
	p := PaperParams(k.FMax)
	p.FMin, p.QRef, p.QMid, p.QMax, p.Alpha, p.Beta = k.FMin, k.QRef, k.QMid, k.QMax, k.Alpha, k.Beta
	p.DeltaF, p.DeltaQ = deltaF, deltaQ
	return p
}

// rateOf returns the rate that a message gives its flow.
func (c *Config) rateOf(f *Feedback) units.Rate {
	law := f.Law
	switch f.Code {
	case AtSwitch:
		return units.Rate(f.Rate) * f.DeltaF
	case ByRegistry:
		if f.DeltaF <= 0 || f.DeltaQ <= 0 {
			return 0
		}
		law = c.lawFor(f)
	}
	return units.Rate(law.Next(f.Inputs.F, f.Inputs.Q, f.Inputs.QOld)>>gainBits) * f.DeltaF
}

// lawFor looks up the algorithm of the congestion point that sent a message.
func (c *Config) lawFor(f *Feedback) Law {
	line := units.Rate(f.Law.FMax>>gainBits) * f.DeltaF
	p := PaperParams(line)
	p.DeltaF, p.DeltaQ = f.DeltaF, f.DeltaQ
	for i := range c.Registry {
		if c.Registry[i].FMax == line {
			p = c.Registry[i].pointParams(f.DeltaF, f.DeltaQ)
		}
	}
	return p.Law()
}

// Traits implements cc.Settings. NICs only have to deliver messages.
func (c *Config) Traits() cc.Traits { return cc.Traits{} }

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f.Line) }
