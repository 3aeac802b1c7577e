package tuntap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

const (
	hostMAC wire.MAC = 0x020000000001
	peerMAC wire.MAC = 0x020000000002
)

var (
	host4, peer4 = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	host6, peer6 = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	askerMAC     = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	ownMAC       = net.HardwareAddr{2, 0, 0, 0, 0, 1}
)

// neighbours is a fabric with a single peer.
type neighbours struct{}

func (neighbours) MAC(ip netip.Addr) (wire.MAC, bool) { return peerMAC, ip == peer4 || ip == peer6 }

// kernel is the far end of a device: a socket that preserves message boundaries, as
// the kernel's side of a TUN does.
type kernel struct {
	t      testing.TB
	fd     int
	device int // the other end
	pool   packet.Pool
	// Copies of the frames that entered the fabric; the packets are freed.
	entered            [][]byte
	malformed, refused int
	at                 []units.Time
}

func newKernel(t testing.TB) (k *kernel, device int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	k = &kernel{t: t, fd: fds[0], device: fds[1]}
	t.Cleanup(k.closeBoth)
	return k, fds[1]
}

// closeBoth closes both ends. A test with many cases need not wait for its own end.
func (k *kernel) closeBoth() {
	k.close()
	if k.device >= 0 {
		unix.Close(k.device)
	}
	k.device = -1
}

func (k *kernel) close() {
	if k.fd >= 0 {
		unix.Close(k.fd)
	}
	k.fd = -1
}

func (k *kernel) Enter(now units.Time, p *packet.Packet) {
	k.entered = append(k.entered, gso.RenderPacket(p, nil))
	k.entered[len(k.entered)-1] = bytes.Clone(k.entered[len(k.entered)-1])
	k.at = append(k.at, now)
	k.pool.Free(p)
}

func (k *kernel) EnterSuper(now units.Time, s *packet.Super, head *packet.Packet) {
	split := gso.NewSplitter(&k.pool, s, head)
	for p := split.Next(); p != nil; p = split.Next() {
		k.Enter(now, p)
	}
	k.pool.ReleaseSuper(s)
}

func (k *kernel) Malformed(_ units.Time, p *packet.Packet) {
	k.malformed++
	k.pool.Free(p)
}

func (k *kernel) Refused(units.Time, *packet.Packet) { k.refused++ }

// config returns the Config of a device without offload.
func (k *kernel) config(fd int) Config { return Config{FD: fd, MTU: 1500, Pool: &k.pool, Entrance: k} }

// send sends a packet from the host.
func (k *kernel) send(b []byte) {
	k.t.Helper()
	if _, err := unix.Write(k.fd, b); err != nil {
		k.t.Fatal(err)
	}
}

// receive returns what was written to the host, nil when nothing was.
func (k *kernel) receive() []byte {
	k.t.Helper()
	b := make([]byte, 10_000)
	n, err := unix.Read(k.fd, b)
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return b[:n]
}

func newTestTUN(t testing.TB) (*TUN, *kernel) {
	k, fd := newKernel(t)
	return NewTUN(k.config(fd), hostMAC, []netip.Addr{host4, host6}, neighbours{}), k
}

// build serialises layers with gopacket.
func build(t testing.TB, l ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, l...); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(buf.Bytes())
}

// ipTo returns a UDP packet from the host to an address.
func ipTo(t testing.TB, dst string) []byte {
	t.Helper()
	ip := net.ParseIP(dst)
	udp := &layers.UDP{SrcPort: 40_000, DstPort: 40_001}
	if ip.To4() != nil {
		l := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: host4.AsSlice(), DstIP: ip.To4()}
		_ = udp.SetNetworkLayerForChecksum(l)
		return build(t, l, udp, gopacket.Payload("weft"))
	}
	l := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: host6.AsSlice(), DstIP: ip}
	_ = udp.SetNetworkLayerForChecksum(l)
	return build(t, l, udp, gopacket.Payload("weft"))
}

// TestTUN_AddsAnEthernetHeader: gopacket can read the frame made from a packet.
func TestTUN_AddsAnEthernetHeader(t *testing.T) {
	for _, c := range []struct {
		dst, mac string
		kind     layers.EthernetType
	}{
		{"10.0.0.2", "02:00:00:00:00:02", layers.EthernetTypeIPv4},
		{"fd00::2", "02:00:00:00:00:02", layers.EthernetTypeIPv6},
		{"255.255.255.255", "ff:ff:ff:ff:ff:ff", layers.EthernetTypeIPv4},
		{"224.0.0.251", "01:00:5e:00:00:fb", layers.EthernetTypeIPv4},
		{"239.255.255.250", "01:00:5e:7f:ff:fa", layers.EthernetTypeIPv4}, // 23 bits of 28
		{"224.128.0.1", "01:00:5e:00:00:01", layers.EthernetTypeIPv4},
		{"ff02::1", "33:33:00:00:00:01", layers.EthernetTypeIPv6},
		{"ff02::1:ff12:3456", "33:33:ff:12:34:56", layers.EthernetTypeIPv6},
	} {
		tun, k := newTestTUN(t)
		ip := ipTo(t, c.dst)
		k.send(ip)
		if n := tun.Poll(5, 10); n != 1 || len(k.entered) != 1 || k.at[0] != 5 {
			t.Fatalf("%s: read %d, entered %d at %v", c.dst, n, len(k.entered), k.at)
		}
		p := gopacket.NewPacket(k.entered[0], layers.LayerTypeEthernet, gopacket.Default)
		eth := p.LinkLayer().(*layers.Ethernet)
		if eth.DstMAC.String() != c.mac || eth.SrcMAC.String() != ownMAC.String() || eth.EthernetType != c.kind {
			t.Errorf("%s: %v to %v, %v; want to %s, %v", c.dst, eth.SrcMAC, eth.DstMAC, eth.EthernetType, c.mac, c.kind)
		}
		if !bytes.Equal(eth.Payload, ip) {
			t.Errorf("%s: the packet changed", c.dst)
		}
		if tun.UnroutablePackets() != 0 || k.pool.LivePackets() != 0 {
			t.Errorf("%s: unroutable %d, live %d", c.dst, tun.UnroutablePackets(), k.pool.LivePackets())
		}
	}
}

// TestTUN_CountsWhatHasNoRoute: packets to unknown addresses, and input that is not an IP
// packet, do not enter the fabric and are counted.
func TestTUN_CountsWhatHasNoRoute(t *testing.T) {
	tun, k := newTestTUN(t)
	known4, known6 := ipTo(t, "10.0.0.2"), ipTo(t, "fd00::2")
	bad := [][]byte{known4[:19], known4[:1], known6[:39], ipTo(t, "10.0.0.99"), ipTo(t, "fd00::99"), append([]byte{0x55}, known4[1:]...)}
	// The first fills the buffer with the bytes that the truncated ones lack.
	for _, b := range append([][]byte{known4}, bad...) {
		k.send(b)
	}
	if n := tun.Poll(0, 100); n != len(bad)+1 || len(k.entered) != 1 || tun.UnroutablePackets() != uint64(len(bad)) || k.pool.LivePackets() != 0 {
		t.Errorf("read %d, entered %d, unroutable %d, live %d; want %d, 1, %d, 0", n, len(k.entered), tun.UnroutablePackets(), k.pool.LivePackets(), len(bad)+1, len(bad))
	}
}

// TestPoll_ReadsNoMoreThanAsked: at most max packets are read in a turn, none when none are
// waiting, in the order in which they were sent.
func TestPoll_ReadsNoMoreThanAsked(t *testing.T) {
	tun, k := newTestTUN(t)
	tapKernel, fd := newKernel(t)
	tap := NewTAP(tapKernel.config(fd))
	for name, c := range map[string]struct {
		k    *kernel
		poll func(units.Time, int) int
	}{"TUN": {k, tun.Poll}, "TAP": {tapKernel, tap.Poll}} {
		for i := range 5 {
			b := ipTo(t, "10.0.0.2")
			b[5] = byte(i) // of the IP ID
			c.k.send(b)
		}
		if got := []int{c.poll(0, 2), c.poll(0, 2), c.poll(0, 2), c.poll(0, 2)}; !cmp.Equal(got, []int{2, 2, 1, 0}) {
			t.Errorf("%s: read %v, want 2, 2, 1, 0", name, got)
		}
		for i, f := range c.k.entered {
			if f[len(f)-len(ipTo(t, "10.0.0.2"))+5] != byte(i) {
				t.Errorf("%s: packet %d is another", name, i)
			}
		}
		if c.k.pool.LivePackets() != 0 {
			t.Errorf("%s: %d live", name, c.k.pool.LivePackets())
		}
	}
}

// TestTAP_PassesFramesUnchanged: frames pass unchanged, up to the length of the MTU with two VLAN
// tags.
func TestTAP_PassesFramesUnchanged(t *testing.T) {
	k, fd := newKernel(t)
	tap := NewTAP(k.config(fd))
	if q := tap.Queues(); len(q) != 1 || q[0].FD() != fd {
		t.Errorf("%d queues, fd %d, want %d", len(q), q[0].FD(), fd)
	}
	for _, mtu := range []int{1500, 9216} {
		tap.SetMTU(mtu)
		frame := bytes.Repeat([]byte{0x5a}, mtu+14+8)
		k.send(frame)
		k.entered = nil
		if tap.Poll(0, 10) != 1 || !bytes.Equal(k.entered[0], frame) {
			t.Errorf("MTU %d: a frame of %d bytes came in as %d", mtu, len(frame), len(k.entered[0]))
		}
		p := k.pool.NewFrame(len(frame))
		copy(p.Frame, frame)
		if tap.DeliverPacket(0, p); !bytes.Equal(k.receive(), frame) || k.refused != 0 || k.pool.LivePackets() != 0 {
			t.Errorf("MTU %d: a frame of %d bytes was not delivered as it is", mtu, len(frame))
		}
	}
	k.close()
	if tap.DeliverPacket(0, k.pool.NewFrame(60)); k.refused != 1 {
		t.Error("delivered to a device that is gone")
	}
	if tap.Poll(0, 10) != 0 {
		t.Error("read from a device that is gone")
	}
}

// deliver parses a frame and delivers it.
func deliver(tun *TUN, k *kernel, frame []byte) bool {
	p := k.pool.NewFrame(len(frame))
	copy(p.Frame, frame)
	p.Parse()
	before := k.refused
	tun.DeliverPacket(9, p)
	return k.refused == before
}

func ethernet(src, dst wire.MAC, kind layers.EthernetType) *layers.Ethernet {
	e := &layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: kind}
	src.EncodeTo(e.SrcMAC)
	dst.EncodeTo(e.DstMAC)
	return e
}

// TestTUN_StripsTheEthernetHeader: the host gets the IP packet of a frame addressed to it or
// to a group, and no other frames.
func TestTUN_StripsTheEthernetHeader(t *testing.T) {
	ip := ipTo(t, "10.0.0.2")
	tag := &layers.Dot1Q{VLANIdentifier: 7, Type: layers.EthernetTypeIPv4}
	for _, c := range []struct {
		name  string
		frame []byte
		want  []byte
	}{
		{"own MAC", build(t, ethernet(peerMAC, hostMAC, layers.EthernetTypeIPv4), gopacket.Payload(ip)), ip},
		{"broadcast", build(t, ethernet(peerMAC, wire.Broadcast, layers.EthernetTypeIPv4), gopacket.Payload(ip)), ip},
		{"multicast", build(t, ethernet(peerMAC, 0x01005e0000fb, layers.EthernetTypeIPv4), gopacket.Payload(ip)), ip},
		{"VLAN", build(t, ethernet(peerMAC, hostMAC, layers.EthernetTypeDot1Q), tag, gopacket.Payload(ip)), ip},
		{"another MAC", build(t, ethernet(hostMAC, peerMAC, layers.EthernetTypeIPv4), gopacket.Payload(ip)), nil},
		{"not IP", build(t, ethernet(peerMAC, hostMAC, layers.EthernetTypeLinkLayerDiscovery), gopacket.Payload(make([]byte, 46))), nil},
	} {
		tun, k := newTestTUN(t)
		if !deliver(tun, k, c.frame) {
			t.Errorf("%s: refused", c.name)
		}
		got := k.receive()
		if len(got) > len(c.want) { // Ethernet's padding, which IP's length reveals
			got = got[:len(c.want)]
		}
		if !bytes.Equal(got, c.want) || len(k.entered) != 0 || k.pool.LivePackets() != 0 {
			t.Errorf("%s: the host got %x, want %x; entered %d", c.name, got, c.want, len(k.entered))
		}
	}
	tun, k := newTestTUN(t)
	k.close()
	if deliver(tun, k, build(t, ethernet(peerMAC, hostMAC, layers.EthernetTypeIPv4), gopacket.Payload(ip))) {
		t.Error("delivered to a device that is gone")
	}
}

func arpRequest(target netip.Addr) *layers.ARP {
	return &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPRequest,
		SourceHwAddress: askerMAC, SourceProtAddress: peer4.AsSlice(), DstHwAddress: make([]byte, 6), DstProtAddress: target.AsSlice()}
}

// TestTUN_AnswersARPForTheHost: the answer to a request for the host's address, read by
// gopacket.
func TestTUN_AnswersARPForTheHost(t *testing.T) {
	tun, k := newTestTUN(t)
	if !deliver(tun, k, build(t, ethernet(peerMAC, wire.Broadcast, layers.EthernetTypeARP), arpRequest(host4))) {
		t.Error("refused")
	}
	if len(k.entered) != 1 || k.at[0] != 9 || tun.AnsweredRequests() != 1 || k.receive() != nil {
		t.Fatalf("entered %d at %v, answered %d", len(k.entered), k.at, tun.AnsweredRequests())
	}
	if n := len(k.entered[0]); n < wire.EthernetMin {
		t.Errorf("the answer has %d bytes, a frame has at least %d", n, wire.EthernetMin)
	}
	p := gopacket.NewPacket(k.entered[0], layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatal(e.Error())
	}
	eth, arp := p.LinkLayer().(*layers.Ethernet), p.Layer(layers.LayerTypeARP).(*layers.ARP)
	if eth.SrcMAC.String() != ownMAC.String() || eth.DstMAC.String() != askerMAC.String() {
		t.Errorf("from %v to %v", eth.SrcMAC, eth.DstMAC)
	}
	want := arpRequest(host4)
	want.Operation, want.SourceHwAddress, want.SourceProtAddress, want.DstHwAddress, want.DstProtAddress = layers.ARPReply, ownMAC, host4.AsSlice(), askerMAC, peer4.AsSlice()
	arp.BaseLayer = layers.BaseLayer{}
	if diff := cmp.Diff(want, arp); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTUN_IgnoresOtherARP: other addresses, answers, other protocols.
func TestTUN_IgnoresOtherARP(t *testing.T) {
	reply := arpRequest(host4)
	reply.Operation = layers.ARPReply
	other := arpRequest(host4)
	other.Protocol = layers.EthernetTypeIPv6
	short := build(t, ethernet(peerMAC, wire.Broadcast, layers.EthernetTypeARP), arpRequest(host4))[:40]
	for name, frame := range map[string][]byte{
		"another address":  build(t, ethernet(peerMAC, wire.Broadcast, layers.EthernetTypeARP), arpRequest(peer4)),
		"an answer":        build(t, ethernet(peerMAC, hostMAC, layers.EthernetTypeARP), reply),
		"another protocol": build(t, ethernet(peerMAC, hostMAC, layers.EthernetTypeARP), other),
		"cut":              short,
		"to another MAC":   build(t, ethernet(peerMAC, 0x02000000ffff, layers.EthernetTypeARP), arpRequest(host4)),
	} {
		tun, k := newTestTUN(t)
		if !deliver(tun, k, frame) || len(k.entered) != 0 || tun.AnsweredRequests() != 0 || k.receive() != nil {
			t.Errorf("%s: entered %x, answered %d", name, k.entered, tun.AnsweredRequests())
		}
	}
}

// solicitation asks for the MAC of target.
func solicitation(t testing.TB, src, target netip.Addr, hopLimit uint8) []byte {
	t.Helper()
	a := target.As16()
	group := append(net.IP{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}, a[13:]...)
	ip := &layers.IPv6{Version: 6, HopLimit: hopLimit, NextHeader: layers.IPProtocolICMPv6, SrcIP: src.AsSlice(), DstIP: group}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(layers.ICMPv6TypeNeighborSolicitation, 0)}
	_ = icmp.SetNetworkLayerForChecksum(ip)
	dst := 0x3333_0000_0000 | wire.MAC(binary.BigEndian.Uint32(group[12:]))
	return build(t, ethernet(peerMAC, dst, layers.EthernetTypeIPv6), ip, icmp, &layers.ICMPv6NeighborSolicitation{TargetAddress: target.AsSlice()})
}

// TestTUN_AnswersNeighbourSolicitations: the advertisement, read by gopacket, with its checksum
// computed here.
func TestTUN_AnswersNeighbourSolicitations(t *testing.T) {
	for _, c := range []struct {
		name     string
		asker    netip.Addr
		dst, mac string
		flags    uint8
	}{
		{"a host asks", peer6, "fd00::2", askerMAC.String(), 0x60},
		{"a host without an address asks", netip.IPv6Unspecified(), "ff02::1", "33:33:00:00:00:01", 0x20},
	} {
		tun, k := newTestTUN(t)
		if !deliver(tun, k, solicitation(t, c.asker, host6, 255)) || len(k.entered) != 1 || tun.AnsweredRequests() != 1 || k.receive() != nil {
			t.Fatalf("%s: entered %d, answered %d", c.name, len(k.entered), tun.AnsweredRequests())
		}
		p := gopacket.NewPacket(k.entered[0], layers.LayerTypeEthernet, gopacket.Default)
		if e := p.ErrorLayer(); e != nil {
			t.Fatal(e.Error())
		}
		eth, ip := p.LinkLayer().(*layers.Ethernet), p.NetworkLayer().(*layers.IPv6)
		na := p.Layer(layers.LayerTypeICMPv6NeighborAdvertisement).(*layers.ICMPv6NeighborAdvertisement)
		if eth.SrcMAC.String() != ownMAC.String() || eth.DstMAC.String() != c.mac || ip.SrcIP.String() != host6.String() || ip.DstIP.String() != c.dst || ip.HopLimit != 255 {
			t.Errorf("%s: %v to %v, %v to %v, hop limit %d", c.name, eth.SrcMAC, eth.DstMAC, ip.SrcIP, ip.DstIP, ip.HopLimit)
		}
		options := layers.ICMPv6Options{{Type: layers.ICMPv6OptTargetAddress, Data: ownMAC}}
		if na.Flags != c.flags || na.TargetAddress.String() != host6.String() || !cmp.Equal(na.Options, options) {
			t.Errorf("%s: %+v", c.name, na)
		}
		// RFC 8200 §8.1: addresses, length, three zeros and the next header.
		pseudo := append(append(bytes.Clone(ip.SrcIP), ip.DstIP...), 0, 0, 0, byte(len(ip.Payload)), 0, 0, 0, wire.ProtoICMPv6)
		if sum := wire.IPv4Checksum(append(pseudo, ip.Payload...)); sum != 0 {
			t.Errorf("%s: the checksum is off by %#x", c.name, sum)
		}
	}
}

// TestTUN_PassesOnOtherSolicitations: a packet that is not a valid solicitation for the
// host's address goes to the host like any other.
func TestTUN_PassesOnOtherSolicitations(t *testing.T) {
	for name, frame := range map[string][]byte{
		"another address": solicitation(t, peer6, peer6, 255),
		"through routers": solicitation(t, peer6, host6, 254),
	} {
		tun, k := newTestTUN(t)
		if !deliver(tun, k, frame) || len(k.entered) != 0 || tun.AnsweredRequests() != 0 || !bytes.Equal(k.receive(), frame[14:]) {
			t.Errorf("%s: entered %x, answered %d", name, k.entered, tun.AnsweredRequests())
		}
	}
}

// TestTUN_AnswersNonsenseWithSoundFramesOnly corrupts requests at random: there is no answer, or a
// frame that gopacket can read.
func TestTUN_AnswersNonsenseWithSoundFramesOnly(t *testing.T) {
	tun, k := newTestTUN(t)
	questions := [][]byte{
		build(t, ethernet(peerMAC, wire.Broadcast, layers.EthernetTypeARP), arpRequest(host4)),
		solicitation(t, peer6, host6, 255),
	}
	rapid.Check(t, func(rt *rapid.T) {
		frame := bytes.Clone(rapid.SampledFrom(questions).Draw(rt, "question"))
		for range rapid.IntRange(0, 4).Draw(rt, "damages") {
			frame[rapid.IntRange(12, len(frame)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
		}
		frame = frame[:rapid.IntRange(14, len(frame)).Draw(rt, "length")]
		k.entered = nil
		deliver(tun, k, frame)
		k.receive()
		for _, f := range k.entered {
			if e := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default).ErrorLayer(); e != nil {
				rt.Fatalf("the answer to %x is %x: %v", frame, f, e.Error())
			}
		}
		if k.pool.LivePackets() != 0 {
			rt.Fatalf("%d packets live", k.pool.LivePackets())
		}
	})
}

// TestQueues_AreReadSeparately: each queue of a device of either kind is read separately; a frame
// to be ignored enters from none; delivered packets go to the first.
func TestQueues_AreReadSeparately(t *testing.T) {
	for _, kind := range []string{"TAP", "TUN"} {
		for _, offload := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s offload %v", kind, offload), func(t *testing.T) {
				first, fd := newKernel(t)
				second, more := newKernel(t)
				c := first.config(fd)
				c.More, c.Ignore = []int{more}, bytes.Repeat([]byte{2}, 60)
				var engine sim.Engine
				c.Offload, c.Engine = offload, &engine
				var header []byte
				if offload {
					header = make([]byte, gso.HeaderLen)
				}
				var queues []*Queue
				var deliver func(units.Time, *packet.Packet)
				var ignored func() uint64
				pack := func(dst string) []byte { return ipTo(t, dst) }
				if kind == "TAP" {
					d := NewTAP(c)
					queues, deliver, ignored = d.Queues(), d.DeliverPacket, d.IgnoredFrames
					pack = func(dst string) []byte { return append(framed(dst), ipTo(t, dst)...) }
				} else {
					d := NewTUN(c, hostMAC, nil, neighbours{})
					queues, deliver, ignored = d.Queues(), d.DeliverPacket, d.IgnoredFrames
				}
				if len(queues) != 2 || queues[0].FD() != fd || queues[1].FD() != more {
					t.Fatalf("%d queues", len(queues))
				}
				b4, b6 := pack("10.0.0.2"), pack("fd00::2")
				for _, k := range []*kernel{first, second} {
					k.send(append(bytes.Clone(header), c.Ignore...))
				}
				second.send(append(bytes.Clone(header), b6...))
				first.send(append(bytes.Clone(header), b4...))
				if n := queues[1].PollInput(1, 10); n != 2 || len(first.entered) != 1 || !bytes.HasSuffix(first.entered[0], b6) {
					t.Errorf("second queue: read %d, %d entered", n, len(first.entered))
				}
				if n := queues[0].PollInput(2, 10); n != 2 || len(first.entered) != 2 || !bytes.HasSuffix(first.entered[1], b4) {
					t.Errorf("first queue: read %d, %d entered", n, len(first.entered))
				}
				frame := append(framed("10.0.0.2"), ipTo(t, "10.0.0.2")...)
				hostMAC.EncodeTo(frame)
				p := first.pool.NewFrame(len(frame))
				copy(p.Frame, frame)
				p.Parse()
				deliver(3, p)
				engine.Run(units.Second, 100)
				if !bytes.HasSuffix(first.receive(), ipTo(t, "10.0.0.2")) || second.receive() != nil {
					t.Error("a packet was not written to the first queue")
				}
				if first.pool.LivePackets() != 0 || first.malformed+first.refused != 0 || ignored() != 2 {
					t.Errorf("%d live, %d malformed, %d refused, %d ignored", first.pool.LivePackets(), first.malformed, first.refused, ignored())
				}
			})
		}
	}
}

// framed returns the Ethernet header of a frame from the host with an IP packet to dst.
func framed(dst string) []byte {
	b := make([]byte, wire.EthernetHeader)
	peerMAC.EncodeTo(b)
	hostMAC.EncodeTo(b[6:])
	binary.BigEndian.PutUint16(b[12:], wire.EtherTypeIPv4)
	if netip.MustParseAddr(dst).Is6() {
		binary.BigEndian.PutUint16(b[12:], wire.EtherTypeIPv6)
	}
	return b
}
