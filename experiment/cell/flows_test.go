package cell

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/observe/records"
)

// runLab runs a lab and returns its tables.
func runLab(t *testing.T, lab string) table.Bundle {
	t.Helper()
	b, err := Run(context.Background(), &experiment.Job{Work: experiment.Work{Lab: lab, LabName: "lab.yaml", Seed: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range b {
		if err := x.Check(); err != nil {
			t.Error(err)
		}
	}
	return b
}

func tableOf(t *testing.T, b table.Bundle, name string) *table.Table {
	t.Helper()
	i := slices.IndexFunc(b, func(x *table.Table) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("no table %s", name)
	}
	return b[i]
}

// TestFlowTables_HaveTheFilesColumns checks that the columns are those of the files, whether or not there
// are flows, and that groups last from the first start to the last end.
func TestFlowTables_HaveTheFilesColumns(t *testing.T) {
	const lab = `topology:
  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}
  kinds: {host: {nic: roce}}
window: {warm-up: 1ms, end: 20ms}
workload:
  - {requests: {aggregators: h1, request: 100B, response: 10KB, count: 3, think: 1ms}}
  - {collective: {name: ring, operation: all-gather, size: 30KB, iterations: 2}}
  - {arrivals: {name: late, load: 1%, sizes: 1KB, start: 2ms, count: 5}}
`
	b := runLab(t, lab)
	flows, groups := tableOf(t, b, Flows), tableOf(t, b, Groups)
	if diff := cmp.Diff(records.Columns[1:], flows.Names()); diff != "" {
		t.Errorf("columns (-of files +of the table):\n%s", diff)
	}
	for _, x := range []*table.Table{flows, groups} {
		none := EmptyTable(x.Name)
		if err := none.Check(); err != nil || none.Len() != 0 {
			t.Errorf("%d rows, %v", none.Len(), err)
		}
		for i := range x.Columns {
			if c := none.FindColumn(x.Columns[i].Name); c == nil || c.IsText() != x.Columns[i].IsText() {
				t.Errorf("%s of %s is another without rows: %+v", x.Columns[i].Name, x.Name, c)
			}
		}
	}
	if flows.Len() != 3*4+2*2*3+5 {
		t.Errorf("%d flows", flows.Len())
	}
	var got []string
	for i := range groups.Len() {
		number := func(name string) float64 { return groups.FindColumn(name).Numbers[i] }
		g := groups.FindColumn("traffic").Texts[i]
		first, last, n, bytes := math.Inf(1), 0.0, 0, 0.0
		for k := range flows.Len() {
			if flows.FindColumn("traffic").Texts[k] == g && flows.FindColumn("group").Numbers[k] == number("group") {
				first, last = min(first, flows.FindColumn("created_s").Numbers[k]), max(last, flows.FindColumn("end_s").Numbers[k])
				n, bytes = n+1, bytes+flows.FindColumn("size_bytes").Numbers[k]
			}
		}
		if number("start_s") != first || number("end_s") != last || number("completion_s") != last-first || number("flows") != float64(n) || number("size_bytes") != bytes {
			t.Errorf("group %v of %s: from %v to %v, %v flows, %v bytes", number("group"), g, number("start_s"), number("end_s"), number("flows"), number("size_bytes"))
		}
		got = append(got, fmt.Sprint(g, " ", number("flows"), " ", number("open"), " ", number("counted")))
	}
	want := []string{"requests 4 0 0", "requests 4 0 1", "requests 4 0 1", "ring 6 0 0", "ring 6 0 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLoad_IsWhatTheLabAsksFor checks that the load that hosts offer, and that their links carry, is what the
// lab asks for, within two percent.
func TestLoad_IsWhatTheLabAsksFor(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	for name, c := range map[string]struct {
		entry string
		rates [4]float64 // payload rate that each host offers, in bits per second
		over  float64    // maximum of what links carry per bit of payload
	}{
		"of links":    {"load: 50%, sizes: 10KB", [4]float64{5e9, 5e9, 5e9, 5e9}, 1.06},
		"of capacity": {"load: 60%, of: 5Gbps, sizes: 1KB", [4]float64{3e9, 3e9, 3e9, 3e9}, 1.12},
		"rate":        {"rate: 2Gbps, sizes: {uniform: [500B, 1500B]}, to: permutation, gaps: {weibull: 0.8}", [4]float64{2e9, 2e9, 2e9, 2e9}, 1.12},
		"matrix":      {"load: 30%, sizes: 10KB, to: {matrix: [[0, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]}", [4]float64{6e9, 3e9, 3e9, 0}, 1.06},
		"udp":         {"load: 50%, sizes: 10KB, by: udp", [4]float64{5e9, 5e9, 5e9, 5e9}, 1.03},
	} {
		t.Run(name, func(t *testing.T) {
			const seconds = 0.1
			b := runLab(t, fmt.Sprintf(`topology:
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us, mtu: 4200}}
  kinds: {host: {nic: roce}, switch: {queue: {limit: 100MB}}}
window: {end: 100ms}
workload: [{arrivals: {%s}}]
`, c.entry))
			flows, ports := tableOf(t, b, Flows), tableOf(t, b, Ports)
			for h, want := range c.rates {
				host := fmt.Sprintf("h%d", h+1)
				offered := 0.0
				for i, from := range flows.FindColumn("from").Texts {
					if from == host {
						offered += flows.FindColumn("size_bytes").Numbers[i] * 8 / seconds
					}
				}
				if math.Abs(offered-want) > 0.02*want {
					t.Errorf("%s offers %.4g bit/s, not %.4g", host, offered, want)
				}
				carried := ports.FindColumn("tx_bytes").Numbers[slices.Index(ports.FindColumn("port").Texts, host+":eth0")] * 8 / seconds
				if acks := 0.01 * 10e9; carried < 0.98*want || carried > c.over*want+acks {
					t.Errorf("the link of %s carries %.4g bit/s for %.4g of payload", host, carried, want)
				}
			}
			if i := slices.IndexFunc(flows.FindColumn("state").Texts, func(s string) bool { return !strings.HasPrefix(s, "done") }); i >= 0 {
				t.Errorf("flow %d is %s", i, flows.FindColumn("state").Texts[i])
			}
		})
	}
}
