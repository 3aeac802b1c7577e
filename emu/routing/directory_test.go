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

// TestDirectory_ResolvesByMACThenIP: a frame goes to its MAC if that is known, else to its IP
// address, else everywhere.
func TestDirectory_ResolvesByMACThenIP(t *testing.T) {
	l := newLab(t, "topology: {generate: {star: {hosts: 4}}}\n")
	for _, v := range []uint8{4, 6} {
		p := l.udpFrame(0, 2, v)
		if !p.Parse() || p.Version != v || p.DstPort != 2 {
			t.Fatalf("no UDP over IPv%d: %+v", v, p)
		}
		if got := l.Directory.Resolve(p.Frame, p, 0); got != 2 {
			t.Errorf("IPv%d: known MAC resolves to %d, want 2", v, got)
		}
		copy(p.Frame, []byte{2, 9, 9, 9, 9, 9}) // a MAC that the host made up
		if got := l.Directory.Resolve(p.Frame, p, 0); got != 2 {
			t.Errorf("IPv%d: unknown MAC with a known address resolves to %d, want 2", v, got)
		}
		p.Frame[int(p.L3)+map[uint8]int{4: 19, 6: 39}[v]] = 0xee
		if got := l.Directory.Resolve(p.Frame, p, 0); got != packet.Flood {
			t.Errorf("IPv%d: unknown MAC and address resolve to %d, want everybody", v, got)
		}
	}
	if mac, ok := l.Directory.MAC(netip.MustParseAddr("10.0.0.3")); !ok || mac != l.MAC(l.Endpoints[2]) {
		t.Errorf("MAC of 10.0.0.3 is %x, %v", mac, ok)
	}
}
