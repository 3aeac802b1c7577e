package cc

import "github.com/weftlab/weft/sim/units"

// NopControl can be embedded by a control that needs only some of the inputs and sets
// no window. By itself it is a control that sets no limits.
type NopControl struct{}

var _ Control = NopControl{}

// Sent does nothing.
func (NopControl) Sent(units.Time, units.Bytes) {}

// Acked does nothing.
func (NopControl) Acked(units.Time, *Ack) {}

// Lost does nothing.
func (NopControl) Lost(units.Time, Loss) {}

// CNP does nothing.
func (NopControl) CNP(units.Time) {}

// Message does nothing.
func (NopControl) Message(units.Time, Feedback) {}

// Active does nothing.
func (NopControl) Active(units.Time, bool) {}

// Line does nothing.
func (NopControl) Line(units.Time, units.Rate) {}

// Tick does nothing.
func (NopControl) Tick(units.Time) {}

// Timer asks for no timer.
func (NopControl) Timer() units.Time { return units.Never }

// Rate sets no limit.
func (NopControl) Rate() units.Rate { return 0 }

// Window sets no limit.
func (NopControl) Window() units.Bytes { return 0 }

// Gauges appends nothing.
func (NopControl) Gauges(_ units.Time, values []float64) []float64 { return values }
