package cc

import "github.com/weftlab/weft/sim/units"

// NopControl can be embedded by a control that needs only some of the inputs and sets
// no window. By itself it is a control that sets no limits.
type NopControl struct{}

var _ Control = NopControl{}

// OnPacketSent does nothing.
func (NopControl) OnPacketSent(units.Time, units.Bytes) {}

// OnAck does nothing.
func (NopControl) OnAck(units.Time, *Ack) {}

// OnLoss does nothing.
func (NopControl) OnLoss(units.Time, Loss) {}

// OnCNP does nothing.
func (NopControl) OnCNP(units.Time) {}

// OnMessage does nothing.
func (NopControl) OnMessage(units.Time, Feedback) {}

// SetActive does nothing.
func (NopControl) SetActive(units.Time, bool) {}

// SetLineRate does nothing.
func (NopControl) SetLineRate(units.Time, units.Rate) {}

// OnTimer does nothing.
func (NopControl) OnTimer(units.Time) {}

// NextTimer asks for no timer.
func (NopControl) NextTimer() units.Time { return units.Never }

// Rate sets no limit.
func (NopControl) Rate() units.Rate { return 0 }

// Window sets no limit.
func (NopControl) Window() units.Bytes { return 0 }

// AppendGauges appends nothing.
func (NopControl) AppendGauges(_ units.Time, values []float64) []float64 { return values }
