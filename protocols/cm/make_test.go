package cm

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/wire/roce"
)

var attributes = []Attribute{
	AttributeREQ, AttributeMRA, AttributeREJ, AttributeREP, AttributeRTU, AttributeDREQ,
	AttributeDREP, AttributeSIDRREQ, AttributeSIDRREP, AttributeLAP, AttributeAPR,
}

// random returns a message with random fields, decoded from random bytes
// without the reserved bits.
func random(t testing.TB, r *rand.Rand, a Attribute) Message {
	b := make([]byte, DataLen)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	m := NewMessage(a)
	if err := m.Decode(b); err != nil {
		t.Fatal(err)
	}
	return m
}

// made returns frames of all messages over both versions of IP, and REQs of the
// RDMA IP CM service.
func made(t testing.TB) (all [][]byte) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, a := range attributes {
		for _, version := range []int{4, 6} {
			m := random(t, r, a)
			if q, ok := m.(*REQ); ok {
				q.Service = ServiceID(r.Uint64() | 1<<63)
				all = append(all, frame(t, r, version, m))
				q = random(t, r, a).(*REQ)
				q.Service = IPService(ProtocolTCP, uint16(r.Uint32()))
				h := IPHeader{Source: netip.MustParseAddrPort("10.0.0.2:41977"), Destination: netip.MustParseAddr("10.0.0.1")}
				if version == 6 {
					h = IPHeader{Source: netip.MustParseAddrPort("[fd00::2]:41977"), Destination: netip.MustParseAddr("fd00::1")}
				}
				h.EncodeTo(q.PrivateData[:])
				q.Primary.LocalGID, q.Primary.RemoteGID = GIDOf(h.Source.Addr()), GIDOf(h.Destination)
				m = q
			}
			all = append(all, frame(t, r, version, m))
		}
	}
	return all
}

func frame(t testing.TB, r *rand.Rand, version int, m Message) []byte {
	datagram := make([]byte, MADLen)
	PutMAD(datagram, r.Uint64(), m)
	var ip gopacket.SerializableLayer = &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	if version == 6 {
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
		eth.EthernetType = layers.EthernetTypeIPv6
	}
	b := gopacket.NewSerializeBuffer()
	if err := roce.SerializePacket(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		eth, ip, &layers.UDP{SrcPort: 55410, DstPort: roce.Port},
		&roce.BTHLayer{BTH: roce.BTH{Opcode: roce.UD.WithOperation(roce.SendOnly), PKey: roce.DefaultPKey, DestQP: roce.ManagementQP}},
		&roce.DETHLayer{Header: roce.DETH{QKey: roce.ManagementQKey, SourceQP: roce.ManagementQP}},
		&roce.PayloadLayer{Data: datagram}, &roce.ICRCLayer{},
	); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
