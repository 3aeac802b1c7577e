package fabric

import (
	"cmp"
	"math"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/gauge"
)

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

func (g *FlowGauge) add(v float64) {
	if g.Flows == 0 {
		g.Min, g.Max = v, v
	}
	g.Flows++
	g.Min, g.Max = min(g.Min, v), max(g.Max, v)
	g.Mean += (v - g.Mean) / float64(g.Flows)
}

// flowGauges summarises the flows of a NIC: the gauges that any of them has now.
func (n *nic) flowGauges() (out []FlowGauge) {
	all := []FlowGauge{{Name: "rate", Unit: gauge.BitsPerSecond}, {Name: "window", Unit: gauge.Bytes}}
	settings := n.Settings()
	own := settings.FlowGauges()
	for _, g := range own {
		all = append(all, FlowGauge{Name: g.Name, Unit: g.Unit})
	}
	var values []float64
	n.EachQP(func(q *nicemu.QP) {
		if q.State() != qp.RTS || q.Type() == qp.UD {
			return
		}
		var s nicemu.FlowStatus
		s, values = q.Flow(n.Now(), values[:0])
		if rate := cmp.Or(s.Rate, n.Line()); rate > 0 {
			all[0].add(gauge.Rate(rate))
		}
		if s.Window > 0 {
			all[1].add(gauge.Size(s.Window))
		}
		for i, v := range values {
			if !math.IsNaN(v) {
				all[2+i].add(v)
			}
		}
	})
	for i, g := range all {
		// A gauge of rate control with the name of one of the first two has the same value.
		if g.Flows > 0 && (i < 2 || g.Name != all[0].Name && g.Name != all[1].Name) {
			out = append(out, g)
		}
	}
	return out
}
