package lab

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
)

// threeRouters is h1 and three routers in a row, with a link of a smaller MTU
// in the middle, and h2 and h3, which is on a TUN, behind a plain switch.
const threeRouters = `
topology:
  kinds:
    switch: {address: auto}
    link: {rate: 200Mbps, delay: 50us}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host, attach: tun}
    r1: {kind: switch, ports: {"1": {address: 10.1.1.1/24}}}
    r2: {kind: switch, address: 10.255.7.2}
    r3: {kind: switch}
    s1: {kind: switch, address: none}
  links:
    - {endpoints: ["h1:eth0", "r1:1"]}
    - {endpoints: ["r1:2", "r2:1"]}
    - {endpoints: ["r2:2", "r3:1"], mtu: 1400}
    - {endpoints: ["r3:2", "s1:1"]}
    - {endpoints: ["s1:2", "h2:eth0"]}
    - {endpoints: ["s1:3", "h3:eth0"]}
`

// The addresses in threeRouters, from the file and from the pools.
var (
	way4 = []string{"10.1.1.1", "10.255.7.2", "10.255.0.3"}
	way6 = []string{"fd00::1", "fd00:ffff::2", "fd00:ffff::3"}
)

// TestRouters_ServePrograms runs Debian's programs across three routers.
func TestRouters_ServePrograms(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, threeRouters, "ping", "traceroute", "arping", "iperf3", "tshark", "ip")

	t.Run("routes", func(t *testing.T) {
		for _, c := range []struct{ host, to, want string }{
			{"h1", "10.0.0.2", "10.0.0.2 via 10.1.1.1 dev eth0 src 10.1.1.2"},
			{"h2", "10.1.1.2", "10.1.1.2 via 10.0.0.1 dev eth0 src 10.0.0.2"},
			{"h2", "10.0.0.3", "10.0.0.3 dev eth0 src 10.0.0.2"},
			{"h3", "10.1.1.2", "10.1.1.2 via 10.0.0.1 dev eth0 src 10.0.0.3"},
			{"h1", "fd00::1:2", "fd00::1:2 from :: via fd00::1 dev eth0 src fd00::2"},
		} {
			if got := l.Exec(c.host, "ip", "-o", "route", "get", c.to); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s to %s: %q, want %q", c.host, c.to, got, c.want)
			}
		}
	})
	t.Run("ping", func(t *testing.T) {
		for _, c := range [][]string{{"h1", "-4", "h2"}, {"h1", "-6", "h2"}, {"h1", "-4", "h3"}, {"h3", "-6", "h1"}, {"h2", "-4", "h3"}} {
			hops := "ttl=61"
			if c[0] == "h2" {
				hops = "ttl=64" // through no router
			}
			if out := l.Ping(c[0], 1, c[1:]...); !strings.Contains(out, hops) {
				t.Errorf("%v:\n%s", c, out)
			}
		}
		for i, router := range append(way4, way6...) {
			out := l.Ping("h1", 1, router)
			if want := fmt.Sprintf("ttl=%d", 64-i%3); !strings.Contains(out, want) {
				t.Errorf("ping %s, want %s:\n%s", router, want, out)
			}
		}
		if out := l.Ping("h1", 1, "-4", "r3"); !strings.Contains(out, "(10.255.0.3)") {
			t.Errorf("ping by name:\n%s", out)
		}
		// In fragments from r2 on, in both directions.
		l.Ping("h1", 1, "-4", "-M", "dont", "-s", "1450", "h2")
		l.Arping("h1", "10.1.1.1")
	})
	t.Run("traceroute", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			to   string
			want []string
		}{
			{[]string{"-4"}, "10.0.0.2", way4}, {[]string{"-4", "-I"}, "10.0.0.2", way4}, {[]string{"-4", "-I"}, "10.0.0.3", way4},
			{[]string{"-6"}, "fd00::1:2", way6}, {[]string{"-6", "-I"}, "fd00::1:3", way6},
			{[]string{"-4"}, "10.255.0.3", way4[:2]}, {[]string{"-6"}, "fd00:ffff::2", way6[:1]},
		} {
			out := l.Exec("h1", append(append([]string{"traceroute", "-n", "-w", "10,0,0"}, c.args...), c.to)...)
			if got := hopsOf(out); strings.Join(got, " ") != strings.Join(append(append([]string{}, c.want...), c.to), " ") {
				t.Errorf("traceroute %v %s: %v\n%s", c.args, c.to, got, out)
			}
		}
		// From the TUN.
		out := l.Exec("h3", "traceroute", "-n", "-w", "10,0,0", "10.1.1.2")
		if got := hopsOf(out); strings.Join(got, " ") != "10.0.0.1 10.255.7.2 10.255.0.1 10.1.1.2" {
			t.Errorf("traceroute from a TUN: %v\n%s", got, out)
		}
	})
	t.Run("too big", func(t *testing.T) {
		for _, c := range []struct{ version, to, want string }{
			{"-4", "h2", "From r2 (10.255.7.2) icmp_seq=1 Frag needed and DF set (mtu = 1400)"},
			{"-6", "h3", "From r2 (fd00:ffff::2) icmp_seq=1 Packet too big: mtu=1400"},
		} {
			out, _, code := l.Run("exec", "-l", l.Name, "h1", "--", "ping", c.version, "-c", "1", "-W", "10", "-M", "do", "-s", "1440", c.to)
			if code == 0 || !strings.Contains(out, c.want) {
				t.Errorf("ping %s:\n%s", c.to, out)
			}
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		for _, c := range []struct{ to, want string }{
			{"10.99.0.1", "From 10.1.1.1 icmp_seq=1 Destination Net Unreachable"},
			{"10.0.0.99", "From 10.255.0.3 icmp_seq=1 Destination Host Unreachable"},
			{"fd99::1", "From fd00::1 icmp_seq=1 Destination unreachable: No route"},
			{"fd00::1:99", "From fd00:ffff::3 icmp_seq=1 Destination unreachable: Address unreachable"},
		} {
			if out, _, code := l.Run("exec", "-l", l.Name, "h1", "--", "ping", "-c", "1", "-W", "10", c.to); code == 0 || !strings.Contains(out, c.want) {
				t.Errorf("ping %s:\n%s", c.to, out)
			}
		}
	})
	t.Run("ps", func(t *testing.T) {
		var s lab.Status
		if err := json.Unmarshal([]byte(l.Must("ps", "--json", l.Name)), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.Routers) != 3 || len(s.Switches) != 4 || s.Routers[1].Addresses[0] != "10.255.7.2" || s.Routers[0].Ports[0].Addresses[0] != "10.1.1.1/24" {
			t.Errorf("%+v", s)
		}
		out := l.Must("ps", "-t", "r2", l.Name)
		for _, want := range []string{`10\.0\.0\.0/24 +2 +r3:1`, `10\.1\.1\.0/24 +1 +r1:2`, `10\.255\.7\.2/32 +itself`} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("the table lacks %s:\n%s", want, out)
			}
		}
		if out := l.Must("ps", "-t", "s1", l.Name); !regexp.MustCompile(`r3:2 .*10\.0\.0\.1/24.* 1\n`).MatchString(out) {
			t.Errorf("the table of s1:\n%s", out)
		}
	})
	balanced(t, l)
}

// TestRouters_FindAnotherPath: after a link is cut, traceroute shows the longer path
// after a while, and the shorter one after the link is restored; TCP continues
// throughout. A static route holds for one host until its link is cut.
func TestRouters_FindAnotherPath(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  reroute: {after: 300ms}
  kinds: {switch: {address: auto, forwarding: round-robin}, link: {rate: 50Mbps, delay: 200us}}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
    r1: {kind: switch, routes: [{to: h3, via: 3}]}
    r2: {kind: switch}
    r3: {kind: switch}
    r4: {kind: switch}
    r5: {kind: switch, routes: [{to: h3, via: 2}]}
    s1: {kind: switch, address: none}
  links:
    - {endpoints: ["h1:eth0", "r1:1"]}
    - {endpoints: ["r1:2", "r2:1"]}
    - {endpoints: ["r2:2", "r4:1"]}
    - {endpoints: ["r1:3", "r3:1"]}
    - {endpoints: ["r3:2", "r5:1"]}
    - {endpoints: ["r5:2", "r4:2"]}
    - {endpoints: ["r4:3", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
`, "traceroute", "iperf3")
	trace := func(to, want string) {
		t.Helper()
		// With pings, because hosts limit the rate at which they refuse UDP.
		out := l.Exec("h1", "traceroute", "-I", "-n", "-w", "10,0,0", to)
		if got := strings.Join(hopsOf(out), " "); got != want+" "+to {
			t.Errorf("the way to %s is %s, want %s\n%s", to, got, want, out)
		}
	}
	const (
		short4, long4 = "10.0.0.1 10.255.0.2 10.255.0.4", "10.0.0.1 10.255.0.3 10.255.0.5 10.255.0.4"
		short6, long6 = "fd00::1 fd00:ffff::2 fd00:ffff::4", "fd00::1 fd00:ffff::3 fd00:ffff::5 fd00:ffff::4"
	)
	if out := l.Must("ps", "-t", "r1", l.Name); !regexp.MustCompile(`10\.0\.1\.3/32 +3 \(static\) +r3:1`).MatchString(out) {
		t.Errorf("the table of r1:\n%s", out)
	}
	trace("10.0.1.2", short4)
	trace("fd00::1:2", short6)
	trace("10.0.1.3", long4)
	l.StartServer("h2", "iperf3", "-s")
	l.WaitListening("h2", "5201")
	client := l.StartProgram("h1", "iperf3", "-c", "10.0.1.2", "-b", "5M", "-t", "600") // with room in the queues
	l.Must("set", "-l", l.Name, "r1:2", "state=down")
	becomes(l, "r1", "10.0.1.0/24", "3")
	becomes(l, "r4", "10.0.0.0/24", "2")
	trace("10.0.1.2", long4)
	trace("fd00::1:2", long6)
	trace("10.0.1.3", long4)
	l.Must("set", "-l", l.Name, "r1:2", "state=up")
	becomes(l, "r1", "10.0.1.0/24", "2")
	becomes(l, "r4", "10.0.0.0/24", "1")
	trace("10.0.1.2", short4)
	trace("fd00::1:2", short6)
	l.Must("set", "-l", l.Name, "r1:3", "state=down")
	becomes(l, "r1", "10.0.1.0/24", "2")
	becomes(l, "r3", "10.0.0.0/24", "2")
	trace("10.0.1.3", short4)
	l.WaitPackets("s1:2", 100) // to h2, over the same connection
	interrupt(l, client)
	balanced(t, l)
}

// hopsOf returns the addresses in the output of traceroute, in order.
func hopsOf(out string) (hops []string) {
	for _, m := range regexp.MustCompile(`(?m)^ *\d+ +(?:\* +)*([0-9a-f.:]+|\*)`).FindAllStringSubmatch(out, -1) {
		hops = append(hops, m[1])
	}
	return hops
}

// balanced ends the lab and checks that its accounts add up.
func balanced(t *testing.T, l *testlab.Lab) {
	t.Helper()
	l.WaitQuiet()
	if a := l.Down().Accounts; !a.Balanced() || a.Consumed == 0 {
		t.Errorf("%+v", a)
	}
}

// TestRouters_TCPFindsThePathMTU: TCP with segmentation offload finds the MTU of the link
// between routers, from a TAP and from a TUN, in both versions of IP; and
// tshark finds its packets correct in captures at every hop.
func TestRouters_TCPFindsThePathMTU(t *testing.T) {
	t.Parallel()
	// Few packets: tshark reads all of them several times.
	l := testlab.Start(t, strings.Replace(threeRouters, "200Mbps", "20Mbps", 1), "iperf3", "tshark")
	stop := l.Capture("h1:eth0", "r2:1", "r2:2", "s1:1", "s1:2", "-s", "200")
	for _, c := range [][3]string{{"h1", "h2", "10.0.0.2"}, {"h1", "h2", "fd00::1:2"}, {"h1", "h3", "10.0.0.3"}, {"h3", "h1", "fd00::2"}} {
		l.Iperf3(c[0], c[1], c[2], "-n", "1M")
	}
	l.WaitQuiet()
	file := stop()
	if out := l.Exec("h1", "ip", "route", "get", "10.0.0.2"); !strings.Contains(out, "mtu 1400") {
		t.Errorf("h1 did not learn the MTU: %s", out)
	}
	check := []string{"-o", "ip.check_checksum:TRUE"}
	show := func(filter string, fields ...string) []string {
		args := append(append([]string{}, check...), "-Y", filter, "-T", "fields")
		for _, f := range fields {
			args = append(args, "-e", f)
		}
		return testlab.Tshark(t, file, args...)
	}
	if bad := show("ip.checksum.status == 0 || _ws.malformed", "frame.number"); len(bad) > 0 {
		t.Errorf("%d packets have a bad IPv4 header: %v", len(bad), bad[0])
	}
	// Every packet from h1 to h2 that arrives has crossed three routers, each
	// of which has sent it from its own port.
	for filter, want := range map[string]string{
		`tcp && !icmp && ip.src == 10.1.1.2 && frame.interface_name == "h1:eth0"`: "64\t",
		`tcp && !icmp && ip.src == 10.1.1.2 && frame.interface_name == "r2:1"`:    "63\t",
		`tcp && !icmp && ip.src == 10.1.1.2 && frame.interface_name == "r2:2"`:    "62\t",
		`tcp && !icmp && ip.src == 10.1.1.2 && frame.interface_name == "s1:2"`:    "61\t",
	} {
		all := show(filter, "ip.ttl", "eth.src", "eth.dst")
		seen := map[string]bool{}
		for _, line := range all {
			seen[line] = true
			if !strings.HasPrefix(line, want) {
				t.Errorf("%s: %s", filter, line)
				break
			}
		}
		if len(all) < 100 || len(seen) > 2 { // to h2 and h3
			t.Errorf("%s: %d packets, %v", filter, len(all), seen)
		}
	}
	if n := len(show(`icmp.type == 3 && icmp.code == 4 && icmp.mtu == 1400`, "frame.number")); n == 0 {
		t.Error("no message about the MTU in the capture")
	}
	if n := len(show(`icmpv6.type == 2 && icmpv6.mtu == 1400`, "frame.number")); n == 0 {
		t.Error("no message about the MTU of IPv6 in the capture")
	}
	balanced(t, l)
}
