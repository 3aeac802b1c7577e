package packet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

var (
	macA = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	macB = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	v4A  = net.IP{10, 0, 0, 1}
	v4B  = net.IP{10, 0, 0, 2}
	v6A  = net.ParseIP("fd00::1")
	v6B  = net.ParseIP("fd00::2")
)

// frame builds a frame with gopacket; lengths and checksums are gopacket's.
func frame(t testing.TB, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	for i, x := range l {
		if transport, ok := x.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if network, ok := l[i-1].(gopacket.NetworkLayer); ok {
				_ = transport.SetNetworkLayerForChecksum(network)
			}
		}
	}
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, l...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func ethernet(kind layers.EthernetType) *layers.Ethernet {
	return &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: kind}
}

func ipv4(proto layers.IPProtocol) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TOS: 0xba, Id: 0x1234, TTL: 63, Protocol: proto, SrcIP: v4A, DstIP: v4B}
}

func ipv6(proto layers.IPProtocol) *layers.IPv6 {
	return &layers.IPv6{Version: 6, TrafficClass: 0xba, FlowLabel: 0xfedcb, HopLimit: 63, NextHeader: proto, SrcIP: v6A, DstIP: v6B}
}

// TestParse reads frames of every kind that gopacket builds.
func TestParse(t *testing.T) {
	udp := &layers.UDP{SrcPort: 4000, DstPort: 5001}
	tcp := &layers.TCP{SrcPort: 4000, DstPort: 80, SYN: true}
	payload := gopacket.Payload("weft")
	tag := func(id uint16, kind layers.EthernetType) *layers.Dot1Q {
		return &layers.Dot1Q{VLANIdentifier: id, Priority: 5, Type: kind}
	}
	arp := &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPRequest,
		SourceHwAddress: macA, SourceProtAddress: v4A, DstHwAddress: make([]byte, 6), DstProtAddress: v4B}
	ip4 := Packet{L3: 14, Ether: wire.EtherTypeIPv4, Version: 4, TOS: 0xba, TTL: 63, IPID: 0x1234}
	ip6 := Packet{L3: 14, Ether: wire.EtherTypeIPv6, Version: 6, TOS: 0xba, TTL: 63, Label: 0xfedcb}
	with := func(p Packet, l3 uint16, proto uint8, src, dst uint16) Packet {
		p.L3, p.Proto, p.SrcPort, p.DstPort = l3, proto, src, dst
		return p
	}
	udp4 := frame(t, ethernet(layers.EthernetTypeIPv4), ipv4(layers.IPProtocolUDP), udp, payload)
	udp6 := frame(t, ethernet(layers.EthernetTypeIPv6), ipv6(layers.IPProtocolUDP), udp, payload)
	tagged := frame(t, ethernet(layers.EthernetTypeDot1Q), tag(7, layers.EthernetTypeIPv4), ipv4(layers.IPProtocolTCP), tcp, payload)

	for _, c := range []struct {
		name  string
		frame []byte
		want  Packet
	}{
		{"IPv4 UDP", udp4, with(ip4, 14, wire.ProtoUDP, 4000, 5001)},
		{"IPv4 TCP", frame(t, ethernet(layers.EthernetTypeIPv4), ipv4(layers.IPProtocolTCP), tcp), with(ip4, 14, wire.ProtoTCP, 4000, 80)},
		{"IPv4 ICMP", frame(t, ethernet(layers.EthernetTypeIPv4), ipv4(layers.IPProtocolICMPv4), &layers.ICMPv4{Id: 9, Seq: 1}), with(ip4, 14, wire.ProtoICMP, 0, 0)},
		{"IPv6 UDP", udp6, with(ip6, 14, wire.ProtoUDP, 4000, 5001)},
		{"VLAN", tagged, with(ip4, 18, wire.ProtoTCP, 4000, 80)},
		{"QinQ", frame(t, ethernet(layers.EthernetTypeQinQ), tag(100, layers.EthernetTypeDot1Q), tag(7, layers.EthernetTypeIPv6), ipv6(layers.IPProtocolUDP), udp, payload),
			with(ip6, 22, wire.ProtoUDP, 4000, 5001)},
		{"VLAN in VLAN", frame(t, ethernet(layers.EthernetTypeDot1Q), tag(100, layers.EthernetTypeDot1Q), tag(7, layers.EthernetTypeIPv4), ipv4(layers.IPProtocolUDP), udp, payload),
			with(ip4, 22, wire.ProtoUDP, 4000, 5001)},
		{"ARP", frame(t, ethernet(layers.EthernetTypeARP), arp), Packet{L3: 14, Ether: wire.EtherTypeARP}},
		{"VLAN ARP", frame(t, ethernet(layers.EthernetTypeDot1Q), tag(7, layers.EthernetTypeARP), arp), Packet{L3: 18, Ether: wire.EtherTypeARP}},
		{"a length instead of an ethertype", append(append(append([]byte{}, macB...), macA...), 0, 3, 0x42, 0x42, 3), Packet{L3: 14, Ether: 3}},
		{"IPv4 without its last byte of header", udp4[:14+19], Packet{L3: 14, Ether: wire.EtherTypeIPv4}},
		{"IPv4 without ports", udp4[:14+20+3], with(ip4, 14, wire.ProtoUDP, 0, 0)},
		{"IPv4 without payload", udp4[:14+20+8], with(ip4, 14, wire.ProtoUDP, 4000, 5001)},
		{"IPv6 without its last byte of header", udp6[:14+39], Packet{L3: 14, Ether: wire.EtherTypeIPv6}},
		{"VLAN without its last byte of tag", tagged[:17], Packet{L3: 14, Ether: wire.EtherTypeVLAN}},
		{"Ethernet alone", udp4[:14], Packet{L3: 14, Ether: wire.EtherTypeIPv4}},
		{"IPv6 under the ethertype of IPv4", append(append([]byte{}, udp4[:14]...), udp6[14:]...), Packet{L3: 14, Ether: wire.EtherTypeIPv4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Frame, c.want.Size = c.frame, units.Bytes(len(c.frame))
			// A recycled packet keeps none of its former content.
			got := Packet{Version: 4, Proto: 6, TOS: 1, TTL: 1, IPID: 1, SrcPort: 1, DstPort: 1, Label: 1, Ether: 1, Hash: 1, L3: 99, Frame: c.frame}
			if !got.Parse() {
				t.Fatal("refused")
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Packet{}), cmpopts.IgnoreFields(Packet{}, "Hash")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := units.Bytes(len(c.frame)) - units.Bytes(c.want.L3); got.Layer3() != want {
				t.Errorf("layer 3 is %d bytes, want %d", got.Layer3(), want)
			}
		})
	}
	for n := range wire.EthernetHeader {
		if p := (Packet{Frame: udp4[:n]}); p.Parse() {
			t.Errorf("%d bytes are taken for a frame", n)
		}
	}
}

// hashOf returns the hash of a frame.
func hashOf(t testing.TB, l ...gopacket.SerializableLayer) uint64 {
	t.Helper()
	p := Packet{Frame: frame(t, l...)}
	if !p.Parse() {
		t.Fatal("refused")
	}
	return p.Hash
}

// TestHashIsOfTheFlow: differences between packets of one flow do not change the
// hash, and all differences between flows do.
func TestHashIsOfTheFlow(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		build := func(change func(*layers.Ethernet, *layers.IPv4, *layers.IPv6, *layers.UDP), payload string) uint64 {
			eth, i4, i6, udp := ethernet(layers.EthernetTypeIPv4), ipv4(layers.IPProtocolUDP), ipv6(layers.IPProtocolUDP), &layers.UDP{SrcPort: 4000, DstPort: 5001}
			change(eth, i4, i6, udp)
			if v6 {
				eth.EthernetType = layers.EthernetTypeIPv6
				return hashOf(t, eth, i6, udp, gopacket.Payload(payload))
			}
			return hashOf(t, eth, i4, udp, gopacket.Payload(payload))
		}
		same := map[string]uint64{
			"payload": build(func(*layers.Ethernet, *layers.IPv4, *layers.IPv6, *layers.UDP) {}, "longer payload"),
			"ttl":     build(func(_ *layers.Ethernet, a *layers.IPv4, b *layers.IPv6, _ *layers.UDP) { a.TTL, b.HopLimit = 1, 1 }, ""),
			"tos":     build(func(_ *layers.Ethernet, a *layers.IPv4, b *layers.IPv6, _ *layers.UDP) { a.TOS, b.TrafficClass = 3, 3 }, ""),
			"id":      build(func(_ *layers.Ethernet, a *layers.IPv4, b *layers.IPv6, _ *layers.UDP) { a.Id, b.FlowLabel = 7, 7 }, ""),
			"mac": build(func(e *layers.Ethernet, _ *layers.IPv4, _ *layers.IPv6, _ *layers.UDP) {
				e.SrcMAC, e.DstMAC = macB, macA
			}, ""),
		}
		other := map[string]uint64{
			"source": build(func(_ *layers.Ethernet, a *layers.IPv4, b *layers.IPv6, _ *layers.UDP) {
				a.SrcIP, b.SrcIP = net.IP{10, 0, 0, 3}, net.ParseIP("fd00::3")
			}, ""),
			"destination": build(func(_ *layers.Ethernet, a *layers.IPv4, b *layers.IPv6, _ *layers.UDP) {
				a.DstIP, b.DstIP = net.IP{10, 0, 0, 3}, net.ParseIP("fd00::3")
			}, ""),
			"swapped": build(func(_ *layers.Ethernet, a *layers.IPv4, b *layers.IPv6, _ *layers.UDP) {
				a.SrcIP, a.DstIP, b.SrcIP, b.DstIP = v4B, v4A, v6B, v6A
			}, ""),
			"source port":      build(func(_ *layers.Ethernet, _ *layers.IPv4, _ *layers.IPv6, u *layers.UDP) { u.SrcPort++ }, ""),
			"destination port": build(func(_ *layers.Ethernet, _ *layers.IPv4, _ *layers.IPv6, u *layers.UDP) { u.DstPort++ }, ""),
			"swapped ports": build(func(_ *layers.Ethernet, _ *layers.IPv4, _ *layers.IPv6, u *layers.UDP) {
				u.SrcPort, u.DstPort = u.DstPort, u.SrcPort
			}, ""),
		}
		want := build(func(*layers.Ethernet, *layers.IPv4, *layers.IPv6, *layers.UDP) {}, "")
		for name, got := range same {
			if got != want {
				t.Errorf("IPv6 %v: another %s makes another flow", v6, name)
			}
		}
		for name, got := range other {
			if got == want {
				t.Errorf("IPv6 %v: another %s makes the same flow", v6, name)
			}
		}
		proto := hashOf(t, ethernet(layers.EthernetTypeIPv4), ipv4(layers.IPProtocolTCP), &layers.TCP{SrcPort: 4000, DstPort: 5001})
		if proto == want {
			t.Error("TCP and UDP make the same flow")
		}
	}
	arp := func(src net.HardwareAddr, payload byte) uint64 {
		e := ethernet(layers.EthernetTypeARP)
		e.SrcMAC = src
		return hashOf(t, e, gopacket.Payload{27: payload})
	}
	if arp(macA, 1) != arp(macA, 2) || arp(macA, 1) == arp(macB, 1) {
		t.Error("what is not IP is not told apart by its MAC addresses alone")
	}
}

// TestFragmentsHashAlike cuts datagrams of both versions into fragments.
func TestFragmentsHashAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	datagram := make([]byte, 4096)
	for i := range datagram {
		datagram[i] = byte(rng.Uint32())
	}
	hashes := map[uint64]bool{}
	for off := 0; off < len(datagram); off += 1024 {
		ip := ipv4(layers.IPProtocolUDP)
		ip.FragOffset = uint16(off / 8)
		if off+1024 < len(datagram) {
			ip.Flags = layers.IPv4MoreFragments
		}
		hashes[hashOf(t, ethernet(layers.EthernetTypeIPv4), ip, gopacket.Payload(datagram[off:off+1024]))] = true
	}
	if len(hashes) != 1 {
		t.Errorf("the fragments of an IPv4 packet have %d hashes", len(hashes))
	}
	for _, next := range []byte{wire.ProtoUDP, wire.ProtoTCP, 60, 0, 43} {
		clear(hashes)
		for off := 0; off < len(datagram); off += 1024 {
			h := make([]byte, 8)
			h[0] = next
			binary.BigEndian.PutUint16(h[2:], uint16(off))
			if off+1024 < len(datagram) {
				h[3] |= 1
			}
			hashes[hashOf(t, ethernet(layers.EthernetTypeIPv6), ipv6(layers.IPProtocolIPv6Fragment), gopacket.Payload(append(h, datagram[off:off+1024]...)))] = true
		}
		if len(hashes) != 1 {
			t.Errorf("the fragments of an IPv6 packet with next header %d have %d hashes", next, len(hashes))
		}
	}
}

// TestFlowsSpread: realistic families of flows, which hardly differ from one
// another, spread evenly over few paths.
func TestFlowsSpread(t *testing.T) {
	const flows = 20_000
	// 99.9% quantiles of chi-square with paths-1 degrees of freedom.
	bound := map[uint64]float64{2: 10.83, 3: 13.82, 4: 16.27, 8: 24.32}
	families := map[string]func(i uint64) uint64{
		"source ports":       func(i uint64) uint64 { return FlowHash(0x0a000001, 0x0a000002, wire.ProtoUDP, uint16(40_000+i), 5001) },
		"destination ports":  func(i uint64) uint64 { return FlowHash(0x0a000001, 0x0a000002, wire.ProtoTCP, 40_000, uint16(i)) },
		"sources":            func(i uint64) uint64 { return FlowHash(0x0a000000+i, 0x0a000002, wire.ProtoUDP, 49152, 5001) },
		"destinations":       func(i uint64) uint64 { return FlowHash(0x0a000001, 0x0a000000+i, 0, 0, 0) },
		"pairs":              func(i uint64) uint64 { return FlowHash(0x0a000000+i/200, 0x0b000000+i%200, wire.ProtoUDP, 49152, 5001) },
		"IPv6 hosts":         func(i uint64) uint64 { return ipv6Hash(0xfd00<<48, i) },
		"IPv6 networks":      func(i uint64) uint64 { return ipv6Hash(0xfd00<<48|i, 1) },
		"IPv6 both the same": func(i uint64) uint64 { return ipv6Hash(i, i) },
	}
	for name, hash := range families {
		seen := map[uint64]bool{}
		for i := range uint64(flows) {
			seen[hash(i)] = true
		}
		if len(seen) != flows {
			t.Errorf("%s: %d flows have %d hashes", name, flows, len(seen))
		}
		for paths, limit := range bound {
			count := make([]float64, paths)
			for i := range uint64(flows) {
				count[hash(i)>>32*paths>>32]++
			}
			chi := 0.0
			for _, n := range count {
				d := n - flows/float64(paths)
				chi += d * d / (flows / float64(paths))
			}
			if chi > limit {
				t.Errorf("%s over %d paths: %v, chi-square %.1f beyond %v", name, paths, count, chi, limit)
			}
		}
	}
}

func ipv6Hash(network, host uint64) uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], network)
	binary.BigEndian.PutUint64(b[8:], host)
	return FlowHash(FoldIPv6(b[:]), FoldIPv6([]byte("\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x99")), wire.ProtoUDP, 49152, 5001)
}

// checksumsRight decodes a frame with gopacket and recomputes its checksums.
func checksumsRight(f []byte) error {
	p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		return e.Error()
	}
	var is, should uint16
	var err error
	buf, options := gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{ComputeChecksums: true}
	if ip, ok := p.NetworkLayer().(*layers.IPv4); ok {
		is = ip.Checksum
		err = ip.SerializeTo(buf, options)
		should = ip.Checksum
	}
	if is != should || err != nil {
		return fmt.Errorf("IPv4 checksum %#x, gopacket's %#x, %v", is, should, err)
	}
	udp := p.TransportLayer().(*layers.UDP)
	is = udp.Checksum
	_ = udp.SetNetworkLayerForChecksum(p.NetworkLayer())
	_ = buf.Clear()
	_ = gopacket.Payload(udp.Payload).SerializeTo(buf, options)
	if err := udp.SerializeTo(buf, options); err != nil || udp.Checksum != is {
		return fmt.Errorf("UDP checksum %#x, gopacket's %#x, %v", is, udp.Checksum, err)
	}
	return nil
}

// TestMarkCE marks frames built by gopacket and checks the result with gopacket.
// Only the ECN bits and the IPv4 checksum change.
func TestMarkCE(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tos := rapid.Byte().Draw(rt, "tos")
		v6, tagged := rapid.Bool().Draw(rt, "ipv6"), rapid.Bool().Draw(rt, "tagged")
		udp := &layers.UDP{SrcPort: 40_000, DstPort: 40_001}
		payload := gopacket.Payload(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(rt, "payload"))
		i4, i6 := ipv4(layers.IPProtocolUDP), ipv6(layers.IPProtocolUDP)
		i4.TOS, i4.Id, i6.TrafficClass = tos, rapid.Uint16().Draw(rt, "id"), tos
		var network gopacket.SerializableLayer = i4
		kind := layers.EthernetTypeIPv4
		if v6 {
			network, kind = i6, layers.EthernetTypeIPv6
		}
		stack := []gopacket.SerializableLayer{ethernet(kind), network, udp, payload}
		if tagged {
			stack = append([]gopacket.SerializableLayer{ethernet(layers.EthernetTypeDot1Q), &layers.Dot1Q{VLANIdentifier: 7, Type: kind}}, stack[1:]...)
		}
		f := frame(t, stack...)
		before := bytes.Clone(f)
		p := Packet{Frame: f}
		p.Parse()

		capable := tos&3 != wire.NotECT
		if p.MarkCE() != capable {
			rt.Fatalf("tos %#x: marked %v", tos, !capable)
		}
		if !capable || tos&3 == wire.CE {
			if !bytes.Equal(before, f) || p.TOS != tos {
				rt.Fatalf("tos %#x: a packet that stays as it is was changed", tos)
			}
			return
		}
		if p.ECN() != wire.CE || p.TOS != tos|3 {
			rt.Fatalf("tos %#x is %#x when marked", tos, p.TOS)
		}
		if err := checksumsRight(f); err != nil {
			rt.Fatal(err)
		}
		if again := (Packet{Frame: f}); !again.Parse() || again.TOS != p.TOS || again.Hash != p.Hash {
			rt.Fatalf("marked %#x, the frame says %#x", p.TOS, again.TOS)
		}
		// Everything except the ECN bits and the checksum is unchanged.
		l3 := int(p.L3)
		if v6 {
			before[l3+1] |= 3 << 4
		} else {
			before[l3+1] |= 3
			copy(before[l3+10:], f[l3+10:l3+12])
		}
		if diff := cmp.Diff(before, f); diff != "" {
			rt.Fatalf("more than ECN changed:\n%s", diff)
		}
	})
}

// TestMarkCEModelled: a packet without wire bytes is marked in its fields, and one
// that is not IP cannot be marked.
func TestMarkCEModelled(t *testing.T) {
	p := Packet{Version: 4, TOS: wire.ECT0}
	if !p.MarkCE() || p.TOS != wire.CE {
		t.Errorf("ECT(0) without a frame is marked %#x", p.TOS)
	}
	if q := (Packet{TOS: wire.ECT0}); q.MarkCE() {
		t.Error("a packet that is not IP was marked")
	}
}

// FuzzParse: no frame makes the parser read beyond its end, and the result is
// consistent. A marked packet reads back as marked.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > MaxFrame {
			return
		}
		p := Packet{Frame: b}
		if !p.Parse() {
			if len(b) >= wire.EthernetHeader {
				t.Fatalf("%d bytes are no frame", len(b))
			}
			return
		}
		if int(p.Size) != len(b) || int(p.L3) > len(b) || p.Layer3() < 0 {
			t.Fatalf("%d bytes: size %d, layer 3 at %d", len(b), p.Size, p.L3)
		}
		if p.Version == 0 && (p.Proto != 0 || p.TOS != 0 || p.SrcPort != 0 || p.DstPort != 0) {
			t.Fatalf("not IP, but with fields of IP: %+v", p)
		}
		marked := p.MarkCE()
		again := Packet{Frame: b}
		again.Parse()
		if again.TOS != p.TOS || again.Hash != p.Hash || again.L3 != p.L3 || marked && again.ECN() != wire.CE {
			t.Fatalf("read %+v, and when marked %+v", p, again)
		}
	})
}
