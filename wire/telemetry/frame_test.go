package telemetry

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/wire/roce"
)

// frame returns an Ethernet frame with a UDP datagram of a given size to the port of
// RoCEv2, over IPv4 or IPv6.
func frame(t *testing.T, version uint8, payload int) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6)}
	udp := &layers.UDP{SrcPort: 49152, DstPort: roce.Port}
	var ip interface {
		gopacket.SerializableLayer
		gopacket.NetworkLayer
	}
	if version == 4 {
		eth.EthernetType = layers.EthernetTypeIPv4
		ip = &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}, TOS: 105, Id: 7}
	} else {
		eth.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: bytes.Repeat([]byte{1}, 16), DstIP: bytes.Repeat([]byte{2}, 16)}
	}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	body := make(gopacket.Payload, payload)
	for i := range body {
		body[i] = byte(i)
	}
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip, udp, body); err != nil {
		t.Fatal(err)
	}
	out := slices.Clone(b.Bytes()[:14+headerOf(b.Bytes()[14:])+8+payload]) // gopacket pads
	binary.BigEndian.PutUint16(out[len(out)-payload-2:], 0)                // RoCE has no checksum
	return out
}

// TestInsertAndRemove: a stack that is inserted into a frame follows UDP, gopacket finds
// correct lengths and a correct IP checksum, and removing the stack restores the frame.
func TestInsertAndRemove(t *testing.T) {
	for _, version := range []uint8{4, 6} {
		for _, room := range []uint8{1, 5, MaxHops} {
			before := frame(t, version, 40)
			s := Stack{Room: room, Count: 1, Echo: true, Path: 0x1234, Hops: [MaxHops]Hop{99}}
			with := InsertStack(slices.Clone(before), 14, &s)
			if len(with) != len(before)+int(s.Len()) {
				t.Fatalf("IPv%d: %d bytes with a stack of %d, %d without", version, len(with), s.Len(), len(before))
			}
			p := gopacket.NewPacket(with, layers.LayerTypeEthernet, gopacket.Default)
			udp, ok := p.TransportLayer().(*layers.UDP)
			if !ok || p.ErrorLayer() != nil || udp.DstPort != Port || int(udp.Length) != len(udp.Contents)+len(udp.Payload) {
				t.Fatalf("IPv%d: %v", version, p)
			}
			if ip, ok := p.NetworkLayer().(*layers.IPv4); ok {
				var sum uint32
				for i := 0; i < len(ip.Contents); i += 2 {
					sum += uint32(binary.BigEndian.Uint16(ip.Contents[i:]))
				}
				if sum = sum&0xffff + sum>>16; sum != 0xffff || int(ip.Length) != len(with)-14 {
					t.Errorf("IPv4 has the length %d and adds up to %04x", ip.Length, sum)
				}
			}
			var got Stack
			if _, err := got.Parse(udp.Payload); err != nil || got != s {
				t.Errorf("IPv%d: %+v, %v", version, got, err)
			}
			got = Stack{}
			after, err := RemoveStack(with, 14, &got)
			if err != nil || got != s || !bytes.Equal(after, before) {
				t.Errorf("IPv%d: %v, %+v, % x, not % x", version, err, got, after, before)
			}
		}
	}
}

// TestRemoveRefuses: without a valid stack the frame stays unchanged.
func TestRemoveRefuses(t *testing.T) {
	for _, version := range []uint8{4, 6} {
		for _, c := range []struct {
			first   byte
			payload int
			say     string
		}{{0, 40, "room is 1 to 7"}, {0x50, 43, "shorter than a stack for 5 hops"}, {0x50, 3, "shorter than a header"}, {0, 0, "shorter than a header"}} {
			before := frame(t, version, c.payload)
			if c.payload > 0 {
				before[len(before)-c.payload] = c.first
			}
			after, err := RemoveStack(slices.Clone(before), 14, new(Stack))
			if err == nil || !strings.Contains(err.Error(), c.say) || !bytes.Equal(after, before) {
				t.Errorf("IPv%d, %+v: %v", version, c, err)
			}
		}
	}
}
