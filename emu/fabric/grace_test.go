package fabric

import (
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// TestGracePeriod_EndsARunAtTheLatest: a run whose flows end before its grace period is over
// ends with them, recorded or not; otherwise it ends with the grace period.
func TestGracePeriod_EndsARunAtTheLatest(t *testing.T) {
	for size, want := range map[units.Bytes]units.Time{1000: 0, 1e9: 2 * units.Millisecond} {
		for _, recorded := range []bool{false, true} {
			p := fabrictest.Star(t, 2, "{}", "")
			h := fabrictest.Hosts(p)
			p.Traffic = []plan.Traffic{{Name: "x", RDMA: &carrier.RDMA{}, Pattern: &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{
				h[0]: {{From: h[0], To: h[1], Size: size}},
			}}}}
			p.Measure = plan.Measure{Window: carrier.Window{End: units.Millisecond}, Grace: units.Millisecond}
			f := New(p)
			if recorded {
				f.Sample(100*units.Microsecond, false, func(Part) Sampler { return &instants{fabric: f} })
			}
			runTo(t, f, units.Never)
			if got := f.Now(); want > 0 && got != want || want == 0 && got >= units.Millisecond {
				t.Errorf("%v: the run ends at %v (recorded: %v)", size, got, recorded)
			}
		}
	}
}
