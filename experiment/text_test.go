package experiment

import (
	"testing"

	"github.com/weftlab/weft/experiment/table"
)

// TestDescribeMeasure_ShowsEmptyValues: the row of a port as a whole has an empty class.
func TestDescribeMeasure_ShowsEmptyValues(t *testing.T) {
	stat, err := table.ParseStatistic("mean")
	if err != nil {
		t.Fatal(err)
	}
	m := Measure{Of: "queue-series", Column: "queue_bytes", Stat: stat, Where: table.Filter{{Column: "class", Any: []string{"", "roce"}}, {Column: "time_s", Any: []string{">1ms"}}}}
	if got, want := m.DescribeMeasure(), `mean of queue_bytes of queue-series where class "" or roce and time_s >1ms`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
