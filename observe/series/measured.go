package series

import (
	"encoding/json"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// Measured summarises one quantity over the rows of a flow, or of a queue, that have it.
type Measured struct {
	Name string     `json:"name"`
	Of   string     `json:"of,omitempty"` // for a queue's gauge: point or edge
	Unit gauge.Unit `json:"unit,omitempty"`
	Mean float64    `json:"mean"` // over time
	Min  float64    `json:"min"`
	Max  float64    `json:"max"`
	Last float64    `json:"last"`
	span units.Time // of the rows that have it
}

// IsKnown reports whether any row had the quantity.
func (m *Measured) IsKnown() bool { return m.span > 0 }

// AddValue adds the value of a row with this interval.
func (m *Measured) AddValue(v float64, over units.Time) {
	if m.span == 0 {
		m.Min, m.Max = v, v
	}
	m.Min, m.Max, m.Last = min(m.Min, v), max(m.Max, v), v
	m.Mean += (v - m.Mean) * float64(over) / float64(m.span+over)
	m.span += over
}

// MarshalJSON omits the statistics if no row had the quantity.
func (m Measured) MarshalJSON() ([]byte, error) {
	if m.span == 0 {
		return json.Marshal(struct {
			Name string     `json:"name"`
			Of   string     `json:"of,omitempty"`
			Unit gauge.Unit `json:"unit,omitempty"`
		}{m.Name, m.Of, m.Unit})
	}
	type plain Measured
	return json.Marshal(plain(m))
}
