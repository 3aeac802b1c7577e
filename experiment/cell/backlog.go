package cell

import (
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
)

// backlogGrowth returns by how much the backlog of open-loop patterns grows over the measurement
// window, as a share of what they offer: 0 in a steady state, 1 if nothing is carried. The backlog
// is the size of all flows that were created and are not complete. It is compared between the
// halves of the window, which ends with the run if the lab gives no end. Without two flows of such
// patterns in the window the result is unknown.
func (t *FlowTable) backlogGrowth(p *plan.Plan, end units.Time) float64 {
	open := map[string]bool{}
	for i := range p.Traffic {
		open[p.Traffic[i].Name] = pattern.IsOpenLoop(p.Traffic[i].Pattern)
	}
	w := p.Measure.Window
	from, to := w.WarmUp.Seconds(), end.Seconds()
	if w.End > 0 {
		to = min(to, w.End.Seconds())
	}
	half := (to - from) / 2
	offered, first, second, n := 0.0, 0.0, 0.0, 0
	for i, size := range t.size {
		if !open[t.traffic[i]] {
			continue
		}
		created, ended := t.created[i], t.end[i]
		if t.state[i] == records.Unfinished.String() {
			ended = to
		}
		if created >= from && created < to {
			offered += size
			n++
		}
		first += size * max(0, min(ended, from+half)-max(created, from))
		second += size * max(0, min(ended, to)-max(created, from+half))
	}
	if n < 2 || half <= 0 {
		return table.Unknown
	}
	return (second - first) / half / (offered / 2)
}
