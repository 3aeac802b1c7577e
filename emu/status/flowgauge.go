package status

import "github.com/weftlab/weft/sim/gauge"

// FlowGauge is one gauge of the flows of a NIC, which are its RC and UC queue pairs in
// RTS: the rate and window that they allow, and the gauges of their rate control.
type FlowGauge struct {
	Name  string     `json:"name"`
	Unit  gauge.Unit `json:"unit,omitempty"`
	Flows int        `json:"flows"` // with a value now
	Min   float64    `json:"min"`
	Mean  float64    `json:"mean"`
	Max   float64    `json:"max"`
}

// Add counts a flow with a value.
func (g *FlowGauge) Add(v float64) {
	if g.Flows == 0 {
		g.Min, g.Max = v, v
	}
	g.Flows++
	g.Min, g.Max = min(g.Min, v), max(g.Max, v)
	g.Mean += (v - g.Mean) / float64(g.Flows)
}
