package report

import (
	"fmt"
	"io"

	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// Series summarizes a recording of queues, or of flows, over time.
type Series struct {
	File   string     `json:"file"`
	Every  units.Time `json:"every"`
	Queues int        `json:"queues,omitempty"` // ports and classes
	Flows  int        `json:"flows,omitempty"`  // flows that have rows

	FlowsLeftOut int `json:"flows_left_out,omitempty"` // of edge services, without rows because too many others had them
	series.Summary
	Error string `json:"error,omitempty"` // why it is incomplete
}

func (s *Series) write(w io.Writer, flows bool) {
	of, n, fewer := "queues", s.Queues, "ports"
	if flows {
		of, n, fewer = "flows", s.Flows, "flows"
	}
	fmt.Fprintf(w, "series   %s: %d rows, %d %s every %v\n", s.File, s.Rows, n, of, s.Every)
	if s.FlowsLeftOut > 0 {
		fmt.Fprintf(w, "         %d flows of edge services have no rows: at most 1000 of an interface have them at a time\n", s.FlowsLeftOut)
	}
	if s.Overruns > 0 {
		fmt.Fprintf(w, "         ** OVERRUN: %d samples are missing because they could not be written fast enough; the next ones stand for longer intervals **\n", s.Overruns)
	}
	if s.Error != "" {
		fmt.Fprintf(w, "         ** INCOMPLETE: %s **\n", s.Error)
	}
	if s.Full > 0 {
		fmt.Fprintf(w, "         ** FULL: it ends at %s, because a file has at most %d rows: sample less often, or fewer %s **\n", seconds(s.Full), series.MaxRows, fewer)
	}
}

// Size formats bytes to three digits, in decimal units, as all outputs for people do.
func Size(b float64) string { return size(b) }

// Gauge formats the value of a gauge with its unit.
func Gauge(g gauge.Value) string { return gaugeText(g) }
