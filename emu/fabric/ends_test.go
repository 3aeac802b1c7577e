package fabric

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/sim/units"
)

// endLabs are labs without a duration whose workers have their last events at different
// times.
var endLabs = map[string]string{
	"plain ports": `
topology:
  kinds: {switch: {queue: {limit: 200KB}}}
  generate: {fat-tree: {k: 4, rate: 10Gbps, delay: 1us}}
workload:
  - {cbr: {from: [h1, h2], to: h3, rate: 9Gbps, size: 1000B, for: 50us}}
  - {cbr: {from: h16, to: h15, rate: 1Gbps, size: 500B, for: 400us}}
`,
	"classes and NICs": `
topology:
  kinds:
    switch:
      buffer: {size: 200KB}
      classes:
        lossless: {dscp: [26], priority: 3, pfc: {xoff: 20KB, xon: 15KB}, mark: {red: {kmin: 5KB, kmax: 20KB, pmax: 10%}}}
        default: {weight: 1}
    host: {attach: none, nic: {dscp: 26, cc: {dcqcn: {preset: connectx}}}}
  generate: {fat-tree: {k: 4, rate: 10Gbps, delay: 1us}}
workload:
  - {cbr: {from: [h1, h2], to: h3, rate: 9Gbps, size: 1000B, for: 50us}}
  - {cbr: {from: h16, to: h15, rate: 1Gbps, size: 500B, for: 400us}}
  - {write: {name: w, from: [h1, h2, h5, h9], to: h4, size: 100KB, count: 2}}
`,
}

// TestRunWithoutDuration_EndsTheSameWithAnyNumberOfWorkers: a run that ends with its last
// event reports the same averages over time, pauses, rates and gauges with one, two and four
// workers.
func TestRunWithoutDuration_EndsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	for name, text := range endLabs {
		t.Run(name, func(t *testing.T) {
			p := parse(t, text)
			var want []any
			for _, n := range []int{1, 2, 4} {
				f, err := NewWithWorkers(p, n)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Run(context.Background(), units.Never); err != nil {
					t.Fatal(err)
				}
				pairs, err := f.QPsOf("")
				if err != nil {
					t.Fatal(err)
				}
				got := append(nicOutcome(f), f.NICs(), pairs, f.Now())
				if n == 1 {
					want = got
				} else if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
					t.Errorf("%d workers (-one +%d):\n%s", n, n, diff)
				}
			}
		})
	}
}
