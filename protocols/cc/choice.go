package cc

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
)

// Choice is a chosen rate control with its parameters. The zero Choice means none: flows are
// sent at line rate.
type Choice struct {
	Name     string   // of Methods; "" for none
	Preset   string   // the preset that single parameters override
	Settings Settings // nil for none; has passed Validate for the line rate
}

// String returns the name used in lab files.
func (c Choice) String() string {
	if c.Settings == nil {
		return "none"
	}
	return c.Name
}

// Traits returns the traits of the control.
func (c Choice) Traits() Traits {
	if c.Settings == nil {
		return Traits{}
	}
	return c.Settings.Traits()
}

// Feedback returns the protocol of the messages that the control of a flow receives; nil if
// there is none.
func (c Choice) Feedback() *packet.MessageProtocol {
	m, err := Methods.Find(c.Name)
	if err != nil {
		return nil
	}
	return m.Feedback
}

// Gauges describes the gauges of a flow's control; nil if there are none.
func (c Choice) Gauges() []gauge.Gauge {
	m, err := Methods.Find(c.Name)
	if err != nil {
		return nil
	}
	return m.Gauges
}
