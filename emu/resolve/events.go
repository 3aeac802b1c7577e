package resolve

import (
	"cmp"
	"slices"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/links"
)

// resolveEvents resolves the changes to links and applies them in order of time, so
// that each is checked against the state that the earlier ones left.
func (v *directions) resolveEvents(files []labfile.Event) {
	type located struct {
		plan.Event
		file *labfile.Event
	}
	var events []located
	for i := range files {
		f := &files[i]
		v.checkTime(&f.At, "at", maxTime)
		if f.Port != nil || f.Queue != nil || f.Class != nil {
			continue // see queueEvents
		}
		name := f.Link
		if name == nil {
			name = f.From
		}
		if name == nil || f.Link != nil && f.From != nil {
			v.ReportFault(f, "link changes both directions, from only the one that leaves the endpoint, port a queue", "an event needs exactly one of link, from and port")
			continue
		}
		if f.Set == nil || *f.Set == (change.LinkPatch{}) {
			v.ReportFault(v.FirstSet(f.Set, f), "write for example set: {state: down}", "the event sets nothing")
			continue
		}
		end, ok := v.findEnd(name)
		if !ok {
			continue
		}
		port := v.plan.Nodes[end.Node].Ports[end.Port]
		if port.Link < 0 {
			v.ReportFault(name, "", "%s has no link", *name)
			continue
		}
		e := plan.Event{At: f.At, Link: port.Link, Dir: [2]bool{true, true}, Set: *f.Set}
		if f.From != nil {
			e.Dir[1-port.End] = false
		}
		events = append(events, located{e, f})
	}
	slices.SortStableFunc(events, func(a, b located) int { return cmp.Compare(a.At, b.At) })

	now := map[int]*[2]links.Settings{}
	for _, e := range events {
		v.plan.Events = append(v.plan.Events, e.Event)
		if now[e.Link] == nil {
			dir := v.plan.Links[e.Link].Dir
			now[e.Link] = &dir
		}
		for d := range e.Dir {
			if !e.Dir[d] {
				continue
			}
			changed, err := e.Set.Apply(now[e.Link][d])
			if err != nil {
				v.checkPatch(err, e.file.Set)
				continue
			}
			if e.Set.MTU != nil {
				v.checkDirection(e.Link, d, changed, e.Set.MTU)
				v.checkTunnelMTU(e.Link, now[e.Link][d].MTU, changed.MTU, e.Set.MTU)
			}
			if e.Set.Rate != nil && changed.Rate == 0 {
				v.checkUnlimited(v.plan.Links[e.Link].Ends[d], e.Set.Rate)
			}
			if e.Set.Rate != nil && v.plan.Telemetry() {
				v.checkTelemetryRate(v.plan.Links[e.Link].Ends[d], changed.Rate, e.Set.Rate)
			}
			now[e.Link][d] = changed
		}
	}
}
