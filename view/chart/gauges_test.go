package chart

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure/canvas"
)

// points returns a series of two ports, every 10us for 10ms. The first has a congestion
// point whose gradient falls below 0, and an edge service; the second has neither.
func points(t *testing.T, name string) string {
	t.Helper()
	ofPoint, _ := series.GaugeColumns(series.OfPoint, [][]gauge.Gauge{{{Name: "gradient"}, {Name: "mark_probability", Unit: gauge.Share}}})
	ofEdge, _ := series.GaugeColumns(series.OfEdge, [][]gauge.Gauge{{{Name: "waiting", Unit: gauge.Bytes}}})
	r := series.New(series.Options{Sources: []series.Source{{Port: "p:1"}, {Port: "p:2"}}, Gauges: append(ofPoint, ofEdge...), Ring: 4000})
	tap := r.NewTap([]int32{0, 1})
	for k := 1; k <= 1000; k++ {
		tap.PutReadings(units.Time(k)*10*us, []series.Reading{
			{Gauges: []float64{math.Sin(float64(k) / 100), float64(k) / 1000, 3000}}, {Gauges: []float64{gauge.None, gauge.None, gauge.None}},
		})
	}
	r.Close()
	var out bytes.Buffer
	if _, err := r.Run(&out); err != nil {
		t.Fatal(err)
	}
	return write(t, name, out.String())
}

// TestGauges checks that the table and JSON have the means of gauges, and that a picture
// draws one gauge with its unit, for the queues that have it, also below 0.
func TestGauges(t *testing.T) {
	file := points(t, "g.csv")
	r := open(t, all(Options{}), file)
	var text bytes.Buffer
	r.Write(&text)
	for _, want := range []string{"gradient", "mark probability", "edge waiting", "50.1%", "3kB"} {
		if !strings.Contains(strings.ReplaceAll(text.String(), "KB", "kB"), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"name":"mark_probability","of":"point","unit":"share","mean":0.500`, `{"name":"waiting","of":"edge","unit":"B","mean":3000,"min":3000,"max":3000,"last":3000}`} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %q in %s", want, b)
		}
	}
	for what, want := range map[string]struct {
		label string
		low   bool
	}{"gradient": {"gradient", true}, "mark-probability": {"mark probability", false}, "edge_waiting_bytes": {"edge waiting", false}} {
		f, p, _ := figureIn(t, open(t, all(Options{What: what}), file))
		if len(p.Series) != 1 || f.Title != "p:1" || p.Y.Label != want.label || slices.Min(p.Series[0].Y) < 0 != want.low {
			t.Errorf("%s: %d lines, %q, %+v", what, len(p.Series), f.Title, p.Y)
		}
		if n := near(drawPNG(t, f), canvas.Colours[0]); n < 20 {
			t.Errorf("%s: %d pixels of the line", what, n)
		}
		// Samples are instants: no line begins before the first of them.
		if first := p.Series[0].X[0]; first == 0 {
			t.Errorf("%s: the line begins at %v", what, first)
		}
	}
	if _, _, err := open(t, all(Options{What: "gradient", Ports: []string{"p:2"}}), file).Figure(); err == nil || !strings.Contains(err.Error(), "gradient of these queues is not known") {
		t.Errorf("a port without the gauge: %v", err)
	}
	for what, want := range map[string]string{"alpha": `"alpha" must be one of queue, queue-max`, "gradient": "--average is for rates"} {
		o := all(Options{What: what})
		if what == "gradient" {
			o.Average = ms
		}
		if _, err := Open([]string{file}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
