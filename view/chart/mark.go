package chart

import (
	"fmt"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure"
)

// bad are the events drawn in red: something was lost.
var bad = map[string]bool{status.LinkDown: true, status.Watchdog: true, status.Stuck: true, status.HostLost: true}

// marksOf returns the events in the files beside the series of a picture, within its
// time range.
func marksOf(files []string, from, to units.Time) (all []figure.Mark, err error) {
	for _, f := range files {
		events, err := report.ReadEvents(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w (without that file no events are drawn)", report.EventsFile(f), err)
		}
		for i := range events {
			m := &events[i]
			if m.At < from || m.At > to {
				continue
			}
			name := m.Event
			if where := m.Place(); where != "" {
				name += " " + where
			}
			all = append(all, figure.Mark{X: m.At.Seconds(), Name: name, Bad: bad[m.Event]})
		}
	}
	return all, nil
}
