package systems

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/eqds"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// BenchmarkEQDS measures the cost of a packet of a modelled flow from one host through a
// switch to another, without an edge service and in a tunnel, at 80% of the links.
func BenchmarkEQDS(b *testing.B) {
	for _, edge := range []string{"none", "eqds", "{eqds: {preset: rts}}", "{eqds: {credit-per-pull: 8}}", "{eqds: {preset: rts, credit-per-pull: 8}}"} {
		b.Run(edge, func(b *testing.B) {
			const size = 1400
			queues := trimmingQueues
			if edge == "none" || strings.Contains(edge, "rts") {
				queues = plainQueues
			}
			f := fabric.New(fabrictest.Parse(b, fmt.Sprintf(`duration: 1h
topology: {kinds: {host: {attach: none, edge: %s}, switch: {%s}}, generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}}
workload: [{cbr: {name: x, from: h1, to: h2, rate: 8Gbps, size: %dB}}]`, edge, queues, size)))
			every := (8 * units.Gbps).TimeOf(packet.OnWire(size + 42))
			run := func(packets int) {
				if err := f.Run(context.Background(), f.Now()+units.Time(packets)*every); err != nil {
					b.Fatal(err)
				}
			}
			run(1000)
			was, events := f.Results()[0].Received, f.Events()
			b.ReportAllocs()
			b.ResetTimer()
			run(b.N)
			b.StopTimer()
			got := f.Results()[0].Received - was
			if float64(got) < 0.9*float64(b.N)-100 {
				b.Fatalf("%d of %d packets came", got, b.N)
			}
			b.ReportMetric(float64(f.Events()-events)/float64(max(1, got)), "events/packet")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(max(1, got)), "ns/packet")
		})
	}
}

// trimmingQueues is switches that keep 8 packets and trim the rest, with a higher class for
// control packets and trimmed packets.
const trimmingQueues = "classes: {control: {dscp: [10, 48], priority: 6}, default: {weight: 1, limit: 12KB, trim: {preset: ndp, dscp: 10}}}"

// plainQueues is switches that keep 14 packets and drop the rest.
const plainQueues = "classes: {control: {dscp: 48, priority: 6}, default: {weight: 1, limit: 22KB}}"

// overEQDS returns TCP for tunnels: packets are shorter.
func overEQDS(t testing.TB, control string, ipv6 bool) *carrier.TCP {
	c := fabrictest.TCP(t, control)
	c.IPv6 = ipv6
	c.MTU = 1444
	return c
}

// edgeGauge returns the sum of a gauge over all edge services.
func edgeGauge(t testing.TB, f *fabric.Fabric, name string) float64 {
	t.Helper()
	sum, ok := edgeGauges(f)[name]
	if !ok {
		t.Fatalf("there is no gauge %s", name)
	}
	return sum
}

// edgeGauges returns the sums of the gauges of all hosts' edge services.
func edgeGauges(f *fabric.Fabric) map[string]float64 {
	sum := map[string]float64{}
	for _, s := range f.Status() {
		if s.Edge == nil {
			continue
		}
		for _, g := range s.Edge.Gauges {
			sum[g.Name] += g.Value
		}
	}
	return sum
}

// atRest checks that a fabric with tunnels is at rest: no packet is missing, none waits.
func atRest(t testing.TB, f *fabric.Fabric) {
	t.Helper()
	live := 0
	for _, s := range f.Shards {
		live += s.Pool.LivePackets()
	}
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 || live != 0 {
		t.Errorf("%d packets are out of the pools, %+v", live, a)
	}
}

// TestEQDS_IncastSharesTheLinkWithShortQueues: flows over TCP and UDP that would each fill the
// link share it equally, the queue in the network stays below 15 packets, and almost none of
// the link's capacity is lost; with both back ends and over both versions of IP.
func TestEQDS_IncastSharesTheLinkWithShortQueues(t *testing.T) {
	for _, c := range []struct {
		name, edge, depth string
		ipv6, drops       bool
	}{
		{"switches that trim", "eqds", trimmingQueues, false, false},
		{"trimming, IPv6", "eqds", trimmingQueues, true, false},
		{"RTS at plain switches", "{eqds: {preset: rts}}", plainQueues, false, false},
		{"trimming, 4 packets a PULL, IPv6", "{eqds: {credit-per-pull: 4}}", trimmingQueues, true, false},
		{"trimming, 8 packets a PULL", "{eqds: {credit-per-pull: 8}}", trimmingQueues, false, false},
		{"rts, 8 packets a PULL", "{eqds: {preset: rts, credit-per-pull: 8}}", plainQueues, false, false},
		// Control packets take more than the share of the link that PULLs leave free.
		{"rts, control not counted", "{eqds: {preset: rts, count-control: false}}", plainQueues, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none, edge: "+c.edge+"}, switch: {"+c.depth+"}}, generate: {star: {hosts: 17, rate: 10Gbps, delay: 1us}}}")
			h := fabrictest.Hosts(p)
			const size = 2_000_000
			tcp, udp := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}, &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for i, from := range h[:16] {
				l := tcp
				if i%4 == 0 {
					l = udp
				}
				l.Flows[from] = []pattern.Flow{{From: from, To: h[16], Size: size}}
			}
			// UDP sends at the rate of its link: it drops what does not fit in the EQIF.
			p.Traffic = []plan.Traffic{
				{Name: "tcp", Pattern: tcp, TCP: overEQDS(t, "cubic", c.ipv6)},
				{Name: "udp", Pattern: udp, UDP: &carrier.UDP{Rate: 2 * units.Gbps, Size: 1380, IPv6: c.ipv6}},
			}
			f, all, _ := carry(t, p, 1)
			atRest(t, f)
			// Until the UDP flows end, each of the 16 has its share.
			var first, last units.Time = units.Never, 0
			done := 0
			for _, r := range all {
				if r.Retransmitted == 0 && r.State == records.Failed {
					continue // UDP: something was dropped
				}
				done++
				first, last = min(first, r.End), max(last, r.End)
			}
			if done < 12 || !c.drops && float64(first) < 0.93*float64(last) {
				t.Errorf("%d flows; the first is over at %v, the last at %v", done, first, last)
			}
			far := p.Nodes[h[16]].Ports[0]
			end := p.Links[far.Link].Ends[1-far.End]
			counters := f.Port(end.Node, end.Port).Counters(f.Now())
			packets := float64(counters.TxPackets)
			t.Logf("%s: %v, %d trimmed, queue at most %v, %d packets", c.name, last, counters.Trimmed, counters.MaxQueue, counters.TxPackets)
			if counters.MaxQueue > 15*1514 || (counters.Drops[packet.QueueFull] > uint64(packets/200)) != c.drops {
				t.Errorf("the queue had %v, %d packets of %v were dropped", counters.MaxQueue, counters.Drops[packet.QueueFull], packets)
			}
			if edgeGauge(t, f, "waiting") != 0 || edgeGauge(t, f, "dropped") == 0 {
				t.Errorf("%v waits at edges, %v was dropped there", edgeGauge(t, f, "waiting"), edgeGauge(t, f, "dropped"))
			}
			// What the receiver got over TCP, in frames on its link.
			bytes := float64(counters.TxBytes+24*counters.TxPackets) * 8
			if use := bytes / 10e9 / last.Seconds(); use < 0.95 && !c.drops {
				t.Errorf("the link was used for %.3f of the time", use)
			}
		})
	}
}

// eqdsLab is 8 hosts at 4 leaves under 2 spines, with short queues that trim, and NICs.
const eqdsLab = `
topology:
  kinds:
    host: {attach: none, edge: {eqds: {preset: %s}}, nic: {dscp: 26, cc: dcqcn, recovery: %s}}
    switch: {%s}
    link: {loss: %s, duplicate: %s, reorder: %s, reorder-by: 30us}
  generate: {leaf-spine: {leaves: 4, spines: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
`

// TestEQDS_IsTheSameWithAnyNumberOfWorkers: whatever happens in the network, each flow over
// TCP and RDMA ends, records have the same bytes and the run has the same trace, with any
// number of workers.
func TestEQDS_IsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	plain := "classes: {control: {dscp: 48, priority: 6}, default: {weight: 1, limit: 60KB}}"
	for _, c := range []struct{ name, lab string }{
		{"switches that trim", fmt.Sprintf(eqdsLab, "ndp", "go-back-n", trimmingQueues, "0", "0", "0")},
		{"trimming, loss, copies and disorder", fmt.Sprintf(eqdsLab, "ndp", "irn", trimmingQueues, "1%", "2%", "3%")},
		{"8 packets a PULL, loss, copies and disorder", fmt.Sprintf(eqdsLab, "ndp, credit-per-pull: 8", "irn", trimmingQueues, "1%", "2%", "3%")},
		{"RTS at plain switches", fmt.Sprintf(eqdsLab, "rts", "irn", plain, "0", "0", "0")},
		{"rts, loss, copies and disorder", fmt.Sprintf(eqdsLab, "rts-bluefield2", "go-back-n", plain, "1%", "2%", "3%")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var first string
			var trace uint64
			for _, workers := range []int{1, 2, 4} {
				p := fabrictest.Parse(t, c.lab)
				h := fabrictest.Hosts(p)
				l := fabrictest.Draw(h, 1, 20, 20*units.Microsecond, 100_000, false)
				r := fabrictest.Draw(h, 2, 20, 20*units.Microsecond, 100_000, false)
				p.Traffic = []plan.Traffic{
					{Name: "tcp", Pattern: l, TCP: overEQDS(t, "cubic", false)},
					{Name: "rdma", Pattern: r, RDMA: &carrier.RDMA{}},
				}
				f, all, text := carry(t, p, workers)
				atRest(t, f)
				if workers > 1 {
					if text != first || f.Trace() != trace {
						t.Errorf("%d workers: trace %x, with one %x; %s", workers, f.Trace(), trace, fabrictest.FirstDifference(first, text))
					}
					continue
				}
				first, trace = text, f.Trace()
				n, again := states(all)
				if n[records.Done] != 320 {
					t.Errorf("%v", n)
				}
				t.Logf("%d packets of transports and %v of tunnels were sent again", again, edgeGauge(t, f, "resent"))
			}
		})
	}
}

// TestEQDS_MakesNoTunnelsToHostsWithoutIt: packets to and from hosts without EQDS travel as if
// there were no EQDS.
func TestEQDS_MakesNoTunnelsToHostsWithoutIt(t *testing.T) {
	p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}, switch: {"+trimmingQueues+"}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}, nodes: {h1: {edge: eqds}, h3: {edge: eqds}}}")
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{
		h[0]: {{Tag: 1, From: h[0], To: h[1], Size: 50_000}}, h[1]: {{Tag: 2, From: h[1], To: h[2], Size: 50_000}},
	}}
	p.Traffic = []plan.Traffic{{Name: "tcp", Pattern: l, TCP: overEQDS(t, "reno", false)}}
	f, all, _ := carry(t, p, 1)
	atRest(t, f)
	fabrictest.CheckOnce(t, l, all, false)
	if n, again := states(all); n[records.Done] != 2 || again != 0 || edgeGauge(t, f, "tunnels") != 0 {
		t.Errorf("%v, %d sent again, %v tunnels", n, again, edgeGauge(t, f, "tunnels"))
	}
	l = &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[2], Size: 50_000}}}}
	p.Traffic[0].Pattern = l
	f, all, _ = carry(t, p, 1)
	if n, _ := states(all); n[records.Done] != 1 || edgeGauge(t, f, "tunnels") != 2 {
		t.Errorf("%v, %v tunnels", n, edgeGauge(t, f, "tunnels"))
	}
}

// TestEQDS_SlowsQueuePairsOrHoldsThemBack: queue pairs whose packets wait at the edge get CNPs
// from it and share the receiver's link. With lossless, what does not fit waits in the NIC.
func TestEQDS_SlowsQueuePairsOrHoldsThemBack(t *testing.T) {
	for _, c := range []struct {
		edge  string
		cnps  bool
		drops bool
	}{
		{"eqds", true, false},
		{"{eqds: {pmax: 0%, k-high: 900MB, rdma-packets: 20}}", false, true},
		{"{eqds: {pmax: 0%, k-high: 900MB, rdma-packets: 20, lossless: true}}", false, false},
	} {
		t.Run("edge: "+c.edge, func(t *testing.T) {
			p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none, nic: {dscp: 26, cc: dcqcn}, edge: "+c.edge+"}, switch: {"+trimmingQueues+"}}, generate: {star: {hosts: 5, rate: 10Gbps, delay: 1us}}}")
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for _, from := range h[:4] {
				l.Flows[from] = []pattern.Flow{{From: from, To: h[4], Size: 4_000_000}}
			}
			p.Traffic = []plan.Traffic{{Name: "rdma", Pattern: l, RDMA: &carrier.RDMA{}}}
			f, all, _ := carry(t, p, 1)
			atRest(t, f)
			n, again := states(all)
			handled := uint64(0)
			for _, n := range f.NICs() {
				handled += n.Counters.Of("rp_cnp_handled")
			}
			if n[records.Done] != 4 || (handled > 0) != c.cnps || float64(handled) != edgeGauge(t, f, "cnps") ||
				(edgeGauge(t, f, "dropped") > 0) != c.drops || (again > 0) != c.drops {
				t.Errorf("%v, %d sent again, %d CNPs handled of %v, %v dropped", n, again, handled, edgeGauge(t, f, "cnps"), edgeGauge(t, f, "dropped"))
			}
			var first, last units.Time = units.Never, 0
			for _, r := range all {
				first, last = min(first, r.End), max(last, r.End)
			}
			// 16 MB at 10 Gb/s, with the headers of 1 KB packets, at 0.99.
			if ideal := 16e6 * 8 / 10e9 * 1142 / 1024 / 0.99; !c.drops && (last.Seconds() > 1.05*ideal || float64(first) < 0.9*float64(last)) {
				t.Errorf("the first is over at %v, the last at %v, want %.4f s", first, last, ideal)
			}
		})
	}
}

// TestEQDS_TunnelsSurviveALinkFailure: tunnels survive a temporary failure of a link on some
// of their paths, and of the receiver's own link.
func TestEQDS_TunnelsSurviveALinkFailure(t *testing.T) {
	for _, link := range []string{"leaf1:spine1", "h8:eth0"} {
		p := fabrictest.Parse(t, fmt.Sprintf(eqdsLab, "ndp", "go-back-n", trimmingQueues, "0", "0", "0")+fmt.Sprintf(`
events:
  - {at: 200us, link: "%s", set: {state: down}}
  - {at: 3ms, link: "%s", set: {state: up}}
`, link, link))
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[7], Size: 2_000_000}}, h[2]: {{From: h[2], To: h[7], Size: 2_000_000}}}}
		p.Traffic = []plan.Traffic{{Name: "tcp", Pattern: l, TCP: overEQDS(t, "reno", false)}}
		f, all, _ := carry(t, p, 1)
		atRest(t, f)
		if n, again := states(all); n[records.Done] != 2 || edgeGauge(t, f, "timeouts") == 0 {
			t.Errorf("%s: %v, %d sent again, %v timeouts of tunnels", link, n, again, edgeGauge(t, f, "timeouts"))
		}
	}
}

// TestEQDSTunnels_AreReadByTshark: a capture shows the tunnels' packets, and in them the
// host's packets, all without errors.
func TestEQDSTunnels_AreReadByTshark(t *testing.T) {
	p := fabrictest.Parse(t, fmt.Sprintf(eqdsLab, "ndp", "go-back-n", trimmingQueues, "0", "0", "0")+"workload:\n  - {cbr: {from: h1, to: h8, rate: 1Gbps, size: 300B, for: 100us}}\nduration: 1ms\n")
	h := fabrictest.Hosts(p)
	tcp := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[7], Size: 20_000}}}}
	rdma := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[7], Size: 20_000}}}}
	p.Traffic = []plan.Traffic{{Name: "tcp", Pattern: tcp, TCP: overEQDS(t, "reno", false)}, {Name: "rdma", Pattern: rdma, RDMA: &carrier.RDMA{}}}
	f := fabric.New(p)
	f.SetFlowSink(new(fabrictest.Records), true)
	frames := captured(t, f, []fabric.Watched{{Node: h[0], In: true, Out: true}}, func() { runTo(t, f, units.Millisecond) })
	seen := map[string]int{}
	for _, row := range oracle.Tshark(t, dissectorFile(t), frames, "frame.protocols", "udp.checksum.status", "tcp.checksum.status", "ip.checksum.status", "_ws.malformed", "_ws.expert.message") {
		if strings.Contains(row[0], "malformed") || strings.ContainsAny(row[1]+row[2]+row[3], "0") || row[4] != "" {
			t.Errorf("%q", row)
		}
		for _, inside := range []string{"tcp", "infiniband", "eqds"} {
			if strings.Contains(row[0], "eqds") && strings.Contains(row[0], inside) {
				seen[inside]++
			}
		}
	}
	if seen["tcp"] < 14 || seen["infiniband"] < 20 || seen["eqds"] < seen["tcp"]+seen["infiniband"]+30 {
		t.Errorf("of %d frames: %v; a header has %d bytes", len(frames), seen, eqds.HeaderLen)
	}
}

// TestEQDS_RefusesAnotherMTUDuringARun: the MTU of a link with a tunnel end cannot be changed
// during a run. The MTU of other links can, and so can everything else.
func TestEQDS_RefusesAnotherMTUDuringARun(t *testing.T) {
	p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 2, rate: 1Gbps}}, nodes: {h1: {edge: eqds}}}")
	f := fabric.New(p)
	mtu, rate := change.MTU(2000), 2*units.Gbps
	for l := range p.Links {
		tunnels := false
		for _, end := range p.Links[l].Ends {
			tunnels = tunnels || p.Nodes[end.Node].Name == "h1"
		}
		err := f.Set(l, [2]bool{true, true}, change.LinkPatch{MTU: &mtu})
		if tunnels == (err == nil) || tunnels && !strings.Contains(err.Error(), "eqds at h1:eth0 keeps the mtu") {
			t.Errorf("link %d: %v", l, err)
		}
		if err := f.Set(l, [2]bool{true, true}, change.LinkPatch{Rate: &rate}); err != nil {
			t.Errorf("link %d: %v", l, err)
		}
	}
}
