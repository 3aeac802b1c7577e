package fabric

import (
	"context"
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/protocols/ndp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traces/carrier"
	"github.com/weftlab/weft/traces/pattern"
	"github.com/weftlab/weft/traces/records"
)

// byNDP is how flows go by NDP, whose control packets are in the class of trimmed ones.
func byNDP() *carrier.NDP { return &carrier.NDP{Config: ndp.Default(), ControlDSCP: 46} }

// trimming is switches whose queues of data have 8 packets of 1514 bytes, and trim.
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
// The receiver's link is busy from the first packet to the last but for the share that is
// not pulled, and no timeout is needed, also where headers come back.
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

// jumbo is trimming for links with an MTU of 9000, as the paper has them.
const jumbo = "buffer: {size: 4MB}, classes: {default: {limit: 72112B, trim: {preset: ndp, dscp: 46}}, trimmed: {priority: 7, limit: 64KB, dscp: 46}}"

// TestNDPPermutation: every host sends to another one, over all paths by turns: the links of
// hosts are 95% busy with data and more. The paper has 92% and more for fat-trees, as remembered.
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
		// Where each packet falls by chance, short queues overflow now and then.
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
		// On the wire, of the time of a full link.
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
