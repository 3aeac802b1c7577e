package vm

import (
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestLimitOfMachines: packets of a virtual machine wait in the machine, and nothing is lost.
func TestLimitOfMachines(t *testing.T) {
	needVM(t, "iperf3")
	l := testlab.Start(t, `
topology:
  kinds: {vm: {edge: {limit: {rate: 4Mbps, age: 10min}}}, link: {rate: 20Mbps, delay: 10us}}
  nodes: {v1: {kind: vm}, h1: {kind: host}, s1: {kind: switch}}
  links: [{endpoints: ["v1:eth0", "s1:1"]}, {endpoints: ["h1:eth0", "s1:2"]}]
`, "iperf3")
	for _, flags := range [][]string{{"-t", "2"}, {"-t", "2", "-u", "-b", "15M", "-l", "1000"}} {
		r := l.Iperf3("v1", "h1", "10.0.0.2", flags...)
		got := max(r.End.Received.Bits, r.End.Sum.Bits) / 1e6
		t.Logf("%v: %.2f Mb/s", flags, got)
		// Packets already in flight when the clock of iperf3 starts may come on top.
		if got < 2 || got > 5 {
			t.Errorf("%v: %.2f Mb/s of 4", flags, got)
		}
	}
	if p := l.Ports()["v1:eth0"]; p.Edge == nil || p.Edge.Service != "limit" {
		t.Errorf("%+v", p.Edge)
	}
	r := l.Down()
	held := uint64(0)
	for _, h := range r.Hosts {
		if h.Guest != nil {
			held += h.Guest.Holds
		}
	}
	if held == 0 || r.Accounts.Dropped != 0 || !r.Accounts.Balanced() {
		t.Errorf("held %d times, %+v", held, r.Accounts)
	}
}
