package routing

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// udpFrame returns a UDP packet for the first addresses of an endpoint, from another.
func (l *lab) udpFrame(from, to packet.Endpoint, version uint8) *packet.Packet {
	port := func(e packet.Endpoint) (wire.MAC, []byte) {
		end := l.Endpoints[e]
		for _, a := range l.plan.Nodes[end.Node].Ports[end.Port].Addresses {
			if a.Addr().Is6() == (version == 6) {
				return l.MAC(end), a.Addr().AsSlice()
			}
		}
		panic("no address")
	}
	srcMAC, src := port(from)
	dstMAC, dst := port(to)
	b := make([]byte, wire.EthernetHeader, 200)
	dstMAC.EncodeTo(b)
	srcMAC.EncodeTo(b[wire.MACLen:])
	if version == 6 {
		binary.BigEndian.PutUint16(b[2*wire.MACLen:], wire.EtherTypeIPv6)
		b = append(b, 6<<4, 0, 0, 0, 0, 146, wire.ProtoUDP, 64)
	} else {
		binary.BigEndian.PutUint16(b[2*wire.MACLen:], wire.EtherTypeIPv4)
		b = append(b, 4<<4|5, 0, 0, 186, 0, 0, 0, 0, 64, wire.ProtoUDP, 0, 0)
	}
	b = append(append(b, src...), dst...)
	b = append(b, 0, 1, 0, 2)
	return &packet.Packet{Frame: b[:200]}
}

// resolve returns the destination of a frame that a station sends.
func (l *lab) resolve(p *packet.Packet, from packet.Endpoint) packet.Endpoint {
	return l.Directory.Resolve(p.Frame, p, from, l.MAC(l.Endpoints[from]))
}

// TestDirectory_ResolvesByMACsOnly: a frame between two stations of the file goes to the
// second, whatever its IP addresses are. Switches look at the addresses of a frame with
// another source or destination, or to a reserved group.
func TestDirectory_ResolvesByMACsOnly(t *testing.T) {
	l := newLab(t, "topology: {generate: {star: {hosts: 4}}}\n")
	mac := func(b ...byte) []byte { return b }
	for _, v := range []uint8{4, 6} {
		p := l.udpFrame(0, 2, v)
		if !p.Parse() || p.Version != v || p.DstPort != 2 {
			t.Fatalf("no UDP over IPv%d: %+v", v, p)
		}
		good := [12]byte(p.Frame)
		for _, c := range []struct {
			what     string
			dst, src []byte
			want     packet.Endpoint
		}{
			{"two stations", good[:6], good[6:], 2},
			{"an unknown destination with a known IP address", mac(2, 9, 9, 9, 9, 9), good[6:], packet.ByMAC},
			{"an unknown source", good[:6], mac(2, 9, 9, 9, 9, 9), packet.ByMAC},
			{"the source of another station", good[:6], mac(2, 0, 0, 0, 0, 2), packet.ByMAC},
			{"broadcast", mac(255, 255, 255, 255, 255, 255), good[6:], packet.Flood},
			{"broadcast of an unknown source", mac(255, 255, 255, 255, 255, 255), mac(2, 9, 9, 9, 9, 9), packet.ByMAC},
			{"multicast", mac(1, 0, 0x5e, 0, 0, 1), good[6:], packet.Flood},
			{"the first reserved group", mac(1, 0x80, 0xc2, 0, 0, 0), good[6:], packet.ByMAC},
			{"the last reserved group", mac(1, 0x80, 0xc2, 0, 0, 0xf), good[6:], packet.ByMAC},
			{"the group after them", mac(1, 0x80, 0xc2, 0, 0, 0x10), good[6:], packet.Flood},
			{"another group", mac(1, 0x80, 0xc2, 0, 1, 0), good[6:], packet.Flood},
		} {
			copy(p.Frame, c.dst)
			copy(p.Frame[6:], c.src)
			if got := l.resolve(p, 0); got != c.want {
				t.Errorf("IPv%d, %s: resolves to %d, want %d", v, c.what, got, c.want)
			}
		}
	}
	pause := &packet.Packet{Frame: append(mac(1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 8), make([]byte, 46)...)}
	if pause.Parse(); l.resolve(pause, 0) != packet.MACControl {
		t.Error("a PAUSE frame is not MAC control")
	}
	if mac, ok := l.Directory.MAC(netip.MustParseAddr("10.0.0.3")); !ok || mac != l.MAC(l.Endpoints[2]) {
		t.Errorf("MAC of 10.0.0.3 is %x, %v", mac, ok)
	}
}

// TestDirectory_KnowsOnlyItsBroadcastDomain: a station behind a router is not a destination of
// frames, and not a static entry of a switch on this side of it.
func TestDirectory_KnowsOnlyItsBroadcastDomain(t *testing.T) {
	l := newLab(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}, s2: {kind: switch}, r: {kind: switch, address: auto}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["s1:3", "r:1"]}
    - {endpoints: ["r:2", "s2:1"]}
    - {endpoints: ["s2:2", "h3:eth0"]}
`)
	for to, want := range map[packet.Endpoint]packet.Endpoint{1: 1, 2: packet.ByMAC, 3: 3, 4: packet.ByMAC} {
		p := l.udpFrame(0, to, 4)
		p.Parse()
		if got := l.resolve(p, 0); got != want {
			t.Errorf("a frame to endpoint %d resolves to %d, want %d", to, got, want)
		}
	}
	s1, _ := l.plan.Node("s1")
	for e, want := range []bool{true, true, false, true, false} {
		end := l.Endpoints[e]
		at, ok := l.Stations(s1).ByMAC(l.MAC(end))
		if ok != want || ok && at != packet.Endpoint(e) {
			t.Errorf("s1 has endpoint %d at %d, %v; want %v", e, at, ok, want)
		}
		a := l.plan.Nodes[end.Node].Ports[end.Port].Addresses[0].Addr()
		if at, ok := l.Stations(s1).ByIP(a); ok != want || ok && at != packet.Endpoint(e) {
			t.Errorf("s1 has %v at %d, %v; want %v", a, at, ok, want)
		}
	}
}

// TestDirectory_FindsTheNumberOfARoutersPackets: a packet to a router has the number of its IP
// destination, whoever sends it.
func TestDirectory_FindsTheNumberOfARoutersPackets(t *testing.T) {
	l := newLab(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, r: {kind: switch, address: auto}}
  links: [{endpoints: ["h1:eth0", "r:1"]}, {endpoints: ["h2:eth0", "r:2"]}]
`)
	for _, foreign := range []bool{false, true} {
		p := l.udpFrame(0, 1, 4)
		l.MAC(l.Endpoints[2]).EncodeTo(p.Frame)
		want := packet.Endpoint(2)
		if foreign {
			copy(p.Frame[6:], []byte{2, 9, 9, 9, 9, 9})
			want = packet.ByMAC
		}
		p.Parse()
		h2 := l.plan.Nodes[1].Ports[0].Addresses[0].Addr()
		if got := l.resolve(p, 0); got != want || p.To == 0 || p.To != l.Number(h2) {
			t.Errorf("foreign %v: to endpoint %d, number %d; want %d, %d", foreign, got, p.To, want, l.Number(h2))
		}
	}
}
