package cc

import "github.com/weftlab/weft/sim/units"

// Deaf can be embedded by a control that needs only some of the inputs and sets
// no window. By itself it is a control that sets no limits.
type Deaf struct{}

var _ Control = Deaf{}

// Sent does nothing.
func (Deaf) Sent(units.Time, units.Bytes) {}

// Acked does nothing.
func (Deaf) Acked(units.Time, *Ack) {}

// Lost does nothing.
func (Deaf) Lost(units.Time, Loss) {}

// CNP does nothing.
func (Deaf) CNP(units.Time) {}

// Message does nothing.
func (Deaf) Message(units.Time, Feedback) {}

// Active does nothing.
func (Deaf) Active(units.Time, bool) {}

// Line does nothing.
func (Deaf) Line(units.Time, units.Rate) {}

// Tick does nothing.
func (Deaf) Tick(units.Time) {}

// Timer asks for no timer.
func (Deaf) Timer() units.Time { return units.Never }

// Rate sets no limit.
func (Deaf) Rate() units.Rate { return 0 }

// Window sets no limit.
func (Deaf) Window() units.Bytes { return 0 }

// Gauges appends nothing.
func (Deaf) Gauges(_ units.Time, values []float64) []float64 { return values }
