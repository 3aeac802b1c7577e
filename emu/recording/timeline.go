package recording

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/status"
)

// Timeline returns what has happened to a network so far, ordered by time. No
// shard may run meanwhile.
func Timeline(f *fabric.Fabric) []status.Moment {
	all := f.Log()
	var out []status.Moment
	for i, m := range all {
		e := status.Moment{At: m.At, Event: m.Event, By: m.By, Text: m.Text}
		switch {
		case m.Event == status.Rerouted:
		case m.Link < 0:
			e.Where = f.Plan.PortName(m.Node, m.Port)
		default:
			if i > 0 && m.Dir == 1 { // the other direction of the previous entry
				before := all[i-1]
				before.Dir = 1
				if before == m {
					out[len(out)-1].OneWay = false
					continue
				}
			}
			ends := f.Plan.Links[m.Link].Ends
			near, far := ends[m.Dir], ends[1-m.Dir]
			e.Where, e.Peer, e.OneWay = f.Plan.PortName(near.Node, near.Port), f.Plan.PortName(far.Node, far.Port), true
		}
		out = append(out, e)
	}
	for _, d := range f.Deadlocks() {
		e := status.Moment{At: d.Since, Event: status.Stuck, Where: d.Cycle[0], Text: "class " + d.Class + ": " + d.String()}
		out = append(out, e)
		if d.Ended > 0 {
			e.At, e.Event = d.Ended, status.StuckOver
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b status.Moment) int { return cmp.Compare(a.At, b.At) })
	return out
}
