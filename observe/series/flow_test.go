package series

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

var gauges, _ = GaugeColumns(OfControl, [][]gauge.Gauge{{{Name: "alpha", Unit: gauge.Share}, {Name: "rtt", Unit: gauge.Seconds}, {Name: "stage"}, {Name: "w", Unit: gauge.Bytes}}})

func sampleOf(at, interval units.Time, order int32, f Flow, r FlowReading) FlowSample {
	for len(r.Gauges) < len(gauges) {
		r.Gauges = append(r.Gauges, gauge.None)
	}
	return FlowSample{At: at, Interval: interval, Order: order, Flow: f, FlowReading: r}
}

// Two producers, one of which has nothing at an instant, write one file
// in order of time and of NICs, with unknown values empty.
func TestFlows_AreWrittenInOrder(t *testing.T) {
	r := NewFlows(FlowOptions{Gauges: gauges, Ring: 8})
	a, b := r.NewTap(), r.NewTap()
	one, two := Flow{NIC: "h1:eth0", QPN: 17, Transfer: "h1-h2"}, Flow{NIC: "h2:eth0", QPN: 4711}
	b.PutSamples(100*us, []FlowSample{sampleOf(100*us, 40*us, 1, two, FlowReading{Rate: units.Gbps, Received: 125})})
	a.PutSamples(100*us, []FlowSample{sampleOf(100*us, 100*us, 0, one, FlowReading{
		Rate: 10 * units.Gbps, Window: 65536, InFlight: 4096, RTT: 7*us + 1, Acked: 125_000, Resent: 3, Gauges: []float64{0.25, 7e-6, 3, 1500},
	})})
	b.PutSamples(200*us, []FlowSample{sampleOf(200*us, 100*us, 2, Flow{NIC: "h3:eth0", Name: "tcp 10.0.0.3:1 > 10.0.0.1:2"}, FlowReading{
		Rate: units.Gbps, Waiting: 3028, Sent: 1250, Dropped: 7, Gauges: []float64{no, no, 4, no},
	})})
	a.PutSamples(200*us, []FlowSample{sampleOf(200*us, 100*us, 0, one, FlowReading{Rate: 10 * units.Gbps})})
	r.Close()
	var out bytes.Buffer
	if sum, err := r.Run(&out); err != nil || sum != (Summary{Rows: 4}) {
		t.Fatalf("%+v, %v", sum, err)
	}
	want := `time_s,interval_s,nic,qpn,transfer,flow,rate_bps,window_bytes,in_flight_bytes,rtt_s,acked_bytes,received_bytes,goodput_bps,received_bps,waiting_bytes,sent_bytes,sent_bps,dropped_packets,retransmitted_packets,cc_alpha_share,cc_rtt_s,cc_stage,cc_w_bytes
0.0001,0.0001,h1:eth0,17,h1-h2,,10000000000,65536,4096,0.000007000001,125000,0,10000000000,0,,,,,3,0.25,7e-06,3,1500
0.0001,0.00004,h2:eth0,4711,,,1000000000,,0,,0,125,0,25000000,,,,,0,,,,
0.0002,0.0001,h1:eth0,17,h1-h2,,10000000000,,0,,0,0,0,0,,,,,0,,,,
0.0002,0.0001,h3:eth0,,,tcp 10.0.0.3:1 > 10.0.0.1:2,1000000000,,,,,,,,3028,1250,100000000,7,,,,4,
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	x, err := NewFlowReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	var rows []FlowRow
	if err := x.EachRow(func(r *FlowRow) error {
		row := *r
		row.Values = append([]float64(nil), r.Values...)
		rows = append(rows, row)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]FlowRow{
		{one, 100 * us, 100 * us, []float64{1e10, 1e10, 0, 65536, 4096, 7.000001e-6, no, no, 0.25, 7e-6, 3, 1500}},
		{two, 100 * us, 40 * us, []float64{1e9, 0, 25e6, no, 0, no, no, no, no, no, no, no}},
		{one, 200 * us, 100 * us, []float64{1e10, 0, 0, no, 0, no, no, no, no, no, no, no}},
		{Flow{NIC: "h3:eth0", Name: "tcp 10.0.0.3:1 > 10.0.0.1:2"}, 200 * us, 100 * us, []float64{1e9, no, no, no, no, no, 3028, 1e8, no, no, 4, no}},
	}, rows, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]int{"rate": 0, "goodput": 1, "received": 2, "window": 3, "in-flight": 4, "rtt": 5, "waiting": 6, "sent": 7, "cc_rtt_s": 9, "alpha": 8, "stage": 10, "w": 11} {
		if i, err := x.FindQuantity(name); err != nil || i != want {
			t.Errorf("%s is number %d, %v", name, i, err)
		}
	}
	if _, err := x.FindQuantity("beta"); err == nil || !strings.Contains(err.Error(), "must be one of rate, goodput") {
		t.Errorf("beta: %v", err)
	}
}

// Two gauges with the same name and different units are
// distinguished by their columns.
func TestFlows_TellGaugesOfOneNameApart(t *testing.T) {
	var out bytes.Buffer
	r := NewFlows(FlowOptions{Gauges: []Gauge{{OfControl, gauge.Gauge{Name: "cwnd", Unit: gauge.Bytes}}, {OfControl, gauge.Gauge{Name: "cwnd"}}}})
	r.Close()
	if _, err := r.Run(&out); err != nil {
		t.Fatal(err)
	}
	x, err := NewFlowReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.FindQuantity("cwnd"); err == nil || !strings.Contains(err.Error(), "write cc_cwnd_bytes or cc_cwnd") {
		t.Errorf("%v", err)
	}
	if i, err := x.FindQuantity("cc_cwnd"); err != nil || i != len(flowQuantities)+1 {
		t.Errorf("%d, %v", i, err)
	}
}

// A producer whose ring is full is told that an instant was left out,
// and with Wait it waits even if an instant has more flows than the ring has slots.
func TestFlows_OverrunsLoseWholeInstants(t *testing.T) {
	r := NewFlows(FlowOptions{Ring: 4})
	tap := r.NewTap()
	three := make([]FlowSample, 3)
	if !tap.PutSamples(us, three) || tap.PutSamples(2*us, three) {
		t.Error("6 samples fit into 4 places, or 3 do not")
	}
	r.Close()
	if sum, err := r.Run(&bytes.Buffer{}); err != nil || sum != (Summary{Rows: 3, Overruns: 3}) {
		t.Errorf("%+v, %v", sum, err)
	}

	r = NewFlows(FlowOptions{Ring: 4, Wait: true})
	tap = r.NewTap()
	go func() {
		for k := range units.Time(50) {
			samples := make([]FlowSample, 11)
			for i := range samples {
				samples[i] = sampleOf((k+1)*us, us, 0, Flow{QPN: uint32(i)}, FlowReading{})
				samples[i].Gauges = nil
			}
			tap.PutSamples((k+1)*us, samples)
		}
		r.Close()
	}()
	if sum, err := r.Run(&bytes.Buffer{}); err != nil || sum != (Summary{Rows: 550}) {
		t.Errorf("%+v, %v", sum, err)
	}
}

// Put does not allocate on the engine's thread.
func TestFlows_PutDoesNotAllocate(t *testing.T) {
	r := NewFlows(FlowOptions{Gauges: gauges, Ring: 1024})
	tap, samples, at := r.NewTap(), []FlowSample{sampleOf(us, us, 0, Flow{NIC: "a"}, FlowReading{})}, us
	if n := testing.AllocsPerRun(2000, func() { tap.PutSamples(at, samples); at += us }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if tap.overruns.Load() == 0 {
		t.Error("the ring has not become full")
	}
}

// A file that is not a series of flows is refused with the position.
// The columns of flows of edge services are optional.
func TestReadFlows_SaysWhereAFileIsWrong(t *testing.T) {
	header := strings.Join(slices.DeleteFunc(slices.Clone(FlowColumns[:]), func(c string) bool { return slices.Index(FlowColumns[:], c) >= flowWaiting || c == "flow" }), ",") + "\n"
	x, err := NewFlowReader(strings.NewReader(header + "1,1,a,17,x,,,5,,,,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := x.EachRow(func(r *FlowRow) error {
		if r.Flow != (Flow{NIC: "a", QPN: 17, Transfer: "x"}) || r.Values[4] != 5 || !math.IsNaN(r.Values[6]) {
			t.Errorf("%+v", r)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"":                                   "empty",
		"time_s,qpn\n":                       "missing column interval_s, nic, transfer, rate_bps",
		header + "1\n":                       "wrong number of fields",
		header + "x,1,a,1,,,,,,,,,\n":        `line 2: time_s: "x" is not a time`,
		header + "1,2,a,1,,,,,,,,,\n":        `interval_s: "2" is not a time above 0`,
		header + "1,1,a,99999999,,,,,,,,,\n": `qpn: "99999999" is not the number`,
		header + "1,1,a,1,,fast,,,,,,,\n":    `rate_bps: "fast" is not a number`,
	} {
		x, err := NewFlowReader(strings.NewReader(text))
		if err == nil {
			err = x.EachRow(func(*FlowRow) error { return nil })
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
