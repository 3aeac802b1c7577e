package fabric

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/internal/judge"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/packet"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/carrier"
	"github.com/weftlab/weft/traces/pattern"
	"github.com/weftlab/weft/traces/records"
	"github.com/weftlab/weft/traces/series"
)

// byNDP returns the NDP carrier of the tests: control packets are in the class of trimmed
// packets.
func byNDP() *carrier.NDP { return &carrier.NDP{Config: ndp.Default(), ControlDSCP: 46} }

// trimming is switches whose data queues hold 8 packets of 1514 bytes, and trim.
const trimming = "{buffer: {size: 4MB}, classes: {default: {limit: 12112B, trim: {preset: ndp, dscp: 46}}, trimmed: {priority: 7, limit: 64KB, dscp: 46}}}"

// TestFlowsByNDP: flows of any size, alone on their path, take little more than the ideal
// time, over both versions of IP.
func TestFlowsByNDP(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := parse(t, "topology: {kinds: {host: {attach: none}, switch: "+trimming+"}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}")
		h := hostsOf(p)
		l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
		for i, size := range []units.Bytes{1, 0, 1436, 1456, 1457, 14_000, 2_000_000} {
			l.flows[h[i%2]] = append(l.flows[h[i%2]], pattern.Flow{Tag: uint32(i), From: h[i%2], To: h[1-i%2], Size: size, At: units.Time(i) * 5 * units.Millisecond})
		}
		c := byNDP()
		c.IPv6 = v6
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: c}}
		f, all, _ := carry(t, p, 1)
		onceEach(t, l, all, false)
		for _, r := range all {
			if s := r.Slowdown(); r.State != records.Done || s < 0.999 || s > 1.1 || r.Retransmitted > 0 {
				t.Errorf("IPv6 %v: slowdown %.3f of %v: %+v", v6, s, r.Size, r)
			}
		}
		if n := f.NDP()[0]; n.NACKs+n.Timeouts+n.Returned > 0 || n.ACKs != n.Packets {
			t.Errorf("%+v", n)
		}
	}
}

// TestNDPIncast: many small flows to one host at once, over queues of 8 packets that trim.
// The receiver's link is busy from the first packet to the last, except for the share that
// is not pulled, and no timeout is needed, not even where headers are returned.
func TestNDPIncast(t *testing.T) {
	for _, c := range []struct {
		senders  int
		returned bool
	}{{16, false}, {100, true}} {
		p := parse(t, fmt.Sprintf("topology: {kinds: {host: {attach: none}, switch: %s}, generate: {star: {hosts: %d, rate: 10Gbps, delay: 1us}}}", trimming, c.senders+1))
		h := hostsOf(p)
		l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
		const size = 90_000
		for _, from := range h[:c.senders] {
			l.flows[from] = []pattern.Flow{{From: from, To: h[c.senders], Size: size}}
		}
		x := byNDP()
		x.Window = 30
		p.Traffic = []plan.Traffic{{Name: "incast", Pattern: l, NDP: x}}
		f, all, _ := carry(t, p, 1)
		onceEach(t, l, all, false)
		n, again := states(all)
		var last units.Time
		for _, r := range all {
			last = max(last, r.Arrived)
		}
		packets := units.Bytes((size + x.Full() - 1) / x.Full())
		wire := units.Bytes(c.senders) * (size + packets*(x.HeadersLen()+14+24))
		busy := float64((10 * units.Gbps).TimeOf(wire)) / float64(last)
		k := f.NDP()[0]
		t.Logf("%d senders: the link is busy %.3f of the time with data; %d packets sent again, %+v", c.senders, busy, again, *k)
		if n[records.Done] != c.senders || busy < 0.95 || k.Timeouts > 0 || (k.Returned > 0) != c.returned || k.NACKs == 0 {
			t.Errorf("%d senders: %v, busy %.3f, %+v", c.senders, n, busy, *k)
		}
	}
}

// jumbo is trimming for links with an MTU of 9000, as in the paper.
const jumbo = "buffer: {size: 4MB}, classes: {default: {limit: 72112B, trim: {preset: ndp, dscp: 46}}, trimmed: {priority: 7, limit: 64KB, dscp: 46}}"

// TestNDPPermutation: every host sends to another one, over all paths in turn: the links of
// hosts are at least 95% busy with data. The paper's figure for fat-trees, quoted from memory,
// is 92% and more.
func TestNDPPermutation(t *testing.T) {
	for _, c := range []struct {
		name, topology, forwarding string
		paths                      int
		penalty                    bool
		least                      float64
	}{
		{"k=4", "fat-tree: {k: 4", "round-robin", 256, false, 0.95},
		{"k=8", "fat-tree: {k: 8", "round-robin", 256, false, 0.95},
		{"the sender chooses spines", "leaf-spine: {leaves: 4, spines: 4, hosts-per-leaf: 4", "{entropy: {field: udp-source-port}}", 4, true, 0.95},
		// If each packet's path is random, short queues overflow now and then.
		{"k=8 at random", "fat-tree: {k: 8", "random", 256, false, 0.87},
	} {
		p := parse(t, fmt.Sprintf("topology: {kinds: {host: {attach: none}, link: {mtu: 9000}, switch: {forwarding: %s, %s}}, generate: {%s, rate: 10Gbps, delay: 1us}}}", c.forwarding, jumbo, c.topology))
		h := hostsOf(p)
		l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
		for i, from := range h {
			l.flows[from] = []pattern.Flow{{From: from, To: h[(i+len(h)/2+1)%len(h)], Size: 1 << 40}}
		}
		x := byNDP()
		x.MTU, x.Window, x.Paths, x.PathPenalty = 9000, 30, c.paths, c.penalty
		p.Traffic = []plan.Traffic{{Name: "permutation", Pattern: l, NDP: x}}
		f, err := newParallel(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		const length = 5 * units.Millisecond
		if err := f.Run(context.Background(), length); err != nil {
			t.Fatal(err)
		}
		// On the wire, as a share of a full link.
		share := func(acked units.Bytes) float64 {
			return float64((10 * units.Gbps).TimeOf(acked)) / float64(length) * 9038 / float64(x.Full())
		}
		sum, least := 0.0, 1.0
		for _, host := range f.traffic.hosts {
			host.UnderWay(func(r *records.Record) { sum, least = sum+share(r.Acked), min(least, share(r.Acked)) })
		}
		sum /= float64(len(h))
		n := f.NDP()[0]
		t.Logf("%s: %.3f of the links, the slowest flow %.3f; %+v", c.name, sum, least, *n)
		if sum < c.least || least < c.least-0.03 || n.Timeouts > 0 {
			t.Errorf("%s: %.3f of the links, the slowest flow %.3f; %+v", c.name, sum, least, *n)
		}
	}
}

// ndpLab is 8 hosts at 4 leaves under 2 spines, whose short queues trim.
const ndpLab = `
topology:
  kinds:
    host: {attach: none}
    switch: {forwarding: %s, %s}
    link: {loss: %s, duplicate: %s, reorder: %s, reorder-by: 30us}
  generate: {leaf-spine: {leaves: 4, spines: 2, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
`

// TestNDPDoesNotDependOnWorkers: records have the same bytes and the run the same trace
// with 1, 2 and 4 workers, whatever happens, and every flow is done.
func TestNDPDoesNotDependOnWorkers(t *testing.T) {
	short := trimming[1 : len(trimming)-1]
	for _, c := range []struct{ name, lab string }{
		{"trimming", fmt.Sprintf(ndpLab, "random", short, "0", "0", "0")},
		{"the sender chooses", fmt.Sprintf(ndpLab, "{entropy: {field: udp-source-port}}", short, "0", "0", "0")},
		{"loss", fmt.Sprintf(ndpLab, "random", short, "1%", "0", "0")},
		{"loss, copies and disorder", fmt.Sprintf(ndpLab, "ecmp", short, "1%", "2%", "3%")},
		{"no trimming", fmt.Sprintf(ndpLab, "random", "queue: {limit: 60KB}", "0", "0", "0")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var first string
			var trace uint64
			for _, workers := range []int{1, 2, 4} {
				p := parse(t, c.lab)
				h := hostsOf(p)
				l := drawn(h, 1, 40, 20*units.Microsecond, 100_000, false)
				second := byNDP()
				second.Priority, second.PathPenalty = 1, true
				p.Traffic = []plan.Traffic{
					{Name: "drawn", Pattern: l, NDP: byNDP()},
					{Name: "loop", Pattern: &loop{h[:3], h[3:], 20}, NDP: second},
				}
				f, all, text := carry(t, p, workers)
				if workers > 1 {
					if text != first || f.Trace() != trace {
						t.Errorf("%d workers: trace %x, with one %x; %s", workers, f.Trace(), trace, firstDifference(first, text))
					}
					continue
				}
				first, trace = text, f.Trace()
				n, again := states(all)
				if n[records.Done] != 320+120 {
					t.Errorf("%v", n)
				}
				k := *f.NDP()[0]
				k.Add(*f.NDP()[1])
				if trims := strings.Contains(c.lab, "trim"); (k.NACKs > 0) != trims || again != k.Resent {
					t.Errorf("%+v, %d were sent again", k, again)
				}
				t.Logf("%d of %d packets were sent again: %+v", again, f.Accounts().Entered, k)
			}
		})
	}
}

// TestNDPBesideLoss: with 1% of all packets lost every flow ends, and timeouts repair the
// losses.
func TestNDPBesideLoss(t *testing.T) {
	p := parse(t, "topology: {kinds: {host: {attach: none}, link: {loss: 1%}, switch: "+trimming+"}, generate: {star: {hosts: 9, rate: 10Gbps, delay: 1us}}}")
	h := hostsOf(p)
	l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
	for _, from := range h[:8] {
		l.flows[from] = []pattern.Flow{{From: from, To: h[8], Size: 1_000_000}}
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: byNDP()}}
	f, all, _ := carry(t, p, 1)
	onceEach(t, l, all, false)
	n, again := states(all)
	k := f.NDP()[0]
	var last units.Time
	for _, r := range all {
		last = max(last, r.End)
	}
	t.Logf("8 MB by %v, %d sent again, %+v", last, again, *k)
	if n[records.Done] != 8 || k.Timeouts == 0 || last > 20*units.Millisecond {
		t.Errorf("%v by %v, %+v", n, last, *k)
	}
}

// TestNDPFails: a flow whose path is gone fails after its retries, and says why.
func TestNDPFails(t *testing.T) {
	p := parse(t, `
topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}
events: [{at: 1ms, link: "h2:eth0", set: {state: down}}]
`)
	h := hostsOf(p)
	l := &listed{hosts: h, flows: map[int][]pattern.Flow{
		h[0]: {{From: h[0], To: h[1], Size: 100_000_000}, {Tag: 1, From: h[0], To: h[2], Size: 100_000_000}},
	}}
	c := byNDP()
	c.Retries = 3
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: c}}
	f := New(p)
	var all kept
	f.SetFlowSink(&all, false)
	runTo(t, f, 40*units.Millisecond)
	if err := f.EndFlows(); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d records", len(all))
	}
	for _, r := range all {
		if want := []records.State{records.Failed, records.Unfinished}[r.Tag]; r.State != want || r.Acked == 0 || (r.Failure != "") != (want == records.Failed) {
			t.Errorf("%+v", r)
		}
	}
}

// TestNDPOnTheWire: tshark finds no errors in the checksums and headers of a flow, and sees
// its window, its NACKs and its PULLs, in agreement with the counters.
func TestNDPOnTheWire(t *testing.T) {
	lua, err := registry.Dissectors.Find("ndp")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ndp.lua")
	if err := os.WriteFile(file, []byte(lua), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		p := parse(t, "topology: {kinds: {host: {attach: none}, switch: "+trimming+"}, generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}}")
		h := hostsOf(p)
		l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
		for _, from := range h[:3] {
			l.flows[from] = []pattern.Flow{{From: from, To: h[3], Size: 50_000}}
		}
		c := byNDP()
		c.IPv6, c.Window = v6, 20
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: c}}
		f := New(p)
		var frames [][]byte
		var cut int
		var r renderer
		for _, host := range h {
			end := f.stations[host][0]
			before := end.takers[carrier.NDPProtocol()]
			end.Take(carrier.NDPProtocol(), func(now units.Time, k *packet.Packet) {
				if k.Trimmed {
					cut++ // its UDP length is that of the whole packet
				} else {
					frames = append(frames, bytes.Clone(r.render(k, nil)))
				}
				before(now, k)
			})
		}
		if err := f.Run(context.Background(), units.Never); err != nil {
			t.Fatal(err)
		}
		var syn, ack, nack, pull, last uint64
		for _, row := range judge.Tshark(t, file, frames, "udp.checksum.status", "_ws.malformed", "ndp_dc.flags.syn", "ndp_dc.flags.ack", "ndp_dc.flags.nack", "ndp_dc.flags.pull", "ndp_dc.flags.last", "_ws.expert.message") {
			if row[0] == "0" || row[1] != "" || row[2] == "" {
				t.Errorf("tshark: %q", row)
			}
			for i, n := range []*uint64{&syn, &ack, &nack, &pull, &last} {
				if v := row[2+i]; v == "1" || v == "True" {
					*n++
				}
			}
		}
		n := f.NDP()[0]
		if syn == 0 || last < 3 || ack != n.ACKs || nack != n.NACKs || nack == 0 || pull < n.Pulls || nack != uint64(cut) {
			t.Errorf("IPv6 %v: tshark sees %d SYNs, %d ACKs, %d NACKs, %d PULLs, %d LASTs; %d were trimmed, %+v", v6, syn, ack, nack, pull, last, cut, *n)
		}
	}
}

// TestNDPSeries: flows over NDP have rows, whose acknowledged bytes add up to the flows'.
func TestNDPSeries(t *testing.T) {
	p := parse(t, "topology: {kinds: {host: {attach: none}, switch: "+trimming+"}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}")
	h := hostsOf(p)
	l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
	for _, from := range h[:2] {
		l.flows[from] = []pattern.Flow{{From: from, To: h[2], Size: 500_000}, {Tag: 1, From: from, To: h[2], Size: 500_000}}
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: byNDP()}}
	f, err := NewParallel(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	end := 3 * units.Millisecond
	rows, quantities, _ := recordFlows(t, f, FlowSeries{Every: 100 * units.Microsecond, Length: end}, advanceTo(t, f, end))
	at := func(name string) int {
		return slices.IndexFunc(quantities, func(q series.FlowQuantity) bool { return q.Name == name })
	}
	goodput, window, rate := at("goodput"), at("window"), at("rate")
	acked, names := 0.0, map[string]bool{}
	for _, r := range rows {
		acked += r.Values[goodput] / 8 * r.Interval.Seconds()
		names[r.Name] = true
		if r.Values[rate] != 10e9 || !(r.Values[window] > 0) || r.Transfer != "x" {
			t.Errorf("%+v", r)
		}
	}
	if math.Abs(acked-2_000_000) > 100 || len(names) != 4 || !names["ndp 10.0.0.1 > 10.0.0.3:54794 #1"] {
		t.Errorf("%.0f bytes acknowledged, %v", acked, names)
	}
}

// BenchmarkNDP runs 128 flows over NDP, from each host of a fat-tree to another, and reports
// the processor time of a packet's hop, as BenchmarkTCP does.
func BenchmarkNDP(b *testing.B) {
	p := parse(b, fmt.Sprintf("topology: {kinds: {host: {attach: none}, switch: {forwarding: random, %s}, generate: {fat-tree: {k: 8, rate: 10Gbps, delay: 1us}}}", trimming[1:]))
	h := hostsOf(p)
	l := &listed{hosts: h, flows: map[int][]pattern.Flow{}}
	for i, from := range h {
		l.flows[from] = []pattern.Flow{{From: from, To: h[(i+len(h)/2+1)%len(h)], Size: 1 << 40}}
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: byNDP()}}
	f, err := NewParallel(p, 1)
	if err != nil {
		b.Fatal(err)
	}
	sent := func() (n uint64) {
		for _, ports := range f.ports {
			for _, port := range ports {
				n += port.Counters(f.Now()).TxPackets
			}
		}
		return n
	}
	end := 2 * units.Millisecond
	if err := f.Run(context.Background(), end); err != nil {
		b.Fatal(err)
	}
	before, cpu := sent(), processorTime()
	b.ResetTimer()
	for range b.N {
		end += 2 * units.Millisecond
		if err := f.Run(context.Background(), end); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(sent()-before)/float64(processorTime()-cpu)*1e3, "Mhops/s")
}
