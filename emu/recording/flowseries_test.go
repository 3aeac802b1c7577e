package recording

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/series"
	"github.com/weftlab/weft/sim/units"
)

// recordFlows runs a fabric with a series of flows, and returns its rows and its text.
func recordFlows(t *testing.T, f *fabric.Fabric, s FlowSeries, run func()) (rows []series.FlowRow, quantities []series.FlowQuantity, text string) {
	t.Helper()
	if err := s.Check(f.Plan); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := RecordFlows(f, s, &out)
	run()
	sum, err := r.Stop()
	if err != nil || sum.Overruns > 0 || sum.Rows != uint64(strings.Count(out.String(), "\n")-1) {
		t.Fatalf("%+v, %v", sum, err)
	}
	text = out.String()
	x, err := series.NewFlowReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	flows := map[series.Flow]bool{}
	if err := x.EachRow(func(r *series.FlowRow) error {
		row := *r
		row.Values = append([]float64(nil), r.Values...)
		rows, flows[r.Flow] = append(rows, row), true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// A flow of an edge service that was forgotten and comes again is another flow.
	again := slices.ContainsFunc(rows, func(r series.FlowRow) bool { return r.Name != "" })
	if len(flows) != r.Things && !(again && len(flows) < r.Things) {
		t.Errorf("%d flows have rows, the recording says %d", len(flows), r.Things)
	}
	return rows, x.Quantities(), text
}

// advanceTo runs a fabric up to a time.
func advanceTo(t *testing.T, f *fabric.Fabric, until units.Time) func() {
	return func() {
		if err := f.Run(context.Background(), until); err != nil {
			t.Fatal(err)
		}
	}
}

// payloads adds up how much of each flow the rows show as acknowledged and received.
func payloads(rows []series.FlowRow) (acked, received map[string]float64) {
	acked, received = map[string]float64{}, map[string]float64{}
	for _, r := range rows {
		name := r.Transfer + " " + r.NIC
		acked[name] += math.Round(r.Values[1] * r.Interval.Seconds() / 8)
		received[name] += math.Round(r.Values[2] * r.Interval.Seconds() / 8)
	}
	return acked, received
}

// TestFlowSeries_AddsUpToTheTransfers: rows do not depend on workers and change nothing, and
// add up to the transfers' records, over READs, UC and two rate controls.
func TestFlowSeries_AddsUpToTheTransfers(t *testing.T) {
	plain := fabric.New(fabrictest.Parse(t, fabrictest.FlowLab))
	advanceTo(t, plain, 3*ms)()
	var first string
	for _, workers := range []int{1, 2, 4} {
		f, err := fabric.NewWithWorkers(fabrictest.Parse(t, fabrictest.FlowLab), workers)
		if err != nil {
			t.Fatal(err)
		}
		rows, quantities, text := recordFlows(t, f, FlowSeries{Every: 10 * us}, advanceTo(t, f, 3*ms))
		if f.Trace() != plain.Trace() {
			t.Errorf("%d workers: the trace is %x, without a series %x", workers, f.Trace(), plain.Trace())
		}
		if first == "" {
			first = text
		} else if text != first {
			t.Errorf("%d workers make other rows than one", workers)
		}
		var names []string
		for _, q := range quantities {
			names = append(names, q.Name)
		}
		if got, want := strings.Join(names, " "), "rate goodput received window in-flight rtt waiting sent limited target_rate alpha time_stage byte_stage cwnd target rtt"; got != want {
			t.Errorf("the quantities are %s, want %s", got, want)
		}
		acked, received := payloads(rows)
		records := map[string]float64{}
		for _, r := range f.Transfers() {
			records[r.Transfer] = float64(r.Received)
		}
		// The end of the run may lie between an arrival and its acknowledgement.
		if got, sent := acked["a h1:eth0"], records["a"]; got == 0 || got > sent || sent-got > 200_000 {
			t.Errorf("a: %v acknowledged, %v received", got, sent)
		}
		if got := acked["b h3:eth0"]; got != 900_000 {
			t.Errorf("b: %v acknowledged, want all of 3 messages", got)
		}
		if got := received["c h4:eth0"]; got != 100_000 {
			t.Errorf("c: %v received by the READ", got)
		}
		if _, is := acked["a h4:eth0"]; is {
			t.Error("a queue pair that only receives has rows by default")
		}
		if acked["d h2:eth0"] != 0 {
			t.Error("something of UC was acknowledged")
		}
		if workers == 1 {
			checkFlowRows(t, rows)
		}
	}
}

// checkFlowRows checks single rows of fabrictest.FlowLab.
func checkFlowRows(t *testing.T, rows []series.FlowRow) {
	t.Helper()
	var limited, windows, rtts int
	for _, r := range rows {
		rate, window, rtt, alpha, swift := r.Values[0], r.Values[3], r.Values[5], r.Values[10], r.Values[13]
		if !(rate > 0 && rate <= 10e9) {
			t.Fatalf("%v: rate %v", r.At, rate)
		}
		switch {
		case r.Transfer == "a" && alpha > 0 && rate < 10e9:
			limited++
		case r.Transfer == "b" && window > 0 && swift > 0 && math.IsNaN(alpha):
			windows++
		}
		if r.Transfer == "a" && rtt > 0 {
			rtts++
			// Four links of 1us each way, and a packet of full size on each.
			if rtt < 8e-6 || rtt > 2e-3 {
				t.Errorf("%v: an RTT of %v s", r.At, rtt)
			}
		}
	}
	if limited < 10 || windows < 10 || rtts < 200 {
		t.Errorf("%d rows with DCQCN below the line, %d with Swift's window, %d with an RTT", limited, windows, rtts)
	}
}

// TestFlowSeries_ChoosesByTransferHostNICAndQueuePair: patterns choose flows by transfer,
// host, NIC and queue pair. A pattern of a host also takes queue pairs that only receive.
func TestFlowSeries_ChoosesByTransferHostNICAndQueuePair(t *testing.T) {
	for pattern, want := range map[string]string{
		"a":             "a h1:eth0",
		"[bc]":          "b h3:eth0, c h2:eth0, c h4:eth0",
		"h1":            "a h1:eth0, d h1:eth0",
		"h4:*":          "a h4:eth0, b h4:eth0, c h4:eth0",
		"h1:eth0#17":    "a h1:eth0",
		"h1:eth0#18":    "d h1:eth0",
		"h[13]:eth0#17": "a h1:eth0, b h3:eth0",
	} {
		f := fabric.New(fabrictest.Parse(t, fabrictest.FlowLab))
		rows, _, _ := recordFlows(t, f, FlowSeries{Flows: []string{pattern}, Every: 100 * us}, advanceTo(t, f, 3*ms))
		var names []string
		acked, _ := payloads(rows)
		for name := range acked {
			names = append(names, name)
		}
		if got := sorted(names); got != want {
			t.Errorf("%s chooses %s, want %s", pattern, got, want)
		}
	}
	p := fabrictest.Parse(t, fabrictest.FlowLab)
	for pattern, want := range map[string]string{"x*": `no flow can match "x*"`, "h[": "a [ needs its ]", "h1:eth1": `did you mean "h1:eth0"`, "h9#17": "no flow can match"} {
		if err := (FlowSeries{Flows: []string{pattern}, Every: ms}).Check(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", pattern, err, want)
		}
	}
	if err := (FlowSeries{Every: us, Length: 1000 * units.Second}).Check(p); err == nil || !strings.Contains(err.Error(), "fewer flows") {
		t.Errorf("4 billion rows: %v", err)
	}
	if err := (FlowSeries{Every: us, Wall: true}).Check(p); err == nil || !strings.Contains(err.Error(), "every 100us or more") {
		t.Errorf("too often for the wall clock: %v", err)
	}
	bare := fabrictest.Parse(t, "topology: {generate: {star: {hosts: 2, rate: 1Gbps}}}")
	if err := (FlowSeries{Every: ms}).Check(bare); err == nil || !strings.Contains(err.Error(), "write nic: roce") {
		t.Errorf("no NIC: %v", err)
	}
}

// TestFlowSeries_HasRowsOfShortLivedQueuePairs: a queue pair that is made and destroyed
// between two samples has a row with everything it did, and one that lives longer has rows
// until it is destroyed.
func TestFlowSeries_HasRowsOfShortLivedQueuePairs(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, `
topology:
  kinds: {host: {nic: roce}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
`))
	a, _ := f.DeviceOf("h1")
	b, _ := f.DeviceOf("h2")
	var want []string
	rows, _, _ := recordFlows(t, f, FlowSeries{Every: 100 * us}, func() {
		advanceTo(t, f, 10*us)()
		for i, until := range []units.Time{40 * us, 90 * us, 350 * us} {
			q, from, to := fabrictest.Connect(t, a, b, 10_000)
			size := units.Bytes(1000 * (i + 1))
			if err := q.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{from.SGE(0, size)}, RemoteVA: to.Addr(0), RKey: to.RKey()}); err != nil {
				t.Fatal(err)
			}
			advanceTo(t, f, until)()
			if err := q.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
		advanceTo(t, f, 600*us)()
	})
	want = []string{"100us 17 1000", "100us 18 2000", "100us 19 0", "200us 19 3000", "300us 19 0", "400us 19 0"}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%v %d %v", r.At, r.QPN, math.Round(r.Values[1]*r.Interval.Seconds()/8)))
		if r.Interval != 100*us {
			t.Errorf("%v: an interval of %v", r.At, r.Interval)
		}
	}
	// The third is made at 90us, and what it sends may be acknowledged before 100us.
	if len(got) > 3 && got[2] == "100us 19 3000" {
		want[2], want[3] = "100us 19 3000", "200us 19 0"
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// TestFlowSampling_DoesNotAllocate: the engine's thread takes samples without leaving work for
// the garbage collector.
func TestFlowSampling_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	f := fabric.New(fabrictest.Parse(t, fabrictest.FlowLab))
	r := RecordFlows(f, FlowSeries{Every: ms, Wall: true}, new(bytes.Buffer))
	if err := f.Run(context.Background(), 2*ms); err != nil {
		t.Fatal(err)
	}
	p, now := r.samplers[0], 3*ms
	p.Sample(now, true)
	if n := testing.AllocsPerRun(100, func() { now += us; p.Sample(now, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, err := r.Stop(); err != nil {
		t.Error(err)
	}
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}
