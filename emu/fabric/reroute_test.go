package fabric

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// toHost returns the ports of a switch that lead to a host, by name.
func (f *Fabric) toHost(t testing.TB, sw, host string) string {
	t.Helper()
	n, _ := f.Plan.Node(sw)
	h, ok := f.Plan.Node(host)
	if !ok {
		t.Fatalf("no host %s", host)
	}
	table := f.Switches[n].Table()
	var names []string
	for _, p := range table.Groups[table.Route[f.interfaces[h][0].ID]] {
		names = append(names, f.Plan.Nodes[n].Ports[p].Name)
	}
	return strings.Join(names, " ")
}

// inTree returns the ports of a switch that are in the broadcast tree.
func (f *Fabric) inTree(sw string) string {
	n, _ := f.Plan.Node(sw)
	var names []string
	for i, in := range f.Switches[n].Table().Tree {
		if in {
			names = append(names, f.Plan.Nodes[n].Ports[i].Name)
		}
	}
	return strings.Join(names, " ")
}

func (f *Fabric) advance(t rapid.TB, until units.Time) {
	t.Helper()
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
}

// linkAt returns the number of the link at a port.
func (f *Fabric) linkAt(t testing.TB, port string) int {
	t.Helper()
	node, index, err := f.Plan.Endpoint(port)
	if err != nil {
		t.Fatal(err)
	}
	return f.Plan.Nodes[node].Ports[index].Link
}

// change sets the state of a link in both directions, as weft set does.
func (f *Fabric) change(t testing.TB, port string, state links.State) {
	t.Helper()
	if err := f.Set(f.linkAt(t, port), [2]bool{true, true}, change.LinkPatch{State: &state}); err != nil {
		t.Fatal(err)
	}
}

// TestReroute_ChangesTablesAfterTheDelay follows tables through events of the file: a delay
// after each change, and not before, they are the tables for the links that are up.
func TestReroute_ChangesTablesAfterTheDelay(t *testing.T) {
	f := New(parse(t, `
duration: 1s
topology:
  reroute: {after: 5ms}
  generate: {leaf-spine: {spines: 2, leaves: 3, hosts-per-leaf: 1, rate: 1Gbps, delay: 1us}}
  links: []
events:
  - {at: 10ms, link: "leaf1:spine1", set: {state: down}}
  - {at: 12ms, from: "leaf3:spine2", set: {state: down}} # one direction is enough
  - {at: 20ms, link: "leaf1:spine1", set: {state: up}}
  - {at: 22ms, link: "leaf1:spine1", set: {state: down}}
  - {at: 23ms, link: "leaf1:spine1", set: {state: up}}
  - {at: 30ms, from: "leaf3:spine2", set: {state: up}}
  - {at: 40ms, link: "h3:eth0", set: {state: down}}
`))
	type tables struct{ leaf1h2, leaf2h1, leaf2h3, leaf1h3, spine1h1, tree string }
	look := func() tables {
		return tables{f.toHost(t, "leaf1", "h2"), f.toHost(t, "leaf2", "h1"), f.toHost(t, "leaf2", "h3"), f.toHost(t, "leaf1", "h3"), f.toHost(t, "spine1", "h1"), f.inTree("leaf1")}
	}
	both := "spine1 spine2"
	all := tables{both, both, both, both, "leaf1", "h1 spine1"}
	cut := tables{"spine2", "spine2", both, "spine2", "leaf2 leaf3", "h1 spine2"}
	// leaf1 has only spine2 and leaf3 only spine1: leaf2 joins them.
	split := tables{"spine2", "spine2", "spine1", "spine2", "leaf2", "h1 spine2"}
	half := tables{both, both, "spine1", "spine1", "leaf1", "h1 spine1"}
	gone := all
	gone.leaf2h3, gone.leaf1h3 = "", ""
	for _, c := range []struct {
		at   units.Time
		want tables
	}{
		{0, all}, {15*units.Millisecond - 1, all}, {15 * units.Millisecond, cut}, {17*units.Millisecond - 1, cut}, {17 * units.Millisecond, split},
		{25*units.Millisecond - 1, split}, {25 * units.Millisecond, half}, // up at 20
		{27 * units.Millisecond, split}, {28 * units.Millisecond, half}, // a flap shorter than the delay
		{35*units.Millisecond - 1, half}, {35 * units.Millisecond, all}, {45*units.Millisecond - 1, all}, {45 * units.Millisecond, gone},
	} {
		f.advance(t, c.at)
		if diff := cmp.Diff(c.want, look(), cmp.AllowUnexported(tables{})); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", c.at, diff)
		}
	}
}

// TestReroute_ComputesSimultaneousChangesOnce: changes that are due at one time and leave the
// links as they were trigger no computation.
func TestReroute_ComputesSimultaneousChangesOnce(t *testing.T) {
	f := New(parse(t, "topology: {reroute: {after: 1ms}, generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1}}}\n"))
	n, _ := f.Plan.Node("leaf1")
	before := f.Switches[n].Table().Route
	f.change(t, "leaf1:spine1", links.Down)
	f.change(t, "leaf1:spine1", links.Up)
	f.advance(t, units.Second)
	if after := f.Switches[n].Table().Route; &before[0] != &after[0] {
		t.Error("tables were computed for nothing")
	}
	f.change(t, "leaf1:spine1", links.Down)
	f.change(t, "leaf2:spine1", links.Down)
	events := f.Events()
	f.advance(t, 2*units.Second)
	if f.Events() != events+1 {
		t.Errorf("%d events for two changes at one time, want 1", f.Events()-events)
	}
	if got := f.toHost(t, "leaf1", "h2") + f.toHost(t, "spine1", "h1"); got != "spine2" {
		t.Errorf("ways %q, want spine2 and none at spine1", got)
	}
}

// TestReroute_FollowsLinksAtOnceOrNever: without reroute tables ignore the state of links;
// with it they follow it from the start, and at once with a delay of 0.
func TestReroute_FollowsLinksAtOnceOrNever(t *testing.T) {
	const lab = `
topology:
  reroute: %s
  kinds: {link: {delay: 1us}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s2:1"]}
    - {endpoints: ["s1:a", "s2:a"]}
    - {endpoints: ["s1:b", "s2:b"], state: down}
`
	for reroute, want := range map[string][]string{"never": {"a b", "a b"}, "{after: 0}": {"a", ""}} {
		f := New(parse(t, fmt.Sprintf(lab, reroute)))
		got := []string{f.toHost(t, "s1", "h2")}
		f.change(t, "s1:a", links.Down)
		f.advance(t, 0)
		if got = append(got, f.toHost(t, "s1", "h2")); !cmp.Equal(got, want) {
			t.Errorf("reroute: %s: ways %q, want %q", reroute, got, want)
		}
	}
}

// TestFailedEvent_StillChangesTheLinksState: an event whose settings can no longer all be made
// still changes the state, as every shard believes.
func TestFailedEvent_StillChangesTheLinksState(t *testing.T) {
	for n := 1; n <= 2; n++ {
		f, err := NewWithWorkers(parse(t, `
topology:
  reroute: {after: 1ms}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1, delay: 1us, jitter: 1us}}
events:
  - {at: 10ms, link: "leaf1:spine2", set: {state: down, jitter-distribution: normal}}
`), n)
		if err != nil {
			t.Fatal(err)
		}
		var failed atomic.Int32
		f.Failed = func(error) { failed.Add(1) }
		f.advance(t, units.Millisecond)
		link, none := f.linkAt(t, "leaf1:spine2"), units.Time(0)
		if err := f.Set(link, [2]bool{true, true}, change.LinkPatch{Jitter: &none}); err != nil {
			t.Fatal(err)
		}
		f.advance(t, 20*units.Millisecond)
		if f.Links[link][0].Settings().Up || f.Links[link][1].Settings().Up || failed.Load() != 2 || f.toHost(t, "leaf1", "h2") != "spine1" {
			t.Errorf("%d workers: %d directions failed, ways %q", n, failed.Load(), f.toHost(t, "leaf1", "h2"))
		}
	}
}

// TestBroadcast_ReachesEveryHostOnceAfterReroute: a broadcast reaches every host exactly once
// over the remaining tree.
func TestBroadcast_ReachesEveryHostOnceAfterReroute(t *testing.T) {
	f := New(parse(t, "topology: {reroute: {after: 1ms}, generate: {fat-tree: {k: 4}}}\n"))
	for _, cut := range []string{"edge1:agg1", "agg3:core1", "core2:agg1", "edge8:agg8"} {
		f.change(t, cut, links.Down)
	}
	f.advance(t, units.Second)
	f.broadcast(t)
}

// TestReroute_LosesPacketsOnlyUntilTablesChange: flows of both IP versions lose what is sent
// on a dead link until the switches know, and nothing after; without another path everything
// is lost as no-route.
func TestReroute_LosesPacketsOnlyUntilTablesChange(t *testing.T) {
	f := New(parse(t, `
duration: 100ms
topology:
  reroute: {after: 10ms}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 8, rate: 1Gbps, delay: 1us}}
events:
  - {at: 20ms, link: "leaf1:spine1", set: {state: down}}
  - {at: 60ms, link: "leaf1:spine2", set: {state: down}}
workload:
  - {cbr: {from: [h1, h2, h3, h4], to: [h9, h10, h11, h12], rate: 8Mbps, size: 1000B}}
  - {cbr: {from: [h5, h6, h7, h8], to: [h13, h14, h15, h16], rate: 8Mbps, size: 1000B, ip: 6}}
`))
	drops := func(until units.Time) map[string]uint64 {
		f.advance(t, until)
		a := f.Accounts()
		if !a.Balanced() {
			t.Errorf("at %v: %+v", until, a)
		}
		return a.Drops
	}
	ms := units.Millisecond
	if d := drops(20*ms - 1); len(d) != 0 {
		t.Errorf("before the failure: %v", d)
	}
	lost := drops(30*ms + ms)["link-down"]
	// 32 flows of a packet per ms, about half of them over spine1.
	if lost < 80 || lost > 240 {
		t.Errorf("%d lost in 10 ms, want some 160", lost)
	}
	if d := drops(60*ms - 1); d["link-down"] != lost || len(d) != 1 {
		t.Errorf("with a way over spine2: %v, want no more than %d", d, lost)
	}
	lost += 320
	if d := drops(71 * ms); d["link-down"] > lost+32 || d["link-down"]+32 < lost {
		t.Errorf("without a way: %v, want some %d for the link", d, lost)
	}
	lost = drops(71 * ms)["link-down"]
	if d := drops(100 * ms); d["link-down"] != lost || d["no-route"] < 28*32 {
		t.Errorf("in the end: %v, want %d for the link and 29 ms of 32 flows without a route", d, lost)
	}
}

// TestECMP_KeepsOrderWhenLinksFail: over paths of one length, with queues that stay short, a
// flow's packets arrive in order, and none twice, whichever links fail.
func TestECMP_KeepsOrderWhenLinksFail(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spines, leaves := rapid.IntRange(2, 4).Draw(rt, "spines"), rapid.IntRange(2, 3).Draw(rt, "leaves")
		var events strings.Builder
		for range rapid.IntRange(1, 5).Draw(rt, "failures") {
			fmt.Fprintf(&events, "  - {at: %dus, link: \"leaf%d:spine%d\", set: {state: down}}\n", rapid.IntRange(0, 8000).Draw(rt, "at"),
				rapid.IntRange(1, leaves).Draw(rt, "leaf"), rapid.IntRange(1, spines).Draw(rt, "spine"))
		}
		f := New(parse(t, fmt.Sprintf(`
seed: %d
duration: 10ms
topology:
  reroute: {after: %dus}
  generate: {leaf-spine: {spines: %d, leaves: %d, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}
events:
%sworkload:
  - {poisson: {from: [h1, h2], to: [h3, h4], rate: 20Mbps, size: 1000B}}
  - {poisson: {from: [h4, h3], to: [h2, h1], rate: 20Mbps, size: 1000B, ip: 6}}
`, rapid.IntRange(1, 1000).Draw(rt, "seed"), rapid.IntRange(50, 3000).Draw(rt, "after"), spines, leaves, events.String())))
		f.advance(rt, f.Plan.Duration)
		for _, r := range f.Results() {
			if r.Reordered > 0 || r.Duplicated > 0 {
				rt.Errorf("%s: %d reordered, %d duplicated of %d", r.Flow, r.Reordered, r.Duplicated, r.Received)
			}
		}
		if a := f.Accounts(); !a.Balanced() {
			rt.Errorf("%+v", a)
		}
	})
}

// TestRoutingLoop_DropsPacketsAndAccountsForThem: packets in a routing loop are dropped, and
// the accounts say so.
func TestRoutingLoop_DropsPacketsAndAccountsForThem(t *testing.T) {
	f := run(t, parse(t, `
duration: 10ms
topology:
  kinds: {link: {rate: 10Gbps, delay: 1us}}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    s1: {kind: switch, routes: [{to: h2, via: 2}]}
    s2: {kind: switch, routes: [{to: h2, via: 3}]}
    s3: {kind: switch, routes: [{to: h2, via: 1}]}
  links:
    - {endpoints: ["h1:eth0", "s1:h"]}
    - {endpoints: ["h2:eth0", "s2:h"]}
    - {endpoints: ["s1:2", "s2:1"]}
    - {endpoints: ["s2:3", "s3:2"]}
    - {endpoints: ["s3:1", "s1:3"]}
workload: [{cbr: {from: h1, to: h2, rate: 8Mbps, size: 1000B, for: 5ms}}]
`))
	a := f.Accounts()
	if a.Entered != 5 || a.Drops["looped"] != 5 || a.Held != 0 || !a.Balanced() {
		t.Errorf("%+v", a)
	}
	s1, _ := f.Plan.Node("s1")
	if tx := f.PortStatus(s1, 1).TxPackets; tx != 5*22 { // 64 hops, the first and the last of them here
		t.Errorf("s1 sent %d packets on, want 110", tx)
	}
}

// TestUnsendableSwitchPackets_AreAccountedFor: packets that a switch generates and cannot send
// are in the accounts.
func TestUnsendableSwitchPackets_AreAccountedFor(t *testing.T) {
	f := New(parse(t, "topology: {generate: {star: {hosts: 2}}, nodes: {h3: {kind: host}}}\n"))
	s1, _ := f.Plan.Node("s1")
	for _, to := range []packet.Endpoint{0, 2} {
		p := f.Shards[0].Pool.New()
		p.Dest, p.Size, p.Kind = to, 100, packet.Real
		f.Switches[s1].OriginatePacket(0, p)
	}
	f.advance(t, units.Second)
	a := f.Accounts()
	want := status.Accounts{Originated: 2, Dropped: 2, Drops: map[string]uint64{"no-route": 1, "no-receiver": 1}}
	if diff := cmp.Diff(want, a); diff != "" || !a.Balanced() {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}
