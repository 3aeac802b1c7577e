package fabric

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cmnic"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
)

// congested is an incast with marks, pauses and losses, with READs beside it.
const congested = `
seed: 3
duration: 4ms
topology:
  kinds:
    host: {nic: {cc: dcqcn, dscp: 26, timeout: 1ms}}
    switch:
      classes:
        cnp: {dscp: 48, priority: 6}
        lossless: {dscp: 26, priority: 3, mark: {step: {k: 20KB}}, limit: 60KB}
  generate: {star: {hosts: 4, rate: 10Gbps, delay: 1us, mtu: 4200}}
workload:
  - {incast: {to: h1, from: [h2, h3], size: 1MB, count: unlimited, qps: 2, depth: 4}}
  - {read: {from: h1, to: h4, size: 100KB, count: unlimited, every: 500us}}
`

func build4(t *testing.T, lab string, workers int) *Fabric {
	t.Helper()
	return withWorkers(t, parse(t, lab), workers)
}

// TestNICStatus_ChangesNothingAndAgreesWithPorts: reading the status of NICs and queue pairs
// during a run changes nothing, and agrees with the counts of the ports and records.
func TestNICStatus_ChangesNothingAndAgreesWithPorts(t *testing.T) {
	plain := build4(t, congested, 0)
	runTo(t, plain, 4*units.Millisecond)
	for _, workers := range []int{1, 2} {
		f := build4(t, congested, workers)
		limited, timers, inFlight := 0, 0, 0
		for at := 50 * units.Microsecond; at <= 4*units.Millisecond; at += 50 * units.Microsecond {
			runTo(t, f, at)
			pairs, err := f.QPsOf("")
			if err != nil || len(pairs) != 10 {
				t.Fatalf("%d queue pairs, %v", len(pairs), err)
			}
			for _, q := range pairs {
				checkQP(t, &q)
				if gaugeOf(&q, "limited") == 1 && q.Rate < q.LineRate {
					limited++
				}
				if q.AckTimer > 0 {
					timers++
				}
				if q.InFlight > 0 {
					inFlight++
				}
			}
			for _, n := range f.NICs() {
				if n.States.Total() != n.States[3] || n.LineRate != 10*units.Gbps || n.Control != "dcqcn" || n.Preset != "connectx" || n.Recovery != "go-back-n" {
					t.Fatalf("%+v", n)
				}
			}
		}
		if limited == 0 || timers == 0 || inFlight == 0 {
			t.Errorf("%d times limited, %d ACK timers, %d times in flight", limited, timers, inFlight)
		}
		if f.Trace() != plain.Trace() {
			t.Errorf("%d workers: looking has changed the run", workers)
		}
		if diff := cmp.Diff(plain.NICs(), f.NICs(), cmpopts.EquateComparable(plain.NICs()[0].GIDs[0])); diff != "" {
			t.Errorf("%d workers (-not looked at +looked at):\n%s", workers, diff)
		}
	}
	agree(t, plain)
}

func checkQP(t *testing.T, q *status.QP) {
	t.Helper()
	open := (q.SQPSN - q.Unacknowledged) & 0xffffff
	switch {
	case q.Type != "RC", q.State != "RTS", q.PathMTU != 4096, q.DSCP != 26, q.Class != "lossless", q.Peer == "", q.RemoteQPN < 17,
		q.LineRate != 10*units.Gbps, q.Rate <= 0, q.Rate > q.LineRate, q.Timeout < units.Millisecond, q.AckTimer > q.Timeout,
		(q.AckTimer > 0) != (open > 0), q.InFlight > units.Bytes(open)*4096, q.Sends == 0 && open > 0, q.Retries.Left > q.Retries.Limit:
		t.Errorf("%+v", *q)
	}
}

// agree compares a run's NICs with its queue pairs, transfers and ports.
func agree(t *testing.T, f *Fabric) {
	t.Helper()
	pairs, _ := f.QPsOf("")
	sums := map[string]map[string]uint64{}
	peers := map[string]string{}
	for _, q := range pairs {
		if sums[q.NIC] == nil {
			sums[q.NIC] = map[string]uint64{}
		}
		sum := sums[q.NIC]
		for name, v := range q.Counters {
			sum[name] += v
		}
		sum["np_cnp_sent"] += q.CNPsSent
		sum["rp_cnp_handled"] += q.CNPsHandled
		sum["np_ecn_marked_roce_packets"] += q.Marked
		peers[q.NIC] = q.Peer
	}
	if want := map[string]string{"h1:eth0": "h4:eth0", "h2:eth0": "h1:eth0", "h3:eth0": "h1:eth0", "h4:eth0": "h1:eth0"}; !maps.Equal(peers, want) {
		t.Errorf("peers %v", peers)
	}
	for _, n := range f.NICs() {
		for name, v := range sums[n.Name] {
			if got := n.Counters.Of(name); got != v {
				t.Errorf("%s: %s is %d, of its queue pairs %d", n.Name, name, got, v)
			}
		}
		node, index, err := f.Plan.Endpoint(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		p := f.PortStatus(node, index)
		if sent := n.Counters.Of("port_xmit_packets"); sent != p.TxPackets+uint64(p.QueuePackets) || n.Counters.Of("port_rcv_packets") != p.RxPackets {
			t.Errorf("%s: %v, and its port %d and %d", n.Name, n.Counters, p.TxPackets, p.RxPackets)
		}
	}
	for _, name := range []string{"np_cnp_sent", "rp_cnp_handled", "out_of_sequence", "packet_seq_err", "retransmitted_packets", "rx_write_requests", "rx_read_requests"} {
		total := uint64(0)
		for _, n := range f.NICs() {
			total += n.Counters.Of(name)
		}
		if total == 0 {
			t.Errorf("%s is 0 everywhere: the run shows nothing", name)
		}
	}
}

// TestNICStatus_FindsNICsByName: the NICs of a host, of one interface, of all, and of nodes
// without any.
func TestNICStatus_FindsNICsByName(t *testing.T) {
	f := build4(t, `
topology:
  nodes: {h1: {kind: host, nic: roce}, h2: {kind: host, nic: {cc: none, mtu: 512}}, h3: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 10Gbps}
    - {endpoints: ["h1:eth1", "s2:1"], rate: 10Gbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 25Gbps}
    - {endpoints: ["h3:eth0", "s1:3"], rate: 10Gbps}
    - {endpoints: ["s1:4", "s2:4"], rate: 10Gbps}
workload:
  - {write: {from: h1, to: h2, size: 1KB, qps: 2, service: uc}}
`, 1)
	for _, c := range []struct {
		name, nics string
		pairs      int
		wrong      string
	}{
		{"", "h1:eth0 h1:eth1 h2:eth0", 4, ""},
		{"h1", "h1:eth0 h1:eth1", 2, ""},
		{"h1:eth1", "h1:eth1", 0, ""},
		{"h2", "h2:eth0", 2, ""},
		{"h3", "", 0, "h3 has no NIC: write nic: roce"},
		{"s1", "", 0, "s1 is a switch"},
		{"s1:1", "", 0, "s1 is a switch"},
		{"h9", "", 0, "h9"},
		{"h1:eth7", "", 0, "eth7"},
	} {
		nics, err := f.NICsOf(c.name)
		pairs, perr := f.QPsOf(c.name)
		if c.wrong != "" {
			if err == nil || perr == nil || !strings.Contains(err.Error(), c.wrong) || err.Error() != perr.Error() {
				t.Errorf("%q: %v and %v, want %q", c.name, err, perr, c.wrong)
			}
			continue
		}
		var names []string
		for _, n := range nics {
			names = append(names, n.Name)
		}
		if got := strings.Join(names, " "); got != c.nics || len(pairs) != c.pairs || err != nil || perr != nil {
			t.Errorf("%q: NICs %s, %d queue pairs, %v, %v", c.name, got, len(pairs), err, perr)
		}
		if !slices.IsSortedFunc(pairs, func(a, b status.QP) int { return strings.Compare(a.NIC, b.NIC)<<32 + int(a.QPN) - int(b.QPN) }) {
			t.Errorf("%q: queue pairs are not in order", c.name)
		}
	}
	nics := f.NICs()
	if n := nics[2]; n.MTU != 512 || n.LineRate != 25*units.Gbps || n.Preset != "" || n.Control != "none" || n.MRs == 0 || n.PDs == 0 || n.CQs == 0 || len(n.GIDs) == 0 || n.MAC == "" {
		t.Errorf("%+v", n)
	}
	pairs, _ := f.QPsOf("h1")
	if q := pairs[0]; q.Type != "UC" || q.Timeout != 0 || q.Gauges != nil || q.Rate != 10*units.Gbps || q.Class != "default" || q.Retries != (status.Retries{}) {
		t.Errorf("%+v", q)
	}
}

// TestListenersOfNICs_AreShownUntilTheyEnd: with port space, address and port, in the order in
// which they began.
func TestListenersOfNICs_AreShownUntilTheyEnd(t *testing.T) {
	f := build4(t, congested, 0)
	d := f.nics[0].Device
	own := d.Addresses()[0]
	tcp, err := d.Listen(netip.AddrPortFrom(own, 7174), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ListenDatagrams(netip.AddrPortFrom(netip.Addr{}, 7174), nil); err != nil {
		t.Fatal(err)
	}
	d.CallManager(func(c *cmnic.CM) { _, err = c.Listen(cmnic.Listen{Service: msg.IPoIBService(5), Datagram: true}) })
	if err != nil {
		t.Fatal(err)
	}
	want := []status.Listener{{PortSpace: "TCP", Address: own, Port: 7174}, {PortSpace: "UDP", Port: 7174}, {PortSpace: "IPoIB", Port: 5}}
	if diff := cmp.Diff(want, f.NICs()[0].Listeners, cmpopts.EquateComparable(own)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text, err := json.Marshal(f.NICs()[0]); err != nil || !strings.Contains(string(text), fmt.Sprintf(`"listeners":[{"port_space":"TCP","address":"%v","port":7174},{"port_space":"UDP","port":7174},`, own)) {
		t.Errorf("%s, %v", text, err)
	}
	if err := tcp.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1:], f.NICs()[0].Listeners, cmpopts.EquateComparable(own)); diff != "" {
		t.Errorf("after the end of the first (-want +got):\n%s", diff)
	}
}

// TestNICStatus_SurvivesJSON: all counters are there, in their order, and reading returns what
// was written.
func TestNICStatus_SurvivesJSON(t *testing.T) {
	f := build4(t, congested, 0)
	runTo(t, f, units.Millisecond)
	nics := f.NICs()
	text, err := json.Marshal(nics)
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, info := range nicemu.CounterInfos() {
		i := strings.Index(string(text), `"`+info.Name+`":`)
		if i <= at {
			t.Errorf("%s is not in its place", info.Name)
		}
		at = i
	}
	if !strings.Contains(string(text), `"queue_pairs":{"RESET":0,"INIT":0,"RTR":0,"RTS":5,`) {
		t.Errorf("%s", text)
	}
	var back []status.NIC
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	same := cmpopts.EquateComparable(nics[0].GIDs[0])
	if diff := cmp.Diff(nics, back, same); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	pairs, _ := f.QPsOf("")
	if text, err = json.Marshal(pairs); err != nil {
		t.Fatal(err)
	}
	var again []status.QP
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	round := cmp.Comparer(func(a, b units.Fraction) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if diff := cmp.Diff(pairs, again, same, round); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

// gaugeOf returns the value of a gauge of a queue pair's rate control; -1 if it has none.
func gaugeOf(q *status.QP, name string) float64 {
	for _, g := range q.Gauges {
		if g.Name == name {
			return g.Value
		}
	}
	return -1
}

// TestNICStatus_SummarisesItsFlowsGauges: a NIC's status summarises the flows that are
// connected and send or receive, in agreement with their own statuses.
func TestNICStatus_SummarisesItsFlowsGauges(t *testing.T) {
	f := New(parse(t, fabrictest.FlowLab))
	runTo(t, f, 1050*units.Microsecond)
	looked := 0
	for _, n := range f.NICs() {
		pairs, err := f.QPsOf(n.Name)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string][]float64{}
		for _, q := range pairs {
			values["rate"] = append(values["rate"], float64(q.Rate))
			if q.Window > 0 {
				values["window"] = append(values["window"], float64(q.Window))
			}
			for _, g := range q.Gauges {
				values[g.Name] = append(values[g.Name], g.Value)
			}
		}
		if len(values) != len(n.Flows) {
			t.Errorf("%s: %d gauges, its queue pairs have %d", n.Name, len(n.Flows), len(values))
		}
		for _, g := range n.Flows {
			v := values[g.Name]
			sum := 0.0
			for _, x := range v {
				sum += x
			}
			mean := sum / float64(len(v))
			if g.Flows != len(v) || g.Min != slices.Min(v) || g.Max != slices.Max(v) || math.Abs(g.Mean-mean) > 1e-9*math.Abs(mean) {
				t.Errorf("%s: %+v, its queue pairs say %v", n.Name, g, v)
			}
			looked += len(v)
		}
	}
	if looked < 20 {
		t.Errorf("only %d values", looked)
	}
}
