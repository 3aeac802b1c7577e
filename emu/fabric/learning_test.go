package fabric

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links"
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// Addresses that no lab file here has.
const (
	macA wire.MAC = 0x00005e000101 // a virtual router's (RFC 9568 §7.3)
	macB wire.MAC = 0x0a0000000b0b
)

// bridged is a fabric whose hosts send frames with any Ethernet addresses.
type bridged struct {
	*Fabric
	t     testing.TB
	boxes []*inbox
}

func newBridged(t testing.TB, text string) *bridged {
	t.Helper()
	return bridge(t, New(parse(t, text)))
}

func bridge(t testing.TB, f *Fabric) *bridged { return &bridged{f, t, inboxes(f)} }

// mac returns the address that the lab file gives to the first interface of a host.
func (b *bridged) mac(host string) wire.MAC { return b.at(host).MAC }

func (b *bridged) at(name string) *hosts.Interface {
	if !strings.Contains(name, ":") {
		name += ":eth0"
	}
	n, i, err := b.Plan.Endpoint(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.interfaces[n][i]
}

// frame returns a frame without IP; vlan 0 means no tag.
func etherFrame(dst, src wire.MAC, vlan uint16) []byte {
	f := make([]byte, 60)
	dst.EncodeTo(f)
	src.EncodeTo(f[wire.MACLen:])
	if at := 12; vlan > 0 {
		binary.BigEndian.PutUint16(f[at:], wire.EtherTypeVLAN)
		binary.BigEndian.PutUint16(f[at+2:], 3<<13|vlan)
		binary.BigEndian.PutUint16(f[at+4:], 0x88b5)
	} else {
		binary.BigEndian.PutUint16(f[at:], 0x88b5) // for experiments
	}
	return f
}

// send sends a frame, runs until nothing is left, and returns the hosts that got it.
func (b *bridged) send(from string, dst, src wire.MAC) string { return b.sendIn(0, from, dst, src) }

// sendIn is send in a VLAN.
func (b *bridged) sendIn(vlan uint16, from string, dst, src wire.MAC) string {
	b.t.Helper()
	return b.sendFrame(from, etherFrame(dst, src, vlan))
}

func (b *bridged) sendFrame(from string, frame []byte) string {
	b.t.Helper()
	for _, box := range b.boxes {
		box.got = nil
	}
	enter(b.at(from), frame)
	finish(b.t, b.Fabric)
	return b.arrived()
}

// arrived returns the interfaces that got frames, with "*2" for two of them.
func (b *bridged) arrived() string {
	var names []string
	for i, box := range b.boxes {
		if len(box.got) > 0 {
			name := strings.TrimSuffix(b.Interfaces[i].Port.Name, ":eth0")
			if len(box.got) > 1 {
				name += fmt.Sprint("*", len(box.got))
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (b *bridged) expect(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: arrives at %q, want %q", what, got, want)
	}
}

// counts returns the counts of a switch.
func (b *bridged) counts(sw string) status.Switch {
	n, _ := b.Plan.Node(sw)
	s := b.SwitchStatusOf(n)
	s.Name, s.Limit = "", 0
	return s
}

func (b *bridged) expectCounts(sw string, want status.Switch) {
	b.t.Helper()
	if got := b.counts(sw); got != want {
		b.t.Errorf("%s counts %+v, want %+v", sw, got, want)
	}
}

// pass lets time pass.
func (b *bridged) pass(d units.Time) {
	b.t.Helper()
	runTo(b.t, b.Fabric, b.Now()+d)
}

const fourHosts = "topology: {generate: {star: {hosts: 4}}}\n"

// TestLearning_FloodsUntilTheAddressHasSent: a frame to an address that is not in the file goes to
// all until that address has sent one; then only to its interface.
func TestLearning_FloodsUntilTheAddressHasSent(t *testing.T) {
	b := newBridged(t, fourHosts)
	b.expect("to an unknown address", b.send("h1", macA, b.mac("h1")), "h2 h3 h4")
	b.expect("from it", b.send("h3", b.mac("h1"), macA), "h1")
	b.expect("to it", b.send("h1", macA, b.mac("h1")), "h3")
	b.expect("from another unknown one to it", b.send("h4", macA, macB), "h3")
	b.expect("back", b.send("h3", macB, macA), "h4")
	b.expect("between hosts of the file", b.send("h1", b.mac("h2"), b.mac("h1")), "h2")
	b.expectCounts("s1", status.Switch{Entries: 2, Learned: 2, Unknown: 1})
}

// TestLearning_FollowsAnAddressThatMoves, as that of a virtual router.
func TestLearning_FollowsAnAddressThatMoves(t *testing.T) {
	b := newBridged(t, fourHosts)
	b.expect("announced by h1", b.send("h1", wire.Broadcast, macA), "h2 h3 h4")
	b.expect("to it", b.send("h3", macA, b.mac("h3")), "h1")
	b.expect("announced by h2", b.send("h2", wire.Broadcast, macA), "h1 h3 h4")
	b.expect("to it", b.send("h3", macA, b.mac("h3")), "h2")
	b.expectCounts("s1", status.Switch{Entries: 1, Learned: 1, Moved: 1})
}

// TestLearning_FollowsAnAddressOfTheFile: frames to a host follow its address to another
// interface, as that of a bond, and come back when the host itself sends again.
func TestLearning_FollowsAnAddressOfTheFile(t *testing.T) {
	b := newBridged(t, fourHosts)
	h1 := b.mac("h1")
	b.expect("before", b.send("h3", h1, b.mac("h3")), "h1")
	b.expect("announced by h2", b.send("h2", wire.Broadcast, h1), "h1 h3 h4")
	b.expect("to it", b.send("h3", h1, b.mac("h3")), "h2")
	b.expect("in a VLAN", b.sendIn(7, "h3", h1, b.mac("h3")), "h1")
	b.expect("from h1 to another", b.send("h1", b.mac("h4"), h1), "h4")
	b.expect("to it, back", b.send("h3", h1, b.mac("h3")), "h1")
	b.expectCounts("s1", status.Switch{Learned: 1, Moved: 2})
}

// TestLearning_ModelledTrafficFollowsAnAddressOfTheFile: packets without wire bytes go where the
// address of their destination is, too.
func TestLearning_ModelledTrafficFollowsAnAddressOfTheFile(t *testing.T) {
	b := newBridged(t, fourHosts+"workload:\n  - {cbr: {from: h3, to: h1, rate: 1Mbps, size: 1000B, for: 80ms}}\n")
	runTo(t, b.Fabric, 40*units.Millisecond)
	early := b.at("h1").Delivered
	enter(b.at("h2"), etherFrame(wire.Broadcast, b.mac("h1"), 0))
	runTo(t, b.Fabric, 41*units.Millisecond)
	before1, before2 := b.at("h1").Delivered, b.at("h2").Delivered
	finish(t, b.Fabric)
	if got1, got2 := b.at("h1").Delivered-before1, b.at("h2").Delivered-before2; early != 6 || got1 != 0 || got2 != 4 {
		t.Errorf("h1 got %d packets before and %d after the move, h2 %d", early, got1, got2)
	}
}

// TestLearning_HostWithAnotherAddress: a host that changes its address is found at the new one;
// frames to the old one still go to its port.
func TestLearning_HostWithAnotherAddress(t *testing.T) {
	b := newBridged(t, fourHosts)
	b.expect("announced", b.send("h1", wire.Broadcast, macB), "h2 h3 h4")
	b.expect("to the new address", b.send("h2", macB, b.mac("h2")), "h1")
	b.expect("to the old address", b.send("h2", b.mac("h1"), b.mac("h2")), "h1")
}

// TestLearning_VLANsHaveTheirOwnPlaces: one address may be at two ports in two VLANs. A tag that
// carries only a priority means no VLAN.
func TestLearning_VLANsHaveTheirOwnPlaces(t *testing.T) {
	b := newBridged(t, fourHosts)
	b.sendIn(10, "h1", wire.Broadcast, macA)
	b.sendIn(20, "h2", wire.Broadcast, macA)
	b.expect("in VLAN 10", b.sendIn(10, "h3", macA, b.mac("h3")), "h1")
	b.expect("in VLAN 20", b.sendIn(20, "h3", macA, b.mac("h3")), "h2")
	b.expect("in VLAN 30", b.sendIn(30, "h3", macA, b.mac("h3")), "h1 h2 h4")
	b.expect("without a tag", b.send("h3", macA, b.mac("h3")), "h1 h2 h4")
	b.send("h4", wire.Broadcast, macA)
	priority := etherFrame(macA, b.mac("h3"), 1)
	priority[15] = 0 // VLAN 0
	b.expect("with a priority", b.sendFrame("h3", priority), "h4")
	b.expectCounts("s1", status.Switch{Entries: 3, Learned: 3, Unknown: 2})
}

// TestLearning_FullTableFloods: what does not fit into the table is flooded and counted.
func TestLearning_FullTableFloods(t *testing.T) {
	b := newBridged(t, "topology: {kinds: {switch: {learning: {size: 1}}}, generate: {star: {hosts: 4}}}\n")
	b.send("h1", wire.Broadcast, macA)
	b.send("h2", wire.Broadcast, macB)
	b.expect("to what is in the table", b.send("h3", macA, b.mac("h3")), "h1")
	b.expect("to what is not", b.send("h3", macB, b.mac("h3")), "h1 h2 h4")
	b.expect("to a host of the file", b.send("h3", b.mac("h2"), b.mac("h3")), "h2")
	b.expectCounts("s1", status.Switch{Entries: 1, Learned: 1, Full: 1, Unknown: 1})
}

// TestLearning_EntriesAge: an address that does not send is forgotten after the age, and one that
// does is not. A host of the file is never forgotten, wherever it is.
func TestLearning_EntriesAge(t *testing.T) {
	b := newBridged(t, `
topology: {kinds: {switch: {learning: {age: 10ms}}}, generate: {star: {hosts: 4}}}
workload:
  - {cbr: {from: h4, to: h3, rate: 1Mbps, size: 100B, for: 1s}} # so that time passes
`)
	say := func(from string, src wire.MAC) { enter(b.at(from), etherFrame(wire.Broadcast, src, 0)) }
	ask := func(want string, dst wire.MAC) {
		t.Helper()
		b.pass(units.Microsecond)
		for _, box := range b.boxes {
			box.got = nil
		}
		enter(b.at("h4"), etherFrame(dst, b.mac("h4"), 0))
		b.pass(units.Microsecond)
		b.expect(fmt.Sprintf("to %x at %v", dst, b.Now()), b.arrived(), want)
	}
	say("h1", macA)
	say("h1", macB)
	say("h2", b.mac("h1"))
	ask("h1", macA)
	ask("h2", b.mac("h1"))
	b.pass(6 * units.Millisecond)
	say("h1", macB)
	b.pass(6 * units.Millisecond)
	ask("h1 h2 h3", macA)
	ask("h1", macB)
	ask("h1", b.mac("h1"))
	b.pass(6 * units.Millisecond)
	ask("h1 h2 h3", macB)
	b.expectCounts("s1", status.Switch{Learned: 3, Moved: 1, Aged: 3, Unknown: 2})
}

// TestLearning_LinkDownForgets what is behind the link, and nothing else.
func TestLearning_LinkDownForgets(t *testing.T) {
	down := links.State(false)
	set := func(b *bridged, port string, dir [2]bool) {
		t.Helper()
		n, i, _ := b.Plan.Endpoint(port)
		if err := b.Set(b.Plan.Nodes[n].Ports[i].Link, dir, change.LinkPatch{State: &down}); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range [][2]bool{{true, true}, {true, false}, {false, true}} {
		b := newBridged(t, "topology: {generate: {dumbbell: {left: 2, right: 2}}}\n")
		b.send("h1", wire.Broadcast, macA)
		b.send("h2", wire.Broadcast, macB)
		set(b, "s1:h1", dir)
		b.expectCounts("s1", status.Switch{Entries: 1, Learned: 2, Flushed: 1})
		b.expectCounts("s2", status.Switch{Entries: 2, Learned: 2})
		set(b, "s1:s2", dir)
		b.expectCounts("s1", status.Switch{Entries: 1, Learned: 2, Flushed: 1})
		b.expectCounts("s2", status.Switch{Learned: 2, Flushed: 2})
	}
	// With another path, the addresses stay.
	b := newBridged(t, "topology: {generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1}}}\n")
	b.send("h1", wire.Broadcast, macA)
	set(b, "leaf2:spine1", [2]bool{true, true})
	b.expectCounts("leaf2", status.Switch{Entries: 1, Learned: 1})
}

// TestLearning_EventsOfTheFileForgetToo, with any number of workers.
func TestLearning_EventsOfTheFileForgetToo(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		f, err := NewWithWorkers(parse(t, `
topology: {kinds: {link: {rate: 1Gbps, delay: 10us}}, generate: {dumbbell: {left: 2, right: 2}}}
events:
  - {at: 1ms, link: "s1:h1", set: {state: down}}
  - {at: 2ms, link: "s1:h1", set: {state: up}}
`), workers)
		if err != nil {
			t.Fatal(err)
		}
		b := bridge(t, f)
		enter(b.at("h1"), etherFrame(wire.Broadcast, macA, 0))
		enter(b.at("h2"), etherFrame(wire.Broadcast, macB, 0))
		finish(t, f)
		b.expectCounts("s1", status.Switch{Entries: 1, Learned: 2, Flushed: 1})
		b.expectCounts("s2", status.Switch{Entries: 2, Learned: 2})
	}
}

// TestSwitch_FiltersReservedGroups: frames of spanning trees, LACP and LLDP end at the switch and
// are counted, whether it learns or not; other groups next to them do not.
func TestSwitch_FiltersReservedGroups(t *testing.T) {
	for _, learning := range []string{"on", "off"} {
		b := newBridged(t, "topology: {kinds: {switch: {learning: "+learning+"}}, generate: {star: {hosts: 3}}}\n")
		const first wire.MAC = 0x0180c2000000
		for last := range wire.MAC(16) {
			b.expect("reserved", b.send("h1", first|last, b.mac("h1")), "")
			b.expect("reserved, in a VLAN", b.sendIn(5, "h1", first|last, macA), "")
		}
		b.expect("the next group", b.send("h1", first+16, b.mac("h1")), "h2 h3")
		b.expect("another group", b.send("h1", 0x0180c2000100, b.mac("h1")), "h2 h3")
		if got := b.Accounts().Drops; !cmp.Equal(got, map[string]uint64{"filtered": 32}) {
			t.Errorf("drops %v", got)
		}
		n, i, _ := b.Plan.Endpoint("s1:h1")
		if got := b.PortStatus(n, i).Drops["filtered"]; got != 32 {
			t.Errorf("%d filtered at s1:h1", got)
		}
	}
}

// TestLink_DeliversReservedGroups: without a switch in between, a neighbour gets them.
func TestLink_DeliversReservedGroups(t *testing.T) {
	b := newBridged(t, "topology: {nodes: {h1: {kind: host}, h2: {kind: host}}, links: [{endpoints: [\"h1:eth0\", \"h2:eth0\"]}]}\n")
	b.expect("LLDP", b.send("h1", 0x0180c200000e, b.mac("h1")), "h2")
	b.expect("to an unknown address", b.send("h1", macA, b.mac("h1")), "h2")
	b.expect("from one", b.send("h1", b.mac("h2"), macA), "h2")
}

// TestLearning_SamePortIsFiltered: a frame between two addresses behind one interface goes nowhere.
func TestLearning_SamePortIsFiltered(t *testing.T) {
	b := newBridged(t, fourHosts)
	b.send("h1", wire.Broadcast, macA)
	b.expect("to its neighbour", b.send("h1", macA, macB), "")
	b.expect("to its host", b.send("h1", b.mac("h1"), macB), "")
	b.expect("to itself", b.send("h2", 0x0a00000000cc, 0x0a00000000cc), "")
	if got := b.Accounts().Drops; !cmp.Equal(got, map[string]uint64{"filtered": 3}) {
		t.Errorf("drops %v", got)
	}
}

// TestLearning_GroupsAndZeroAreNoSources.
func TestLearning_GroupsAndZeroAreNoSources(t *testing.T) {
	b := newBridged(t, fourHosts)
	for _, src := range []wire.MAC{0, wire.Broadcast, 0x01005e000001} {
		b.expect("a frame with a bad source", b.send("h1", wire.Broadcast, src), "h2 h3 h4")
	}
	b.expectCounts("s1", status.Switch{})
}

// TestLearning_Off: a switch that does not learn forwards frames to unknown addresses by their IP
// address, as long as that is one of the file.
func TestLearning_Off(t *testing.T) {
	b := newBridged(t, "topology: {kinds: {switch: {learning: off}}, generate: {star: {hosts: 4}}}\n")
	ip := func(to string) []byte {
		h := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: addressOf(b.at("h1"), false).AsSlice(), DstIP: addressOf(b.at(to), false).AsSlice()}
		frame := frameOf(t, b.at("h1"), h, gopacket.Payload(make([]byte, 40)))
		macA.EncodeTo(frame)
		return frame
	}
	b.expect("to an address of the file", b.sendFrame("h1", ip("h3")), "h3")
	b.send("h2", wire.Broadcast, macA)
	b.expect("after the Ethernet address has sent", b.sendFrame("h1", ip("h3")), "h3")
	b.expect("without IP", b.send("h1", macA, b.mac("h1")), "h2 h3 h4")
	b.expectCounts("s1", status.Switch{Unknown: 1})

	learns := newBridged(t, fourHosts)
	learns.expect("a switch that learns", learns.sendFrame("h1", ip("h3")), "h2 h3 h4")
}

// TestLearning_OneSwitchKnowsAnotherDoesNot: each switch has its own table. One that knows the
// address sends a flooded frame to its place only.
func TestLearning_OneSwitchKnowsAnotherDoesNot(t *testing.T) {
	b := newBridged(t, "topology: {generate: {dumbbell: {left: 2, right: 3}}}\n")
	b.expect("between two hosts at s2", b.send("h4", b.mac("h3"), macA), "h3")
	b.expectCounts("s1", status.Switch{})
	b.expect("from s1", b.send("h1", macA, b.mac("h1")), "h2 h4")
	b.expectCounts("s1", status.Switch{Unknown: 1})
	b.expectCounts("s2", status.Switch{Entries: 1, Learned: 1})
	// s2 filters a flooded frame to an address that is where it came from.
	b.expect("behind s1, as s2 knows", b.send("h1", b.mac("h3"), macB), "h3")
	n, i, _ := b.Plan.Endpoint("s1:h1")
	down := links.State(false)
	if err := b.Set(b.Plan.Nodes[n].Ports[i].Link, [2]bool{true, true}, change.LinkPatch{State: &down}); err != nil {
		t.Fatal(err)
	}
	b.expect("from h2", b.send("h2", macB, b.mac("h2")), "")
}

// TestLearning_StaleSwitchIsCorrectedOnTheWay: a frame to an address that has moved, as far as the
// second switch has heard, is sent on from there.
func TestLearning_StaleSwitchIsCorrectedOnTheWay(t *testing.T) {
	b := newBridged(t, "topology: {generate: {parking-lot: {hops: 3}}}\n")
	// h1 h3 at s1, h4 h5 at s2, h6 h7 at s3, h2 h8 at s4
	b.send("h4", wire.Broadcast, macA)
	b.expect("to h4", b.send("h1", macA, b.mac("h1")), "h4")
	b.send("h6", b.mac("h5"), macA) // s3 and s2 hear that it has moved
	b.expect("to h6", b.send("h1", macA, b.mac("h1")), "h6")
	b.send("h7", b.mac("h6"), b.mac("h1")) // an address of the file has moved, as s3 has heard
	b.expect("to the new place", b.send("h2", b.mac("h1"), b.mac("h2")), "h7")
	b.expect("to the old place", b.send("h4", b.mac("h1"), b.mac("h4")), "h1")
}

// TestLearning_HostThatBridges: the two sides of a host that bridges find each other, although the
// file knows no path between them.
func TestLearning_HostThatBridges(t *testing.T) {
	b := newBridged(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, br: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "br:eth0"]}
    - {endpoints: ["br:eth1", "s2:1"]}
    - {endpoints: ["s2:2", "h2:eth0"]}
    - {endpoints: ["s2:3", "h3:eth0"]}
`)
	h1, h2 := b.mac("h1"), b.mac("h2")
	b.expect("h1 asks", b.send("h1", wire.Broadcast, h1), "br")
	b.expect("the bridge forwards", b.send("br:eth1", wire.Broadcast, h1), "h2 h3")
	b.expect("h2 answers", b.send("h2", h1, h2), "br:eth1")
	b.expect("the bridge forwards", b.send("br:eth0", h1, h2), "h1")
	b.expect("h1 sends", b.send("h1", h2, h1), "br")
}

// TestLearning_RouterAnswersAndForwardsForUnknownAddresses: a router takes frames to its own
// address from any source, and ends others.
func TestLearning_RouterAnswersAndForwardsForUnknownAddresses(t *testing.T) {
	b := newBridged(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}, r: {kind: switch, address: auto}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["s1:3", "r:1"]}
    - {endpoints: ["r:2", "h3:eth0"]}
`)
	h := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: addressOf(b.at("h1"), false).AsSlice(), DstIP: addressOf(b.at("h3"), false).AsSlice()}
	frame := frameOf(t, b.at("h1"), h, gopacket.Payload(make([]byte, 40)))
	macA.EncodeTo(frame[6:])
	b.expect("to the router", b.sendFrame("h1", frame), "h3")
	macB.EncodeTo(frame)
	b.expect("to an unknown address", b.sendFrame("h1", frame), "h2")
	if a := b.Accounts(); a.Consumed != 1 {
		t.Errorf("the router consumed %d frames, want the flooded one", a.Consumed)
	}
	request := frameOfARP(t, b.at("h1"), addressOf(b.at("h1"), false).String(), b.Plan.Nodes[4].Ports[0].Addresses[0].Addr().String())
	macA.EncodeTo(request[6:])
	macA.EncodeTo(request[22:])
	b.expect("ARP", b.sendFrame("h1", request), "h1 h2")
}

// TestLearning_SuperPacketsOfUnknownAddresses pass as trains where others do, with the same result
// as single packets.
func TestLearning_SuperPacketsOfUnknownAddresses(t *testing.T) {
	for _, known := range []bool{false, true} {
		run := func(trains bool) (all []any, passed int) {
			b := newBridged(t, "topology: {generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2}}}\n")
			in := &trainInbox{inbox: inbox{pool: b.Interfaces[3].Pool}}
			b.Interfaces[3].Attach(in)
			if known {
				b.send("h4", wire.Broadcast, macB)
			}
			if !trains {
				b.Interfaces[0].Port.SetObserver(0, observer(func(*packet.Packet, port.Direction, packet.Fate) {}))
			}
			tcp := &layers.TCP{SrcPort: 1, DstPort: 2, Seq: 1, ACK: true, PSH: true, Window: 100}
			h := &layers.IPv4{Version: 4, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolTCP, SrcIP: addressOf(b.Interfaces[0], false).AsSlice(), DstIP: addressOf(b.Interfaces[3], false).AsSlice()}
			_ = tcp.SetNetworkLayerForChecksum(h)
			frame := frameOf(t, b.Interfaces[0], h, tcp, gopacket.Payload(make([]byte, 20*1400+100)))
			macB.EncodeTo(frame)
			macA.EncodeTo(frame[6:])
			enterSuper(t, b.Interfaces[0], frame, gso.Header{Flags: gso.NeedsCsum, GSOType: gso.GSOTCPv4, GSOSize: 1400})
			finish(t, b.Fabric)
			return append(outcome(b.Fabric), in.got, b.arrived(), b.SwitchStatus()), in.trains
		}
		want, _ := run(false)
		got, trains := run(true)
		if !cmp.Equal(got, want) {
			t.Errorf("known %v: differs from single packets:\n%s", known, cmp.Diff(want, got))
		}
		if (trains == 1) != known {
			t.Errorf("known %v: %d trains arrived", known, trains)
		}
	}
}

// TestLearning_ManyPaths: in any topology, whatever the order of frames: each ends, each host gets
// it once at most, and when nothing else is under way, a frame to an address goes to the interface
// that announced it last, and only there. Captures foresee what happens.
func TestLearning_ManyPaths(t *testing.T) {
	fabrictest.Check(t, 50, func(rt *rapid.T) {
		topology := rapid.SampledFrom([]string{
			"generate: {star: {hosts: 5}}", "generate: {parking-lot: {hops: 3}}", "generate: {leaf-spine: {spines: 3, leaves: 3, hosts-per-leaf: 2}}", "generate: {fat-tree: {k: 4}}",
			"kinds: {switch: {forwarding: random}}, generate: {leaf-spine: {spines: 2, leaves: 4, hosts-per-leaf: 2}}",
			"kinds: {switch: {classes: {default: {weight: 1}}, cut-through: true}, link: {rate: 1Gbps}}, generate: {leaf-spine: {spines: 2, leaves: 3, hosts-per-leaf: 2}}",
		}).Draw(rt, "topology")
		b := newBridged(t, "topology: {"+topology+"}\n")
		foreseen, filtered := 0, uint64(0)
		for n, sw := range b.Switches {
			if sw == nil {
				continue
			}
			for _, p := range b.ports[n] {
				p.SetObserver(0, observer(func(_ *packet.Packet, dir port.Direction, fate packet.Fate) {
					if dir == port.In && fate.IsDrop() {
						foreseen++
					}
				}))
			}
		}
		macs := []wire.MAC{macA, macB, 0x0a0000000001, b.Interfaces[0].MAC, b.Interfaces[len(b.Interfaces)-1].MAC}
		place := map[wire.MAC]int{}
		host := rapid.IntRange(0, len(b.Interfaces)-1)
		settled := false
		for range rapid.IntRange(1, 40).Draw(rt, "frames") {
			from, mac := host.Draw(rt, "from"), rapid.SampledFrom(macs).Draw(rt, "mac")
			for _, box := range b.boxes {
				box.got = nil
			}
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0: // many at once: anything may happen
				for range rapid.IntRange(2, 6).Draw(rt, "at once") {
					src := rapid.SampledFrom(macs).Draw(rt, "src")
					enter(b.Interfaces[host.Draw(rt, "from")], etherFrame(rapid.SampledFrom(macs).Draw(rt, "dst"), src, 0))
				}
				finish(t, b.Fabric)
				settled = false
			case 1:
				for _, m := range macs { // each announces itself
					at, ok := place[m]
					if !ok || !settled && m != mac {
						at = slices.Index(macs, m) % len(b.Interfaces)
					}
					if m == mac {
						at = from
					}
					enter(b.Interfaces[at], etherFrame(wire.Broadcast, m, 0))
					finish(t, b.Fabric)
					place[m] = at
				}
				settled = true
			default:
				own := b.Interfaces[from].MAC
				if place[own] != from && slices.Contains(macs, own) {
					continue // it would come back
				}
				enter(b.Interfaces[from], etherFrame(mac, own, 0))
				finish(t, b.Fabric)
				for i, box := range b.boxes {
					if len(box.got) > 1 {
						rt.Fatalf("%s got a frame %d times", b.Interfaces[i].Port.Name, len(box.got))
					}
					if !settled {
						continue
					}
					if want := i == place[mac] && i != from; want != (len(box.got) == 1) {
						rt.Fatalf("a frame from %s to %x, which is at %s, arrives: %s", b.Interfaces[from].Port.Name, mac, b.Interfaces[place[mac]].Port.Name, b.arrived())
					}
				}
			}
		}
		for _, n := range b.Accounts().Drops {
			filtered += n
		}
		if uint64(foreseen) != filtered {
			rt.Errorf("captures foresaw %d drops, %v happened", foreseen, b.Accounts().Drops)
		}
	})
}

// TestLearning_WorkersDoNotChangeResults: unknown addresses and any number of workers.
func TestLearning_WorkersDoNotChangeResults(t *testing.T) {
	run := func(workers int) []any {
		f, err := NewWithWorkers(parse(t, `
topology:
  kinds: {link: {rate: 1Gbps, delay: 3us}, switch: {learning: {age: 1ms, size: 3}}}
  generate: {leaf-spine: {spines: 2, leaves: 3, hosts-per-leaf: 2}}
workload:
  - {cbr: {from: [h1, h5], to: [h4, h2], rate: 50Mbps, size: 500B, for: 5ms}}
`), workers)
		if err != nil {
			t.Fatal(err)
		}
		b := bridge(t, f)
		for step := range 40 {
			iface := b.Interfaces[step%len(b.Interfaces)]
			enter(iface, etherFrame(wire.MAC(0x0a0000000000+(step*7)%5), wire.MAC(0x0a0000000000+step%5), uint16(step%2)))
			enter(iface, etherFrame(b.Interfaces[(step*5)%len(b.Interfaces)].MAC, b.Interfaces[(step*3)%len(b.Interfaces)].MAC, 0))
			runTo(t, f, units.Time(step+1)*100*units.Microsecond)
		}
		finish(t, f)
		return append(outcome(f), f.SwitchStatus())
	}
	want := run(1)
	for workers := 2; workers <= 4; workers++ {
		if diff := cmp.Diff(want, run(workers)); diff != "" {
			t.Errorf("%d workers: %s", workers, diff)
		}
	}
	if s := want[len(want)-1].([]status.Switch); s[0].Moved == 0 || s[0].Full == 0 || s[0].Unknown == 0 || s[0].Aged == 0 {
		t.Errorf("too little happened: %+v", s)
	}
}
