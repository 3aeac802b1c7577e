package report

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// nicOf returns a NIC with some counters.
func nicOf(name string, counters map[string]uint64) status.NIC {
	n := status.NIC{
		Name: name, Node: strings.TrimSuffix(name, ":eth0"), MAC: "02:00:00:00:00:01", GIDs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
		MTU: 4096, LineRate: 10 * units.Gbps, DSCP: 26, Control: "dcqcn", Preset: "paper", Recovery: "go-back-n", Limited: 2,
		CQs: 3, SRQs: 1, AHs: 4, PDs: 2, MRs: 5, MWs: 6,
	}
	n.States[qp.RTS], n.States[qp.Err] = 7, 1
	for _, info := range nicemu.CounterInfos() {
		n.Counters = append(n.Counters, counters[info.Name])
	}
	return n
}

func trouble() []status.NIC {
	return []status.NIC{
		nicOf("h1:eth0", map[string]uint64{"port_xmit_packets": 1000, "port_rcv_packets": 900, "np_ecn_marked_roce_packets": 50, "np_cnp_sent": 5}),
		nicOf("h2:eth0", map[string]uint64{"rp_cnp_handled": 1, "retransmitted_packets": 4, "received_payload": 9}),
		nicOf("h3:eth0", map[string]uint64{"rp_cnp_handled": 3, "rx_write_requests": 9}),
		nicOf("h4:eth0", map[string]uint64{"rp_cnp_handled": 1}),
		nicOf("h5:eth0", map[string]uint64{"rp_cnp_handled": 1}),
		nicOf("h6:eth0", map[string]uint64{"rp_cnp_handled": 2}),
	}
}

// TestNICCounters: a report has the counters for more than plain traffic, and
// nothing if there are none.
func TestNICCounters(t *testing.T) {
	for _, c := range []struct {
		nics []status.NIC
		want string
	}{
		{nil, ""},
		{[]status.NIC{nicOf("h1:eth0", map[string]uint64{"port_xmit_packets": 5, "port_rcv_data": 7, "rx_read_requests": 1, "received_payload": 9, "unicast_rcv_packets": 5})}, ""},
		{trouble(), `NIC counter total at
np_ecn_marked_roce_packets 50 h1:eth0 50
np_cnp_sent 5 h1:eth0 5
rp_cnp_handled 8 h3:eth0 3, h6:eth0 2, h2:eth0 1 and 2 more
retransmitted_packets 4 h2:eth0 4
`},
	} {
		r := &Report{NICs: c.nics}
		var b strings.Builder
		r.writeNICs(&b)
		if diff := cmp.Diff(c.want, squeeze(b.String())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !strings.Contains(squeeze(text(r)), c.want) {
			t.Errorf("the report does not have it:\n%s", text(r))
		}
	}
}

// TestLayerOfANIC: the layer's counters are shown, and with --all also those that are 0.
func TestLayerOfANIC(t *testing.T) {
	n := nicOf("h1:eth0", nil)
	n.Layer = &status.Layer{Name: "rogue", Work: []status.LayerWork{{Name: "verbs", Count: 16}, {Name: "failovers"}}}
	for all, want := range map[bool]string{false: "layer rogue\nverbs 16\nloss", true: "layer rogue\nverbs 16\nfailovers 0\nloss"} {
		var b strings.Builder
		WriteNIC(&b, &n, all)
		if got := squeezeIndented(b.String()); !strings.Contains(got, want) {
			t.Errorf("all: %v:\n%s", all, got)
		}
	}
}

func TestNICTables(t *testing.T) {
	nics := trouble()
	slow := nics[1]
	slow.Listeners = []status.Listener{{PortSpace: "TCP", Port: 7174}, {PortSpace: "UDP", Address: netip.MustParseAddr("fd00::1"), Port: 7174}}
	slow.Delays = &nicemu.Delays{Doorbell: 500 * units.Nanosecond, DMA: units.Microsecond}
	for _, c := range []struct {
		name string
		f    func(*strings.Builder)
		want string
	}{
		{"none", func(b *strings.Builder) { WriteNICs(b, nil) }, "no host has a NIC: write nic: roce for it in the lab file\n"},
		{"list", func(b *strings.Builder) { WriteNICs(b, nics[:2]) }, `nic address mtu line cc QPs slowed sent received CE CNPs retransmitted
h1:eth0 10.0.0.1 4096 10Gbps dcqcn 8 2 1000 900 50 0 0
h2:eth0 10.0.0.1 4096 10Gbps dcqcn 8 2 0 0 0 1 4
`},
		{"one", func(b *strings.Builder) { WriteNIC(b, &nics[1], false) }, `h2:eth0 02:00:00:00:00:01, line 10Gbps, path MTU up to 4096, DSCP 26
rate control dcqcn, preset paper
loss recovery go-back-n
GID 0 10.0.0.1
GID 1 fd00::1
queue pairs 8: 7 RTS, 1 ERR; 2 slowed down
in use 3 CQs, 1 SRQs, 4 AHs, 2 PDs, 5 MRs, 6 MWs
rp_cnp_handled 1
retransmitted_packets 4
received_payload 9
`},
		{"with delays and listeners", func(b *strings.Builder) { WriteNIC(b, &slow, false) }, `h2:eth0 02:00:00:00:00:01, line 10Gbps, path MTU up to 4096, DSCP 26
rate control dcqcn, preset paper
loss recovery go-back-n
delays doorbell 500ns, DMA 1us, completion 0s
GID 0 10.0.0.1
GID 1 fd00::1
queue pairs 8: 7 RTS, 1 ERR; 2 slowed down
listens TCP *:7174, UDP [fd00::1]:7174
in use 3 CQs, 1 SRQs, 4 AHs, 2 PDs, 5 MRs, 6 MWs
rp_cnp_handled 1
retransmitted_packets 4
received_payload 9
`},
	} {
		var b strings.Builder
		c.f(&b)
		if diff := cmp.Diff(c.want, squeezeIndented(b.String())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	var b strings.Builder
	if WriteNIC(&b, &nics[1], true); strings.Count(b.String(), "\n") != 7+len(nicemu.CounterInfos()) {
		t.Errorf("all counters:\n%s", b.String())
	}
}

// squeezeIndented is squeeze without indents.
func squeezeIndented(s string) string { return strings.ReplaceAll(squeeze(s), "\n ", "\n") }

func pairs() []status.QP {
	rc := status.QP{
		NIC: "h1:eth0", QPN: 17, Type: "RC", State: "RTS",
		Local: netip.MustParseAddr("10.0.0.1"), Remote: netip.MustParseAddr("10.0.0.2"), Peer: "h2:eth0", RemoteQPN: 300, PathMTU: 1024, DSCP: 26, UDPSourcePort: 49441, Class: "lossless",
		SQPSN: 3, Unacknowledged: 0xffffff, Sends: 5, Fetches: 1, InFlight: 3000, Timeout: 16777216 * units.Nanosecond, AckTimer: 3 * units.Millisecond,
		Retries: status.Retries{Left: 6, Limit: 7}, RNRRetries: status.Retries{Left: 7, Limit: 7},
		RQPSN: 77, Receives: 8, Replies: 2, Rate: 4 * units.Gbps, LineRate: 10 * units.Gbps,
		Control: "dcqcn",
		Gauges: []gauge.Value{
			{Name: "limited", Unit: gauge.YesNo, Value: 1}, {Name: "target_rate", Unit: gauge.BitsPerSecond, Value: 5e9},
			{Name: "alpha", Unit: gauge.Share, Value: 0.125, Brief: true}, {Name: "time_stage", Value: 2}, {Name: "window", Unit: gauge.Bytes, Value: 64000},
			{Name: "rtt", Unit: gauge.Seconds, Value: 12e-6},
		},
		TxPackets: 40, TxBytes: 41000, RxPackets: 20, RxBytes: 1200, Marked: 2, CNPsSent: 1, CNPsHandled: 9, CNPDue: true,
		Counters: map[string]uint64{"retransmitted_packets": 4, "packet_seq_err": 1},
	}
	ud := status.QP{NIC: "h1:eth0", QPN: 18, Type: "UD", State: "INIT", LineRate: 10 * units.Gbps, Rate: 10 * units.Gbps}
	uc := status.QP{NIC: "h2:eth0", QPN: 17, Type: "UC", State: "ERR", Remote: netip.MustParseAddr("fd00::9"), Local: netip.MustParseAddr("fd00::2"), PathMTU: 4096, RemoteQPN: 1, Window: 64000}
	waits := rc
	waits.QPN, waits.State, waits.AckTimer, waits.RNRTimer, waits.RNRRetries = 19, "SQD", 0, 500*units.Microsecond, status.Retries{Left: 2, Limit: 6}
	waits.Gauges, waits.Counters, waits.Fetches, waits.Replies = rc.Gauges[:1:1], nil, 0, 0
	return []status.QP{rc, ud, waits, uc}
}

func TestQPTable(t *testing.T) {
	all := pairs()
	var b strings.Builder
	WriteQPs(&b, all, 3)
	want := `nic qpn type state peer rqpn sq-psn rq-psn sends in flight receives rate alpha CNPs retransmitted
h1:eth0 17 RC RTS h2:eth0 300 3 77 5 3KB 8 4Gbps 12.5% 9 4
h1:eth0 18 UD INIT - - 0 - 0 0 0 10Gbps - 0 0
h1:eth0 19 RC SQD h2:eth0 300 3 77 5 3KB 8 4Gbps - 9 0
and 1 more queue pairs
`
	if diff := cmp.Diff(want, squeeze(b.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Reset()
	WriteQPs(&b, all[3:], 0)
	want = `nic qpn type state peer rqpn sq-psn rq-psn sends rate
h2:eth0 17 UC ERR fd00::9 1 0 0 0 unlimited
`
	if diff := cmp.Diff(want, squeeze(b.String())); diff != "" {
		t.Errorf("without what is nothing (-want +got):\n%s", diff)
	}
	b.Reset()
	if WriteQPs(&b, nil, 0); b.String() != "there are no queue pairs\n" {
		t.Errorf("%q", b.String())
	}
}

func TestQPDetails(t *testing.T) {
	all := pairs()
	for i, want := range []string{
		`h1:eth0 queue pair 17 (0x000011), RC, RTS
peer h2:eth0 queue pair 300 (0x00012c)
path 10.0.0.1 to 10.0.0.2:4791, path MTU 1024, DSCP 26 (class lossless), UDP source port 49441
send queue 5 work requests, next PSN 3, 4 PSNs not acknowledged from 16777215 on, 3KB in flight, 1 READs and atomics under way
receive queue 8 receives, expected PSN 77, 2 READs and atomics to respond to
timers local ACK timeout in 3ms of 16.8ms, 6 of 7 retries left, RNR retries without limit
rate 4Gbps of 10Gbps
dcqcn limited yes, target rate 5Gbps, alpha 12.5%, time stage 2, window 64KB, rtt 12us
CNPs 9 handled, 1 sent, one waits to be sent
sent 40 packets, 41KB
received 20 packets, 1.2KB, 2 of them with CE
packet_seq_err 1
retransmitted_packets 4
`,
		`h1:eth0 queue pair 18 (0x000012), UD, INIT
send queue 0 work requests, next PSN 0
receive queue 0 receives
rate 10Gbps
CNPs 0 handled, 0 sent
sent 0 packets, 0B
received 0 packets, 0B, 0 of them with CE
`,
		`h1:eth0 queue pair 19 (0x000013), RC, SQD
peer h2:eth0 queue pair 300 (0x00012c)
path 10.0.0.1 to 10.0.0.2:4791, path MTU 1024, DSCP 26 (class lossless), UDP source port 49441
send queue 5 work requests, next PSN 3, 4 PSNs not acknowledged from 16777215 on, 3KB in flight
receive queue 8 receives, expected PSN 77
timers local ACK timeout 16.8ms, not running, 6 of 7 retries left; the peer was not ready, resuming in 500us, 2 of 6 RNR retries left
rate 4Gbps of 10Gbps
dcqcn limited yes
CNPs 9 handled, 1 sent, one waits to be sent
sent 40 packets, 41KB
received 20 packets, 1.2KB, 2 of them with CE
`,
		`h2:eth0 queue pair 17 (0x000011), UC, ERR
peer fd00::9 queue pair 1 (0x000001)
path fd00::2 to [fd00::9]:4791, path MTU 4096, DSCP 0, UDP source port 0
send queue 0 work requests, next PSN 0
receive queue 0 receives, expected PSN 0
rate unlimited, window 64KB
CNPs 0 handled, 0 sent
sent 0 packets, 0B
received 0 packets, 0B, 0 of them with CE
`,
	} {
		var b strings.Builder
		WriteQP(&b, &all[i])
		if diff := cmp.Diff(want, squeezeIndented(b.String())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", fmt.Sprint("pair ", i), diff)
		}
	}
}
