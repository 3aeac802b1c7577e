package fabric

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// routed is three routers in a row, with a link of a small MTU in the middle;
// h1 is at one end, h2 and h3 behind a switch at the other.
const routed = `
duration: 1s
topology:
  kinds: {switch: {address: auto}, link: {rate: 1Gbps, delay: 10us}}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
    r1: {kind: switch}
    r2: {kind: switch}
    r3: {kind: switch}
    s1: {kind: switch, address: none}
  links:
    - {endpoints: ["h1:eth0", "r1:1"]}
    - {endpoints: ["r1:2", "r2:1"]}
    - {endpoints: ["r2:2", "r3:1"], mtu: 1400}
    - {endpoints: ["r3:2", "s1:1"]}
    - {endpoints: ["s1:2", "h2:eth0"]}
    - {endpoints: ["s1:3", "h3:eth0"]}
`

// inbox is a real host that keeps the bytes of what it receives.
type inbox struct {
	pool *packet.Pool
	got  [][]byte
}

func (b *inbox) DeliverPacket(_ units.Time, p *packet.Packet) {
	b.got = append(b.got, append([]byte(nil), gso.RenderPacket(p, nil)...))
	b.pool.Free(p)
}

// inboxes attaches an inbox to every interface.
func inboxes(f *Fabric) []*inbox {
	all := make([]*inbox, len(f.Interfaces))
	for i, iface := range f.Interfaces {
		all[i] = &inbox{pool: iface.Pool}
		iface.Attach(all[i])
	}
	return all
}

// enter lets a frame in at an interface now.
func enter(iface *hosts.Interface, frame []byte) {
	p := iface.Pool.NewFrame(len(frame))
	copy(p.Frame, frame)
	now := iface.Engine.Now()
	if !p.Parse() {
		iface.Malformed(now, p)
		return
	}
	iface.Enter(now, p)
}

// enterSuper lets a super-packet in at an interface now, of a frame that came with h.
func enterSuper(t testing.TB, iface *hosts.Interface, frame []byte, h gso.Header) {
	t.Helper()
	super := iface.Pool.NewSuper()
	super.Data = super.DataRoom()[:copy(super.DataRoom(), frame)]
	var head packet.Packet
	if err := gso.PrepareSuper(super, h, &head); err != nil {
		t.Fatal(err)
	}
	iface.EnterSuper(iface.Engine.Now(), super, &head)
}

func finish(t testing.TB, f *Fabric) {
	t.Helper()
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	live := 0
	for _, s := range f.Shards {
		live += s.Pool.LivePackets()
	}
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 || live != 0 {
		t.Errorf("%d packets live, %+v", live, a)
	}
}

// frameOf makes a frame to the router in front of an interface.
func frameOf(t testing.TB, iface *hosts.Interface, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	ether := layers.EthernetTypeIPv4
	var dst netip.Addr
	for _, x := range l {
		switch x := x.(type) {
		case *layers.IPv4:
			dst, _ = netip.AddrFromSlice(x.DstIP.To4())
		case *layers.IPv6:
			ether = layers.EthernetTypeIPv6
			dst, _ = netip.AddrFromSlice(x.DstIP)
		}
	}
	gw, ok := networkOf(iface).fabric.Neighbours(iface).MAC(dst)
	if !ok {
		t.Fatalf("%v has no way to %v", iface.Port.Name, dst)
	}
	buf := gopacket.NewSerializeBuffer()
	all := append([]gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: hardwareAddr(iface.MAC), DstMAC: hardwareAddr(gw), EthernetType: ether}}, l...)
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// datagram makes a UDP frame.
func datagram(t testing.TB, iface *hosts.Interface, src, dst string, ttl uint8, size int, dontFragment bool) []byte {
	t.Helper()
	u := &layers.UDP{SrcPort: 4000, DstPort: 33434}
	if strings.Contains(dst, ":") {
		h := &layers.IPv6{Version: 6, HopLimit: ttl, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP(src), DstIP: net.ParseIP(dst)}
		_ = u.SetNetworkLayerForChecksum(h)
		return frameOf(t, iface, h, u, gopacket.Payload(make([]byte, size)))
	}
	h := &layers.IPv4{Version: 4, TTL: ttl, Id: 9, Protocol: layers.IPProtocolUDP, SrcIP: net.ParseIP(src).To4(), DstIP: net.ParseIP(dst).To4()}
	if dontFragment {
		h.Flags = layers.IPv4DontFragment
	}
	_ = u.SetNetworkLayerForChecksum(h)
	return frameOf(t, iface, h, u, gopacket.Payload(make([]byte, size)))
}

// summary describes a frame in one line.
func summary(t testing.TB, frame []byte) string {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	out := ""
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.Ethernet:
			out += fmt.Sprintf("%v>%v", l.SrcMAC, l.DstMAC)
		case *layers.IPv4:
			out += fmt.Sprintf(" %v>%v ttl %d", l.SrcIP, l.DstIP, l.TTL)
			if wire.IPv4Checksum(l.Contents) != 0 {
				out += " BAD CHECKSUM"
			}
			if l.FragOffset > 0 || l.Flags&layers.IPv4MoreFragments != 0 {
				out += fmt.Sprintf(" fragment %d+%d", int(l.FragOffset)*8, len(l.Payload))
			}
		case *layers.IPv6:
			out += fmt.Sprintf(" %v>%v hops %d", l.SrcIP, l.DstIP, l.HopLimit)
		case *layers.UDP:
			out += " udp"
		case *layers.ICMPv4:
			out += fmt.Sprintf(" %v", l.TypeCode)
			if l.TypeCode == layers.CreateICMPv4TypeCode(3, 4) {
				out += fmt.Sprintf(" mtu %d", l.Seq)
			}
		case *layers.ICMPv6:
			out += fmt.Sprintf(" %v", l.TypeCode)
			if l.TypeCode.Type() == layers.ICMPv6TypePacketTooBig {
				out += fmt.Sprintf(" mtu %d", binary.BigEndian.Uint32(l.Payload))
			}
		case *layers.ARP:
			out += fmt.Sprintf(" arp %d", l.Operation)
		}
	}
	return out
}

// TestRouter_ForwardsPacketsAndReportsErrors sends single packets from h1 and checks what it
// and h2 receive, and the counters.
func TestRouter_ForwardsPacketsAndReportsErrors(t *testing.T) {
	const h1, h2 = "10.0.0.2", "10.0.1.2"
	const in, out = "02:00:00:00:00:04>02:00:00:00:00:01 ", "02:00:00:00:00:09>02:00:00:00:00:02 "
	fragments := func(f *Fabric, t *testing.T) []byte { return datagram(t, f.Interfaces[0], h1, h2, 64, 1420, false) }
	udp := func(src, dst string, ttl uint8, size int, df bool) func(*Fabric, *testing.T) []byte {
		return func(f *Fabric, t *testing.T) []byte { return datagram(t, f.Interfaces[0], src, dst, ttl, size, df) }
	}
	echo := func(dst string, ttl uint8) func(*Fabric, *testing.T) []byte {
		return func(f *Fabric, t *testing.T) []byte {
			if strings.Contains(dst, ":") {
				h := &layers.IPv6{Version: 6, HopLimit: ttl, NextHeader: layers.IPProtocolICMPv6, SrcIP: net.ParseIP("fd00::2"), DstIP: net.ParseIP(dst)}
				m := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}
				_ = m.SetNetworkLayerForChecksum(h)
				return frameOf(t, f.Interfaces[0], h, m, &layers.ICMPv6Echo{})
			}
			h := &layers.IPv4{Version: 4, TTL: ttl, Protocol: layers.IPProtocolICMPv4, SrcIP: net.ParseIP(h1).To4(), DstIP: net.ParseIP(dst).To4()}
			return frameOf(t, f.Interfaces[0], h, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0)})
		}
	}
	tagged := func(f *Fabric, t *testing.T) []byte {
		b := datagram(t, f.Interfaces[0], h1, h2, 64, 10, false)
		return append(append(append([]byte{}, b[:12]...), 0x81, 0, 0, 5), b[12:]...)
	}
	to := func(mac string, f func(*Fabric, *testing.T) []byte) func(*Fabric, *testing.T) []byte {
		return func(fb *Fabric, t *testing.T) []byte {
			b := f(fb, t)
			hw, _ := net.ParseMAC(mac)
			copy(b, hw)
			return b
		}
	}
	arp := func(f *Fabric, t *testing.T) []byte {
		return frameOfARP(t, f.Interfaces[0], h1, "10.0.0.1")
	}
	for _, c := range []struct {
		name     string
		frame    func(*Fabric, *testing.T) []byte
		back     []string // to h1
		there    []string // to h2
		consumed uint64
		drops    map[string]uint64
	}{
		{"a datagram", udp(h1, h2, 64, 100, true), nil, []string{out + "10.0.0.2>10.0.1.2 ttl 61 udp"}, 0, nil},
		{"a datagram of IPv6", udp("fd00::2", "fd00::1:2", 64, 100, true), nil, []string{out + "fd00::2>fd00::1:2 hops 61 udp"}, 0, nil},
		{"TTL 1", udp(h1, h2, 1, 10, true), []string{in + "10.0.0.1>10.0.0.2 ttl 64 TimeExceeded(TTLExceeded)"}, nil, 0, map[string]uint64{"ttl-expired": 1}},
		{"TTL 2", udp(h1, h2, 2, 10, true), []string{in + "10.255.0.2>10.0.0.2 ttl 63 TimeExceeded(TTLExceeded)"}, nil, 0, map[string]uint64{"ttl-expired": 1}},
		{"TTL 3", udp(h1, h2, 3, 10, true), []string{in + "10.255.0.3>10.0.0.2 ttl 62 TimeExceeded(TTLExceeded)"}, nil, 0, map[string]uint64{"ttl-expired": 1}},
		{"TTL 4", udp(h1, h2, 4, 10, true), nil, []string{out + "10.0.0.2>10.0.1.2 ttl 1 udp"}, 0, nil},
		{"TTL 0", udp(h1, h2, 0, 10, true), []string{in + "10.0.0.1>10.0.0.2 ttl 64 TimeExceeded(TTLExceeded)"}, nil, 0, map[string]uint64{"ttl-expired": 1}},
		{"hop limit 1", udp("fd00::2", "fd00::1:2", 1, 10, true), []string{in + "fd00::1>fd00::2 hops 64 TimeExceeded(HopLimitExceeded)"}, nil, 0, map[string]uint64{"ttl-expired": 1}},
		{"hop limit 3", udp("fd00::2", "fd00::1:2", 3, 10, true), []string{in + "fd00:ffff::3>fd00::2 hops 62 TimeExceeded(HopLimitExceeded)"}, nil, 0, map[string]uint64{"ttl-expired": 1}},
		{"too big with DF", udp(h1, h2, 64, 1420, true), []string{in + "10.255.0.2>10.0.0.2 ttl 63 DestinationUnreachable(FragmentationNeeded) mtu 1400"}, nil, 0, map[string]uint64{"too-big": 1}},
		{"too big in IPv6", udp("fd00::2", "fd00::1:2", 64, 1420, true), []string{in + "fd00:ffff::2>fd00::2 hops 63 PacketTooBig mtu 1400"}, nil, 0, map[string]uint64{"too-big": 1}},
		{"as large as may be", udp(h1, h2, 64, 1372, true), nil, []string{out + "10.0.0.2>10.0.1.2 ttl 61 udp"}, 0, nil},
		{"too big without DF", fragments, nil, []string{out + "10.0.0.2>10.0.1.2 ttl 61 fragment 0+1376", out + "10.0.0.2>10.0.1.2 ttl 61 fragment 1376+52"}, 1, nil},
		{"no route", udp(h1, "10.0.7.7", 64, 10, true), []string{in + "10.0.0.1>10.0.0.2 ttl 64 DestinationUnreachable(Net)"}, nil, 0, map[string]uint64{"no-route": 1}},
		{"nobody there", udp(h1, "10.0.1.77", 64, 10, true), []string{in + "10.255.0.3>10.0.0.2 ttl 62 DestinationUnreachable(Host)"}, nil, 0, map[string]uint64{"no-host": 1}},
		{"no route in IPv6", udp("fd00::2", "fd09::1", 64, 10, true), []string{in + "fd00::1>fd00::2 hops 64 DestinationUnreachable(NoRouteToDst)"}, nil, 0, map[string]uint64{"no-route": 1}},
		{"nobody there in IPv6", udp("fd00::2", "fd00::1:99", 64, 10, true), []string{in + "fd00:ffff::3>fd00::2 hops 62 DestinationUnreachable(AddressUnreachable)"}, nil, 0, map[string]uint64{"no-host": 1}},
		{"a port of a router", udp(h1, "10.255.0.3", 3, 10, true), []string{in + "10.255.0.3>10.0.0.2 ttl 62 DestinationUnreachable(Port)"}, nil, 1, nil},
		{"an echo to the near router", echo("10.0.0.1", 1), []string{in + "10.0.0.1>10.0.0.2 ttl 64 EchoReply"}, nil, 1, nil},
		{"echo of the far end", echo("10.0.1.1", 3), []string{in + "10.0.1.1>10.0.0.2 ttl 62 EchoReply"}, nil, 1, nil},
		{"echo in IPv6", echo("fd00:ffff::2", 64), []string{in + "fd00:ffff::2>fd00::2 hops 63 EchoReply"}, nil, 1, nil},
		{"an ARP request", arp, []string{in + "arp 2"}, nil, 1, nil},
		{"a broadcast", to("ff:ff:ff:ff:ff:ff", udp(h1, "10.0.1.2", 64, 10, true)), nil, nil, 1, nil},
		{"for another MAC", to("02:00:00:00:00:02", udp(h1, h2, 64, 10, true)), nil, nil, 1, nil},
		{"for an unknown MAC", to("02:00:00:09:00:02", udp(h1, h2, 64, 10, true)), nil, nil, 1, nil},
		{"for another port's MAC", to("02:00:00:00:00:05", udp(h1, h2, 64, 10, true)), nil, nil, 1, nil},
		{"with a VLAN tag", tagged, nil, nil, 0, map[string]uint64{"tagged": 1}},
		{"from a stranger", udp("192.168.0.1", h2, 1, 10, true), nil, nil, 0, map[string]uint64{"ttl-expired": 1, "no-route": 1}}, // the answer has no way
		{"to a link-local address", udp("fd00::2", "fe80::1", 64, 10, true), []string{in + "fd00::1>fd00::2 hops 64 DestinationUnreachable(NoRouteToDst)"}, nil, 0, map[string]uint64{"no-route": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := New(parse(t, routed))
			hosts := inboxes(f)
			enter(f.Interfaces[0], c.frame(f, t))
			finish(t, f)
			for i, want := range [][]string{c.back, c.there, nil} {
				var got []string
				for _, b := range hosts[i].got {
					got = append(got, summary(t, b))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("h%d (-want +got):\n%s", i+1, diff)
				}
			}
			a := f.Accounts()
			if diff := cmp.Diff(c.drops, a.Drops); diff != "" || a.Consumed != c.consumed {
				t.Errorf("consumed %d, not %d; drops:\n%s", a.Consumed, c.consumed, diff)
			}
		})
	}
}

func frameOfARP(t testing.TB, iface *hosts.Interface, src, target string) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	mac := hardwareAddr(iface.MAC)
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, &layers.Ethernet{SrcMAC: mac, DstMAC: layers.EthernetBroadcast, EthernetType: layers.EthernetTypeARP}, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
		SourceHwAddress: mac, SourceProtAddress: net.ParseIP(src).To4(), DstHwAddress: make([]byte, 6), DstProtAddress: net.ParseIP(target).To4(),
	}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestRouter_LimitsItsErrorReports: of a hundred packets at once that a router cannot forward
// it reports fifty; of those that are too long, all.
func TestRouter_LimitsItsErrorReports(t *testing.T) {
	f := New(parse(t, routed))
	hosts := inboxes(f)
	for range 100 {
		enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "10.0.0.2", "10.0.1.2", 2, 10, true))
		enter(f.Interfaces[0], datagram(t, f.Interfaces[0], "10.0.0.2", "10.0.1.2", 64, 1420, true))
	}
	finish(t, f)
	count := map[bool]int{}
	for _, b := range hosts[0].got {
		count[strings.Contains(summary(t, b), "mtu 1400")]++
	}
	// The hundred packets take 1.3 ms on the link.
	if count[true] != 100 || count[false] < 50 || count[false] > 52 {
		t.Errorf("told of %d too long and %d others", count[true], count[false])
	}
}

// TestSuperPacket_CrossesRoutersInCorrectPieces: pieces of a super-packet have other addresses
// and another TTL behind every router, in captures and at the host, and are otherwise as their
// host would have cut them.
func TestSuperPacket_CrossesRoutersInCorrectPieces(t *testing.T) {
	for _, size := range []int{1300, 1380} { // fits, or is too long for the middle
		f := New(parse(t, routed))
		hosts := inboxes(f)
		iface := f.Interfaces[0]
		watch := map[string][]string{}
		for _, name := range []string{"r1:2", "r3:1", "s1:2"} {
			n, i, _ := f.Plan.Endpoint(name)
			f.Port(n, i).SetObserver(0, observer(func(p *packet.Packet, dir port.Direction, _ packet.Fate) {
				watch[name] = append(watch[name], summary(t, gso.RenderPacket(p, nil)))
			}))
		}
		tcp := &layers.TCP{SrcPort: 1, DstPort: 2, Seq: 1000, ACK: true, Window: 100}
		h := &layers.IPv4{Version: 4, TTL: 64, Id: 9, Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolTCP, SrcIP: net.IP{10, 0, 0, 2}, DstIP: net.IP{10, 0, 1, 2}}
		_ = tcp.SetNetworkLayerForChecksum(h)
		frame := frameOf(t, iface, h, tcp, gopacket.Payload(make([]byte, 3*size)))
		enterSuper(t, iface, frame, gso.Header{Flags: gso.NeedsCsum, GSOType: gso.GSOTCPv4, GSOSize: uint16(size)})
		finish(t, f)
		if size == 1380 {
			if len(hosts[0].got) != 3 || len(hosts[1].got) != 0 {
				t.Fatalf("%d told, %d arrived", len(hosts[0].got), len(hosts[1].got))
			}
			for i, b := range hosts[0].got {
				p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
				quoted := gopacket.NewPacket(p.Layer(layers.LayerTypeICMPv4).LayerPayload(), layers.LayerTypeIPv4, gopacket.Default)
				q, qt := quoted.Layer(layers.LayerTypeIPv4).(*layers.IPv4), quoted.Layer(layers.LayerTypeTCP).(*layers.TCP)
				if q.Id != uint16(9+i) || q.TTL != 63 || q.Length != 1420 || qt.Seq != uint32(1000+1380*i) {
					t.Errorf("quoted: %+v %+v", q, qt)
				}
			}
			continue
		}
		want := map[string][]string{}
		for range 3 {
			want["r1:2"] = append(want["r1:2"], "02:00:00:00:00:05>02:00:00:00:00:06 10.0.0.2>10.0.1.2 ttl 63")
			want["r3:1"] = append(want["r3:1"], "02:00:00:00:00:07>02:00:00:00:00:08 10.0.0.2>10.0.1.2 ttl 62")
			want["s1:2"] = append(want["s1:2"], "02:00:00:00:00:09>02:00:00:00:00:02 10.0.0.2>10.0.1.2 ttl 61")
		}
		if diff := cmp.Diff(want, watch); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i, b := range hosts[1].got {
			p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
			ip, l := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4), p.Layer(layers.LayerTypeTCP).(*layers.TCP)
			if ip.Id != uint16(9+i) || l.Seq != uint32(1000+size*i) || len(l.Payload) != size {
				t.Errorf("%+v %+v", ip, l)
			}
			_ = l.SetNetworkLayerForChecksum(ip)
			if sum, err := l.ComputeChecksum(); err != nil || sum != 0 {
				t.Errorf("TCP checksum off by %x, %v", sum, err)
			}
		}
	}
}

// observer is a port.Observer.
type observer func(p *packet.Packet, dir port.Direction, fate packet.Fate)

func (o observer) Observe(_ units.Time, _ *port.Port, dir port.Direction, p *packet.Packet, fate packet.Fate, _ units.Bytes) {
	o(p, dir, fate)
}

// TestModelledPackets_CrossRoutersWithEachHopsHeaders: modelled packets arrive, with the
// addresses and TTLs of every hop in captures; what expires or is too long is counted, and no
// error is sent.
func TestModelledPackets_CrossRoutersWithEachHopsHeaders(t *testing.T) {
	f := New(parse(t, routed+`
workload:
  - {cbr: {from: h1, to: h2, rate: 1Mbps, size: 100B, for: 8ms}}
  - {cbr: {from: h3, to: h1, rate: 1Mbps, size: 100B, for: 8ms, ip: 6}}
  - {cbr: {from: h2, to: h3, rate: 1Mbps, size: 100B, for: 8ms}}
  - {cbr: {from: h1, to: h3, rate: 10Mbps, size: 1400B, for: 10ms}}
`))
	seen := map[string]int{}
	for _, name := range []string{"h1:eth0", "r2:1", "h2:eth0", "h3:eth0"} {
		n, i, _ := f.Plan.Endpoint(name)
		e := &encoder{fabric: f}
		f.Port(n, i).SetObserver(0, observer(func(p *packet.Packet, dir port.Direction, fate packet.Fate) {
			if p.Size < 1000 {
				seen[fmt.Sprintf("%s %d %s", name, dir, summary(t, e.frame(p)))]++
			}
		}))
	}
	finish(t, f)
	want := map[string]int{
		"h1:eth0 1 02:00:00:00:00:01>02:00:00:00:00:04 10.0.0.2>10.0.1.2 ttl 64 udp":  10,
		"r2:1 0 02:00:00:00:00:05>02:00:00:00:00:06 10.0.0.2>10.0.1.2 ttl 63 udp":     10,
		"h2:eth0 0 02:00:00:00:00:09>02:00:00:00:00:02 10.0.0.2>10.0.1.2 ttl 61 udp":  10,
		"h3:eth0 1 02:00:00:00:00:03>02:00:00:00:00:09 fd00::1:3>fd00::2 hops 64 udp": 10,
		"r2:1 1 02:00:00:00:00:06>02:00:00:00:00:05 fd00::1:3>fd00::2 hops 62 udp":    10,
		"h1:eth0 0 02:00:00:00:00:04>02:00:00:00:00:01 fd00::1:3>fd00::2 hops 61 udp": 10,
		"h2:eth0 1 02:00:00:00:00:02>02:00:00:00:00:03 10.0.1.2>10.0.1.3 ttl 64 udp":  10,
		"h3:eth0 0 02:00:00:00:00:02>02:00:00:00:00:03 10.0.1.2>10.0.1.3 ttl 64 udp":  10,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := f.Accounts(); a.Drops["too-big"] != 9 || a.Originated != 0 || a.Consumed != 0 {
		t.Errorf("%+v", a)
	}
	// More routers than a modelled packet's TTL.
	var text strings.Builder
	text.WriteString("duration: 1ms\ntopology:\n  kinds: {switch: {address: auto}}\n  generate: {parking-lot: {hops: 70, rate: 1Gbps}}\nworkload:\n  - {cbr: {from: h1, to: h2, rate: 1Gbps, size: 1000B, for: 80us}}\n")
	f = New(parse(t, text.String()))
	finish(t, f)
	if a := f.Accounts(); a.Drops["ttl-expired"] != 10 || a.Delivered != 0 || a.Originated != 0 {
		t.Errorf("%+v", a)
	}
}

// drawRouters makes a random lab with routers: all switches, all but some, or some.
func drawRouters(t *rapid.T) string {
	draw := rapid.SampledFrom([]func(*rapid.T) string{fabrictest.DrawLab, drawPaths, fabrictest.DrawQoSLab}).Draw(t, "kind of lab")
	text := draw(t)
	const routes = "  nodes:\n" // only drawPaths has any
	if rapid.Bool().Draw(t, "all") || strings.Contains(text, routes) {
		text = strings.Replace(text, "switch: {", "switch: {address: auto, ", 1)
		for _, n := range []string{"spine2", "agg4", "core1"} {
			if strings.Contains(text, routes) && strings.Contains(text, n) && rapid.Bool().Draw(t, n) {
				text = strings.Replace(text, routes, routes+"    "+n+": {address: none}\n", 1)
			}
		}
		if _, err := resolve.Parse("lab.yaml", []byte(text)); err != nil && strings.Contains(text, routes) {
			t.Fatalf("%v\n%s", err, text)
		}
		return text
	}
	names := map[string][]string{"star": {"s1"}, "dumbbell": {"s1", "s2"}, "parking-lot": {"s2", "s3"}, "leaf-spine": {"leaf1", "leaf2", "spine1"}, "fat-tree": {"core1", "core2", "agg1", "agg3", "agg6"}}
	nodes := "  nodes:\n"
	for generator, all := range names {
		if strings.Contains(text, "{"+generator+":") {
			for _, n := range all {
				if rapid.Bool().Draw(t, n) {
					nodes += "    " + n + ": {address: auto}\n"
				}
			}
		}
	}
	if nodes == "  nodes:\n" {
		return text
	}
	return strings.Replace(text, "events:", nodes+"events:", 1)
}

// TestRouters_AreTheSameWithAnyNumberOfWorkers is TestWorkers_DoNotChangeResults with routers
// that have to answer, to cut packets and to report what they cannot forward.
func TestRouters_AreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	checkWorkers(t, drawRouters, func(f *Fabric) {
		if !f.topology.Routed() {
			return
		}
		inboxes(f)
		for i, iface := range f.Interfaces {
			far := f.Interfaces[(i+3)%len(f.Interfaces)]
			port := &f.Plan.Nodes[far.Node].Ports[far.Index]
			own := &f.Plan.Nodes[iface.Node].Ports[iface.Index]
			for v := range 2 {
				src, dst := own.Addresses[v].Addr().String(), port.Addresses[v].Addr().String()
				for ttl := range uint8(6) {
					enter(iface, datagram(t, iface, src, dst, ttl, 100, true))
				}
				enter(iface, datagram(t, iface, src, own.Addresses[v].Masked().Addr().Next().String(), 64, 20, true))
			}
			enter(iface, datagram(t, iface, own.Addresses[0].Addr().String(), "10.77.0.1", 64, 20, true))
			enter(iface, frameOfARP(t, iface, own.Addresses[0].Addr().String(), own.Addresses[0].Masked().Addr().Next().String()))
		}
	})
}

// TestRouters_CountWhatCapturesShow: whatever frames hosts send, each is delivered, consumed
// or dropped for a reason, and the foreseen fate of an arriving packet, as a capture shows it,
// is the one that is counted.
func TestRouters_CountWhatCapturesShow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := routed
		if rapid.Bool().Draw(rt, "cut-through") {
			// Damaged packets travel until their FCS is checked.
			text = strings.Replace(text, "kinds: {switch: {address: auto}, link: {", "kinds: {switch: {address: auto, cut-through: true}, link: {corrupt: 20%, ", 1)
		}
		f := New(parse(t, text))
		inboxes(f)
		shown := map[*port.Port]map[packet.Fate]uint64{}
		for n := range f.ports {
			for _, p := range f.ports[n] {
				mine := map[packet.Fate]uint64{}
				shown[p] = mine
				p.SetObserver(0, observer(func(_ *packet.Packet, _ port.Direction, fate packet.Fate) {
					if fate.IsDrop() {
						mine[fate]++
					}
				}))
			}
		}
		addresses := []string{"10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.1.9", "10.255.0.2", "10.9.9.9", "224.0.0.1", "169.254.0.1", "0.0.0.0", "255.255.255.255"}
		for range rapid.IntRange(1, 30).Draw(rt, "frames") {
			iface := f.Interfaces[rapid.IntRange(0, 2).Draw(rt, "from")]
			h := &layers.IPv4{
				Version: 4, TTL: rapid.SampledFrom([]uint8{0, 1, 2, 3, 64}).Draw(rt, "ttl"), SrcIP: net.ParseIP(rapid.SampledFrom(addresses).Draw(rt, "src")).To4(),
				DstIP: net.ParseIP(rapid.SampledFrom(addresses).Draw(rt, "dst")).To4(), Protocol: layers.IPProtocol(rapid.SampledFrom([]uint8{1, 6, 17, 47, 58}).Draw(rt, "proto")),
				Flags: layers.IPv4Flag(rapid.Uint8Range(0, 7).Draw(rt, "flags")), FragOffset: rapid.SampledFrom([]uint16{0, 0, 3, 0x1fff}).Draw(rt, "offset"),
			}
			b := frameOf(t, iface, h, gopacket.Payload(rapid.SliceOfN(rapid.Byte(), 0, 1480).Draw(rt, "payload")))
			if rapid.IntRange(0, 3).Draw(rt, "odd") == 0 {
				b = b[:rapid.IntRange(0, len(b)).Draw(rt, "cut")]
				for range rapid.IntRange(0, 4).Draw(rt, "damage") {
					if len(b) > 12 {
						b[rapid.IntRange(12, len(b)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
					}
				}
			}
			enter(iface, b)
		}
		if err := f.Run(context.Background(), units.Never); err != nil {
			rt.Fatal(err)
		}
		if a := f.Accounts(); !a.Balanced() || a.Held != 0 || f.Shards[0].Pool.LivePackets() != 0 {
			rt.Fatalf("%d live, %+v", f.Shards[0].Pool.LivePackets(), a)
		}
		for p, fates := range shown {
			c := p.Counters(f.Now())
			for fate, n := range c.Drops {
				// Malformed frames from hosts never arrive at a port.
				if fate := packet.Fate(fate); n != fates[fate] && fate != packet.Malformed {
					rt.Errorf("%s: %d %v counted, %d shown", p.Name, n, fate, fates[fate])
				}
			}
		}
	})
}

// TestRouters_SpreadFlowsOverEqualPaths: flows between leaves that are routers are spread over
// all spines, and each keeps to one; two routers behind one switch are two next hops.
func TestRouters_SpreadFlowsOverEqualPaths(t *testing.T) {
	text := "duration: 1ms\ntopology:\n  kinds: {switch: {address: auto}}\n  generate: {leaf-spine: {spines: 4, leaves: 2, hosts-per-leaf: 8, rate: 1Gbps, delay: 1us}}\nworkload:\n" +
		"  - {cbr: {from: [h1, h2, h3, h4, h5, h6, h7, h8], to: [h9, h10, h11, h12, h13, h14, h15, h16], rate: 1Mbps, size: 100B, for: 1ms}}\n"
	f := run(t, parse(t, text))
	n, _ := f.Plan.Node("leaf1")
	for i, p := range f.Plan.Nodes[n].Ports {
		if sent := f.PortStatus(n, i).TxPackets; strings.HasPrefix(p.Name, "spine") && sent == 0 {
			t.Errorf("nothing goes to %s", p.Name)
		}
	}
	if a := f.Accounts(); a.Delivered != a.Entered {
		t.Errorf("%+v", a)
	}
	f = New(parse(t, "topology:\n  kinds: {switch: {address: auto}}"+fmt.Sprintf(behindOnePort, "")))
	n, _ = f.Plan.Node("r1")
	for _, w := range f.Routes(n) {
		if w.To == netip.MustParsePrefix("10.0.1.0/24") && (len(w.Ports) != 1 || len(w.Via) != 2) {
			t.Errorf("%+v", w)
		}
	}
	hosts := inboxes(f)
	iface := f.Interfaces[0]
	for i := range 40 {
		b := datagram(t, iface, "10.0.0.2", "10.0.1.2", 64, 10, true)
		b[35] = byte(i) // of the source port; routers ignore the UDP checksum
		enter(iface, b)
		finish(t, f)
	}
	for _, name := range []string{"r2:2", "r3:2"} {
		n, i, _ := f.Plan.Endpoint(name)
		if f.PortStatus(n, i).TxPackets == 0 {
			t.Errorf("nothing goes through %s", name)
		}
	}
	if len(hosts[1].got) != 40 {
		t.Errorf("%d of 40 arrived", len(hosts[1].got))
	}
}

// TestRouterHop_DoesNotAllocate: packets of programs and of models cross routers without
// allocation.
func TestRouterHop_DoesNotAllocate(t *testing.T) {
	f := New(parse(t, routed+"workload:\n  - {cbr: {from: h1, to: h2, rate: 100Mbps, size: 1000B}}\n"))
	for _, iface := range f.Interfaces {
		iface.Attach(drain{iface.Pool})
	}
	frame := datagram(t, f.Interfaces[0], "10.0.0.2", "10.0.1.3", 64, 1000, true)
	now := units.Time(0)
	step := func() {
		for range 10 {
			enter(f.Interfaces[0], frame)
		}
		now += units.Millisecond
		if err := f.Run(context.Background(), now); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		step()
	}
	if n := testing.AllocsPerRun(20, step); n > 0 {
		t.Errorf("%v allocations in 1ms", n)
	}
	if got := f.Accounts().Delivered; got < 400 {
		t.Errorf("%d delivered: the test tests nothing", got)
	}
}

type drain struct{ pool *packet.Pool }

func (d drain) DeliverPacket(_ units.Time, p *packet.Packet) { d.pool.Free(p) }

// TestCongestionPointPackets_CrossRouters: packets from a congestion point to a host reach it
// behind routers, whether the switch that sends them is a router or not.
func TestCongestionPointPackets_CrossRouters(t *testing.T) {
	for _, c := range []struct {
		from string
		to   packet.Endpoint
		hops uint8
	}{{"s1", 0, 3}, {"s1", 1, 0}, {"r2", 0, 1}, {"r3", 2, 0}} {
		f := New(parse(t, routed))
		n, _ := f.Plan.Node(c.from)
		st := f.Interfaces[c.to]
		got := []uint8{}
		st.Port.SetObserver(0, observer(func(p *packet.Packet, _ port.Direction, _ packet.Fate) { got = append(got, 64-p.TTL) }))
		for _, version := range []uint8{4, 6} {
			p := f.Shards[0].Pool.New()
			p.Dest, p.Version, p.TTL, p.L3, p.Size = c.to, version, 64, wire.EthernetHeader, 100
			f.topology.SetFirstHop(n, p)
			f.Switches[n].OriginatePacket(0, p)
		}
		finish(t, f)
		if diff := cmp.Diff([]uint8{c.hops, c.hops}, got); diff != "" || f.Accounts().Originated != 2 {
			t.Errorf("%s to interface %d (-want +got):\n%s", c.from, c.to, diff)
		}
		// To no interface, and to a router's port: neither panics, and both are accounted
		// for.
		for _, to := range []packet.Endpoint{packet.Flood, packet.Endpoint(len(f.topology.Endpoints) - 1)} {
			p := f.Shards[0].Pool.New()
			p.Dest, p.Version, p.TTL, p.L3, p.Size = to, 4, 64, wire.EthernetHeader, 100
			f.topology.SetFirstHop(n, p)
			f.Switches[n].OriginatePacket(f.Now(), p)
		}
		finish(t, f)
	}
}
