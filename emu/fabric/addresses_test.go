package fabric

import (
	"net/netip"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// TestNICs_ReachAddressesOfTheirLinks: a NIC reaches link-local addresses and those that hosts got
// while the lab runs on its own links only; an address that moves is found where it is.
func TestNICs_ReachAddressesOfTheirLinks(t *testing.T) {
	f := New(parse(t, `
topology:
  kinds: {host: {nic: roce}, link: {rate: 10Gbps, delay: 1us}}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
    h4: {kind: host}
    s1: {kind: switch}
    r1: {kind: switch, address: auto}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
    - {endpoints: ["s1:4", "r1:1"]}
    - {endpoints: ["h4:eth0", "r1:2"]}
`))
	added := netip.MustParseAddr("192.168.5.1")
	at := func(host string) int { n, _ := f.Plan.Node(host); return n }
	finds := func(from string, to netip.Addr) string {
		iface := f.Interface(at(from), 0)
		p, ok := iface.Network.PathTo(to)
		if !ok {
			return ""
		}
		e := f.topology.Endpoints[p.Dest]
		if p.MAC != f.topology.MAC(e) {
			t.Errorf("%s to %v: %v", from, to, p.MAC)
		}
		return f.Plan.Nodes[e.Node].Name
	}
	check := func(from string, to netip.Addr, want string) {
		t.Helper()
		if got := finds(from, to); got != want {
			t.Errorf("%s sends to %v at %q, want %q", from, to, got, want)
		}
	}
	local := func(host string) netip.Addr { return nicemu.LinkLocal(f.Interface(at(host), 0).MAC) }
	check("h1", local("h2"), "h2")
	check("h1", local("h4"), "") // no router forwards to it
	check("h4", local("h1"), "")
	check("h1", netip.MustParseAddr("fe80::77"), "")

	f.AddAddress(at("h2"), 0, added)
	check("h1", added, "h2")
	check("h2", added, "r1") // to others with the address: it has none itself
	check("h4", added, "r1")
	if networkOf(f.Interface(at("h1"), 0)).holderOf(added) != "h2:eth0" || f.Interface(at("h1"), 0).Network.TripTo(added, 1000, 64).RTT == 0 {
		t.Error("the port with the address, or the path to it, is not known")
	}
	f.AddAddress(at("h3"), 0, added)
	f.RemoveAddress(at("h2"), 0, added)
	check("h1", added, "h3")
	f.RemoveAddress(at("h3"), 0, added)
	check("h1", added, "r1")
}

// TestNICs_TalkOverAddressesOfTheirLinks: WRITEs pass between link-local addresses, and between
// those that hosts got while the lab runs.
func TestNICs_TalkOverAddressesOfTheirLinks(t *testing.T) {
	f := New(parse(t, "topology: {generate: {star: {hosts: 2}}, kinds: {host: {nic: roce}}}\n"))
	a, b := f.nics[0].Device, f.nics[1].Device
	local, added := [2]netip.Addr{}, [2]netip.Addr{netip.MustParseAddr("192.168.5.1"), netip.MustParseAddr("192.168.5.2")}
	for i, d := range []*nicemu.Device{a, b} {
		local[i] = nicemu.LinkLocal(f.Interfaces[i].MAC)
		f.AddAddress(f.Interfaces[i].Node, 0, added[i])
		if len(d.GIDs()) != 4 {
			t.Errorf("GIDs %v", d.GIDs())
		}
	}
	for n, by := range [...][2]netip.Addr{local, added} {
		const size = 100 * units.KB
		q, from, to := fabrictest.ConnectBy(t, a, b, size, by[0], by[1])
		if err := q.PostSend(&nicemu.SendWR{Op: nicemu.OpWrite, SGL: []nicemu.SGE{from.SGE(0, size)}, RemoteVA: to.Addr(0), RKey: to.RKey()}); err != nil {
			t.Fatal(err)
		}
		f.advance(t, units.Time(n+1)*units.Millisecond)
		b.EachCounter(func(name string, v uint64) {
			if name == "rx_write_requests" && v != uint64(n)+1 {
				t.Errorf("by %v: %d WRITEs have arrived", by, v)
			}
		})
	}
	if c := f.Accounts(); c.Dropped != 0 || !c.Balanced() {
		t.Errorf("%+v", c)
	}
}
