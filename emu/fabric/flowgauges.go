package fabric

import (
	"cmp"
	"math"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/gauge"
)

// flowGauges summarises the flows of a NIC: the gauges that any of them has now.
func (n attachedNIC) flowGauges() (out []status.FlowGauge) {
	all := []status.FlowGauge{{Name: "rate", Unit: gauge.BitsPerSecond}, {Name: "window", Unit: gauge.Bytes}}
	settings := n.Settings()
	own := settings.FlowGauges()
	for _, g := range own {
		all = append(all, status.FlowGauge{Name: g.Name, Unit: g.Unit})
	}
	var values []float64
	n.EachQP(func(q *nicemu.QP) {
		if q.State() != qp.RTS || q.Type() == qp.UD {
			return
		}
		var s nicemu.FlowStatus
		s, values = q.Flow(n.Now(), values[:0])
		if rate := cmp.Or(s.Rate, n.Line()); rate > 0 {
			all[0].Add(gauge.RateValue(rate))
		}
		if s.Window > 0 {
			all[1].Add(gauge.SizeValue(s.Window))
		}
		for i, v := range values {
			if !math.IsNaN(v) {
				all[2+i].Add(v)
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
