package report

import (
	"fmt"
	"io"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/series"
)

// Series is what became of the recording of queues over time.
type Series struct {
	File   string     `json:"file"`
	Every  units.Time `json:"every"`
	Queues int        `json:"queues"` // ports and classes
	series.Summary
	Error string `json:"error,omitempty"` // why it is not whole
}

func (s *Series) write(w io.Writer) {
	fmt.Fprintf(w, "series   %s: %d rows, %d queues every %v\n", s.File, s.Rows, s.Queues, s.Every)
	if s.Overruns > 0 {
		fmt.Fprintf(w, "         ** OVERRUN: %d samples are missing because they could not be written fast enough; the next ones stand for longer intervals **\n", s.Overruns)
	}
	if s.Error != "" {
		fmt.Fprintf(w, "         ** NOT WHOLE: %s **\n", s.Error)
	}
	if s.Full > 0 {
		fmt.Fprintf(w, "         ** FULL: it ends at %s, because a file has at most %d rows: sample less often, or fewer ports **\n", seconds(s.Full), series.MaxRows)
	}
}

// Size prints bytes to three digits.
func Size(b float64) string { return size(b) }
