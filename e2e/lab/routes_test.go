package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// gatewayOnAStick is two hosts in different subnets on one switch, and a host between them
// that forwards.
const gatewayOnAStick = `
topology:
  kinds: {link: {rate: 20Mbps}}
  nodes:
    h1: {kind: host, address: 10.0.1.1/24, routes: [{to: default, via: 10.0.1.2}]}
    h2: {kind: host, address: 10.0.2.1/24, routes: [{to: default, via: 10.0.2.2}]}
    gw:
      kind: host
      address: [10.0.1.2/24, 10.0.2.2/24]
      sysctls: {net.ipv4.ip_forward: 1, net.ipv4.conf.all.send_redirects: 0, net.ipv4.conf.eth0.send_redirects: 0}
    s1: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["gw:eth0", "s1:3"]}
`

// TestGatewayOnAStick_ForwardsBetweenSubnets: packets between subnets on one switch go through
// the kernel of the gateway: one hop more, in either direction.
func TestGatewayOnAStick_ForwardsBetweenSubnets(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, gatewayOnAStick, "ping", "traceroute", "ip")
	if got := l.Exec("h1", "ip", "-o", "-4", "route"); strings.TrimSpace(got) != "default via 10.0.1.2 dev eth0 \n10.0.1.0/24 dev eth0 proto kernel scope link src 10.0.1.1" {
		t.Errorf("h1 has the routes\n%s", got)
	}
	for _, c := range []struct{ from, to, gateway string }{{"h1", "10.0.2.1", "10.0.1.2"}, {"h2", "10.0.1.1", "10.0.2.2"}} {
		if out := l.Ping(c.from, 1, c.to); !strings.Contains(out, "ttl=63") {
			t.Errorf("ping %s from %s does not pass the gateway:\n%s", c.to, c.from, out)
		}
		out := l.Exec(c.from, "traceroute", "-n", "-w", "10,0,0", c.to)
		if got := strings.Join(hopsOf(out), " "); got != c.gateway+" "+c.to {
			t.Errorf("traceroute from %s: %s\n%s", c.from, got, out)
		}
	}
	if out := l.Ping("h1", 1, "gw"); !strings.Contains(out, "ttl=64") {
		t.Errorf("ping gw:\n%s", out)
	}
}

// TestGatewayOnAStick_TranslatesAndFilters: nftables of the gateway work as on a bridge: h2 sees
// the gateway's address, and what the filter forbids does not arrive.
func TestGatewayOnAStick_TranslatesAndFilters(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, gatewayOnAStick, "ping", "nft", "iperf3", "tshark")
	l.Exec("gw", "nft", `table ip nat {
		chain post { type nat hook postrouting priority srcnat; ip saddr 10.0.1.0/24 ip daddr 10.0.2.0/24 masquerade; }
	}`)
	stop := l.Capture("s1:2")
	l.Ping("h1", 3, "10.0.2.1")
	file := stop()
	for filter, want := range map[string]int{
		"icmp.type == 8 && ip.src == 10.0.2.2 && ip.dst == 10.0.2.1 && ip.ttl == 63": 3,
		"icmp.type == 0 && ip.src == 10.0.2.1 && ip.dst == 10.0.2.2":                 3,
		"ip.addr == 10.0.1.1": 0,
	} {
		if n := len(testlab.Tshark(t, file, "-Y", filter)); n != want {
			t.Errorf("%s: %d packets at h2, want %d", filter, n, want)
		}
	}
	l.Exec("gw", "nft", `table ip filter {
		chain forward { type filter hook forward priority filter; policy drop; ct state established accept; tcp dport 5201 accept; counter; }
	}`)
	if out, _, code := l.Run("exec", "-l", l.Name, "h1", "--", "ping", "-c", "1", "-W", "1", "10.0.2.1"); code != 1 {
		t.Errorf("ping through a filter that drops it: exit code %d\n%s", code, out)
	}
	if out := l.Exec("gw", "nft", "list", "chain", "ip", "filter", "forward"); !strings.Contains(out, "counter packets 1 ") {
		t.Errorf("the gateway has not dropped one packet:\n%s", out)
	}
	l.StartServer("h2", "iperf3", "-s", "-1")
	l.WaitFor("h2 listens", func() bool { return l.ListensTCP("h2", "5201") })
	l.Exec("h1", "iperf3", "-c", "10.0.2.1", "-n", "200K")
}

// TestHosts_HaveNoRoutesThatNobodyGaveThem: hosts in different subnets on one switch, without a
// gateway, do not reach each other.
func TestHosts_HaveNoRoutesThatNobodyGaveThem(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
addressing: {ipv6: none}
topology:
  nodes: {h1: {kind: host, address: 10.0.1.1/24}, h2: {kind: host, address: 192.168.7.1/24}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
`, "ping", "ip")
	if got := l.Exec("h1", "ip", "-o", "-4", "route"); strings.TrimSpace(got) != "10.0.1.0/24 dev eth0 proto kernel scope link src 10.0.1.1" {
		t.Errorf("h1 has the routes\n%s", got)
	}
	if out, e, code := l.Run("exec", "-l", l.Name, "h1", "--", "ping", "-c", "1", "-W", "1", "192.168.7.1"); code == 0 || !strings.Contains(out+e, "Network is unreachable") {
		t.Errorf("ping: exit code %d\n%s%s", code, out, e)
	}
	// A route that a program adds works.
	l.Exec("h1", "ip", "route", "add", "192.168.7.0/24", "dev", "eth0")
	l.Exec("h2", "ip", "route", "add", "10.0.1.0/24", "dev", "eth0")
	if out := l.Ping("h1", 1, "192.168.7.1"); !strings.Contains(out, "ttl=64") {
		t.Errorf("ping by added routes:\n%s", out)
	}
}

// TestMesh_EveryHostReachesEveryOtherByName: of hosts that are joined by direct links each name
// leads to the address on the link between the two, and further names to each interface.
func TestMesh_EveryHostReachesEveryOtherByName(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}}
  links:
    - {endpoints: ["h1:e2", "h2:e1"]}
    - {endpoints: ["h1:e3", "h3:e1"]}
    - {endpoints: ["h2:e3", "h3:e2"]}
`, "ping")
	for from := 1; from <= 3; from++ {
		for to := 1; to <= 3; to++ {
			if from == to {
				continue
			}
			for _, version := range []string{"-4", "-6"} {
				host, name := fmt.Sprintf("h%d", from), fmt.Sprintf("h%d", to)
				l.Ping(host, 1, version, name)
				l.Ping(host, 1, version, fmt.Sprintf("%s-e%d", name, from))
			}
		}
	}
	hosts := l.Exec("h3", "cat", "/etc/hosts")
	for _, want := range []string{"10.0.0.1\th1-e2\n", "10.0.1.1\th1 h1-e3\n", "10.0.2.1\th2 h2-e3\n", "10.0.0.2\th2-e1\n", "10.0.1.2\th3 h3-e1\n"} {
		if !strings.Contains(hosts, want) {
			t.Errorf("h3's /etc/hosts lacks %q:\n%s", want, hosts)
		}
	}
}
