package fabric

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// hopsTo returns a router's next hops to a known address, by the ports in its group
// and, behind >, the port of the next router.
func (f *Fabric) hopsTo(t testing.TB, router, address string) string {
	t.Helper()
	n, _ := f.Plan.Node(router)
	number := f.topology.Number(netip.MustParseAddr(address))
	if number == 0 {
		t.Fatalf("nobody has %s", address)
	}
	sw := f.Switches[n]
	route := sw.Routing().Table.Routes[sw.Routing().Table.Known[number]]
	var hops []string
	for i, p := range sw.Table().Groups[route.Group] {
		hop := f.Plan.Nodes[n].Ports[p].Name
		if !route.Direct {
			e := f.topology.Endpoints[route.Via[i].Endpoint]
			hop += ">" + f.Plan.PortName(e.Node, e.Port)
		}
		hops = append(hops, hop)
	}
	return strings.Join(hops, " ")
}

// TestRouters_LosePacketsOnlyUntilTheyReroute: routers leave out links that are down, as
// switches do, in one shard as in three: packets are lost only until the tables change.
func TestRouters_LosePacketsOnlyUntilTheyReroute(t *testing.T) {
	p := parse(t, `
duration: 60ms
topology:
  reroute: {after: 5ms}
  kinds: {switch: {address: auto, forwarding: round-robin}}
  generate: {leaf-spine: {spines: 2, leaves: 3, hosts-per-leaf: 1, rate: 1Gbps, delay: 2us}}
events:
  - {at: 10ms, link: "leaf1:spine1", set: {state: down}}
  - {at: 30ms, link: "leaf1:spine1", set: {state: up}}
  - {at: 40ms, link: "h2:eth0", set: {state: down}}
workload:
  - {cbr: {name: there, from: h1, to: h2, rate: 8Mbps, size: 1000B}}
  - {cbr: {name: elsewhere, from: h3, to: h1, rate: 8Mbps, size: 1000B, ip: 6}}
`)
	ms := units.Millisecond
	stops := []units.Time{10*ms - 1, 15*ms - 1, 15 * ms, 35 * ms, 60 * ms}
	both := "spine1>spine1:leaf1 spine2>spine2:leaf1"
	hops := []string{both, both, "spine2>spine2:leaf1", both, ""} // no host behind leaf2 in the end
	var want []any
	for n := 1; n <= 3; n++ {
		f, err := NewWithWorkers(p, n)
		if err != nil {
			t.Fatal(err)
		}
		var got []any
		for i, stop := range stops {
			if err := f.Run(context.Background(), stop); err != nil {
				t.Fatal(err)
			}
			if h := f.hopsTo(t, "leaf1", "10.0.1.2"); h != hops[i] {
				t.Errorf("%d workers, at %v: leaf1 has the next hops %q, want %q", n, stop, h, hops[i])
			}
			got = append(got, outcome(f)...)
			if a := f.Accounts(); !a.Balanced() || a.Drops["link-down"] > 0 != (i > 0) {
				t.Errorf("%d workers, at %v: %+v", n, stop, a)
			}
		}
		// A packet every ms each way. Half of 5 are lost for the spine; then 5 at
		// h2, and then there is no path to it. One may be in flight at the end.
		there, elsewhere := result(t, f, "there"), result(t, f, "elsewhere")
		if there.Lost < 20+2 || there.Lost > 20+3+1 || elsewhere.Lost < 2 || elsewhere.Lost > 3+1 {
			t.Errorf("%d workers: %d and %d lost", n, there.Lost, elsewhere.Lost)
		}
		if a := f.Accounts(); a.Drops["no-route"] < 14 || a.Drops["no-route"] > 15 {
			t.Errorf("%d workers: %v", n, a.Drops)
		}
		if n == 1 {
			want = got
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d workers (-one +%d):\n%s", n, n, diff)
		}
	}
}

// TestRouterStaticRoutes_CarryPacketsByWeight: packets follow static routes, by weight, and
// packets to unknown addresses follow the prefixes; the TTL ends a loop.
func TestRouterStaticRoutes_CarryPacketsByWeight(t *testing.T) {
	f := New(parse(t, fmt.Sprintf(fabrictest.Diamond, "round-robin", `{to: h4, via: [{port: 2, weight: 2}, {port: 4, weight: 1}]}, {to: 10.0.1.0/24, via: 3}, {to: default, via: 2}`, "", "",
		`{cbr: {from: h1, to: h4, rate: 24Mbps, size: 1000B, for: 100ms}}`)))
	hosts := inboxes(f)
	for _, to := range []string{"10.0.1.99", "10.77.0.1", "10.0.1.2"} {
		enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "10.0.0.2", to, 64, 10, true))
	}
	finish(t, f)
	count := func(name string) uint64 { return portNamed(t, f, name).TxPackets }
	if r := f.Results()[0]; r.Sent != 300 || r.Received != 300 || count("r1:2") != 200+1 || count("r1:4") != 100 || count("r1:3") != 2 || count("r3:2") != 2 {
		t.Errorf("%d of %d received; over r2 went %d, over r4 %d, over r3 %d", r.Received, r.Sent, count("r1:2"), count("r1:4"), count("r1:3"))
	}
	var got []string
	for _, b := range hosts[0].got {
		got = append(got, summary(t, b)[36:])
	}
	if diff := cmp.Diff([]string{"10.255.0.2>10.0.0.2 ttl 63 DestinationUnreachable(Net)", "10.255.0.5>10.0.0.2 ttl 62 DestinationUnreachable(Host)"}, got); diff != "" {
		t.Errorf("h1 (-want +got):\n%s", diff)
	}
	if len(hosts[1].got) != 1 {
		t.Errorf("h2 got %d packets", len(hosts[1].got))
	}

	f = New(parse(t, fmt.Sprintf(fabrictest.Diamond, "ecmp", `{to: h2, via: 2}`, `{to: h2, via: 1}`, "", "{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B, for: 5ms}}")))
	finish(t, f)
	if a := f.Accounts(); a.Drops["ttl-expired"] != 5 || a.Delivered != 0 {
		t.Errorf("round in circles: %+v", a)
	}
	// The source's 64 is 63 on the first of the links between them.
	if n := portNamed(t, f, "r1:2").TxPackets + portNamed(t, f, "r2:1").TxPackets; n != 5*63 {
		t.Errorf("%d times round", n)
	}
}

// behindOnePort is the nodes and links of a lab in which r1 reaches r4, and h2 behind
// it, by two routers behind one port. %s is for more settings of r1.
const behindOnePort = `
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    r1: {kind: switch%s}
    r2: {kind: switch}
    r3: {kind: switch}
    r4: {kind: switch}
    s1: {kind: switch, address: none}
  links:
    - {endpoints: ["h1:eth0", "r1:1"]}
    - {endpoints: ["r1:2", "s1:1"]}
    - {endpoints: ["s1:2", "r2:1"]}
    - {endpoints: ["s1:3", "r3:1"]}
    - {endpoints: ["r2:2", "r4:1"]}
    - {endpoints: ["r3:2", "r4:2"]}
    - {endpoints: ["r4:3", "h2:eth0"]}
`

// TestRoundRobin_AlternatesRoutersBehindOnePort: two next routers behind one port take turns
// as two ports would, and so do those of a static route.
func TestRoundRobin_AlternatesRoutersBehindOnePort(t *testing.T) {
	for _, routes := range []string{"", ", routes: [{to: h2, via: 2}]"} {
		f := run(t, parse(t, fmt.Sprintf(`
duration: 200ms
topology:
  kinds: {switch: {address: auto, forwarding: round-robin}, link: {rate: 1Gbps, delay: 1us}}
`+behindOnePort+`
workload: [{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B, for: 100ms}}]
`, routes)))
		if a, b := portNamed(t, f, "r2:2").TxPackets, portNamed(t, f, "r3:2").TxPackets; a != 50 || b != 50 {
			t.Errorf("%q: %d and %d packets, want 50 each", routes, a, b)
		}
	}
}

// TestRouterCaptures_ChangeNoPaths: watching a router does not change what happens, with paths
// of different MTUs chosen for each packet.
func TestRouterCaptures_ChangeNoPaths(t *testing.T) {
	for _, mode := range []string{"random", "round-robin", "{flowlet: {gap: 1us}}", "ecmp"} {
		text := strings.Replace(fmt.Sprintf(fabrictest.Diamond, mode, "", "", "", "{cbr: {from: h1, to: [h2, h3], rate: 80Mbps, size: 1300B, for: 5ms}}"),
			`["r1:3", "r3:1"]`, `["r1:3", "r3:1"], mtu: 1000`, 1) + "addressing: {ipv6: none}\n"
		seen, unseen := New(parse(t, text)), New(parse(t, text))
		for n := range seen.ports {
			for _, p := range seen.ports[n] {
				p.SetObserver(0, observe(func(*packet.Packet) {}))
			}
		}
		finish(t, seen)
		finish(t, unseen)
		if diff := cmp.Diff(outcome(unseen), outcome(seen)); diff != "" {
			t.Errorf("%s: unseen and seen:\n%s", mode, diff)
		}
		if lost := seen.Accounts().Drops["too-big"]; mode != "ecmp" && lost == 0 {
			t.Errorf("%s: nothing was too big", mode)
		}
	}
}

// TestPFC_SpreadsPausesThroughRouters is TestPFC_SpreadsPausesToTheHostsOfItsClass with
// routers. Routers pause with the addresses of their ports.
func TestPFC_SpreadsPausesThroughRouters(t *testing.T) {
	f := New(parse(t, strings.Replace(fmt.Sprintf(victimLab, 26), "    switch:\n", "    switch:\n      address: auto\n", 1)))
	node, index, _ := f.Plan.Endpoint("s2:s3")
	from := map[wire.MAC]int{}
	f.Port(node, index).SetObserver(0, observer(func(p *packet.Packet, dir port.Direction, _ packet.Fate) {
		if dir == port.In {
			_, src := p.MACs()
			from[src]++
		}
	}))
	if err := f.Run(context.Background(), f.Plan.Duration); err != nil {
		t.Fatal(err)
	}
	a := f.Accounts()
	if a.Dropped != 0 || a.Consumed == 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
	for _, port := range []string{"s2:s3", "s1:s2", "a:eth0", "b:eth0"} {
		if c := classNamed(t, portNamed(t, f, port), "lossless"); c.PauseFramesRx == 0 || c.PausedTime < 10*units.Millisecond {
			t.Errorf("%s was paused %d times for %v", port, c.PauseFramesRx, c.PausedTime)
		}
	}
	n, i, _ := f.Plan.Endpoint("s3:s2")
	if mac := f.topology.MAC(plan.End{Node: n, Port: i}); len(from) != 1 || from[mac] == 0 {
		t.Errorf("pause frames of s3 came from %v, not from %v", from, mac)
	}
	if culprit, victim := result(t, f, "culprit"), result(t, f, "victim"); culprit.Goodput < 90e6 || culprit.Goodput > 100e6 || victim.Goodput > 150e6 {
		t.Errorf("the culprit has %.1f Mb/s, the victim %.1f of 300", float64(culprit.Goodput)/1e6, float64(victim.Goodput)/1e6)
	}
}

// returnLab has two routers with a plain switch between them. Where %s reduces
// the rate, packets are trimmed and, because their class for headers is full,
// sent back.
const returnLab = `
duration: 50ms
topology:
  kinds:
    switch:
      address: auto
      classes:
        data: {dscp: [8, 0], priority: 1, limit: 6KB, trim: {preset: ndp, dscp: 10}}
        headers: {dscp: 10, priority: 7, limit: 1600B}
    link: {rate: 1Gbps, delay: 1us}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    r1: {kind: switch}
    r2: {kind: switch}
    s1: {kind: switch, address: none}
  links:
    - {endpoints: ["h1:eth0", "r1:1"]}
    - {endpoints: ["r1:2", "s1:1"]}
    - {endpoints: ["s1:2", "r2:1"]}
    - {endpoints: ["r2:2", "h2:eth0"]}
events: [{at: 0, from: "%s", set: {rate: 10Mbps}}]
workload:
  - {cbr: {from: h1, to: h2, rate: 300Mbps, size: 1000B, dscp: 8, for: 2ms}}
  - {cbr: {from: h1, to: h2, rate: 300Mbps, size: 1000B, dscp: 8, ip: 6, for: 2ms}}
`

// TestReturnedPackets_CrossRoutersToTheirSender: packets trimmed and sent back by a router, or
// by a switch between routers, return to the host that sent them, for programs as for models.
func TestReturnedPackets_CrossRoutersToTheirSender(t *testing.T) {
	for _, c := range []struct {
		at  string
		ttl int // of the packets that h1 gets back
	}{{"r1:2", 63}, {"s1:2", 62}, {"r2:2", 61}} {
		f := New(parse(t, fmt.Sprintf(returnLab, c.at)))
		hosts := inboxes(f)
		n, i, _ := f.Plan.Endpoint("h1:eth0")
		e := &encoder{fabric: f}
		shown := map[string]int{}
		f.Port(n, i).SetObserver(0, observer(func(p *packet.Packet, dir port.Direction, _ packet.Fate) {
			if dir == port.In && p.Kind != packet.Real {
				shown[summary(t, e.frame(p))]++
			}
		}))
		if err := f.Run(context.Background(), 500*units.Microsecond); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "10.0.0.2", "10.0.1.2", 64, 1000, true))
			enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "fd00::2", "fd00::1:2", 64, 1000, true))
		}
		finish(t, f)
		a := f.Accounts()
		if a.Returned == 0 || a.Dropped != 0 {
			t.Errorf("%s: %+v", c.at, a)
		}
		var back uint64
		for _, r := range f.Results() {
			if r.Returned == 0 || r.Sent != r.Received+r.Trimmed+r.Returned {
				t.Errorf("%s: %+v", c.at, r)
			}
			back += r.Returned
		}
		// A router turns a packet round after taking its 1 from the TTL.
		const macs = "02:00:00:00:00:03>02:00:00:00:00:01 "
		models := map[string]int{macs + fmt.Sprintf("10.0.1.2>10.0.0.2 ttl %d udp", c.ttl): 1, macs + fmt.Sprintf("fd00::1:2>fd00::2 hops %d udp", c.ttl): 1}
		if len(shown) != 2 {
			t.Errorf("%s: of the flows comes back %v", c.at, shown)
		}
		for line := range models {
			if shown[line] == 0 {
				t.Errorf("%s: %q does not come back, but %v", c.at, line, shown)
			}
		}
		seen := map[string]bool{}
		for _, b := range hosts[0].got {
			seen[summary(t, b)] = true
			back++
		}
		for line := range models {
			// The rest of a datagram of IPv4 is not a whole packet, so its
			// layers may end at IP.
			if line = strings.TrimSuffix(line, " udp"); !seen[line] && !seen[line+" udp"] || len(seen) != 2 {
				t.Errorf("%s: h1 gets %v back, want %q", c.at, seen, line)
			}
		}
		if back != a.Returned {
			t.Errorf("%s: %d came back of %d", c.at, back, a.Returned)
		}
		if len(hosts[0].got)+len(hosts[1].got) != 40 {
			t.Errorf("%s: %d datagrams came back and %d arrived", c.at, len(hosts[0].got), len(hosts[1].got))
		}
	}
}

// TestRouterPackets_HaveTheClassOfTheirDSCP: packets that a router generates are in the class
// of their DSCP and count as its own in the buffer.
func TestRouterPackets_HaveTheClassOfTheirDSCP(t *testing.T) {
	f := New(parse(t, strings.Replace(fmt.Sprintf(returnLab, "r2:2"), "data: {dscp: [8, 0]", "control: {dscp: 48, priority: 6}\n        data: {dscp: [8, 0]", 1)))
	hosts := inboxes(f)
	for range 3 {
		enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "10.0.0.2", "10.0.1.2", 1, 10, true))
		enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "fd00::2", "fd00::1:2", 2, 10, true))
	}
	finish(t, f)
	if len(hosts[0].got) != 6 {
		t.Errorf("h1 got %d answers", len(hosts[0].got))
	}
	// Linux sends ICMP errors with precedence internetwork control, those of
	// IPv6 without.
	if n := classNamed(t, portNamed(t, f, "r1:1"), "control").TxPackets; n != 3 {
		t.Errorf("%d in the class of control", n)
	}
}
