package fabric

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// runTransfers runs the fabric of a lab file to its end.
func runTransfers(t *testing.T, lab string, workers int) *Fabric {
	t.Helper()
	f, err := NewWithWorkers(parse(t, lab), workers)
	if err != nil {
		t.Fatal(err)
	}
	until := f.Plan.Duration
	if until == 0 {
		until = units.Never
	}
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 {
		t.Errorf("accounts: %+v", a)
	}
	return f
}

// TestTransfers_OfEveryKindTakeTheIdealTime runs each verb over each service that supports it,
// over both versions of IP, alone on its path: the completion time is the ideal one.
func TestTransfers_OfEveryKindTakeTheIdealTime(t *testing.T) {
	for _, v := range []string{"4", "6"} {
		for _, kind := range []string{"write rc", "write uc", "read rc", "send rc", "send uc", "send ud"} {
			var verb, service string
			_, _ = fmt.Sscan(kind, &verb, &service)
			t.Run(kind+" ipv"+v, func(t *testing.T) {
				size := "100KB"
				if service == "ud" {
					size = "1000B"
				}
				lab := fmt.Sprintf(`
topology:
  kinds: {host: {nic: roce}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
workload:
  - %s: {from: h1, to: h2, size: %s, count: 10, depth: 1, service: %s, ip: %s}
`, verb, size, service, v)
				f := runTransfers(t, lab, 1)
				r := f.Transfers()[0]
				if r.Completed != 10 || r.Failed != 0 || r.Retransmitted != 0 || r.Received != r.Payload {
					t.Errorf("%+v", r)
				}
				if r.SlowdownMax < 0.99 || r.SlowdownMax > 1.03 {
					t.Errorf("completion takes %v us, ideally %v us", r.CompletionMax, r.Ideal)
				}
			})
		}
	}
}

// TestRateControl_AdoptsTheLinksNewRate: rate control adopts the rate that an event sets on
// its link.
func TestRateControl_AdoptsTheLinksNewRate(t *testing.T) {
	f := New(parse(t, `
duration: 3ms
topology:
  kinds: {host: {nic: {cc: dcqcn}}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
events:
  - {at: 1ms, link: "h1:eth0", set: {rate: 40Gbps}}
  - {at: 2ms, link: "h1:eth0", set: {rate: 2Gbps}}
`))
	d, err := f.DeviceOf("h1")
	if err != nil {
		t.Fatal(err)
	}
	pd, _ := d.AllocPD()
	c, _ := d.CreateCQ(1, nil)
	q, err := pd.CreateQP(nicemu.QPConfig{Type: qp.RC, SendCQ: c, RecvCQ: c, Cap: qp.Cap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	to, err := f.DeviceOf("h2")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Join(nicemu.Join{Local: d.Addresses()[0], Remote: to.Addresses()[0], RemoteQPN: 17}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []units.Rate{10 * units.Gbps, 40 * units.Gbps, 2 * units.Gbps} {
		if err := f.Run(context.Background(), units.Time(i)*units.Millisecond+500*units.Microsecond); err != nil {
			t.Fatal(err)
		}
		if got, _ := q.Rate(); got != want {
			t.Errorf("after %d events the rate is %v, that of the link %v", i, got, want)
		}
	}
}

// TestTransfers_UseTheFilesDSCP: transfers use the DSCP of the file, also if it is 0 and the
// NIC's default differs; their acknowledgements too.
func TestTransfers_UseTheFilesDSCP(t *testing.T) {
	const lab = `
topology:
  kinds: {switch: {classes: {lossless: {dscp: 26, priority: 3}, default: {}}}}
  nodes: {h1: {nic: roce}, h2: {nic: {dscp: 26}}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
workload:
  - {%s: {from: %s, to: %s, size: 1000B, count: 3, %s}}
`
	for _, c := range []struct {
		verb, from, to, more string
		class                string
	}{
		{"write", "h1", "h2", "dscp: 0", "default"}, {"write", "h2", "h1", "dscp: 0", "default"}, {"send", "h2", "h1", "dscp: 0, service: ud", "default"},
		{"write", "h1", "h2", "qps: 1", "default"}, {"read", "h2", "h1", "qps: 1", "lossless"}, {"send", "h2", "h1", "service: ud", "lossless"},
		{"write", "h1", "h2", "dscp: 26", "lossless"},
	} {
		f := runTransfers(t, fmt.Sprintf(lab, c.verb, c.from, c.to, c.more), 1)
		for n := range f.Plan.Nodes {
			if f.Switches[n] == nil {
				continue
			}
			for i := range f.Plan.Nodes[n].Ports {
				for _, k := range f.PortStatus(n, i).Classes {
					if k.Name != c.class && k.TxPackets != 0 {
						t.Errorf("%+v: %d packets left %s in class %s", c, k.TxPackets, f.Plan.PortName(n, i), k.Name)
					}
				}
			}
		}
	}
}

// TestTransfers_EndByCountTimeOrFailure checks when posting ends: by count, by time, by
// failure.
func TestTransfers_EndByCountTimeOrFailure(t *testing.T) {
	const lab = `
topology:
  kinds: {host: {nic: {timeout: 65us, retries: 1}}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
%sworkload:
  - {write: {from: h1, to: h2, size: 100KB, %s}}
`
	const down = "events: [{at: 1ms, link: \"h2:eth0\", set: {state: down}}]\n"
	for _, c := range []struct {
		events, more      string
		posted, completed uint64
		by                units.Time // the run ends
	}{
		{"", "count: 5", 5, 5, units.Millisecond},
		{"", "count: 5, qps: 3", 15, 15, 2 * units.Millisecond},
		{"", "count: 5, every: 1ms", 5, 5, 5 * units.Millisecond},
		{"", "count: 5, every: 1ms, for: 2ms", 3, 3, 3 * units.Millisecond},
		{"", "for: 1ms, depth: 1", 11, 11, 1100 * units.Microsecond},               // 91.5 us each
		{"", "for: 1ms, every: 10us, depth: 1", 11, 11, 1100 * units.Microsecond},  // those that still wait at the end are not posted
		{"", "for: 1ms, every: 250us, at: 1ms", 5, 5, 2200 * units.Microsecond},    // the last at the end
		{"", "count: 3, depth: 32768", 3, 3, units.Millisecond},                    // as many as a queue holds
		{down, "count: 1000000, every: 1ms, qps: 2", 4, 2, 10 * units.Millisecond}, // no more posts
		{down, "count: unlimited, for: 100s, depth: 1", 11, 10, 10 * units.Millisecond},
	} {
		f := runTransfers(t, fmt.Sprintf(lab, c.events, c.more), 1)
		r := f.Transfers()[0]
		if r.Posted != c.posted || r.Completed != c.completed || r.Failed != c.posted-c.completed || f.Now() > c.by {
			t.Errorf("%s: %d posted, %d completed, %d failed, ended at %v", c.more, r.Posted, r.Completed, r.Failed, f.Now())
		}
	}
}

// TestSends_FillTheirQueueWithoutRNR has as many SENDs and receives posted as a queue holds.
func TestSends_FillTheirQueueWithoutRNR(t *testing.T) {
	for _, service := range []string{"rc", "uc", "ud"} {
		f := runTransfers(t, fmt.Sprintf(`
topology:
  kinds: {host: {nic: {limits: {max_qp_wr: 64}}}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 10us}}
workload:
  - {send: {from: h1, to: h2, size: 100B, count: 1000, depth: 64, service: %s}}
  - {send: {from: h1, to: h2, size: 0, count: 1000, depth: 64, service: %s}}
`, service, service), 1)
		for _, r := range f.Transfers() {
			if r.Completed != 1000 || r.Failed+r.RNRNAKs+r.Retransmitted != 0 || r.Received != r.Payload {
				t.Errorf("%s: %+v", service, r)
			}
		}
	}
}

// TestSingleMessages_CompleteInTheIdealTime: a message that is posted alone completes within
// the ideal time, also where that is before anything else happens: UC and UD complete when the
// last packet begins to leave.
func TestSingleMessages_CompleteInTheIdealTime(t *testing.T) {
	for _, service := range []string{"rc", "uc", "ud"} {
		f := runTransfers(t, fmt.Sprintf(`
duration: 1ms
topology:
  kinds: {host: {nic: roce}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
workload:
  - {send: {from: h1, to: h2, size: 100B, count: 10, every: 50us, service: %s}}
`, service), 1)
		if r := f.Transfers()[0]; r.Completed != 10 || r.SlowdownMax > 1.03 {
			t.Errorf("%s: %d completed, in %v us, ideally %v us", service, r.Completed, r.CompletionMax, r.Ideal)
		}
	}
}

// TestTransfers_ThatTakeNoTimeAreRefused: transfers that would go on for ever in one instant
// are refused, and those that take some time or come to an end are not.
func TestTransfers_ThatTakeNoTimeAreRefused(t *testing.T) {
	for _, c := range []struct {
		links, transfer string
		endless         bool
	}{
		{"", "write: {for: 1us", true},
		{"", "read: {for: 1us", true},
		{"", "send: {for: 1us, service: ud", true},
		{"delay: 1ns", "write: {for: 1us, service: uc", true},
		{"delay: 1ns", "write: {for: 1us", false},
		{"delay: 1ns", "read: {for: 1us", false},
		{"rate: 100Gbps", "write: {for: 1us, service: uc", false},
		{"", "write: {count: 100", false},
		{"", "write: {for: 1us, every: 1ns", false},
	} {
		p := parse(t, fmt.Sprintf(`
duration: 1ms
topology:
  kinds: {host: {nic: roce}, link: {%s}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links: [{endpoints: ["h1:eth0", "s1:1"]}, {endpoints: ["h2:eth0", "s1:2"]}]
workload: [{%s, from: h1, to: h2, size: 1000B}}]
`, c.links, c.transfer))
		f, err := NewWithWorkers(p, 1)
		if c.endless {
			if err == nil || !strings.Contains(err.Error(), "transfer h1-h2: its messages would take no time") {
				t.Errorf("links {%s}, %s: %v", c.links, c.transfer, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("links {%s}, %s: %v", c.links, c.transfer, err)
		}
		f.advance(t, units.Millisecond)
		if r := f.Transfers()[0]; r.Completed == 0 || r.Completed != r.Posted {
			t.Errorf("links {%s}, %s: %+v", c.links, c.transfer, r)
		}
	}
}
