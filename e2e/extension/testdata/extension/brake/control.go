package brake

import (
	"errors"

	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
)

// ControlSettings are what stands behind cc: {brake: ...}.
type ControlSettings struct {
	Cut   units.Fraction `yaml:"cut,omitempty" json:"cut" jsonschema_description:"share of the rate that a message removes"`
	Raise units.Rate     `yaml:"raise,omitempty" json:"raise" jsonschema_description:"increase of the rate in each period"`
	Every units.Time     `yaml:"every,omitempty" json:"every" jsonschema_description:"the period"`
	Least units.Rate     `yaml:"least,omitempty" json:"least" jsonschema_description:"minimum rate"`
}

func init() {
	cc.Methods.Register("brake", cc.Method{
		Summary:  "messages of switches with mark: brake cut the rate by a share, and it rises again over time",
		Presets:  []string{"usual"},
		Feedback: Protocol,
		Preset: func(_ string, line units.Rate) cc.Settings {
			return &ControlSettings{Cut: 0.1, Raise: max(1, line/500), Every: 20 * units.Microsecond, Least: max(1, line/100)}
		},
		Gauges: []gauge.Gauge{
			{Name: "allowed", Unit: gauge.BitsPerSecond, Help: "rate allowed to the flow", Brief: true},
			{Name: "notices", Help: "messages received", Brief: true},
		},
	})
}

// Validate implements cc.Settings.
func (s *ControlSettings) Validate(line units.Rate) error {
	var c registry.Check
	if line <= 0 {
		c.AddError(errors.New("brake starts at the rate of the link: give it one"))
	}
	c.CheckShare("cut", s.Cut, 0, 1)
	c.CheckRate("raise", s.Raise, line, "10Mbps")
	c.CheckTime("every", s.Every, units.Microsecond)
	c.CheckRate("least", s.Least, line, "10Mbps")
	return c.Err()
}

// Traits implements cc.Settings: nothing is asked of the NICs.
func (s *ControlSettings) Traits() cc.Traits { return cc.Traits{} }

// New implements cc.Settings.
func (s *ControlSettings) New(f cc.Flow) cc.Control {
	return &control{settings: s, line: f.Line, rate: f.Line, raiseAt: units.Never}
}

// control is the state of one flow.
type control struct {
	cc.NopControl // to what is not here
	settings      *ControlSettings
	line          units.Rate
	rate          units.Rate
	raiseAt       units.Time // Never while the flow has the rate of the line
	notices       uint64
}

// OnMessage brakes.
func (c *control) OnMessage(now units.Time, m cc.Feedback) {
	if _, ok := m.(*Notice); !ok {
		return
	}
	c.notices++
	c.rate = max(c.settings.Least, c.rate-units.Rate(float64(c.rate)*float64(c.settings.Cut)))
	c.raiseAt = now + c.settings.Every
}

// OnTimer does the raises that are due by now: more than one where the flow has rested.
func (c *control) OnTimer(now units.Time) {
	for c.raiseAt <= now {
		c.raiseAt += c.settings.Every
		if c.rate += c.settings.Raise; c.rate >= c.line {
			c.rate, c.raiseAt = c.line, units.Never
		}
	}
}

// SetLineRate takes over another rate of the port.
func (c *control) SetLineRate(_ units.Time, r units.Rate) { c.line, c.rate = r, min(c.rate, r) }

// NextTimer is when OnTimer is due.
func (c *control) NextTimer() units.Time { return c.raiseAt }

// Rate is the most that the flow may send.
func (c *control) Rate() units.Rate { return c.rate }

// AppendGauges implements cc.Control.
func (c *control) AppendGauges(_ units.Time, values []float64) []float64 {
	return append(values, float64(c.rate), float64(c.notices))
}
