package recording

import (
	"context"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

const us, ms = units.Microsecond, units.Millisecond

// build builds the fabric of a lab for virtual time; 0 workers means one engine for all
// nodes.
func build(t testing.TB, lab string, workers int) *fabric.Fabric {
	t.Helper()
	p := fabrictest.Parse(t, lab)
	if workers == 0 {
		return fabric.New(p)
	}
	f, err := fabric.NewWithWorkers(p, workers)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func runTo(t testing.TB, f *fabric.Fabric, until units.Time) {
	t.Helper()
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
}

// outcome returns everything about a run that recordings may not change.
func outcome(f *fabric.Fabric) []any {
	type counters struct {
		NIC nicemu.Counters
		QPs any
	}
	all := []any{f.Trace(), f.Accounts(), f.Status(), f.Results(), Timeline(f), f.Outages(), f.Transfers()}
	for _, iface := range f.Interfaces {
		if d := f.Device(iface.Node, iface.Index); d != nil {
			a, b := d.Counters()
			all = append(all, counters{a, b})
		}
	}
	return all
}

// statusOf returns the status of the first port of a host.
func statusOf(f *fabric.Fabric, host string) status.Port {
	n, _ := f.Plan.Node(host)
	return f.PortStatus(n, 0)
}

func gauges(list []gauge.Value) map[string]float64 {
	m := map[string]float64{}
	for _, g := range list {
		m[g.Name] = g.Value
	}
	return m
}
