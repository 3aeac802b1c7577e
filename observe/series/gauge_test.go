package series

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// ofQueues are gauges of two points and of an edge service; two have the same name.
var ofQueues = []Gauge{
	{OfPoint, gauge.Gauge{Name: "mark_probability", Unit: gauge.Share}}, {OfPoint, gauge.Gauge{Name: "messages"}},
	{OfEdge, gauge.Gauge{Name: "messages"}}, {OfEdge, gauge.Gauge{Name: "waiting", Unit: gauge.Bytes}},
}

var no = gauge.None

// Gauges follow the other columns, with their current values, each in the
// row of its queue. A gauge that a queue does not have, or that has no meaning now, is
// empty, even if the ring slot had a value before.
func TestGauges_FollowTheOtherColumns(t *testing.T) {
	r := New(Options{Sources: []Source{{"s1:1", ""}, {"s1:1", "bulk"}}, Gauges: ofQueues, Ring: 2})
	tap := r.NewTap([]int32{0, 1})
	var out bytes.Buffer
	w := newWriter(&out, r.options.Sources, r.options.Gauges)
	c := r.newRun(w)
	for i, p := range []float64{0.25, no, 1} {
		tap.PutReadings(units.Time(i+1)*us, []Reading{{TxBytes: 1, Gauges: []float64{no, no, float64(i), 1500}}, {QueueMax: Unknown, Gauges: []float64{p, no, no, no}}})
		for c.nextInstant(true) {
			for k := range c.instant {
				if err := c.row(&c.instant[k]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	_ = w.flushRows()
	want := strings.Join(Columns[:], ",") + `,point_mark_probability_share,point_messages,edge_messages,edge_waiting_bytes
0.000001,0.000001,s1:1,,0,0,1,0,8000000,0,0,0,0,0,,,0,1500
0.000001,0.000001,s1:1,bulk,0,,0,,0,,0,0,0,0,0.25,,,
0.000002,0.000001,s1:1,,0,0,0,0,0,0,0,0,0,0,,,1,1500
0.000002,0.000001,s1:1,bulk,0,,0,,0,,0,0,0,0,,,,
0.000003,0.000001,s1:1,,0,0,0,0,0,0,0,0,0,0,,,2,1500
0.000003,0.000001,s1:1,bulk,0,,0,,0,,0,0,0,0,1,,,
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A reader finds gauges by their names, or by their columns if two
// have the same name, and returns their values.
func TestGauges_AreFoundByNameOrColumn(t *testing.T) {
	x, err := NewReader(strings.NewReader(strings.Join(append(columnsOf(ofQueues), Columns[:]...), ",") +
		"\n0.5,7,8,,0.1,0.1,s1:1,,0,0,1,1,80,80,0,0,0,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ofQueues, x.Gauges()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]float64{"mark-probability": 0.5, "mark_probability": 0.5, "point_messages": 7, "edge_messages": 8, "waiting": no} {
		q, err := x.FindQuantity(name)
		if unit, is := q.IsGauge(); err != nil || !is || q.IsRate() || name == "waiting" && unit != gauge.Bytes {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
		row := Row{Reading: Reading{Gauges: []float64{0.5, 7, 8, no}}}
		if v, ok := q.ValueIn(&row); ok != (name != "waiting") || ok && v != want {
			t.Errorf("%s is %v, %v", name, v, ok)
		}
	}
	if _, err := x.FindQuantity("messages"); err == nil || !strings.Contains(err.Error(), "write point_messages or edge_messages") {
		t.Errorf("messages: %v", err)
	}
	if _, err := x.FindQuantity("speed"); err == nil || !strings.Contains(err.Error(), "paused, mark_probability, messages, waiting") {
		t.Errorf("speed: %v", err)
	}
	text := strings.Join(append(Columns[:], "point_fb"), ",") + "\n0.1,0.1,s1:1,,0,0,1,1,80,80,0,0,0,0,much\n"
	if _, err := rows(t, text); err == nil || !strings.Contains(err.Error(), `line 2: point_fb: "much" is not a number`) {
		t.Errorf("much: %v", err)
	}
}

// Merged rows have the gauges of the last moment, which do not change
// when the reader continues; statistics are means over time, of the rows that have the
// gauge.
func TestGauges_OfMergedRowsAreTheLast(t *testing.T) {
	m := NewMerger(2 * us)
	s := NewStatistician(Quantity{kind: gaugeKind, gauge: 0}, 0, ofQueues[:2]...)
	row := Row{Source: Source{Port: "s1:1"}, Interval: us, Reading: Reading{Gauges: make([]float64, 2)}}
	var joined []float64
	for i, p := range []float64{-0.5, no, 1, 0.25} {
		row.At = units.Time(i+1) * us
		row.Gauges[0], row.Gauges[1] = p, no
		s.AddRow(&row)
		x, whole := m.AddRow(&row)
		row.Gauges[0] = 99
		if whole {
			joined = append(joined, x.Gauges[0])
		}
		row.Gauges[0] = p
	}
	if len(joined) != 2 || !math.IsNaN(joined[0]) || joined[1] != 0.25 {
		t.Errorf("joined %v, want none and 0.25", joined)
	}
	got := s.Statistics()[0]
	want := []Measured{{Name: "mark_probability", Of: "point", Unit: gauge.Share, Mean: 0.25, Min: -0.5, Max: 1, Last: 0.25, span: 3 * us}, {Name: "messages", Of: "point"}}
	if diff := cmp.Diff(want, got.Gauges, cmp.AllowUnexported(Measured{})); diff != "" || !got.Known || got.Peak != 1 {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
}
