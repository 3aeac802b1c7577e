package systems

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
)

// TestRDMAFlows_OfEveryVerbTakeTheIdealTime: a flow alone on its path takes the ideal time,
// with every verb and IP version, in one message or several, of one byte, of none, of many.
func TestRDMAFlows_OfEveryVerbTakeTheIdealTime(t *testing.T) {
	for _, verb := range []workload.Verb{workload.Write, workload.Send, workload.Read} {
		for _, v6 := range []bool{false, true} {
			for _, chunk := range []units.Bytes{0, 30_000} {
				t.Run(fmt.Sprintf("%v, IPv6 %v, chunks of %v", verb, v6, chunk), func(t *testing.T) {
					reads := verb == workload.Read
					p := fabrictest.Star(t, 3, "{dscp: 26}", "")
					h := fabrictest.Hosts(p)
					l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
					for i, size := range []units.Bytes{1, 0, 1024, 100_000, 1025, 120_000} {
						f := pattern.Flow{Tag: 1<<31 + uint32(i), From: h[i%2], To: h[1-i%2], Size: size, At: units.Time(i) * units.Millisecond, Group: 7}
						starter := f.From
						if reads {
							starter = f.To
						}
						l.Flows[starter] = append(l.Flows[starter], f)
					}
					p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{Verb: verb, IPv6: v6, Chunk: chunk}}}
					_, all, _ := carry(t, p, 1)
					fabrictest.CheckOnce(t, l, all, reads)
					for _, r := range all {
						if s := r.Slowdown(); r.State != records.Done || s < 0.98 || s > 1.08 || r.Retransmitted > 0 {
							t.Errorf("slowdown %.3f: %+v", s, r)
						}
					}
				})
			}
		}
	}
}

// leafSpine is 8 hosts at 4 leaves under 2 spines, with classes and PFC.
const leafSpine = `
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, cc: %s, timeout: 524us}}
    switch:
      buffer: {size: 400KB}
      classes:
        cnp: {dscp: 48, priority: 6}
        roce: {dscp: 26, priority: 3, weight: 1, %s mark: {red: {kmin: 20KB, kmax: 80KB, pmax: 10%%}}}
        default: {weight: 1}
    link: {mtu: 4200%s}
  generate: {leaf-spine: {leaves: 4, spines: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
`

// TestRDMAFlows_AreTheSameWithAnyNumberOfWorkers: the stream of records has the same bytes and
// the run the same trace with 1, 2 and 4 workers, whatever happens.
func TestRDMAFlows_AreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	for _, c := range []struct{ name, lab string }{
		{"dcqcn and pfc", fmt.Sprintf(leafSpine, "dcqcn", "pfc: {},", "")},
		{"hpcc and pfc", fmt.Sprintf(leafSpine, "hpcc", "pfc: {},", "")},
		{"NICs with delays", strings.Replace(fmt.Sprintf(leafSpine, "dcqcn", "pfc: {},", ""), "nic: {", "nic: {delays: connectx-3, ", 1)},
		{"loss, copies and disorder, and slow NICs", strings.Replace(fmt.Sprintf(leafSpine, "dcqcn", "", ", loss: 1%, duplicate: 2%, reorder: 3%, reorder-by: 30us"),
			"  generate:", "  nodes: {h4: {nic: {delays: {doorbell: 2us, dma: 30us, completion: 90us}}}, h5: {nic: {delays: {completion: 200us}}}}\n  generate:", 1)},
		{"loss, copies and disorder", fmt.Sprintf(leafSpine, "dcqcn", "", ", loss: 1%, duplicate: 2%, reorder: 3%, reorder-by: 30us")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var first string
			var trace uint64
			for _, workers := range []int{1, 2, 4} {
				p := fabrictest.Parse(t, c.lab)
				h := fabrictest.Hosts(p)
				p.Traffic = []plan.Traffic{
					{Name: "writes", Pattern: fabrictest.Draw(h, 1, 60, 20*units.Microsecond, 60_000, false), RDMA: &carrier.RDMA{DSCP: 26}},
					{Name: "loop", Pattern: &fabrictest.Loop{Clients: h[:3], Servers: h[3:], Rounds: 40}, RDMA: &carrier.RDMA{Verb: workload.Send, DSCP: 26}},
					{Name: "reads", Pattern: fabrictest.Draw(h, 2, 30, 40*units.Microsecond, 60_000, true), RDMA: &carrier.RDMA{Verb: workload.Read, DSCP: 26, Chunk: 20_000}},
					{Name: "datagrams", Pattern: fabrictest.Draw(h, 3, 30, 40*units.Microsecond, 20_000, false), UDP: &carrier.UDP{Size: 1000, Rate: units.Gbps}},
				}
				f, all, text := carry(t, p, workers)
				if workers == 1 {
					first, trace = text, f.Trace()
					sum := map[string]int{}
					for _, r := range all {
						sum[p.Traffic[r.Traffic].Name+" "+r.State.String()]++
					}
					if sum["writes done"] != 480 || sum["reads done"] != 240 || sum["loop done"] != 240 || sum["datagrams done"]+sum["datagrams unfinished"] != 240 {
						t.Errorf("%v, %+v", sum, f.Carriers())
					}
					if !slices.IsSortedFunc(all, func(a, b records.Record) int {
						return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
					}) {
						t.Error("records are out of order")
					}
					continue
				}
				if text != first {
					t.Errorf("%d workers: other records:\n%s", workers, fabrictest.FirstDifference(first, text))
				}
				if f.Trace() != trace {
					t.Errorf("%d workers: another trace", workers)
				}
			}
		})
	}
}

// TestRDMAFlows_EndOnceUnderLoss: with 1% loss, copies and reordering every flow of every verb
// ends exactly once, and its agents are told exactly once.
func TestRDMAFlows_EndOnceUnderLoss(t *testing.T) {
	for _, c := range []struct {
		verb     workload.Verb
		recovery string
	}{
		{workload.Write, "go-back-n"}, {workload.Send, "go-back-n"}, {workload.Read, "go-back-n"}, {workload.Write, "irn"}, {workload.Send, "irn"}, {workload.Read, "irn"},
	} {
		verb := c.verb
		for _, limit := range []int{0, 6} {
			name := fmt.Sprintf("%v with %s", verb, c.recovery)
			if limit > 0 {
				name += fmt.Sprintf(", at most %d queue pairs", limit)
			}
			t.Run(name, func(t *testing.T) {
				nic := "timeout: 524us, recovery: " + c.recovery
				if limit > 0 {
					nic += fmt.Sprintf(", limits: {max_qp: %d}", limit)
				}
				p := fabrictest.Star(t, 4, "{"+nic+"}", "")
				for i := range p.Links {
					for d := range 2 {
						s := &p.Links[i].Dir[d]
						s.Loss, s.Duplicate, s.Reorder, s.ReorderBy = 1e-2, 1e-2, 1e-2, 50*units.Microsecond
					}
				}
				l := fabrictest.Draw(fabrictest.Hosts(p), 5, 400, 50*units.Microsecond, 40_000, verb == workload.Read)
				p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{Verb: verb, Chunk: 15_000}}}
				f, all, _ := carry(t, p, 1)
				fabrictest.CheckOnce(t, l, all, verb == workload.Read)
				resent, sum := uint64(0), f.Carriers()
				for _, r := range all {
					resent += r.Retransmitted
					if r.State != records.Done && limit == 0 {
						t.Errorf("%+v", r)
					}
				}
				if resent == 0 || limit > 0 && (sum.WaitedQP == 0 || sum.QueuePairs > 4*limit) || limit == 0 && sum.WaitedQP+sum.Retired > 0 {
					t.Errorf("%d packets again, %+v", resent, sum)
				}
				t.Logf("%+v", sum)
			})
		}
	}
}

// TestUDPFlows_TakeTheIdealTimeAndEndOnce: a flow alone takes the ideal time, at the rate of
// the link and at a lower one; with loss it is unfinished, and with copies and reordering it
// is complete once.
func TestUDPFlows_TakeTheIdealTimeAndEndOnce(t *testing.T) {
	for _, c := range []struct {
		udp                  carrier.UDP
		loss, copies, unruly units.Fraction
	}{
		{udp: carrier.UDP{Size: 1000}},
		{udp: carrier.UDP{Size: 1400, Rate: units.Gbps, IPv6: true, ECT: true, DSCP: 5}},
		{udp: carrier.UDP{Size: 1000, Rate: units.Gbps}, copies: 0.1, unruly: 0.1},
		{udp: carrier.UDP{Size: 1000, Rate: units.Gbps}, loss: 0.01, copies: 0.1},
	} {
		p := fabrictest.Star(t, 3, "{}", "")
		h := fabrictest.Hosts(p)
		for i := range p.Links {
			for d := range 2 {
				s := &p.Links[i].Dir[d]
				s.Loss, s.Duplicate, s.Reorder, s.ReorderBy = c.loss, c.copies, c.unruly, 50*units.Microsecond
			}
		}
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for i := range 600 {
			from := h[i%3]
			l.Flows[from] = append(l.Flows[from], pattern.Flow{Tag: uint32(i), From: from, To: h[(i+1)%3], Size: units.Bytes(i * 67), At: units.Time(i) * units.Millisecond})
		}
		other := &fabrictest.List{Members: h[:2], Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[1], Size: 5000, At: 500 * units.Microsecond}}}}
		u, v := c.udp, carrier.UDP{Size: 500}
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, UDP: &u}, {Name: "y", Pattern: other, UDP: &v}}
		_, all, _ := carry(t, p, 1)
		sum := map[records.State]int{}
		var times []float64
		for _, r := range all {
			sum[r.State]++
			if r.Traffic == 0 && r.State == records.Done {
				times = append(times, r.Slowdown())
			}
		}
		if len(all) != 601 || c.loss == 0 && sum[records.Done] != 601 || c.loss > 0 && (sum[records.Unfinished] < 50 || sum[records.Done] < 100) {
			t.Errorf("%+v: %v", c, sum)
		}
		if low, high := slices.Min(times), slices.Max(times); c.unruly == 0 && (low < 0.999 || high > 1.001) {
			t.Errorf("%+v: slowdowns from %v to %v", c, low, high)
		}
		if n := len(l.Told[h[1]].Arrived) + len(l.Told[h[0]].Arrived) + len(l.Told[h[2]].Arrived) + len(other.Told[h[1]].Arrived); n != sum[records.Done] {
			t.Errorf("%+v: agents are told of %d arrivals of %d", c, n, sum[records.Done])
		}
		for _, host := range h {
			if n := len(l.Told[host].Completed); n != 200 {
				t.Errorf("%+v: an agent is told that %d of 200 flows were sent", c, n)
			}
		}
	}
}

// TestRDMAFlows_FailWithTheirLink: a flow whose link goes down fails with the status of its
// queue pair, others continue, and its connection is not used again. A flow in progress at the
// end is unfinished, with what was acknowledged.
func TestRDMAFlows_FailWithTheirLink(t *testing.T) {
	p := fabrictest.Star(t, 3, "{timeout: 131us, retries: 2}", `
events:
  - {at: 1ms, link: "h2:eth0", set: {state: down}}
  - {at: 4ms, link: "h2:eth0", set: {state: up}}
`)
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {
		{Tag: 1, From: h[0], To: h[1], Size: 10_000_000, At: 0},
		{Tag: 2, From: h[0], To: h[2], Size: 1_000_000, At: units.Millisecond},
		{Tag: 3, From: h[0], To: h[1], Size: 10_000, At: 5 * units.Millisecond},
		{Tag: 4, From: h[0], To: h[2], Size: 100_000_000, At: 6 * units.Millisecond},
		{Tag: 5, From: h[1], To: h[2], Size: 1, At: 6 * units.Millisecond},
		{Tag: 6, From: h[0], To: h[2], Size: 1, At: 9 * units.Millisecond},
	}}}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{}}}
	p.Measure = plan.Measure{Window: carrier.Window{WarmUp: units.Millisecond, End: 8 * units.Millisecond}, Grace: 5 * units.Millisecond}
	f, all := carryUntil(t, p)
	var got []string
	for _, r := range all {
		got = append(got, fmt.Sprint(r.Tag, " ", r.State, " ", r.Counted, " ", r.Failure))
	}
	want := []string{
		"1 failed false IBV_WC_RETRY_EXC_ERR", "2 done true ", "3 done true ",
		"5 failed true started by the wrong host: READs start at the host that gets the data, all else at the host that has it", "4 unfinished true ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	last := all[len(all)-1]
	if last.End != 13*units.Millisecond || last.Acked < 5_000_000 || last.Acked > 9_000_000 || all[0].Acked < 500_000 {
		t.Errorf("%+v\n%+v", last, all[0])
	}
	if n := f.Carriers(); n.Retired != 1 || n.Connections != 3 {
		t.Errorf("%+v", n)
	}
}

// carryUntil is carry for runs at whose end packets are still in flight.
func carryUntil(t *testing.T, p *plan.Plan) (*fabric.Fabric, []records.Record) {
	t.Helper()
	f := fabric.New(p)
	var all fabrictest.Records
	f.SetFlowSink(&all, false)
	runTo(t, f, units.Never)
	if err := f.EndFlows(); err != nil {
		t.Fatal(err)
	}
	return f, all
}

// TestRDMAFlows_PassAnEdgeLimit: flows leave through a host's edge service like all other
// traffic, and it limits each to its rate.
func TestRDMAFlows_PassAnEdgeLimit(t *testing.T) {
	p := fabrictest.Parse(t, `
topology:
  kinds: {host: {attach: none, nic: {}, edge: {limit: {rate: 2Gbps}}}}
  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}
`)
	l := fabrictest.Draw(fabrictest.Hosts(p), 4, 100, 30*units.Microsecond, 30_000, false)
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{}}}
	_, all, _ := carry(t, p, 1)
	fabrictest.CheckOnce(t, l, all, false)
	for _, r := range all {
		if r.State != records.Done {
			t.Errorf("%+v", r)
		}
	}
}

// TestFlowRecords_HaveTheirPath: a record's path is the path of the flow's packets; if they
// take several, the record says so.
func TestFlowRecords_HaveTheirPath(t *testing.T) {
	for _, forwarding := range []string{"ecmp", "random"} {
		p := fabrictest.Parse(t, fmt.Sprintf(`
topology:
  kinds: {host: {attach: none, nic: {}}, switch: {forwarding: %s}}
  generate: {leaf-spine: {leaves: 2, spines: 4, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
`, forwarding))
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for i := range 40 {
			l.Flows[h[0]] = append(l.Flows[h[0]], pattern.Flow{From: h[0], To: h[3], Size: 100_000, At: units.Time(i) * units.Millisecond})
		}
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, RDMA: &carrier.RDMA{}}}
		f, all, _ := carry(t, p, 1)
		passed := map[string]int{}
		for _, r := range all {
			path := strings.Fields(r.Path)
			if forwarding == "random" {
				if len(path) != 2 || path[1] != "several" {
					t.Errorf("%q", r.Path)
				}
				continue
			}
			if len(path) != 4 {
				t.Fatalf("%q", r.Path)
			}
			passed[path[1]]++
		}
		if forwarding == "random" {
			continue
		}
		if len(passed) != 4 {
			t.Errorf("40 flows with ports of their own take %d of 4 ways", len(passed))
		}
		for name, n := range passed {
			node, port, err := p.Endpoint(name)
			if err != nil {
				t.Fatal(err)
			}
			// 98 packets of each flow.
			if got := f.PortStatus(node, port).TxPackets; got != uint64(n*98) {
				t.Errorf("%s is on the path of %d flows and sent %d packets", name, n, got)
			}
		}
	}
}
