package fabric

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
)

// meshOf is four modelled hosts with direct links between any two, and a workload. Their
// interfaces are named by whom they lead to.
func meshOf(workload string) string {
	var links strings.Builder
	for a := range 4 {
		for b := range a {
			fmt.Fprintf(&links, "    - {endpoints: [\"h%d:to%d\", \"h%d:to%d\"]}\n", b, a, a, b)
		}
	}
	return `
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 10Gbps, delay: 5us, mtu: 4200}}
  nodes: {h0: {kind: host}, h1: {kind: host}, h2: {kind: host}, h3: {kind: host}}
  links:
` + links.String() + "workload:\n  - " + workload + "\n"
}

// flowStates counts the flows of a run by their state, and why the first one failed.
type flowStates struct {
	by      map[records.State]int
	failure string
}

func (s *flowStates) PutRecord(r *records.Record) error {
	s.by[r.State]++
	if s.failure == "" {
		s.failure = r.Failure
	}
	return nil
}

func (s *flowStates) Close() error { return nil }

// TestPatterns_InAMeshUseTheLinkBetweenTheTwo: whatever carries the flows, each of a mesh's hosts
// sends to each other by the link between them, with any number of workers alike: the bytes of
// every link are nearly the same.
func TestPatterns_InAMeshUseTheLinkBetweenTheTwo(t *testing.T) {
	for _, by := range []string{"rdma: {}", "rdma: {verb: send, ip: 6}", "tcp: {}", "tcp: {ip: 6}", "ndp: {}", "udp: {rate: 1Gbps}"} {
		var traces [2]uint64
		for i := range traces {
			f, err := NewWithWorkers(parse(t, meshOf("{flow-all-to-all: {sizes: 1MB, window: 1, by: {"+by+"}}}")), 1+2*i)
			if err != nil {
				t.Fatal(by, err)
			}
			states := &flowStates{by: map[records.State]int{}}
			f.SetFlowSink(states, true)
			runTo(t, f, units.Never)
			if err := f.EndFlows(); err != nil {
				t.Fatal(err)
			}
			if states.by[records.Done] != 12 || len(states.by) != 1 {
				t.Errorf("%s: %v, %s", by, states.by, states.failure)
			}
			for _, iface := range f.Interfaces {
				if iface.EnteredBytes < 1_000_000 || iface.EnteredBytes > 1_400_000 {
					t.Errorf("%s: %s has sent %d bytes, not 1 MB and some answers", by, iface.Port.Name, iface.EnteredBytes)
				}
			}
			if a := f.Accounts(); !a.Balanced() || a.Held != 0 || a.Dropped != 0 {
				t.Errorf("%s: %+v", by, a)
			}
			traces[i] = f.Trace()
		}
		if traces[0] != traces[1] {
			t.Errorf("%s: the trace depends on the number of workers", by)
		}
	}
}

// TestFlows_LeaveAndArriveByNamedInterfaces: from: and to: of flows and transfers choose
// interfaces, also those that routes would not choose, and the addresses on them.
func TestFlows_LeaveAndArriveByNamedInterfaces(t *testing.T) {
	const rails = `
duration: 10ms
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 10Gbps, delay: 1us}}
  nodes:
    h1: {kind: host, interfaces: {eth1: {address: [10.1.0.1/16, 10.7.0.1/24]}}}
    h2: {kind: host, interfaces: {eth1: {address: [10.1.0.2/16, 10.7.0.2/24]}}}
    s1: {kind: switch}
    s2: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h1:eth1", "s2:1"]}
    - {endpoints: ["h2:eth1", "s2:2"]}
workload:
  - {cbr: {from: %s, to: %s, rate: 1Gbps, size: 1000B, for: 1ms}}
  - {write: {from: %[1]s, to: %[2]s, size: 100KB, count: 3}}
`
	for _, c := range []struct {
		from, to    string
		port        string
		source, dst string
	}{
		{"h1", "h2", "h1:eth0", "10.0.0.1", "10.0.0.2"},
		{`"h1:eth1"`, "h2", "h1:eth1", "10.1.0.1", "10.1.0.2"},
		{"h1", `"h2:eth1"`, "h1:eth1", "10.1.0.1", "10.1.0.2"},
		{`"h1:eth1"`, `"h2:eth1"`, "h1:eth1", "10.1.0.1", "10.1.0.2"},
		{`"h1:eth*"`, `"h2:eth0"`, "", "", ""}, // eth1 does not reach eth0
	} {
		text := fmt.Sprintf(rails, c.from, c.to)
		if c.port == "" {
			if _, err := resolve.Parse("lab.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "h1 has no route to 10.0.0.2 of h2:eth0 by h1:eth1") {
				t.Errorf("%s to %s: %v", c.from, c.to, err)
			}
			continue
		}
		f := runTransfers(t, text, 1)
		if from, to := f.flowAddresses(0); from != netip.MustParseAddr(c.source) || to != netip.MustParseAddr(c.dst) {
			t.Errorf("%s to %s: from %v to %v", c.from, c.to, from, to)
		}
		if r := f.Transfers()[0]; r.Completed != 3 || r.Failed != 0 {
			t.Errorf("%s to %s: %+v", c.from, c.to, r)
		}
		if r := f.Results()[0]; r.Received != r.Sent || r.Sent == 0 {
			t.Errorf("%s to %s: %+v", c.from, c.to, r)
		}
		for _, iface := range f.Interfaces {
			if sends := iface.Port.Name == c.port; strings.HasPrefix(iface.Port.Name, "h1:") && sends != (iface.EnteredBytes > 400_000) {
				t.Errorf("%s to %s: %s has sent %d bytes", c.from, c.to, iface.Port.Name, iface.EnteredBytes)
			}
		}
	}
}

// TestFlows_HaveTheSourceOfTheSubnet: of an interface with an address in each of two subnets a flow
// has the source that its receiver can answer, and goes to the address that its sender reaches.
func TestFlows_HaveTheSourceOfTheSubnet(t *testing.T) {
	const stick = `
duration: 100ms
addressing: {ipv6: none}
topology:
  kinds: {host: {attach: none, nic: roce}, link: {rate: 10Gbps, delay: 1us}}
  nodes:
    h1: {kind: host, address: 10.0.1.1/24}
    h2: {kind: host, address: 10.0.2.1/24}
    gw: {kind: host, address: [10.0.1.2/24, 10.0.2.2/24]}
    s1: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["gw:eth0", "s1:3"]}
workload:
  - {cbr: {from: gw, to: [h1, h2], rate: 100Mbps, size: 1000B, for: 1ms}}
  - {cbr: {from: [h1, h2], to: gw, rate: 100Mbps, size: 1000B, for: 1ms}}
  - {write: {from: gw, to: [h1, h2], size: 100KB}}
  - {read: {from: [h1, h2], to: gw, size: 100KB}}
  - {requests: {aggregators: [gw], workers: [h1, h2], request: 1KB, response: 20KB, count: 20, by: {%s: {}}}}
`
	for _, by := range []string{"rdma", "tcp", "ndp"} {
		f, err := NewWithWorkers(parse(t, fmt.Sprintf(stick, by)), 1)
		if err != nil {
			t.Fatal(err)
		}
		states := &flowStates{by: map[records.State]int{}}
		f.SetFlowSink(states, false)
		runTo(t, f, f.Plan.Duration)
		if err := f.EndFlows(); err != nil {
			t.Fatal(err)
		}
		if states.by[records.Done] != 80 || len(states.by) != 1 {
			t.Errorf("%s: %v, %s", by, states.by, states.failure)
		}
		for i, want := range []string{"10.0.1.2 10.0.1.1", "10.0.2.2 10.0.2.1", "10.0.1.1 10.0.1.2", "10.0.2.1 10.0.2.2"} {
			if from, to := f.flowAddresses(int32(i)); fmt.Sprint(from, " ", to) != want {
				t.Errorf("flow %d: from %v to %v, want %s", i, from, to, want)
			}
			if r := f.Results()[i]; r.Received != r.Sent || r.Sent == 0 {
				t.Errorf("flow %d: %+v", i, r)
			}
		}
		for _, r := range f.Transfers() {
			if r.Completed != 1 || r.Failed != 0 {
				t.Errorf("%s: %+v", by, r)
			}
		}
	}
}
