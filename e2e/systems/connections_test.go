package systems

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
)

// checkShared fails unless the flows of each pair of hosts used one connection, with one UDP
// source port, in the order of their births.
func checkShared(t *testing.T, f *fabric.Fabric, all []records.Record) {
	t.Helper()
	ports, ends := map[string]uint16{}, map[string]units.Time{}
	for _, r := range all {
		pair := fmt.Sprint(r.From, r.To)
		if port, seen := ports[pair]; seen && port != r.SrcPort {
			t.Errorf("flows of one pair have the ports %d and %d: %+v", port, r.SrcPort, r)
		}
		if r.End < ends[pair] {
			t.Errorf("a flow ended before an earlier one of its pair: %+v", r)
		}
		ports[pair], ends[pair] = r.SrcPort, r.End
	}
	if n := f.Carriers(); n.Connections != len(ports) || n.QueuePairs != 2*len(ports) || n.Retired+n.WaitedQP+n.WaitedSlot > 0 {
		t.Errorf("%d pairs of hosts: %+v", len(ports), n)
	}
}

// TestSharedConnections_CarryEachFlowOnceUnderLoss: with loss, copies and reordering the flows
// of a pair of hosts that share a connection end once, in order, with their own sizes and bytes.
func TestSharedConnections_CarryEachFlowOnceUnderLoss(t *testing.T) {
	for _, verb := range []workload.Verb{workload.Write, workload.Send} {
		for _, recovery := range transport.Recoveries.Names() {
			for _, limit := range []string{"", ", limits: {max_qp_wr: 3}"} {
				t.Run(fmt.Sprint(verb, " ", recovery, limit), func(t *testing.T) {
					p := fabrictest.Star(t, 4, "{timeout: 524us, recovery: "+recovery+limit+"}", "")
					for i := range p.Links {
						for d := range 2 {
							s := &p.Links[i].Dir[d]
							s.Loss, s.Duplicate, s.Reorder, s.ReorderBy = 1e-2, 1e-2, 1e-2, 50*units.Microsecond
						}
					}
					l := fabrictest.Draw(fabrictest.Hosts(p), 5, 400, 40*units.Microsecond, 40_000, false)
					c := &carrier.RDMA{Verb: verb, PerPair: true}
					if verb == workload.Send {
						c.Chunk = 15_000
					}
					p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: c}}
					f, all, _ := carry(t, p, 1)
					fabrictest.CheckOnce(t, l, all, false)
					checkShared(t, f, all)
					resent := uint64(0)
					for _, r := range all {
						resent += r.Retransmitted
						if r.State != records.Done {
							t.Errorf("%+v", r)
						}
					}
					if resent == 0 {
						t.Error("nothing was retransmitted")
					}
				})
			}
		}
	}
}

// TestSharedConnections_WorkWithEveryRateControl: whatever controls the rate, in the NIC or in a
// layer above it, the flows end, and the records are the same with any number of workers.
func TestSharedConnections_WorkWithEveryRateControl(t *testing.T) {
	controls := []string{"none", "none, layer: rogue"}
	for _, name := range cc.Methods.Names() {
		m := cc.Methods.Kind(name)
		if !cc.TraitsOf(cc.Choice{Name: name, Settings: m.Preset(m.Presets[0], 10*units.Gbps)}).NeedsDelivery { // NICs refuse those
			controls = append(controls, name)
		}
	}
	for _, name := range controls {
		lab := fmt.Sprintf(leafSpine, name, "pfc: {},", "")
		switch name {
		case "rocc":
			lab = strings.Replace(lab, "mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 10%}}", "mark: rocc", 1)
		case "accurate":
			lab = strings.Replace(lab, "mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 10%}}", "mark: accurate", 1)
		case "qcn":
			lab = strings.Replace(lab, "mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 10%}}", "mark: qcn", 1)
		}
		t.Run(name, func(t *testing.T) {
			var first string
			for _, workers := range []int{1, 3} {
				p := fabrictest.Parse(t, lab)
				h := fabrictest.Hosts(p)
				l := fabrictest.Draw(h, 1, 40, 20*units.Microsecond, 60_000, false)
				p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{DSCP: 26, PerPair: true}}}
				f, all, text := carry(t, p, workers)
				if workers > 1 {
					if text != first {
						t.Error(fabrictest.FirstDifference(first, text))
					}
					continue
				}
				first = text
				fabrictest.CheckOnce(t, l, all, false)
				checkShared(t, f, all)
			}
		})
	}
}

// TestSharedConnections_KeepTheRate: a flow after an incast begins at the rate that the incast has
// left on its connection, and at the rate of the link if it has a connection of its own.
func TestSharedConnections_KeepTheRate(t *testing.T) {
	times := map[bool]units.Time{}
	for _, perPair := range []bool{false, true} {
		p := fabrictest.Parse(t, fmt.Sprintf(leafSpine, "dcqcn", "pfc: {},", ""))
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for _, from := range h[1:] {
			l.Flows[from] = []pattern.Flow{{Tag: 1, From: from, To: h[0], Size: 300_000}}
		}
		l.Flows[h[1]] = append(l.Flows[h[1]], pattern.Flow{Tag: 2, From: h[1], To: h[0], Size: 100_000, At: 4 * units.Millisecond})
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{DSCP: 26, PerPair: perPair}}}
		_, all, _ := carry(t, p, 1)
		for _, r := range all {
			if r.Tag == 1 && r.End > 4*units.Millisecond {
				t.Errorf("the incast is not over: %+v", r)
			}
			if r.Tag == 2 {
				times[perPair] = r.FCT()
			}
		}
	}
	if times[false] > 120*units.Microsecond || times[true] < 2*times[false] {
		t.Errorf("with a connection of its own %v, with the pair's %v", times[false], times[true])
	}
}

// TestSharedConnections_FailTogether: if a flow fails, those with messages behind it fail with
// it, and later ones use another connection.
func TestSharedConnections_FailTogether(t *testing.T) {
	p := fabrictest.Star(t, 3, "{timeout: 131us, retries: 2, limits: {max_qp_wr: 2}}", `
events:
  - {at: 1ms, link: "h2:eth0", set: {state: down}}
  - {at: 4ms, link: "h2:eth0", set: {state: up}}
`)
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {
		{Tag: 1, From: h[0], To: h[1], Size: 10_000, At: 0},
		{Tag: 2, From: h[0], To: h[1], Size: 10_000_000, At: 0},
		{Tag: 3, From: h[0], To: h[1], Size: 0, At: 0},
		{Tag: 4, From: h[0], To: h[1], Size: 20_000, At: 0},
		{Tag: 5, From: h[0], To: h[2], Size: 1_000_000, At: units.Millisecond},
		{Tag: 6, From: h[0], To: h[1], Size: 10_000, At: 5 * units.Millisecond},
	}}}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{PerPair: true}}}
	f, all, _ := carry(t, p, 1)
	got := map[uint32]string{}
	for _, r := range all {
		got[r.Tag] = fmt.Sprint(r.State, " ", r.Failure)
		if r.Tag == 2 && (r.Acked < 500_000 || r.Acked > 9_000_000) || r.Tag == 3 && r.Acked > 0 {
			t.Errorf("%+v", r)
		}
	}
	for tag, want := range map[uint32]string{
		1: "done ", 2: "failed IBV_WC_RETRY_EXC_ERR", 3: "failed IBV_WC_WR_FLUSH_ERR",
		4: "failed IBV_WC_RETRY_EXC_ERR", 5: "done ", 6: "done ",
	} {
		if got[tag] != want {
			t.Errorf("flow %d: %s, expected %s", tag, got[tag], want)
		}
	}
	if n := f.Carriers(); n.Retired != 2 || n.Connections != 4 {
		t.Errorf("%+v", n)
	}
}
