package cc

import (
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/packet"
)

// Choice is a rate control with its parameters, as somebody has chosen it. The zero
// Choice is none: flows are sent at line rate.
type Choice struct {
	Name     string   // of Methods; "" for none
	Preset   string   // what the parameters were before single ones were set
	Settings Settings // nil for none; has passed Validate for the line rate
}

// String is the name in a lab file.
func (c Choice) String() string {
	if c.Settings == nil {
		return "none"
	}
	return c.Name
}

// Traits are those of the control.
func (c Choice) Traits() Traits {
	if c.Settings == nil {
		return Traits{}
	}
	return c.Settings.Traits()
}

// Feedback is the protocol of the messages that the control of a flow hears; nil for
// none.
func (c Choice) Feedback() *packet.MessageProtocol {
	m, err := Methods.Find(c.Name)
	if err != nil {
		return nil
	}
	return m.Feedback
}

// Gauges describes what the control of a flow shows; nil for none.
func (c Choice) Gauges() []gauge.Gauge {
	m, err := Methods.Find(c.Name)
	if err != nil {
		return nil
	}
	return m.Gauges
}
