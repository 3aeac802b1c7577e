package packet

import (
	"testing"

	"github.com/weftlab/weft/wire"
)

// TestEndpoint_HeadingOfEveryDestination: a Dest has the endpoint that it was made of, also behind
// those that stand for several, and the special ones have none.
func TestEndpoint_HeadingOfEveryDestination(t *testing.T) {
	for _, e := range []Endpoint{0, 1, 1 << 30} {
		if to, ok := e.Heading(); !ok || to != e || e.IsByMAC() {
			t.Errorf("%d heads for %d, %v", e, to, ok)
		}
		if to, ok := Toward(e).Heading(); !ok || to != e || !Toward(e).IsByMAC() {
			t.Errorf("Toward(%d) heads for %d, %v", e, to, ok)
		}
	}
	for _, e := range []Endpoint{Flood, MACControl, ByMAC} {
		if to, ok := e.Heading(); ok || e.IsByMAC() != (e == ByMAC) {
			t.Errorf("%d heads for %d", e, to)
		}
	}
}

// TestPacket_VLANIsThatOfTheOutermostTag, without priority and drop eligibility.
func TestPacket_VLANIsThatOfTheOutermostTag(t *testing.T) {
	frame := func(tags ...byte) *Packet {
		f := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, tags...)
		p := &Packet{Kind: Real, Frame: append(f, make([]byte, 60)...)}
		p.Parse()
		return p
	}
	for _, c := range []struct {
		tags []byte
		want uint16
	}{
		{[]byte{8, 6}, 0},
		{[]byte{0x81, 0, 0xff, 0xff, 8, 6}, 4095},
		{[]byte{0x81, 0, 0xe0, 0, 8, 6}, 0},
		{[]byte{0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 6}, 7},
		{[]byte{0x81, 0, 0, 9, 0x88, 0xa8, 0, 7, 8, 6}, 9},
	} {
		if got := frame(c.tags...).VLAN(); got != c.want {
			t.Errorf("% x: VLAN %d, want %d", c.tags, got, c.want)
		}
	}
	short := &Packet{Kind: Real, Frame: []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0}}
	if short.Parse(); short.VLAN() != 0 {
		t.Errorf("a truncated tag has VLAN %d", short.VLAN())
	}
	if modelled := (&Packet{L3: wire.EthernetHeader}); modelled.VLAN() != 0 {
		t.Errorf("a modelled packet has VLAN %d", modelled.VLAN())
	}
}

// TestPacket_ToGroup: broadcast and multicast of any source, and no frame to one station.
func TestPacket_ToGroup(t *testing.T) {
	p := &Packet{Kind: Real, Frame: make([]byte, 60)}
	for _, c := range []struct {
		dest Endpoint
		mac  wire.MAC
		want bool
	}{
		{3, 0x020000000002, false}, {Flood, wire.Broadcast, true}, {ByMAC, wire.Broadcast, true}, {ByMAC, 0x0180c2000000, true},
		{ByMAC, 0x020000000002, false}, {Toward(3), 0x020000000002, false},
	} {
		p.Dest = c.dest
		c.mac.EncodeTo(p.Frame)
		if got := p.ToGroup(); got != c.want {
			t.Errorf("Dest %d, %x: %v", c.dest, c.mac, got)
		}
	}
}
