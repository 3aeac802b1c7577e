package recording

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// seriesLab is 8 hosts at 4 leaves under 2 spines, with short queues and links that lose
// packets.
const seriesLab = `
topology:
  kinds:
    host: {attach: none}
    switch: {forwarding: ecmp, queue: {limit: 60KB, mark: {step: {k: 30KB}}}}
    link: {loss: 1%}
  generate: {leaf-spine: {leaves: 4, spines: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
`

// TestTCPSeries_AddsUpToWhatWasSent: flows over TCP have rows while their connections exist.
// The rows add up to what was sent and do not depend on workers, and sampling changes nothing.
func TestTCPSeries_AddsUpToWhatWasSent(t *testing.T) {
	var first string
	var trace uint64
	for _, workers := range []int{0, 1, 2, 4} {
		p := fabrictest.Parse(t, seriesLab)
		h := fabrictest.Hosts(p)
		p.Traffic = []plan.Traffic{
			{Name: "drawn", Pattern: fabrictest.Draw(h, 1, 40, 20*units.Microsecond, 100_000, false), TCP: fabrictest.TCP(t, "cubic")},
			{Name: "loop", Pattern: &fabrictest.Loop{Clients: h[:3], Servers: h[3:], Rounds: 20}, TCP: fabrictest.TCP(t, "bbr")},
		}
		f, err := fabric.NewWithWorkers(p, max(1, workers))
		if err != nil {
			t.Fatal(err)
		}
		run := advanceTo(t, f, 100*units.Millisecond)
		if workers == 0 { // without a series
			run()
			trace = f.Trace()
			continue
		}
		rows, quantities, text := recordFlows(t, f, FlowSeries{Every: 50 * us, Length: 100 * units.Millisecond}, run)
		if f.Trace() != trace {
			t.Errorf("%d workers: trace %x, without a series %x", workers, f.Trace(), trace)
		}
		if workers > 1 {
			if text != first {
				t.Errorf("%d workers: %s", workers, fabrictest.FirstDifference(first, text))
			}
			continue
		}
		first = text
		at := func(name string) int {
			return slices.IndexFunc(quantities, func(q series.FlowQuantity) bool { return q.Name == name })
		}
		goodput, window, rate, btlbw := at("goodput"), at("window"), at("rate"), at("btlbw")
		sum, paced := map[string]float64{}, false
		for _, r := range rows {
			sum[r.Transfer] += r.Values[goodput] / 8 * r.Interval.Seconds()
			if !(r.Values[window] > 0) || r.Transfer == "drawn" && r.Values[rate] > 0 || r.Values[rate] > 0 != (r.Values[btlbw] > 0) || !strings.HasPrefix(r.Name, "tcp 10.0.") {
				t.Fatalf("%+v", r)
			}
			paced = paced || r.Values[rate] > 0
		}
		if !paced {
			t.Error("no row of BBR has a rate")
		}
		resent := uint64(0)
		column := slices.Index(strings.Split(strings.Split(text, "\n")[0], ","), "retransmitted_packets")
		for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
			var n uint64
			fmt.Sscan(strings.Split(line, ",")[column], &n)
			resent += n
		}
		counted := f.TCP()
		if counted[0].Resent+counted[1].Resent != resent || resent == 0 {
			t.Errorf("rows say that %d were sent again, counters %d and %d", resent, counted[0].Resent, counted[1].Resent)
		}
		var all units.Bytes
		for _, flows := range p.Traffic[0].Pattern.(*fabrictest.List).Flows {
			for _, x := range flows {
				all += x.Size
			}
		}
		if got := sum["drawn"]; math.Abs(got-float64(all)) > 1 {
			t.Errorf("rows say that %.1f bytes were acknowledged, of %d", got, all)
		}
	}
}

// TestTCPSeries_ChoosesByHostInterfaceAndTraffic: flows over TCP are chosen by host, interface
// and traffic, and at most the allowed number have rows.
func TestTCPSeries_ChoosesByHostInterfaceAndTraffic(t *testing.T) {
	lab := func() (*plan.Plan, []int) {
		p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}}")
		h := fabrictest.Hosts(p)
		p.Traffic = []plan.Traffic{
			{Name: "there", Pattern: fabrictest.Draw(h[:2], 1, 8, 20*units.Microsecond, 100_000, false), TCP: fabrictest.TCP(t, "cubic")},
			{Name: "back", Pattern: fabrictest.Draw(h[2:], 2, 8, 20*units.Microsecond, 100_000, false), TCP: fabrictest.TCP(t, "cubic")},
		}
		return p, h
	}
	for pattern, want := range map[string]string{"h1": "h1:eth0 there", "h[34]:eth0": "h3:eth0 back h4:eth0 back", "b*": "h3:eth0 back h4:eth0 back"} {
		p, _ := lab()
		f, err := fabric.NewParallel(p, 2)
		if err != nil {
			t.Fatal(err)
		}
		rows, _, _ := recordFlows(t, f, FlowSeries{Flows: []string{pattern}, Every: 50 * us, Length: 10 * units.Millisecond}, advanceTo(t, f, 10*units.Millisecond))
		var seen []string
		for _, r := range rows {
			if s := r.NIC + " " + r.Transfer; !slices.Contains(seen, s) {
				seen = append(seen, s)
			}
		}
		if slices.Sort(seen); strings.Join(seen, " ") != want {
			t.Errorf("%s: %v", pattern, seen)
		}
	}
	p, _ := lab()
	if err := (FlowSeries{Flows: []string{"bakc"}, Every: 50 * us}).Check(p); err == nil || !strings.Contains(err.Error(), `did you mean "back"`) {
		t.Error(err)
	}
	p.Traffic = nil
	if err := (FlowSeries{Every: 50 * us}).Check(p); err == nil || !strings.Contains(err.Error(), "by: tcp, or by: ndp, for traffic") {
		t.Error(err)
	}

	defer func(n int) { maxPassing = n }(maxPassing)
	maxPassing = 2
	p, _ = lab()
	f, err := fabric.NewParallel(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := RecordFlows(f, FlowSeries{Every: 50 * us}, &out)
	runTo(t, f, 10*units.Millisecond)
	if _, err := r.Stop(); err != nil || r.LeftOut == 0 || r.Things+r.LeftOut != 32 {
		t.Errorf("%d flows have rows, %d have none, %v", r.Things, r.LeftOut, err)
	}
}

// TestNDPSeries_AddsUpToWhatWasAcknowledged: flows over NDP have rows, whose acknowledged
// bytes add up to the flows'.
func TestNDPSeries_AddsUpToWhatWasAcknowledged(t *testing.T) {
	p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}, switch: {buffer: {size: 4MB}, classes: {default: {limit: 12112B, trim: {preset: ndp, dscp: 46}}, trimmed: {priority: 7, limit: 64KB, dscp: 46}}}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}")
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
	for _, from := range h[:2] {
		l.Flows[from] = []pattern.Flow{{From: from, To: h[2], Size: 500_000}, {Tag: 1, From: from, To: h[2], Size: 500_000}}
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: &carrier.NDP{Config: ndp.Default(), ControlDSCP: 46}}}
	f, err := fabric.NewParallel(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	end := 3 * units.Millisecond
	rows, quantities, _ := recordFlows(t, f, FlowSeries{Every: 100 * units.Microsecond, Length: end}, advanceTo(t, f, end))
	at := func(name string) int {
		return slices.IndexFunc(quantities, func(q series.FlowQuantity) bool { return q.Name == name })
	}
	goodput, window, rate := at("goodput"), at("window"), at("rate")
	acked, names := 0.0, map[string]bool{}
	for _, r := range rows {
		acked += r.Values[goodput] / 8 * r.Interval.Seconds()
		names[r.Name] = true
		if r.Values[rate] != 10e9 || !(r.Values[window] > 0) || r.Transfer != "x" {
			t.Errorf("%+v", r)
		}
	}
	if math.Abs(acked-2_000_000) > 100 || len(names) != 4 || !names["ndp 10.0.0.1 > 10.0.0.3:54794 #1"] {
		t.Errorf("%.0f bytes acknowledged, %v", acked, names)
	}
}
