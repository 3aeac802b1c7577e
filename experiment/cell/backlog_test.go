package cell

import (
	"math"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/sizes"
)

// TestBacklogGrowth: flows of 1 MB arrive every ms, over a window from 10 ms to 110 ms.
func TestBacklogGrowth(t *testing.T) {
	open, err := pattern.Arrivals{Hosts: []int{0, 1}, Sizes: sizes.Fixed(1e6), Rate: 8 * units.Gbps}.Make()
	if err != nil {
		t.Fatal(err)
	}
	closed, err := pattern.Requests{Aggregators: []int{0}, Workers: []int{1}, Request: sizes.Fixed(100), Response: sizes.Fixed(1e6)}.Make()
	if err != nil {
		t.Fatal(err)
	}
	p := &plan.Plan{Traffic: []plan.Traffic{{Name: "open", Pattern: open}, {Name: "closed", Pattern: closed}}}
	p.Measure.WarmUp, p.Measure.End = 10*units.Millisecond, 110*units.Millisecond
	const end = 200 * units.Millisecond
	for _, c := range []struct {
		name    string
		traffic int32
		flows   int
		took    func(created units.Time) units.Time // of a flow
		want    float64
	}{
		{"each takes as long as the next", 0, 110, func(units.Time) units.Time { return 5 * units.Millisecond }, 0},
		{"nothing is ever complete", 0, 110, func(units.Time) units.Time { return units.Never }, 1},
		{"each takes a tenth of the time since the start longer", 0, 110, func(created units.Time) units.Time { return created / 10 }, 0.1 / 1.1},
		{"a closed loop", 1, 110, func(units.Time) units.Time { return units.Never }, math.NaN()},
		{"one flow in the window", 0, 11, func(units.Time) units.Time { return units.Never }, math.NaN()},
		{"no flows", 0, 0, nil, math.NaN()},
	} {
		flows := NewFlowTable(records.Names{Traffic: []string{"open", "closed"}, Hosts: []string{"h1", "h2"}})
		for i := range c.flows {
			created := units.Time(i) * units.Millisecond
			r := &records.Record{Traffic: c.traffic, Size: 1e6, Created: created, End: end, State: records.Unfinished}
			if took := c.took(created); took != units.Never {
				r.End, r.State = created+took, records.Done
			}
			if err := flows.PutRecord(r); err != nil {
				t.Fatal(err)
			}
		}
		if got := flows.backlogGrowth(p, end); math.Abs(got-c.want) > 0.02 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: the backlog grows by %.3f of what is offered, want %.3f", c.name, got, c.want)
		}
	}
}
