package systems

import (
	"fmt"
	"math"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// asFlows replaces a plan's transfers, each of one message, by flows.
func asFlows(p *plan.Plan, c *carrier.RDMA) {
	l := &fabrictest.List{Members: fabrictest.Hosts(p), Flows: map[int][]pattern.Flow{}}
	for i, t := range p.Transfers {
		f := pattern.Flow{Tag: uint32(i), From: t.From, To: t.To, Size: t.Size, At: t.At}
		if t.Verb == workload.Read {
			f.From, f.To = f.To, f.From
		}
		l.Flows[t.From] = append(l.Flows[t.From], f) // From is the poster
	}
	p.Transfers = nil
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: c}}
}

// TestPooledFlows_TakeAsLongAsTransfers: an incast with PFC and a rate control, twice: flows
// on pooled queue pairs take exactly as long as transfers with separate queue pairs, to the
// picosecond. Flows with WRITE have immediate data, so their last packets are longer: the
// transfers have 4 bytes more of payload.
func TestPooledFlows_TakeAsLongAsTransfers(t *testing.T) {
	const lab = `
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, cc: %s}}
    switch:
      buffer: {size: 1MB}
      classes:
        cnp: {dscp: 48, priority: 6}
        roce: {dscp: 26, priority: 3, weight: 1, pfc: {}, mark: {red: {kmin: 5KB, kmax: 200KB, pmax: 1%%}}}
        default: {weight: 1}
    link: {mtu: 4200}
  generate: {star: {hosts: 9, rate: 40Gbps, delay: 1us}}
workload:
%s`
	for _, verb := range []workload.Verb{workload.Write, workload.Read} {
		for _, cc := range []string{"dcqcn", "hpcc", "swift", "none"} {
			t.Run(fmt.Sprint(verb, " ", cc), func(t *testing.T) {
				var rounds string
				for round := range 2 {
					for i := range 8 {
						from, to := fmt.Sprintf("h%d", i+1), "h9"
						rounds += fmt.Sprintf("  - {%v: {name: t%d-%d, from: %s, to: %s, size: 500KB, count: 1, at: %dms}}\n", verb, round, i, from, to, 5*round)
					}
				}
				text := fmt.Sprintf(lab, cc, rounds)
				longer := fabrictest.Parse(t, text)
				if verb == workload.Write {
					for i := range longer.Transfers {
						longer.Transfers[i].Size += roce.ImmDtLen
					}
				}
				separate := fabric.New(longer)
				runTo(t, separate, units.Never)
				p := fabrictest.Parse(t, text)
				asFlows(p, &carrier.RDMA{Verb: verb, DSCP: 26})
				f, all, _ := carry(t, p, 1)
				got := map[uint32]records.Record{}
				for _, r := range all {
					got[r.Tag] = r
				}
				pauses, _ := pauseTotals(separate)
				if n := f.Carriers(); n.QueuePairs != 16 || (cc == "none" || cc == "dcqcn") && verb == workload.Write && pauses == 0 {
					t.Errorf("%d queue pairs for 16 flows, 8 at a time; %d pauses", n.QueuePairs, pauses)
				}
				for i, x := range separate.Transfers() {
					r := got[uint32(i)]
					a, b := r.FCT().Micros(), x.CompletionMax
					if r.State != records.Done || a != b || math.Abs(r.Ideal.Micros()-x.Ideal) > 0.001 {
						t.Errorf("%s takes %.6f us on a queue pair of its own, %.6f us on a pooled one; ideally %v and %v", x.Transfer, b, a, x.Ideal, r.Ideal)
					}
				}
			})
		}
	}
}
