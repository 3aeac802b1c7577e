package rdma

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// twoRails is two hosts with two NICs each, on separate switches. The first interface of h1 has
// a second address.
const twoRails = `
topology:
  kinds: {host: {nic: roce}, link: {rate: 200Mbps, delay: 20us, mtu: 4200}}
  nodes:
    h1: {kind: host, address: [10.0.0.1/16, 10.7.0.1/24]}
    h2: {kind: host, interfaces: {eth1: {address: [10.1.0.2/16, 10.7.0.2/24]}}}
    s1: {kind: switch}
    s2: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h1:eth1", "s2:1"]}
    - {endpoints: ["h2:eth1", "s2:2"]}
`

// TestRDMACM_FollowsTheRoutesOfTheHost: without an address of its own rping leaves by the NIC to
// which the routes lead, with the source of that NIC; with an address (-I) by the one that has it;
// and not at all without a route. A server that is bound to no address listens on all.
func TestRDMACM_FollowsTheRoutesOfTheHost(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, twoRails, "rping", "ucmatose", "udaddy", "ib_write_bw", "tshark", "ip")
	for _, c := range []struct{ to, port, source string }{
		{"10.0.0.1", "s1:2", "10.0.0.2"}, {"10.1.0.1", "s2:2", "10.1.0.2"}, {"fd00:0:0:1::1", "s2:2", "fd00:0:0:1::2"},
	} {
		t.Run(c.to, func(t *testing.T) {
			l := l.In(t)
			stop := l.Capture(c.port)
			l.RunRDMA([]string{"rping", "-s", "-C", "5"}, []string{"rping", "-c", "-a", c.to, "-C", "5"})
			file := stop()
			field := "ip.dst == "
			if strings.Contains(c.to, ":") {
				field = "ipv6.dst == "
			}
			if n := len(testlab.Tshark(t, file, "-Y", "infiniband.mad.attributeid == 0x0013 && "+field+c.source)); n == 0 {
				t.Errorf("no REP has come back to %s at %s", c.source, c.port)
			}
		})
	}
	l.RunRDMA([]string{"rping", "-s", "-C", "5"}, []string{"rping", "-c", "-a", "10.1.0.1", "-I", "10.1.0.2", "-C", "5"})
	l.RunRDMA([]string{"ucmatose"}, []string{"ucmatose", "-s", "10.1.0.1"})
	l.RunRDMA([]string{"udaddy"}, []string{"udaddy", "-s", "10.1.0.1"})
	l.RunRDMA([]string{"ib_write_bw", "-R", "-n", "100"}, []string{"ib_write_bw", "-R", "-n", "100", "10.1.0.1"})

	// The second address of h1's first NIC and that of h2's second are on different switches.
	if said, code := l.TryRDMA("h2", "rping", "-c", "-a", "10.9.0.1", "-C", "1"); code == 0 || !strings.Contains(said, "Network is unreachable") {
		t.Errorf("rping without a route: exit code %d\n%s", code, said)
	}
	l.Exec("h2", "ip", "route", "add", "10.7.0.1/32", "via", "10.0.0.1")
	l.RunRDMA([]string{"rping", "-s", "-a", "10.7.0.1", "-C", "5"}, []string{"rping", "-c", "-a", "10.7.0.1", "-C", "5"})
}
