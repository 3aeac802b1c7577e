package systems

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/wire"
)

// byNDP returns the NDP carrier of the tests: control packets are in the class of trimmed
// packets.
func byNDP() *carrier.NDP { return &carrier.NDP{Config: ndp.Default(), ControlDSCP: 46} }

// trimming is switches whose data queues hold 8 packets of 1514 bytes, and trim.
const trimming = "{buffer: {size: 4MB}, classes: {default: {limit: 12112B, trim: {preset: ndp, dscp: 46}}, trimmed: {priority: 7, limit: 64KB, dscp: 46}}}"

// TestNDP_FlowsAloneTakeTheIdealTime: flows of any size, alone on their path, take little more
// than the ideal time, over both versions of IP.
func TestNDP_FlowsAloneTakeTheIdealTime(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}, switch: "+trimming+"}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}")
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for i, size := range []units.Bytes{1, 0, 1436, 1456, 1457, 14_000, 2_000_000} {
			l.Flows[h[i%2]] = append(l.Flows[h[i%2]], pattern.Flow{Tag: uint32(i), From: h[i%2], To: h[1-i%2], Size: size, At: units.Time(i) * 5 * units.Millisecond})
		}
		c := byNDP()
		c.IPv6 = v6
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: c}}
		f, all, _ := carry(t, p, 1)
		fabrictest.CheckOnce(t, l, all, false)
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

// TestNDP_IncastFillsTheLinkWithoutTimeouts: many small flows to one host at once, over queues
// of 8 packets that trim. The receiver's link is busy from the first packet to the last,
// except for the share that is not pulled, and no timeout is needed, not even where headers
// are returned.
func TestNDP_IncastFillsTheLinkWithoutTimeouts(t *testing.T) {
	for _, c := range []struct {
		senders  int
		returned bool
	}{{16, false}, {100, true}} {
		p := fabrictest.Parse(t, fmt.Sprintf("topology: {kinds: {host: {attach: none}, switch: %s}, generate: {star: {hosts: %d, rate: 10Gbps, delay: 1us}}}", trimming, c.senders+1))
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		const size = 90_000
		for _, from := range h[:c.senders] {
			l.Flows[from] = []pattern.Flow{{From: from, To: h[c.senders], Size: size}}
		}
		x := byNDP()
		x.Window = 30
		p.Traffic = []plan.Traffic{{Name: "incast", Pattern: l, NDP: x}}
		f, all, _ := carry(t, p, 1)
		fabrictest.CheckOnce(t, l, all, false)
		n, again := states(all)
		var last units.Time
		for _, r := range all {
			last = max(last, r.Arrived)
		}
		packets := units.Bytes((size + x.FullPayload() - 1) / x.FullPayload())
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

// TestNDP_PermutationFillsTheLinks: every host sends to another one, over all paths in turn:
// the links of hosts are at least 95% busy with data if the sender chooses the paths. The paper's
// figure for fat-trees, quoted from memory, is 92% and more. Switches that take paths in turn, or at
// random, do worse: all packets arrive at the same instants, in another order each time, so those
// of one host take paths in no fixed turn.
func TestNDP_PermutationFillsTheLinks(t *testing.T) {
	for _, c := range []struct {
		name, topology, forwarding string
		paths                      int
		penalty                    bool
		minShare                   float64
	}{
		{"k=4", "fat-tree: {k: 4", "round-robin", 256, false, 0.83},
		{"k=8", "fat-tree: {k: 8", "round-robin", 256, false, 0.85},
		{"the sender chooses spines", "leaf-spine: {leaves: 4, spines: 4, hosts-per-leaf: 4", "{entropy: {field: udp-source-port}}", 4, true, 0.95},
		// If each packet's path is random, short queues overflow now and then.
		{"k=8 at random", "fat-tree: {k: 8", "random", 256, false, 0.87},
	} {
		p := fabrictest.Parse(t, fmt.Sprintf("topology: {kinds: {host: {attach: none}, link: {mtu: 9000}, switch: {forwarding: %s, %s}}, generate: {%s, rate: 10Gbps, delay: 1us}}}", c.forwarding, jumbo, c.topology))
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for i, from := range h {
			l.Flows[from] = []pattern.Flow{{From: from, To: h[(i+len(h)/2+1)%len(h)], Size: 1 << 40}}
		}
		x := byNDP()
		x.MTU, x.Window, x.Paths, x.PathPenalty = 9000, 30, c.paths, c.penalty
		p.Traffic = []plan.Traffic{{Name: "permutation", Pattern: l, NDP: x}}
		f, err := fabric.NewParallel(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		var all fabrictest.Records
		f.SetFlowSink(&all, false)
		const length = 5 * units.Millisecond
		runTo(t, f, length)
		if err := f.EndFlows(); err != nil {
			t.Fatal(err)
		}
		// On the wire, as a share of a full link.
		share := func(acked units.Bytes) float64 {
			return float64((10 * units.Gbps).TimeOf(acked)) / float64(length) * 9038 / float64(x.FullPayload())
		}
		sum, minShare := 0.0, 1.0
		for _, r := range all {
			sum, minShare = sum+share(r.Acked), min(minShare, share(r.Acked))
		}
		sum /= float64(len(h))
		n := f.NDP()[0]
		t.Logf("%s: %.3f of the links, the slowest flow %.3f; %+v", c.name, sum, minShare, *n)
		if sum < c.minShare || minShare < c.minShare-0.03 || n.Timeouts > 0 {
			t.Errorf("%s: %.3f of the links, the slowest flow %.3f; %+v", c.name, sum, minShare, *n)
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

// TestNDP_IsTheSameWithAnyNumberOfWorkers: records have the same bytes and the run the same
// trace with 1, 2 and 4 workers, whatever happens, and every flow is done.
func TestNDP_IsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	short := trimming[1 : len(trimming)-1]
	for _, c := range []struct{ name, lab string }{
		{"switches that trim", fmt.Sprintf(ndpLab, "random", short, "0", "0", "0")},
		{"the sender chooses", fmt.Sprintf(ndpLab, "{entropy: {field: udp-source-port}}", short, "0", "0", "0")},
		{"links that lose", fmt.Sprintf(ndpLab, "random", short, "1%", "0", "0")},
		{"loss, copies and disorder", fmt.Sprintf(ndpLab, "ecmp", short, "1%", "2%", "3%")},
		{"switches that do not trim", fmt.Sprintf(ndpLab, "random", "queue: {limit: 60KB}", "0", "0", "0")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var first string
			var trace uint64
			for _, workers := range []int{1, 2, 4} {
				p := fabrictest.Parse(t, c.lab)
				h := fabrictest.Hosts(p)
				l := fabrictest.Draw(h, 1, 40, 20*units.Microsecond, 100_000, false)
				second := byNDP()
				second.Priority, second.PathPenalty = 1, true
				p.Traffic = []plan.Traffic{
					{Name: "drawn", Pattern: l, NDP: byNDP()},
					{Name: "loop", Pattern: &fabrictest.Loop{Clients: h[:3], Servers: h[3:], Rounds: 20}, NDP: second},
				}
				f, all, text := carry(t, p, workers)
				if workers > 1 {
					if text != first || f.Trace() != trace {
						t.Errorf("%d workers: trace %x, with one %x; %s", workers, f.Trace(), trace, fabrictest.FirstDifference(first, text))
					}
					continue
				}
				first, trace = text, f.Trace()
				n, again := states(all)
				if n[records.Done] != 320+120 {
					t.Errorf("%v", n)
				}
				k := *f.NDP()[0]
				k.AddCounters(*f.NDP()[1])
				if trims := strings.Contains(c.lab, "trim"); (k.NACKs > 0) != trims || again != k.Resent {
					t.Errorf("%+v, %d were sent again", k, again)
				}
				t.Logf("%d of %d packets were sent again: %+v", again, f.Accounts().Entered, k)
			}
		})
	}
}

// TestNDP_TimeoutsRepairLosses: with 1% of all packets lost every flow ends, and timeouts
// repair the losses.
func TestNDP_TimeoutsRepairLosses(t *testing.T) {
	p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}, link: {loss: 1%}, switch: "+trimming+"}, generate: {star: {hosts: 9, rate: 10Gbps, delay: 1us}}}")
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
	for _, from := range h[:8] {
		l.Flows[from] = []pattern.Flow{{From: from, To: h[8], Size: 1_000_000}}
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: byNDP()}}
	f, all, _ := carry(t, p, 1)
	fabrictest.CheckOnce(t, l, all, false)
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

// TestNDP_FlowWithoutAPathFails: a flow whose path is gone fails after its retries, and says
// why.
func TestNDP_FlowWithoutAPathFails(t *testing.T) {
	p := fabrictest.Parse(t, `
topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}}
events: [{at: 1ms, link: "h2:eth0", set: {state: down}}]
`)
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{
		h[0]: {{From: h[0], To: h[1], Size: 100_000_000}, {Tag: 1, From: h[0], To: h[2], Size: 100_000_000}},
	}}
	c := byNDP()
	c.Retries = 3
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: c}}
	f := fabric.New(p)
	var all fabrictest.Records
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

// TestNDP_IsReadByTshark: tshark finds no errors in the checksums and headers of a flow, and
// sees its window, its NACKs and its PULLs, in agreement with the counters.
func TestNDP_IsReadByTshark(t *testing.T) {
	lua, err := registry.Dissectors.Find("ndp")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ndp.lua")
	if err := os.WriteFile(file, []byte(lua), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}, switch: "+trimming+"}, generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us}}}")
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
		for _, from := range h[:3] {
			l.Flows[from] = []pattern.Flow{{From: from, To: h[3], Size: 50_000}}
		}
		c := byNDP()
		c.IPv6, c.Window = v6, 20
		p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: c}}
		f := fabric.New(p)
		var ports []fabric.Watched
		for _, host := range h {
			ports = append(ports, fabric.Watched{Node: host, In: true})
		}
		var frames [][]byte
		cut := 0
		for _, b := range captured(t, f, ports, func() { runTo(t, f, units.Never) }) {
			udp := b[wire.EthernetHeader+wire.IPv4Header:]
			if v6 {
				udp = b[wire.EthernetHeader+wire.IPv6Header:]
			}
			if int(binary.BigEndian.Uint16(udp[4:])) > len(udp) {
				cut++ // its UDP length is that of the whole packet
			} else {
				frames = append(frames, b)
			}
		}
		var syn, ack, nack, pull, last uint64
		for _, row := range oracle.Tshark(t, file, frames, "udp.checksum.status", "_ws.malformed", "ndp_dc.flags.syn", "ndp_dc.flags.ack", "ndp_dc.flags.nack", "ndp_dc.flags.pull", "ndp_dc.flags.last", "_ws.expert.message") {
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

// BenchmarkNDP runs 128 flows over NDP, from each host of a fat-tree to another, and reports
// the processor time of a packet's hop, as BenchmarkTCP does.
func BenchmarkNDP(b *testing.B) {
	p := fabrictest.Parse(b, fmt.Sprintf("topology: {kinds: {host: {attach: none}, switch: {forwarding: random, %s}, generate: {fat-tree: {k: 8, rate: 10Gbps, delay: 1us}}}", trimming[1:]))
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
	for i, from := range h {
		l.Flows[from] = []pattern.Flow{{From: from, To: h[(i+len(h)/2+1)%len(h)], Size: 1 << 40}}
	}
	p.Traffic = []plan.Traffic{{Name: "x", Pattern: l, NDP: byNDP()}}
	f, err := fabric.NewParallel(p, 1)
	if err != nil {
		b.Fatal(err)
	}
	end := 2 * units.Millisecond
	if err := f.Run(context.Background(), end); err != nil {
		b.Fatal(err)
	}
	before, cpu := packetHops(f), fabrictest.ProcessorTime()
	b.ResetTimer()
	for range b.N {
		end += 2 * units.Millisecond
		if err := f.Run(context.Background(), end); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(packetHops(f)-before)/float64(fabrictest.ProcessorTime()-cpu)*1e3, "Mhops/s")
}
