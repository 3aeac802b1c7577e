package router

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestFindIsTheLongest: Prefixes finds the same prefix as a linear search, however
// prefixes overlap.
func TestFindIsTheLongest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ipv6 := rapid.Bool().Draw(t, "ipv6")
		// Few bits vary, so that prefixes cover each other.
		address := func(name string) netip.Addr {
			var b [16]byte
			for _, i := range []int{0, 1, 3} {
				b[i] = rapid.SampledFrom([]byte{1, 2, 3, 0x80, 0x81, 0xff}).Draw(t, name)
			}
			if ipv6 {
				return netip.AddrFrom16(b)
			}
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		var s Prefixes
		all := map[netip.Prefix]int32{}
		for i := range rapid.Int32Range(0, 20).Draw(t, "prefixes") {
			a := address("prefix")
			p, _ := a.Prefix(rapid.IntRange(0, a.BitLen()).Draw(t, "length"))
			s.Set(p, i)
			all[p] = i
		}
		// Prefixes of the other version are never found.
		s.Set(netip.MustParsePrefix(map[bool]string{true: "0.0.0.0/0", false: "::/0"}[ipv6]), 99)
		for range 20 {
			a := address("address")
			want, bits := int32(0), -1
			for p, n := range all {
				if p.Contains(a) && p.Bits() > bits {
					want, bits = n, p.Bits()
				}
			}
			if n, got := s.FindPrefix(a); n != want || got != bits {
				t.Fatalf("%v is found in %d of length %d, not %d of length %d, of %v", a, n, got, want, bits, all)
			}
		}
		if _, bits := s.FindPrefix(netip.Addr{}); bits != -1 {
			t.Fatal("no address is found")
		}
	})
}

// TestStaticRoutesGoFirst: a static route precedes a subnet of equal length, but
// not a longer one.
func TestStaticRoutesGoFirst(t *testing.T) {
	table := Table{Own: []netip.Addr{ip("10.0.1.1")}, Subnets: &Prefixes{}, Ways: []uint16{2, 3}}
	table.Subnets.Set(netip.MustParsePrefix("10.0.1.0/24"), 0)
	table.Subnets.Set(netip.MustParsePrefix("10.0.2.0/24"), 1)
	table.Static.Set(netip.MustParsePrefix("10.0.0.0/16"), 4)
	table.Static.Set(netip.MustParsePrefix("10.0.2.0/24"), 5)
	table.Static.Set(netip.MustParsePrefix("10.0.1.7/32"), 6)
	for address, want := range map[string]uint16{
		"10.0.1.1": Local, "10.0.1.2": 2, "10.0.1.7": 6, "10.0.2.9": 5, "10.0.3.1": 4, "10.1.0.1": NoRoute, "fd00::1": NoRoute,
	} {
		if got := table.FindRoute(ip(address)); got != want {
			t.Errorf("%s: route %d, not %d", address, got, want)
		}
	}
	table.Static.Set(netip.MustParsePrefix("0.0.0.0/0"), 7)
	if got := table.FindRoute(ip("10.1.0.1")); got != 7 {
		t.Errorf("the default is not taken: %d", got)
	}
}

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

// build returns the bytes of layers.
func build(t testing.TB, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, l...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

var (
	host4, far4, own4 = ip("10.0.0.2"), ip("10.0.9.9"), ip("10.0.0.1")
	host6, far6, own6 = ip("fd00::2"), ip("fd00::9:9"), ip("fd00::1")
)

func ip4(proto layers.IPProtocol, change func(*layers.IPv4)) *layers.IPv4 {
	h := &layers.IPv4{Version: 4, TTL: 1, TOS: 0xb9, Id: 7, Protocol: proto, SrcIP: host4.AsSlice(), DstIP: far4.AsSlice()}
	if change != nil {
		change(h)
	}
	return h
}

func ip6(proto layers.IPProtocol, change func(*layers.IPv6)) *layers.IPv6 {
	h := &layers.IPv6{Version: 6, HopLimit: 1, TrafficClass: 0xb9, NextHeader: proto, SrcIP: host6.AsSlice(), DstIP: far6.AsSlice()}
	if change != nil {
		change(h)
	}
	return h
}

func udp(over gopacket.NetworkLayer) *layers.UDP {
	u := &layers.UDP{SrcPort: 4000, DstPort: 33434}
	_ = u.SetNetworkLayerForChecksum(over)
	return u
}

// TestProblems: gopacket reads the message about each problem, in both versions of
// IP, with correct checksums, and finds the packet quoted up to the limit.
func TestProblems(t *testing.T) {
	type said struct {
		Type, Code uint8
		MTU        uint32
		Src, Dst   string
		TTL, TOS   uint8
		Quote      int // bytes
	}
	const length = 1400
	v4, v6 := ip4(layers.IPProtocolUDP, nil), ip6(layers.IPProtocolUDP, nil)
	packet4 := build(t, v4, udp(v4), gopacket.Payload(make([]byte, length-28)))
	packet6 := build(t, v6, udp(v6), gopacket.Payload(make([]byte, length-48)))
	want4 := map[Problem][2]uint8{TimeExceeded: {11, 0}, NetUnreachable: {3, 0}, HostUnreachable: {3, 1}, PortUnreachable: {3, 3}, TooBig: {3, 4}}
	want6 := map[Problem][2]uint8{TimeExceeded: {3, 0}, NetUnreachable: {1, 0}, HostUnreachable: {1, 3}, PortUnreachable: {1, 4}, TooBig: {2, 0}}
	for problem := range TooBig + 1 {
		mtu := units.Bytes(0)
		if problem == TooBig {
			mtu = 1300
		}
		for _, short := range []bool{false, true} {
			about4, about6, quote4, quote6 := packet4, packet6, 576-20-8, 1280-40-8
			if short { // followed by the padding of a short frame
				about4 = append(build(t, v4, udp(v4)), make([]byte, 18)...)
				about6 = append(build(t, v6, udp(v6)), 1, 2, 3)
				quote4, quote6 = 28, 48
			}
			b := AppendProblem([]byte("front"), about4, problem, own4, mtu, 99)
			got4 := said{}
			p := gopacket.NewPacket(b[5:], layers.LayerTypeIPv4, gopacket.Default)
			if h, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok && wire.IPv4Checksum(h.Contents) == 0 && h.Id == 99 && int(h.Length) == len(b)-5 {
				m := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
				if wire.Checksum(append(m.Contents, m.Payload...), 0) != 0 {
					t.Errorf("problem %d: ICMP checksum", problem)
				}
				got4 = said{m.TypeCode.Type(), m.TypeCode.Code(), uint32(m.Seq), h.SrcIP.String(), h.DstIP.String(), h.TTL, h.TOS, len(m.Payload)}
				if diff := cmp.Diff(about4[:quote4], m.Payload); diff != "" {
					t.Error(diff)
				}
			}
			if diff := cmp.Diff(said{want4[problem][0], want4[problem][1], uint32(mtu), "10.0.0.1", "10.0.0.2", 64, 0xd8, quote4}, got4); diff != "" {
				t.Errorf("problem %d of IPv4 (-want +got):\n%s", problem, diff)
			}

			b = AppendProblem(nil, about6, problem, own6, mtu, 0)
			p = gopacket.NewPacket(b, layers.LayerTypeIPv6, gopacket.Default)
			h, m := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6), p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
			got6 := said{
				m.TypeCode.Type(), m.TypeCode.Code(), binary.BigEndian.Uint32(m.Payload), h.SrcIP.String(), h.DstIP.String(),
				h.HopLimit, h.TrafficClass, len(m.Payload) - 4,
			}
			if diff := cmp.Diff(said{want6[problem][0], want6[problem][1], uint32(mtu), "fd00::1", "fd00::2", 64, 0, quote6}, got6); diff != "" {
				t.Errorf("problem %d of IPv6 (-want +got):\n%s", problem, diff)
			}
			if diff := cmp.Diff(about6[:quote6], m.Payload[4:]); diff != "" {
				t.Error(diff)
			}
			checkICMPv6(t, b)
		}
	}
}

// checkICMPv6 compares the checksum of an ICMPv6 packet with gopacket's.
func checkICMPv6(t testing.TB, b []byte) {
	t.Helper()
	p := gopacket.NewPacket(b, layers.LayerTypeIPv6, gopacket.Default)
	h, m := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6), p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
	again := &layers.ICMPv6{TypeCode: m.TypeCode}
	_ = again.SetNetworkLayerForChecksum(h)
	if diff := cmp.Diff(build(t, h, again, gopacket.Payload(m.Payload)), b); diff != "" {
		t.Errorf("gopacket would write (-) and not (+)\n%s", diff)
	}
}

// TestSilence: no message is sent about packets that RFC 1812 §4.3.2.7 and RFC 4443
// §2.4 name.
func TestSilence(t *testing.T) {
	icmp4 := func(kind uint8) []byte {
		return build(t, ip4(layers.IPProtocolICMPv4, nil), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 0)})
	}
	icmp6 := func(kind uint8) []byte {
		h := ip6(layers.IPProtocolICMPv6, nil)
		m := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
		_ = m.SetNetworkLayerForChecksum(h)
		return build(t, h, m, gopacket.Payload(make([]byte, 4)))
	}
	from4 := func(src, dst string) []byte {
		h := ip4(layers.IPProtocolUDP, func(h *layers.IPv4) { h.SrcIP, h.DstIP = net.ParseIP(src), net.ParseIP(dst) })
		return build(t, h, udp(h))
	}
	from6 := func(src, dst string) []byte {
		h := ip6(layers.IPProtocolUDP, func(h *layers.IPv6) { h.SrcIP, h.DstIP = net.ParseIP(src), net.ParseIP(dst) })
		return build(t, h, udp(h))
	}
	fragment4 := func(offset uint16) []byte {
		return build(t, ip4(layers.IPProtocolUDP, func(h *layers.IPv4) { h.FragOffset, h.Flags = offset, layers.IPv4MoreFragments }), gopacket.Payload(make([]byte, 16)))
	}
	fragment6 := func(offset uint16, next uint8) []byte {
		return build(t, ip6(layers.IPProtocolIPv6Fragment, nil), gopacket.Payload([]byte{next, 0, byte(offset >> 5), byte(offset << 3), 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0}))
	}
	for name, c := range map[string]struct {
		packet []byte
		said   bool
	}{
		"an echo request":              {icmp4(8), true},
		"an echo reply":                {icmp4(0), true},
		"a timestamp request":          {icmp4(13), true},
		"destination unreachable":      {icmp4(3), false},
		"source quench":                {icmp4(4), false},
		"a redirect":                   {icmp4(5), false},
		"time exceeded":                {icmp4(11), false},
		"a parameter problem":          {icmp4(12), false},
		"ICMP without a type":          {build(t, ip4(layers.IPProtocolICMPv4, nil)), false},
		"the first fragment":           {fragment4(0), true},
		"another fragment":             {fragment4(2), false},
		"from nobody":                  {from4("0.0.0.0", "10.0.9.9"), false},
		"from oneself":                 {from4("127.0.0.1", "10.0.9.9"), false},
		"from a group":                 {from4("224.0.0.5", "10.0.9.9"), false},
		"from everybody":               {from4("255.255.255.255", "10.0.9.9"), false},
		"to a group":                   {from4("10.0.0.2", "224.0.0.9"), false},
		"to everybody":                 {from4("10.0.0.2", "255.255.255.255"), false},
		"to somebody":                  {from4("10.0.0.2", "10.0.0.9"), true},
		"echo request, IPv6":           {icmp6(128), true},
		"destination unreachable, v6":  {icmp6(1), false},
		"packet too big":               {icmp6(2), false},
		"unknown error, v6":            {icmp6(127), false},
		"a redirect, v6":               {icmp6(137), false},
		"neighbour solicitation":       {icmp6(135), true},
		"the first fragment, v6":       {fragment6(0, 17), true},
		"the first fragment of ICMPv6": {fragment6(0, 58), false},
		"another fragment, v6":         {fragment6(4, 17), false},
		"from nobody, v6":              {from6("::", "fd00::9"), false},
		"from a group, v6":             {from6("ff02::1", "fd00::9"), false},
		"to a group, v6":               {from6("fd00::2", "ff02::1"), false},
		"to somebody, v6":              {from6("fd00::2", "fd00::9"), true},
		"half a packet":                {from4("10.0.0.2", "10.0.0.9")[:27], false},
		"half a header, v6":            {from6("fd00::2", "fd00::9")[:39], false},
		"nothing":                      {nil, false},
	} {
		from := own4
		if len(c.packet) > 0 && c.packet[0]>>4 == 6 {
			from = own6
		}
		if b := AppendProblem(nil, c.packet, TimeExceeded, from, 0, 0); (b != nil) != c.said {
			t.Errorf("%s: said %x", name, b)
		}
	}
	if b := AppendProblem(nil, icmp6(128), TimeExceeded, own4, 0, 0); b != nil {
		t.Errorf("an IPv4 address says something about IPv6: %x", b)
	}
}

// TestEcho: requests are answered as by hosts, according to gopacket.
func TestEcho(t *testing.T) {
	payload := gopacket.Payload("abcdefg")
	request := build(t, ip4(layers.IPProtocolICMPv4, nil), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 3, Seq: 4}, payload)
	reply := build(t, ip4(layers.IPProtocolICMPv4, func(h *layers.IPv4) {
		h.SrcIP, h.DstIP, h.TTL, h.Id = far4.AsSlice(), host4.AsSlice(), 64, 5
	}), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(0, 0), Id: 3, Seq: 4}, payload)
	if diff := cmp.Diff(reply, AppendEchoReply(nil, append(request, 0, 0, 0), 5)); diff != "" {
		t.Errorf("IPv4 (-want +got):\n%s", diff)
	}
	damaged := append([]byte(nil), request...)
	damaged[len(damaged)-1]++
	if got := AppendEchoReply(nil, damaged, 5); wire.Checksum(got[20:], 0) == 0 {
		t.Error("the wrong checksum of a request was corrected")
	}

	make6 := func(kind uint8, h *layers.IPv6) []byte {
		m := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
		_ = m.SetNetworkLayerForChecksum(h)
		return build(t, h, m, &layers.ICMPv6Echo{Identifier: 3, SeqNumber: 4}, payload)
	}
	request6 := make6(128, ip6(layers.IPProtocolICMPv6, nil))
	reply6 := make6(129, ip6(layers.IPProtocolICMPv6, func(h *layers.IPv6) {
		h.SrcIP, h.DstIP, h.HopLimit = far6.AsSlice(), host6.AsSlice(), 64
	}))
	if diff := cmp.Diff(reply6, AppendEchoReply(nil, request6, 5)); diff != "" {
		t.Errorf("IPv6 (-want +got):\n%s", diff)
	}

	fragment := build(t, ip4(layers.IPProtocolICMPv4, func(h *layers.IPv4) { h.Flags = layers.IPv4MoreFragments }), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)}, payload)
	fragment6 := build(t, ip6(layers.IPProtocolIPv6Fragment, nil), gopacket.Payload([]byte{58, 0, 0, 1, 0, 0, 0, 1, 128, 0, 0, 0, 0, 0, 0, 0}))
	for name, b := range map[string][]byte{"a reply": reply, "a reply, v6": reply6, "half a request": request[:len(request)-1], "a fragment": fragment, "a fragment, v6": fragment6, "nothing": nil} {
		if got := AppendEchoReply(nil, b, 5); got != nil {
			t.Errorf("%s is answered: %x", name, got)
		}
	}
}

// TestAnswers: gopacket reads the answers to ARP requests and neighbour
// solicitations; there are no answers for other addresses.
func TestAnswers(t *testing.T) {
	table := &Table{Own: []netip.Addr{ip("10.255.0.1"), own4, own6}}
	mine, theirs := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 9}
	mac := wire.ReadMAC(mine)
	arp := func(op uint16, target netip.Addr) []byte {
		return build(t, &layers.Ethernet{SrcMAC: theirs, DstMAC: layers.EthernetBroadcast, EthernetType: layers.EthernetTypeARP}, &layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
			SourceHwAddress: theirs, SourceProtAddress: host4.AsSlice(), DstHwAddress: make([]byte, 6), DstProtAddress: target.AsSlice(),
		})
	}
	for _, target := range []netip.Addr{own4, ip("10.255.0.1")} {
		want := build(t, &layers.Ethernet{SrcMAC: mine, DstMAC: theirs, EthernetType: layers.EthernetTypeARP}, &layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 2,
			SourceHwAddress: mine, SourceProtAddress: target.AsSlice(), DstHwAddress: theirs, DstProtAddress: host4.AsSlice(),
		})
		if diff := cmp.Diff(want[:42], table.AppendAnswer(nil, arp(1, target), 14, wire.EtherTypeARP, mac)); diff != "" {
			t.Errorf("ARP for %v (-want +got):\n%s", target, diff)
		}
	}
	solicit := func(src, target netip.Addr, hops uint8) []byte {
		h := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: hops, SrcIP: src.AsSlice(), DstIP: net.ParseIP("ff02::1:ff00:1")}
		m := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(135, 0)}
		_ = m.SetNetworkLayerForChecksum(h)
		return build(t, &layers.Ethernet{SrcMAC: theirs, DstMAC: net.HardwareAddr{0x33, 0x33, 0xff, 0, 0, 1}, EthernetType: layers.EthernetTypeIPv6},
			h, m, &layers.ICMPv6NeighborSolicitation{TargetAddress: target.AsSlice()})
	}
	for _, c := range []struct {
		src    netip.Addr
		to     net.HardwareAddr
		dst    string
		router uint8
	}{{host6, theirs, "fd00::2", 0xe0}, {netip.IPv6Unspecified(), net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, "ff02::1", 0xa0}} {
		h := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255, SrcIP: own6.AsSlice(), DstIP: net.ParseIP(c.dst)}
		m := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(136, 0)}
		_ = m.SetNetworkLayerForChecksum(h)
		want := build(t, &layers.Ethernet{SrcMAC: mine, DstMAC: c.to, EthernetType: layers.EthernetTypeIPv6}, h, m, &layers.ICMPv6NeighborAdvertisement{
			Flags: c.router, TargetAddress: own6.AsSlice(), Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: mine}},
		})
		if diff := cmp.Diff(want, table.AppendAnswer(nil, solicit(c.src, own6, 255), 14, wire.EtherTypeIPv6, mac)); diff != "" {
			t.Errorf("from %v (-want +got):\n%s", c.src, diff)
		}
	}
	for name, frame := range map[string][]byte{
		"an ARP reply": arp(2, own4), "somebody else's": arp(1, host4), "half a request": arp(1, own4)[:41],
		"somebody else's, v6": solicit(host6, far6, 255), "through a router": solicit(host6, own6, 254), "half a solicitation": solicit(host6, own6, 255)[:70],
		"an echo request": append(make([]byte, 14), build(t, ip6(layers.IPProtocolICMPv6, nil), gopacket.Payload(make([]byte, 24)))...),
	} {
		ether := uint16(wire.EtherTypeIPv6)
		if frame[12] == 8 {
			ether = wire.EtherTypeARP
		}
		if got := table.AppendAnswer(nil, frame, 14, ether, mac); got != nil {
			t.Errorf("%s is answered: %x", name, got)
		}
	}
}

// TestFragmentsAreThePacket: fragments of any packet, cut once or twice and read by
// gopacket, reassemble to the packet; none is longer than the MTU, and options are
// where they belong.
func TestFragmentsAreThePacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.SliceOfN(rapid.Byte(), 0, 9000).Draw(t, "payload")
		options := rapid.SampledFrom([][]byte{nil, {7, 3, 4, 0}, {0x82, 4, 0, 0, 1, 7, 3, 4}, {1, 1, 0x94, 4, 0, 0, 0, 0}}).Draw(t, "options")
		h := ip4(layers.IPProtocolUDP, nil)
		b := build(new(testing.T), h, gopacket.Payload(append(options, payload...)))
		b[0] += byte(len(options) / 4)
		header := 20 + len(options)
		binary.BigEndian.PutUint16(b[10:], 0)
		binary.BigEndian.PutUint16(b[10:], wire.IPv4Checksum(b[:header]))
		cut := func(ip []byte, mtu units.Bytes) (out [][]byte) {
			f, ok := NewFragmenter(append(ip, 0, 0), mtu)
			if !ok {
				t.Fatal("it cannot be cut")
			}
			for p := f.Next(nil); p != nil; p = f.Next(nil) {
				if units.Bytes(len(p)) > mtu || wire.IPv4Checksum(p[:header]) != 0 {
					t.Fatalf("%d bytes, checksum %x", len(p), wire.IPv4Checksum(p[:header]))
				}
				out = append(out, p)
			}
			return out
		}
		var parts [][]byte
		second := units.Bytes(rapid.IntRange(100, 700).Draw(t, "second MTU"))
		for _, p := range cut(b, units.Bytes(rapid.IntRange(100, 9000).Draw(t, "MTU"))) {
			parts = append(parts, cut(p, second)...)
		}
		got := make([]byte, len(payload))
		end := 0
		for i, p := range parts {
			v4 := &layers.IPv4{}
			if err := v4.DecodeFromBytes(p, gopacket.NilDecodeFeedback); err != nil {
				t.Fatal(err)
			}
			at := int(v4.FragOffset) * 8
			if at != end || (v4.Flags&layers.IPv4MoreFragments != 0) != (i < len(parts)-1) || v4.Id != 7 || v4.TTL != 1 || v4.TOS != 0xb9 {
				t.Fatalf("fragment %d of %d: %+v", i, len(parts), v4)
			}
			end = at + copy(got[at:], v4.Payload)
			// Only options with the copied flag are in all fragments.
			if i > 0 && len(options) > 0 && p[20] == 7 {
				t.Fatalf("fragment %d records the route", i)
			}
			if len(options) > 0 && options[0] == 0x82 && p[20] != 0x82 {
				t.Fatalf("fragment %d lacks its option", i)
			}
		}
		if len(payload) > 0 && (end != len(payload) || string(got) != string(payload)) {
			t.Fatalf("%d bytes of %d came out", end, len(payload))
		}
	})
	whole := build(t, ip4(layers.IPProtocolUDP, nil), gopacket.Payload(make([]byte, 600)))
	v6 := build(t, ip6(layers.IPProtocolUDP, nil), gopacket.Payload(make([]byte, 600)))
	dont := build(t, ip4(layers.IPProtocolUDP, func(h *layers.IPv4) { h.Flags = layers.IPv4DontFragment }), gopacket.Payload(make([]byte, 600)))
	late := build(t, ip4(layers.IPProtocolUDP, func(h *layers.IPv4) { h.FragOffset = 0x1ff0 }), gopacket.Payload(make([]byte, 600)))
	for name, b := range map[string][]byte{"DF": dont, "IPv6": v6, "half a packet": whole[:619], "nothing": nil, "beyond the longest packet": late} {
		if _, ok := NewFragmenter(b, 576); ok {
			t.Errorf("%s is cut", name)
		}
	}
	if _, ok := NewFragmenter(whole, 24); ok {
		t.Error("an MTU without room for 8 bytes will do")
	}
}

// TestLimit: fifty at once, then a thousand per second, and never more than fifty
// at once later.
func TestLimit(t *testing.T) {
	var l Limit
	count := func(now units.Time) (n int) {
		for l.AllowMessage(now) {
			n++
		}
		return n
	}
	for _, c := range []struct {
		at   units.Time
		want int
	}{{0, 50}, {0, 0}, {units.Millisecond - 1, 0}, {units.Millisecond, 1}, {11 * units.Millisecond, 10}, {units.Second, 50}, {units.Second + 2500*units.Microsecond, 2}, {units.Second + 3*units.Millisecond, 1}} {
		if got := count(c.at); got != c.want {
			t.Errorf("at %v: %d may be said, not %d", c.at, got, c.want)
		}
	}
}

// FuzzProblem: whatever bytes a packet has, nothing panics, and any message is a
// complete packet with correct checksums to the packet's sender, and not about an
// error.
func FuzzProblem(f *testing.F) {
	v4, v6 := ip4(layers.IPProtocolUDP, nil), ip6(layers.IPProtocolUDP, nil)
	f.Add(build(f, v4, udp(v4), gopacket.Payload(make([]byte, 100))), uint8(0), uint16(1280))
	f.Add(build(f, v6, udp(v6), gopacket.Payload(make([]byte, 1400))), uint8(4), uint16(1280))
	f.Add(build(f, ip4(layers.IPProtocolICMPv4, nil), &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)}), uint8(1), uint16(0))
	f.Add(build(f, ip6(layers.IPProtocolIPv6Fragment, nil), gopacket.Payload([]byte{58, 0, 0, 1, 0, 0, 0, 1, 128, 0, 0, 0, 0, 0, 0, 0})), uint8(2), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, problem uint8, mtu uint16) {
		what := Problem(problem % uint8(TooBig+1))
		src, _, _ := addressesOf(b)
		for _, from := range []netip.Addr{own4, own6} {
			got := AppendProblem(nil, b, what, from, units.Bytes(mtu), 1)
			if got == nil {
				continue
			}
			judgeICMP(t, got, from, src)
			if again := AppendProblem(nil, got, what, from, units.Bytes(mtu), 1); again != nil {
				t.Errorf("something is said about what was said: %x", again)
			}
		}
		if got := AppendEchoReply(nil, b, 1); got != nil {
			if AppendEchoReply(nil, got, 1) != nil {
				t.Errorf("an answer is answered: %x", got)
			}
		}
		if fr, ok := NewFragmenter(b, units.Bytes(mtu)); ok {
			n := 0
			for p := fr.Next(nil); p != nil; p = fr.Next(nil) {
				if n++; len(p) > int(mtu) || n > len(b) {
					t.Fatalf("fragment %d of %d bytes for an MTU of %d", n, len(p), mtu)
				}
			}
		}
		table := &Table{Own: []netip.Addr{own4, own6}}
		for _, ether := range []uint16{wire.EtherTypeARP, wire.EtherTypeIPv6} {
			table.AppendAnswer(nil, append(make([]byte, 14), b...), 14, ether, 1)
		}
	})
}

// judgeICMP checks that a message is complete, with correct checksums and the given
// addresses.
func judgeICMP(t *testing.T, b []byte, from, to netip.Addr) {
	src, dst, ok := addressesOf(b)
	whole, h, ok2 := trimPadding(b)
	if !ok || !ok2 || len(whole) != len(b) || src != from || dst != to {
		t.Fatalf("from %v to %v: %x", from, to, b)
	}
	sum := uint32(0)
	if h.Version == 4 {
		if wire.IPv4Checksum(b[:20]) != 0 || len(b) > maxProblem4 {
			t.Fatalf("%d bytes: %x", len(b), b)
		}
	} else {
		if len(b) > maxProblem6 {
			t.Fatalf("%d bytes", len(b))
		}
		sum = uint32(^wire.Checksum(b[8:40], 0)) + wire.ProtoICMPv6 + uint32(len(b)-40)
	}
	if wire.Checksum(b[h.Header:], sum) != 0 {
		t.Fatalf("ICMP checksum of %x", b)
	}
}
