package systems

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/units"
)

// eqdsOfPrograms is hosts that send through tunnels, and one that does not. It is dilated, so that
// programs can fill the links on a busy machine.
const eqdsOfPrograms = `
dilation: 10
topology:
  kinds:
    host: {edge: {eqds: {control-dscp: 10, idle: 60s}}} # all tunnels are shown
    link: {rate: 100Mbps, delay: 10us}
    switch:
      classes:
        headers: {dscp: 10, priority: 7, limit: 200KB}
        default: {limit: 18KB, trim: {dscp: 10}}
  generate: {star: {hosts: 4}}
  nodes:
    h2: {attach: tun}
    h4: {edge: none}
`

// TestEQDS_TunnelsUnmodifiedPrograms: ping and iperf3 of unmodified kernels, from TAPs with
// super-packets and from a TUN, go through tunnels over both versions of IP: packets of full size
// fit, connections fill the link, the excess of a UDP sender is dropped in its own EQIF, and tshark
// finds in a capture what the tunnels carry.
func TestEQDS_TunnelsUnmodifiedPrograms(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, eqdsOfPrograms, "iperf3", "ping", "tshark")
	stop := l.Capture("s1:h1")
	for _, args := range [][]string{
		{"-4", "h1"}, {"-6", "h1"}, {"-4", "-M", "do", "-s", "1416", "h1"}, {"-4", "-s", "4000", "h1"},
	} {
		for _, from := range []string{"h2", "h3"} {
			l.Ping(from, 3, args...)
		}
	}
	file := stop()
	l.Ping("h4", 3, "h1") // to a host without EQDS
	for _, c := range []struct {
		from, port string // client, and port that is to be full
		flags      []string
	}{
		{"h3", "s1:h1", []string{"-4"}},
		{"h3", "s1:h1", []string{"-6"}},
		{"h3", "s1:h3", []string{"-4", "-R"}},
		{"h2", "s1:h1", []string{"-4"}},
		{"h3", "s1:h1", []string{"-4", "-u", "-b", "20M", "-l", "1400"}}, // 200 Mb/s of the lab
	} {
		// Programs that get their processor late leave the link idle meanwhile.
		if share := fills(l, c.from, c.port, c.flags); share < 0.5 {
			t.Errorf("%s %v fills only %.2f of the link at %s", c.from, c.flags, share, c.port)
		} else {
			t.Logf("%s %v fills %.2f of the link at %s", c.from, c.flags, share, c.port)
		}
	}
	var tunnels []status.EdgeFlow
	if err := json.Unmarshal([]byte(l.Must("edge", "-l", l.Name, "h3", "--json")), &tunnels); err != nil {
		t.Fatal(err)
	}
	if len(tunnels) != 2 || tunnels[0].Peer != "h1:eth0" || tunnels[0].TxPackets < 1000 {
		t.Errorf("%+v", tunnels)
	}
	if p := l.Ports()["h1:eth0"]; p.Edge == nil || p.Edge.Service != "eqds" {
		t.Errorf("%+v", p.Edge)
	}
	if a := l.Down().Accounts; !a.Balanced() || a.Drops["queue-full"] != a.Dropped {
		t.Errorf("%+v", a)
	}

	script := []string{"-X", "lua_script:../../protocols/eqds/eqds.lua", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"}
	count := func(filter string) int {
		return len(testlab.Tshark(t, file, append(script, "-Y", filter, "-T", "fields", "-e", "frame.number")...))
	}
	// Each of 2 hosts has sent 3 pings over each version of IP, 3 that fill the device's mtu
	// and 3 in 3 fragments; tshark shows the last fragment as the whole packet.
	if n := count("eqds && icmp.type == 8"); n != 2*(3+3+3) {
		t.Errorf("%d requests of ICMP in tunnels", n)
	}
	if n := count("eqds && icmpv6.type == 128"); n != 2*3 {
		t.Errorf("%d requests of ICMPv6 in tunnels", n)
	}
	if n := count("eqds.flags.ack == 1"); n == 0 {
		t.Error("no acknowledgements")
	}
	if n := count("eqds && (_ws.malformed || udp.checksum.status == 0 || ip.checksum.status == 0)"); n != 0 {
		t.Errorf("%d malformed packets", n)
	}
	if n := count("icmp && !eqds"); n != 0 {
		t.Errorf("%d packets beside the tunnels", n)
	}
}

// fills runs iperf3 from a host to h1, and returns how much of the link at a port is used
// meanwhile, by the lab's clock.
func fills(l *testlab.Lab, from, port string, flags []string) float64 {
	l.T.Helper()
	// sent returns the bits that the port has sent, with all that a frame takes on the wire.
	sent := func() (float64, units.Time) {
		s, err := l.Client().Sample(l.T.Context())
		if err != nil {
			l.T.Fatal(err)
		}
		p := s.Ports[slices.IndexFunc(s.Ports, func(p status.Port) bool { return p.Name == port })]
		return 8 * (float64(p.TxBytes) + 24*float64(p.TxPackets)), s.Emulated
	}
	s := l.StartProgram("h1", "iperf3", "-s", "-1")
	l.WaitListening("h1", "5201")
	before, _ := sent()
	c := l.StartProgram(from, append([]string{"iperf3", "-c", "h1", "-t", "3600"}, flags...)...)
	var a, b float64
	var begin, end units.Time
	c.WaitFor(l, "it has begun", func() bool { a, begin = sent(); return a > before+4e6 })
	c.WaitFor(l, "it has sent more", func() bool { b, end = sent(); return b > a+16e6 })
	_, _ = c.KillAndRead(), s.KillAndRead()
	return (b - a) / (end - begin).Seconds() / 100e6
}

// TestEQDS_ReachesEachAddressOfAHost: a host is reachable at each of its addresses, also at the
// same time.
func TestEQDS_ReachesEachAddressOfAHost(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    host: {edge: {eqds: {control-dscp: 10}}}
    switch: {classes: {headers: {dscp: 10, priority: 7, limit: 200KB}, default: {limit: 18KB, trim: {dscp: 10}}}}
  nodes:
    h1: {kind: host}
    h2: {kind: host, interfaces: {eth0: {address: [10.0.0.2/24, 10.0.0.22/24]}}}
    s1: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps, delay: 10us}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps, delay: 10us}
`, "ping")
	for _, to := range []string{"10.0.0.2", "10.0.0.22", "10.0.0.2"} {
		l.Ping("h1", 20, to)
	}
	for name, p := range l.Ports() {
		if p.Edge == nil {
			continue
		}
		for _, g := range p.Edge.Gauges {
			if (g.Name == "timeouts" || g.Name == "refused" || g.Name == "resent" || g.Name == "unacknowledged") && g.Value != 0 {
				t.Errorf("%s: %s is %v", name, g.Name, g.Value)
			}
		}
	}
}
