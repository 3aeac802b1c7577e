package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/view/figure/canvas"
)

// pairs returns a series of n queue pairs of the transfers f1, f2, ..., every 10us for
// 10ms. Goodput, rate and window rise with their number; the gradient falls below 0. The
// last one has a rate control without gauges.
func pairs(t *testing.T, name string, n int) string {
	t.Helper()
	gauges, _ := series.GaugeColumns(series.OfControl, [][]gauge.Gauge{{{Name: "alpha", Unit: gauge.Share}, {Name: "gradient"}}})
	r := series.NewFlows(series.FlowOptions{Gauges: gauges, Ring: 1000 * n})
	tap := r.NewTap()
	for k := 1; k <= 1000; k++ {
		var samples []series.FlowSample
		for i := range n {
			s := series.FlowSample{At: units.Time(k) * 10 * us, Interval: 10 * us}
			s.Flow = series.Flow{NIC: fmt.Sprintf("h%d:eth0", i+1), QPN: 17, Transfer: fmt.Sprint("f", i+1)}
			s.Rate, s.Acked = units.Rate(i+1)*units.Gbps, uint64(1250*(i+1)*(k%2)*2)
			s.RTT = units.Time(10+k/100) * us
			s.Window = units.Bytes(1000 * (i + 1))
			s.Gauges = []float64{float64(k) / 1000, math.Sin(float64(k) / 100)}
			if i == n-1 {
				s.Gauges = []float64{gauge.None, gauge.None}
			}
			samples = append(samples, s)
		}
		tap.PutSamples(units.Time(k)*10*us, samples)
	}
	r.Close()
	var out bytes.Buffer
	if _, err := r.Run(&out); err != nil {
		t.Fatal(err)
	}
	return write(t, name, out.String())
}

// TestFlowSeries checks means over time, and pictures of each quantity, in which all lines
// must be visible.
func TestFlowSeries(t *testing.T) {
	file := pairs(t, "f.csv", 3)
	r := open(t, Options{}, file)
	f := r.(*flowSeriesReview).Flows
	if len(f) != 3 || f[1].Rows != 1000 || f[1].From != 0 || f[1].To != 10*ms {
		t.Fatalf("%+v", f)
	}
	want := map[string][4]float64{"rate": {2e9, 2e9, 2e9, 2e9}, "goodput": {2e9, 0, 4e9, 0}, "rtt": {14.51e-6, 10e-6, 20e-6, 20e-6}, "alpha": {0.5005, 0.001, 1, 1}}
	for _, m := range f[1].Values {
		w, ok := want[m.Name]
		if !ok {
			continue
		}
		for i, got := range [4]float64{m.Mean, m.Min, m.Max, m.Last} {
			if math.Abs(got-w[i]) > 1e-9*math.Abs(w[i])+1e-12 {
				t.Errorf("%s: %+v, want %v", m.Name, m, w)
			}
		}
	}
	var text strings.Builder
	r.Write(&text)
	for _, want := range []string{"h2:eth0#17", "2Gbps", "14.5us", "20us", "50.1%", "gradient"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "received") {
		t.Errorf("a column in which all is 0:\n%s", text.String())
	}
	if b, err := json.Marshal(r); err != nil || !json.Valid(b) {
		t.Errorf("%v: %s", err, b)
	}
	for what, lines := range map[string]int{"": 3, "rate": 3, "goodput": 3, "window": 3, "rtt": 3, "alpha": 2, "gradient": 2, "cc_alpha_share": 2} {
		f, p, note := figureIn(t, open(t, all(Options{What: what}), file))
		if len(p.Series) != lines || note != "" || p.Series[0].Name != "f1" {
			t.Errorf("%s: %d lines, %q, the first is %s", what, len(p.Series), note, p.Series[0].Name)
		}
		if what == "gradient" {
			i := drawPNG(t, f)
			for k := range p.Series {
				if n := near(i, canvas.Colours[k]); n < 20 {
					t.Errorf("%d pixels of line %d", n, k)
				}
			}
		}
		if low := what == "gradient"; low != (slices.Min(p.Series[0].Y) < 0) {
			t.Errorf("%s: the least value is %v", what, slices.Min(p.Series[0].Y))
		}
	}
}

// TestFlowAverage checks that goodput over longer intervals is the mean over them, and that
// the first step begins with its interval.
func TestFlowAverage(t *testing.T) {
	file := pairs(t, "f.csv", 2)
	f, p, _ := figureIn(t, open(t, all(Options{What: "goodput", Average: 20 * us, Flows: []string{"f2"}}), file))
	if len(p.Series) != 1 || f.Title != "f2" || p.Series[0].X[0] != 0 {
		t.Fatalf("%+v", p)
	}
	for _, y := range p.Series[0].Y {
		if math.Abs(y-2e9) > 1 {
			t.Fatalf("%v, want 2 Gb/s", y)
		}
	}
}

// TestManyFlows checks that, if there are many flows, those with the greatest values are
// drawn, that flows of one transfer have different names, and that flows can be selected.
func TestManyFlows(t *testing.T) {
	file := pairs(t, "f.csv", 12)
	_, p, note := figureIn(t, open(t, Options{}, file))
	if len(p.Series) != maxLines || p.Series[0].Name != "f5" || !strings.Contains(note, "8 of 12 flows") {
		t.Errorf("%d lines from %s on, %s", len(p.Series), p.Series[0].Name, note)
	}
	for pattern, want := range map[string]int{"f1*": 4, "h[12]": 2, "h3:eth0": 1, "h4:eth0#17": 1, "h?:*#17": 9} {
		if r := open(t, all(Options{Flows: []string{pattern}}), file).(*flowSeriesReview); len(r.Flows) != want {
			t.Errorf("%s chooses %d flows, want %d", pattern, len(r.Flows), want)
		}
	}
	_, two, _ := figureIn(t, open(t, all(Options{Flows: []string{"f1"}}), file, pairs(t, "other.csv", 2)))
	if got := lineNames(two); len(got) != 2 || got[1] != "other f1" {
		t.Errorf("two files: %q", got)
	}
	text := strings.NewReplacer("f2", "f1").Replace(mustRead(t, pairs(t, "f.csv", 2)))
	_, same, _ := figureIn(t, open(t, Options{}, write(t, "same.csv", text)))
	if got := lineNames(same)[1]; got != "f1 h2:eth0#17" {
		t.Errorf("two flows of one transfer: %s", got)
	}
}

// TestFlowSeriesBad checks that errors name what cannot be shown.
func TestFlowSeriesBad(t *testing.T) {
	file, queues := pairs(t, "f.csv", 2), waves(t, "w.csv", 1)
	for _, c := range []struct {
		o     Options
		files []string
		want  string
	}{
		{Options{What: "queue"}, []string{file}, `"queue" must be one of rate, goodput`},
		{Options{Ports: []string{"s1:1"}}, []string{file}, "choose flows with --flow"},
		{Options{Flows: []string{"f9"}}, []string{file}, `no flow "f9"`},
		{Options{Flows: []string{"["}}, []string{file}, "needs its ]"},
		{Options{Average: ms}, []string{file}, "--average is for goodput, received and sent"},
		{Options{LogX: true}, []string{file}, "--log-x is for records"},
		{Options{From: 20 * ms}, []string{file}, "samples cover 10us to 10ms"},
		{Options{}, []string{file, queues}, "different kinds: a series of flows and a series of queues"},
		{Options{Flows: []string{"f1"}}, []string{queues}, "--flow is for series of flows"},
	} {
		if _, err := Open(c.files, all(c.o)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	if _, _, err := open(t, all(Options{What: "alpha", Flows: []string{"f2"}}), file).Figure(); err == nil || !strings.Contains(err.Error(), "alpha of these flows is not known") {
		t.Errorf("a gauge that the flow does not have: %v", err)
	}
}

func mustRead(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEdgeFlows checks that flows of edge services beside queue pairs keep their names, can
// be selected by name and interface, and are drawn by their own quantities, which are
// unknown for the others.
func TestEdgeFlows(t *testing.T) {
	r := series.NewFlows(series.FlowOptions{Ring: 4000})
	tap := r.NewTap()
	const tcp = "tcp 10.0.0.3:5201 > 10.0.0.1:40000"
	for k := 1; k <= 1000; k++ {
		at := units.Time(k) * 10 * us
		tap.PutSamples(at, []series.FlowSample{
			{At: at, Interval: 10 * us, Flow: series.Flow{NIC: "h1:eth0", QPN: 17, Transfer: "w"}, FlowReading: series.FlowReading{Rate: units.Gbps, Acked: 125}},
			{At: at, Interval: 10 * us, Flow: series.Flow{NIC: "h1:eth0", Name: "slow"}, FlowReading: series.FlowReading{Rate: units.Mbps, Waiting: 3000, Sent: 1250}},
			{At: at, Interval: 10 * us, Flow: series.Flow{NIC: "h3:eth0", Name: tcp}, FlowReading: series.FlowReading{Rate: units.Mbps, Waiting: units.Bytes(k), Dropped: 1}},
		})
	}
	r.Close()
	var out bytes.Buffer
	if _, err := r.Run(&out); err != nil {
		t.Fatal(err)
	}
	file := write(t, "e.csv", out.String())
	var text strings.Builder
	open(t, Options{}, file).Write(&text)
	for _, want := range []string{"h1:eth0#17", "h1:eth0 slow", "h3:eth0 " + tcp, "waiting", "sent", "1Gbps"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
	for _, c := range []struct {
		what, flow, want string
	}{
		{"waiting", "", "slow," + tcp}, {"sent", "", "slow"}, {"goodput", "", "w"}, {"rate", "h3", tcp}, {"rate", "sl*", "slow"}, {"rate", "h1:eth0", "w,slow"},
	} {
		o := Options{What: c.what}
		if c.flow != "" {
			o.Flows = []string{c.flow}
		}
		_, p, _ := figureIn(t, open(t, all(o), file))
		if got := strings.Join(lineNames(p), ","); got != c.want {
			t.Errorf("%+v draws %s", c, got)
		}
	}
	b, err := json.Marshal(open(t, Options{Flows: []string{"slow"}}, file))
	if err != nil || !strings.Contains(string(b), `"nic":"h1:eth0","flow":"slow"`) {
		t.Errorf("%v: %s", err, b)
	}
}
