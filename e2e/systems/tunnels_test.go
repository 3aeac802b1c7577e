package systems

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
)

// tunnelLab is hosts under EQDS at switches that trim, whose queues have 12 packets: NDP's have
// 8, those of the EQDS paper 15. The blanks are further settings of the hosts, settings of
// eqds, how switches forward, settings of links and the topology.
const tunnelLab = `topology:
  kinds:
    host: {attach: none%s, edge: {eqds: {control-dscp: 10%s}}}
    switch:
      forwarding: %s
      classes:
        headers: {dscp: 10, priority: 7, limit: 200KB}
        default: {limit: 18KB, trim: {dscp: 10}}
    link: {rate: 10Gbps, delay: 1us%s}
  generate: {%s}
`

// tunnelQueue is the limit of the data queues in tunnelLab.
const tunnelQueue = 18 * units.KB

// tunnelHeaders is the length of EQDS's headers in front of packets over IPv4: IP, UDP and
// EQDS.
const tunnelHeaders = 20 + 8 + 8

// dataQueues records the longest data queue of any port, and drops of packets that are not
// trimmed.
type dataQueues struct {
	maxDepth units.Bytes
	drops    int
}

func (d *dataQueues) Observe(_ units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, depth units.Bytes) {
	if dir != port.Out {
		return
	}
	if fate.IsDrop() {
		d.drops++
	}
	if fate == packet.Trimmed {
		d.maxDepth = max(d.maxDepth, depth)
	}
}

// watchSwitches observes all ports of switches.
func watchSwitches(f *fabric.Fabric) *dataQueues {
	d := &dataQueues{}
	for _, sw := range f.Switches {
		if sw != nil {
			for _, p := range sw.Ports {
				p.SetObserver(f.Now(), d)
			}
		}
	}
	return d
}

// TestEQDS_TCPIncastFillsTheLink: connections of many senders into one host fill its link
// except for headers, control packets and the pacer's hundredth, with either back end. The
// switch's queue stays within its short limit and drops nothing. Everything arrives, in order.
func TestEQDS_TCPIncastFillsTheLink(t *testing.T) {
	const senders, size = 8, 2 * units.MB
	for _, version := range []int{4, 6} {
		for _, backend := range []string{"ndp", "rts"} {
			p := fabrictest.Parse(t, fmt.Sprintf(tunnelLab, "", ", backend: "+backend, "ecmp", "", fmt.Sprintf("star: {hosts: %d}", senders+1)))
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for i, from := range h[1:] {
				l.Flows[from] = append(l.Flows[from], pattern.Flow{Tag: uint32(i), From: from, To: h[0], Size: size})
			}
			c := fabrictest.TCP(t, "cubic")
			c.MinRTO, c.MTU, c.IPv6 = 100*units.Millisecond, 1500-56, version == 6
			p.Traffic = []plan.Traffic{{Name: "tcp", Pattern: l, TCP: c}}
			f, err := fabric.NewParallel(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			watched := watchSwitches(f)
			var all fabrictest.Records
			f.SetFlowSink(&all, true)
			runTo(t, f, units.Never)
			if err := f.EndFlows(); err != nil {
				t.Fatal(err)
			}
			n, _ := states(all)
			last := units.Time(0)
			for _, r := range all {
				last = max(last, r.End)
			}
			if n[records.Done] != senders {
				t.Errorf("IPv%d, %s: %v", version, backend, n)
			}
			// A segment has 52 bytes of headers over IPv4 and 72 over IPv6, with timestamps, and
			// the tunnel's.
			over := units.Bytes(52 + tunnelHeaders)
			if version == 6 {
				over += 40
			}
			payload := c.MTU - over + tunnelHeaders
			if version == 6 {
				payload += 20
			}
			frame := packet.OnWire(14 + payload + over)
			share := float64(senders*size) * 8 * float64(frame) / float64(payload) / 10e9 / last.Seconds()
			g := edgeGauges(f)
			t.Logf("IPv%d, %s: %.1f%% of the link, queue %v, %v trimmed, %v dropped by EQIFs", version, backend, 100*share, watched.maxDepth, g["trimmed"], g["dropped"])
			// The sender's messages about the tunnel of acknowledgements take 3% of the
			// link.
			if share < 0.94 {
				t.Errorf("IPv%d, %s: %.1f%% of the link is used", version, backend, 100*share)
			}
			if watched.drops > 0 || watched.maxDepth > tunnelQueue || g["timeouts"] != 0 {
				t.Errorf("IPv%d, %s: %+v, %v", version, backend, watched, g)
			}
			if backend == "rts" && g["trimmed"] != 0 {
				t.Errorf("what was asked for first is trimmed: %v", g)
			}
			checkBalance(t, f, true)
		}
	}
}

// TestEQDS_DropsExcessDatagramsAtTheSenders: senders without any rate control that together
// send twice what the receiver can take get equal shares of its link. The excess is dropped at
// the senders, and nothing in the network.
func TestEQDS_DropsExcessDatagramsAtTheSenders(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, "duration: 10ms\n"+fmt.Sprintf(tunnelLab, "", "", "ecmp", "", "star: {hosts: 9}")+`workload:
  - {cbr: {from: "h[2-9]", to: h1, rate: 2.5Gbps, size: 1400B, for: 9ms}}
`))
	watched := watchSwitches(f)
	runTo(t, f, 8*units.Millisecond)
	before := map[string]uint64{}
	for _, r := range f.Results() {
		before[r.Flow] = r.Received
	}
	checkBalance(t, f, false)
	runTo(t, f, 9*units.Millisecond)
	low, high, sum := uint64(1<<60), uint64(0), uint64(0)
	for _, r := range f.Results() {
		n := r.Received - before[r.Flow]
		low, high, sum = min(low, n), max(high, n), sum+n
	}
	share := float64(sum) * float64(packet.OnWire(14+28+tunnelHeaders+1400)) * 8 / 10e9 / 0.001
	if share < 0.95 || float64(low) < 0.97*float64(high) {
		t.Errorf("%.1f%% of the link, %d to %d packets each", 100*share, low, high)
	}
	runTo(t, f, 10*units.Millisecond)
	a, g := f.Accounts(), edgeGauges(f)
	if watched.drops > 0 || watched.maxDepth > tunnelQueue || a.Drops["queue-full"] != uint64(g["dropped"]) || g["dropped"] == 0 || g["timeouts"] != 0 {
		t.Errorf("%+v, %+v, %v", watched, a, g)
	}
	for _, r := range f.Results() {
		if r.Reordered != 0 || r.Sent != r.Received+uint64(dropsOf(t, f, r.Flow)) {
			t.Errorf("%+v", r)
		}
	}
	checkBalance(t, f, true)
}

// dropsOf returns what the EQIF of a flow's sender has dropped, for senders with one flow.
func dropsOf(t *testing.T, f *fabric.Fabric, flow string) (n uint64) {
	i := slices.IndexFunc(f.Plan.Flows, func(x workload.Flow) bool { return x.Name == flow })
	return uint64(byName(f.PortStatus(f.Plan.Flows[i].From, 0).Edge.Gauges)["dropped"])
}

// TestEQDS_LeavesDatagramsToOtherHostsUnchanged: packets to and from hosts without the service
// leave unchanged.
func TestEQDS_LeavesDatagramsToOtherHostsUnchanged(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, "duration: 3ms\n"+fmt.Sprintf(tunnelLab, "", "", "ecmp", "", "star: {hosts: 3}")+`  nodes: {h3: {edge: none}}
workload:
  - {cbr: {from: h1, to: [h2, h3], rate: 1Gbps, size: 1000B, for: 1ms}}
  - {cbr: {from: h3, to: h1, rate: 1Gbps, size: 1000B, for: 1ms}}
`))
	tunnels, plain := 0, 0
	h1, _ := f.Plan.Node("h1")
	f.Port(h1, 0).SetObserver(0, observer(func(p *packet.Packet, d port.Direction, _ packet.Fate) {
		if d == port.Out {
			if p.Kind == packet.Protocol {
				tunnels++
			} else {
				plain++
			}
		}
	}))
	runTo(t, f, 3*units.Millisecond)
	for _, r := range f.Results() {
		if r.Sent == 0 || r.Received != r.Sent || r.Reordered != 0 {
			t.Errorf("%+v", r)
		}
	}
	if r := f.Results(); tunnels != int(r[0].Sent) || plain != int(r[1].Sent) {
		t.Errorf("%d packets left in tunnels and %d without", tunnels, plain)
	}
	if g := byName(portNamed(t, f, "h1:eth0").Edge.Gauges); g["incoming_tunnels"] != 0 || g["tunnels"] != 1 {
		t.Errorf("%v", g)
	}
	checkBalance(t, f, true)
}

// TestEQDS_SpraysOverAllPathsInOrder: one flow between two leaves, faster than each of the
// paths between them, uses all of them equally, and its packets come out in order.
func TestEQDS_SpraysOverAllPathsInOrder(t *testing.T) {
	f := fabric.New(fabrictest.Parse(t, "duration: 5ms\n"+fmt.Sprintf(tunnelLab, "", "", "ecmp", "", "leaf-spine: {leaves: 2, spines: 4, hosts-per-leaf: 1, uplink: {rate: 5Gbps, delay: 20us}}")+`workload:
  - {cbr: {from: h1, to: h2, rate: 8Gbps, size: 1400B, for: 4ms}}
`))
	runTo(t, f, 5*units.Millisecond)
	r := f.Results()[0]
	// A window that used one of the paths would let 6 Gb/s through; a few packets do not fit
	// into the EQIF while the first PULLs are in flight.
	if r.Received < r.Sent*95/100 || r.Reordered != 0 || f.Accounts().Dropped != r.Sent-r.Received {
		t.Errorf("%+v", r)
	}
	low, high := uint64(1<<60), uint64(0)
	for _, s := range f.Status() {
		if strings.HasPrefix(s.Name, "leaf1:") && !strings.HasSuffix(s.Peer, "eth0") {
			low, high = min(low, s.TxPackets), max(high, s.TxPackets)
		}
	}
	if low < r.Received/5 || high > r.Received/3 {
		t.Errorf("of %d packets the uplinks had %d to %d", r.Sent, low, high)
	}
	checkBalance(t, f, true)
}

// TestEQDS_RepairsLossesForRDMA: WRITEs of NICs with either loss recovery and DCQCN complete
// over links that lose a hundredth of all packets, because the tunnels repair the losses, in
// order. The EQIF tells queue pairs to slow down, and with lossless none of their packets is
// dropped.
func TestEQDS_RepairsLossesForRDMA(t *testing.T) {
	for _, c := range []struct {
		recovery, edge, loss string
		slows, drops         bool
	}{
		{"go-back-n", "", "0%", true, false},
		{"go-back-n", "", "1%", true, false},
		{"irn", "", "0%", false, false}, // its window is shorter than the queue
		{"irn", "", "1%", false, false},
		{"go-back-n", ", lossless: true, rdma-packets: 20", "0%", false, false},
		{"go-back-n", ", lossless: true, rdma-packets: 20, backend: rts", "1%", false, false},
		{"go-back-n", ", rdma-packets: 20", "0%", false, true},
	} {
		t.Run(strings.Trim(c.recovery+c.edge+c.loss, " "), func(t *testing.T) {
			p := fabrictest.Parse(t, fmt.Sprintf(tunnelLab, ", nic: {cc: dcqcn, recovery: "+c.recovery+"}", c.edge, "ecmp", ", loss: "+c.loss, "leaf-spine: {leaves: 2, spines: 2, hosts-per-leaf: 3}"))
			h := fabrictest.Hosts(p)
			l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{}}
			for i, from := range h[1:] {
				l.Flows[from] = []pattern.Flow{{Tag: uint32(i), From: from, To: h[0], Size: 2 * units.MB}}
			}
			p.Traffic = []plan.Traffic{{Name: "rdma", Pattern: l, RDMA: &carrier.RDMA{}}}
			f, all, _ := carry(t, p, 1)
			n, again := states(all)
			g := edgeGauges(f)
			t.Logf("%v, %d again, %v", n, again, g)
			if n[records.Done] != len(h)-1 {
				t.Errorf("%v", n)
			}
			if (g["cnps"] > 0) != c.slows {
				t.Errorf("%v", g)
			}
			if (g["dropped"] != 0) != c.drops || c.loss != "0%" && g["timeouts"] == 0 {
				t.Errorf("%v", g)
			}
			checkBalance(t, f, true)
		})
	}
}

// TestEQDS_MixedTrafficIsTheSameWithAnyNumberOfWorkers: records have the same bytes and the
// run the same trace with 1, 2 and 4 workers, whatever happens.
func TestEQDS_MixedTrafficIsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	for _, backend := range []string{"ndp", "rts"} {
		var first string
		var trace uint64
		for _, workers := range []int{1, 2, 4} {
			p := fabrictest.Parse(t, fmt.Sprintf(tunnelLab, "", ", backend: "+backend, "ecmp", ", loss: 1%, duplicate: 1%, reorder: 2%, reorder-by: 5us", "leaf-spine: {leaves: 4, spines: 2, hosts-per-leaf: 2}"))
			h := fabrictest.Hosts(p)
			c := fabrictest.TCP(t, "cubic")
			c.MTU = 1444
			p.Traffic = []plan.Traffic{
				{Name: "tcp", Pattern: fabrictest.Draw(h, 1, 20, 20*units.Microsecond, 100_000, false), TCP: c},
				{Name: "udp", Pattern: fabrictest.Draw(h, 2, 20, 20*units.Microsecond, 50_000, false), UDP: &carrier.UDP{Rate: units.Gbps, Size: 1000}},
			}
			f, all, text := carry(t, p, workers)
			n, _ := states(all)
			if n[records.Done] == 0 {
				t.Errorf("%v", n)
			}
			checkBalance(t, f, true)
			if workers == 1 {
				first, trace = text, f.Trace()
			} else if text != first || f.Trace() != trace {
				t.Errorf("%s, %d workers: trace %x, with one %x; %s", backend, workers, f.Trace(), trace, fabrictest.FirstDifference(first, text))
			}
		}
	}
}
