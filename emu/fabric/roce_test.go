package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/trim"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// addressOf returns the first address of an interface of an IP version.
func addressOf(iface *hosts.Interface, v6 bool) netip.Addr {
	a, ok := plan.AddressOf(&networkOf(iface).fabric.Plan.Nodes[iface.Node].Ports[iface.Index], v6)
	if !ok {
		panic("no address")
	}
	return a
}

// fromNIC makes a packet from an interface's NIC to an address: a UC WRITE of n
// bytes in the middle of a message, of which only the length is modelled.
func fromNIC(t testing.TB, iface *hosts.Interface, dst netip.Addr, tos uint8, n int) *packet.Packet {
	t.Helper()
	f := networkOf(iface).fabric
	hop, ok := f.Neighbours(iface).FirstHop(dst)
	if !ok {
		t.Fatalf("%s has no way to %v", iface.Port.Name, dst)
	}
	p := iface.Pool.NewRoCE()
	r := p.RoCE
	r.Addresses = packet.NewAddresses(addressOf(iface, dst.Is6()), dst)
	r.BTH = roce.BTH{Opcode: roce.UC.WithOperation(roce.WriteMiddle), PKey: roce.DefaultPKey, DestQP: 0x123456, PSN: uint32(iface.Entered)}
	r.Length = n
	p.Dest, p.To = hop.Dest, hop.To
	p.L3, p.Ether, p.Version = wire.EthernetHeader, wire.EtherTypeIPv4, 4
	header := wire.IPv4Header
	if dst.Is6() {
		p.Ether, p.Version, p.Label, header = wire.EtherTypeIPv6, 6, 0x54321, wire.IPv6Header
	} else {
		p.IPID = uint16(iface.Entered)
	}
	p.Size = units.Bytes(wire.EthernetHeader + header + wire.UDPHeader + r.BTH.Opcode.HeaderLen() + n + int(roce.PadOf(n)) + roce.ICRCLen)
	p.TOS, p.TTL, p.Proto, p.SrcPort, p.DstPort = tos, 64, wire.ProtoUDP, 0xc123, roce.Port
	p.Src, p.Dst = iface.MAC, hop.MAC
	p.Hash = packet.FlowHash(hashWord(r.From), hashWord(r.To), p.Proto, p.SrcPort, p.DstPort)
	return p
}

// drawRoCE makes a random packet of a NIC, with any headers.
func drawRoCE(t *rapid.T, tb testing.TB, iface *hosts.Interface, dst netip.Addr) *packet.Packet {
	p := fromNIC(tb, iface, dst, rapid.Byte().Draw(t, "tos"), 0)
	var all []roce.Opcode
	for o := range 256 {
		if roce.Opcode(o).IsValid() {
			all = append(all, roce.Opcode(o))
		}
	}
	o := rapid.SampledFrom(all).Draw(t, "opcode")
	x := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	r := p.RoCE
	r.BTH = roce.BTH{Opcode: o, Solicited: x.IntN(2) == 0, MigReq: x.IntN(2) == 0, PKey: uint16(x.Uint32()), FECN: x.IntN(2) == 0, BECN: x.IntN(2) == 0,
		DestQP: x.Uint32N(1 << 24), AckReq: x.IntN(2) == 0, PSN: x.Uint32N(1 << 24)}
	// All headers are set, and those of the opcode count.
	r.FurtherHeaders().DETH = roce.DETH{QKey: x.Uint32(), SourceQP: x.Uint32N(1 << 24)}
	r.RETH = roce.RETH{VA: x.Uint64(), RKey: x.Uint32(), Length: x.Uint32()}
	r.FurtherHeaders().Atomic = roce.AtomicETH{VA: x.Uint64(), RKey: x.Uint32(), Swap: x.Uint64(), Compare: x.Uint64()}
	r.AETH, r.FurtherHeaders().AtomicAck = roce.AETH{Syndrome: uint8(x.Uint32()), MSN: x.Uint32N(1 << 24)}, roce.AtomicAckETH{Original: x.Uint64()}
	r.ImmDt, r.IETH = roce.ImmDt{Data: x.Uint32()}, roce.IETH{RKey: x.Uint32()}
	r.Length = 0
	n := 0
	if o.Extensions().Has(roce.ExtPayload) {
		n = rapid.SampledFrom([]int{0, 1, 2, 3, 4, 100, 1024, 4096}).Draw(t, "payload")
		if rapid.Bool().Draw(t, "bytes") {
			for range n {
				r.Payload = append(r.Payload, byte(x.Uint32()))
			}
		} else {
			r.Length = n
		}
	}
	header := wire.IPv4Header
	if p.Version == 6 {
		header = wire.IPv6Header
	}
	p.Size = units.Bytes(wire.EthernetHeader + header + wire.UDPHeader + o.HeaderLen() + n + int(roce.PadOf(n)) + roce.ICRCLen)
	p.TTL, p.IPID = uint8(x.Uint32()), 0
	if p.Version == 4 {
		p.IPID = uint16(x.Uint32())
	} else {
		p.Label = x.Uint32N(wire.MaxFlowLabel + 1)
	}
	return p
}

// star is three hosts at a switch.
const star = "duration: 1s\ntopology: {generate: {star: {hosts: 3, rate: 1Gbps}}}\n"

// checkFrame compares a frame with the packet of a NIC that it was made from:
// with gopacket below the BTH, with the decoder of package roce behind it, and
// with zlib for the invariant CRC.
func checkFrame(t *rapid.T, p *packet.Packet, frame []byte) {
	g := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	eth, udp := g.Layer(layers.LayerTypeEthernet).(*layers.Ethernet), g.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !bytes.Equal(eth.SrcMAC, hardwareAddr(p.Src)) || !bytes.Equal(eth.DstMAC, hardwareAddr(p.Dst)) || int(p.Size) != len(frame) {
		t.Fatalf("%d bytes of %v, from %v to %v: %+v", len(frame), g, eth.SrcMAC, eth.DstMAC, p)
	}
	header := wire.IPv4Header
	if p.Version == 4 {
		ip := g.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
		if ip.Flags != layers.IPv4DontFragment || ip.FragOffset != 0 || wire.IPv4Checksum(ip.Contents) != 0 || int(ip.Length) != len(frame)-14 || ip.TTL != p.TTL {
			t.Fatalf("%+v", ip)
		}
	} else if ip := g.Layer(layers.LayerTypeIPv6).(*layers.IPv6); int(ip.Length) != len(frame)-54 || ip.FlowLabel != p.Label || ip.HopLimit != p.TTL {
		t.Fatalf("%+v", ip)
	} else {
		header = wire.IPv6Header
	}
	if int(udp.Length) != len(frame)-14-header || udp.Checksum != 0 {
		t.Fatalf("%+v", udp)
	}
	ip := frame[wire.EthernetHeader:]
	if err := roce.CheckICRC(ip); err != nil {
		t.Fatal(err)
	}
	if got, want := binary.LittleEndian.Uint32(frame[len(frame)-4:]), oracle.ICRC(frame); got != want {
		t.Fatalf("the invariant CRC is %#x, by hand %#x", got, want)
	}
	var got roce.Packet
	if err := got.DecodeIP(ip); err != nil {
		t.Fatal(err)
	}
	want := p.RoCE.Packet
	payload := append(bytes.Clone(want.Payload), make([]byte, max(want.Length-len(want.Payload), 0))...)
	if !bytes.Equal(got.Payload, payload) {
		t.Fatalf("%d bytes of payload, want %d", len(got.Payload), len(payload))
	}
	want.BTH.Pad = roce.PadOf(len(payload))
	e := want.BTH.Opcode.Extensions()
	for _, h := range []struct {
		e         roce.Extension
		got, want any
	}{
		{e, got.BTH, want.BTH}, {roce.ExtDETH, got.FurtherHeaders().DETH, want.FurtherHeaders().DETH}, {roce.ExtRETH, got.RETH, want.RETH}, {roce.ExtAtomicETH, got.FurtherHeaders().Atomic, want.FurtherHeaders().Atomic}, {roce.ExtAETH, got.AETH, want.AETH},
		{roce.ExtAtomicAckETH, got.FurtherHeaders().AtomicAck, want.FurtherHeaders().AtomicAck}, {roce.ExtImmDt, got.ImmDt, want.ImmDt}, {roce.ExtIETH, got.IETH, want.IETH},
	} {
		if e.Has(h.e) && h.got != h.want {
			t.Fatalf("%v, want %v", h.got, h.want)
		}
	}
}

// TestRoCEFrame_AgreesWithItsFields: the frame of a NIC's packet agrees with its fields, takes
// the same path, and needs no memory but its own.
func TestRoCEFrame_AgreesWithItsFields(t *testing.T) {
	f := New(parse(t, star))
	iface, to := f.Interfaces[0], f.Interfaces[2]
	var r renderer
	buf := make([]byte, 0, packet.MaxFrame)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawRoCE(rt, t, iface, addressOf(to, rapid.Bool().Draw(rt, "IPv6")))
		frame := r.render(p, buf)
		checkFrame(rt, p, frame)
		if &frame[0] != &buf[:1][0] {
			rt.Fatal("a frame that fits was made elsewhere")
		}
		real := packet.Packet{Frame: frame}
		real.Parse()
		real.Dest = f.topology.Directory.Resolve(frame, &real, iface.ID, iface.MAC)
		got := [...]any{real.Size, real.Dest, real.To, real.Hash, real.SrcPort, real.DstPort, real.IPID, real.L3, real.Ether, real.Version, real.Proto, real.TOS, real.TTL, real.Label}
		want := [...]any{p.Size, p.Dest, p.To, p.Hash, p.SrcPort, p.DstPort, p.IPID, p.L3, p.Ether, p.Version, p.Proto, p.TOS, p.TTL, p.Label}
		if got != want {
			rt.Fatalf("parsed %v, made of %v", got, want)
		}
		iface.Pool.Free(p)
	})
	for _, trimmed := range []bool{false, true} {
		p := fromNIC(t, iface, addressOf(to, false), 0, 4096)
		if trimmed {
			trim.TrimPacket(iface.Pool, p, &trim.Config{Keep: 64})
		}
		if n := testing.AllocsPerRun(10, func() { r.render(p, buf) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestTrimmedRoCEFrame_EqualsARealOne: a NIC's packet that a switch has trimmed, or trimmed
// and sent back, has the bytes that a real program's packet would have, except for the
// invariant CRC of one that was sent back.
func TestTrimmedRoCEFrame_EqualsARealOne(t *testing.T) {
	f := New(parse(t, star))
	iface, to := f.Interfaces[0], f.Interfaces[2]
	rapid.Check(t, func(rt *rapid.T) {
		p := drawRoCE(rt, t, iface, addressOf(to, rapid.Bool().Draw(rt, "IPv6")))
		p.Origin = iface.ID
		config := trim.Config{Keep: units.Bytes(rapid.IntRange(wire.UDPHeader, 300).Draw(rt, "keep")), DSCP: 12, FixLength: rapid.Bool().Draw(rt, "fix")}
		var r renderer
		frame := bytes.Clone(r.render(p, nil))
		real := iface.Pool.NewFrame(len(frame))
		copy(real.Frame, frame)
		real.Parse()
		real.Origin, real.Dest = p.Origin, p.Dest
		same := func(what string) {
			got := r.render(p, nil)
			if diff := cmp.Diff(real.Frame, got); diff != "" || p.Size != real.Size {
				rt.Fatalf("%s, a real packet and a NIC's (-real +NIC): %d and %d bytes\n%s", what, real.Size, p.Size, diff)
			}
		}
		same("whole")
		a, b := trim.TrimPacket(iface.Pool, real, &config), trim.TrimPacket(iface.Pool, p, &config)
		if (a == nil) != (b == nil) {
			rt.Fatalf("a real packet is cut: %v, a NIC's: %v", a != nil, b != nil)
		}
		if a == nil {
			rt.Skip("there is nothing to cut")
		}
		same("trimmed")
		whole := len(frame) - roce.ICRCLen
		trim.ReturnToSender(real)
		trim.ReturnToSender(p)
		if n := int(real.Size); n > whole {
			clear(real.Frame[whole:])
		}
		same("sent back")
		if p.Dest != real.Dest || p.Origin != real.Origin || p.SrcPort != real.SrcPort || p.DstPort != real.DstPort {
			rt.Fatalf("%+v and %+v", p, real)
		}
	})
}

// testNIC keeps what it receives, and gives its port what it has to send.
type testNIC struct {
	t     testing.TB
	iface *hosts.Interface
	got   []string
	has   [8][]sending
	check func(p *packet.Packet)
}

// sending is a packet that is still to be made.
type sending struct {
	dst   netip.Addr
	tos   uint8
	n     int  // bytes of payload, also its PSN
	bytes bool // with real bytes
}

func (n *testNIC) ReceivePacket(_ units.Time, p *packet.Packet) {
	if n.check != nil {
		n.check(p)
	} else {
		n.got = append(n.got, describeNIC(p))
	}
	n.iface.Pool.Free(p)
}

func describeNIC(p *packet.Packet) string {
	if r := p.RoCE; r != nil {
		return fmt.Sprintf("%v %v>%v psn %d", r.BTH.Opcode, r.From, r.To, r.BTH.PSN)
	}
	return fmt.Sprintf("frame of %d, sum %d", len(p.Frame), p.Sum)
}

// Next implements port.Feeder.
func (n *testNIC) Next(now units.Time, prio uint8) *packet.Packet {
	x := n.has[prio][0]
	n.has[prio] = n.has[prio][1:]
	p := fromNIC(n.t, n.iface, x.dst, x.tos, x.n)
	p.RoCE.BTH.PSN = uint32(x.n)
	if x.bytes {
		p.RoCE.Payload = append(p.RoCE.Payload, bytes.Repeat([]byte{byte(x.n)}, x.n)...)
	}
	n.iface.Admit(now, p)
	n.feed(now, prio)
	return p
}

func (n *testNIC) feed(now units.Time, prio uint8) {
	size := units.Bytes(0)
	if len(n.has[prio]) > 0 {
		x := n.has[prio][0]
		p := fromNIC(n.t, n.iface, x.dst, x.tos, x.n)
		size = p.Size
		n.iface.Pool.Free(p)
	}
	n.iface.Port.AnnouncePacket(now, prio, size)
}

// send makes the port send a packet.
func (n *testNIC) send(x sending) {
	prio := n.iface.PriorityOf(x.tos >> 2)
	n.has[prio] = append(n.has[prio], x)
	if len(n.has[prio]) == 1 {
		n.feed(n.iface.Engine.Now(), prio)
	}
}

func newTestNIC(t testing.TB, iface *hosts.Interface) *testNIC {
	n := &testNIC{t: t, iface: iface}
	iface.SetNIC(n)
	return n
}

// TestHostWithoutNIC_GetsRoCEAsUDP: a host without a NIC gets the frame of a NIC's packet, as
// UDP; a host with neither gets nothing.
func TestHostWithoutNIC_GetsRoCEAsUDP(t *testing.T) {
	f := New(parse(t, star))
	from, to := f.Interfaces[0], f.Interfaces[1]
	hosts := &inbox{pool: to.Pool}
	to.Attach(hosts)
	var want [][]byte
	for _, c := range []struct {
		v6   bool
		size int
	}{{false, 1024}, {true, 1024}, {false, 1}} {
		p := fromNIC(t, from, addressOf(to, c.v6), wire.ECT0, c.size)
		want = append(want, bytes.Clone(new(renderer).render(p, nil)))
		from.OriginatePacket(0, p)
	}
	from.OriginatePacket(0, fromNIC(t, from, addressOf(f.Interfaces[2], false), 0, 10))
	finish(t, f)
	if diff := cmp.Diff(want, hosts.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := f.Accounts(); to.Delivered != 3 || a.Drops["no-receiver"] != 1 || a.Entered != 4 {
		t.Errorf("%d delivered, %+v", to.Delivered, a)
	}
}

// TestHostWithoutNIC_GetsTrimmedRoCEInAShortBuffer: the remaining bytes of a trimmed long
// packet go into a short packet's memory.
func TestHostWithoutNIC_GetsTrimmedRoCEInAShortBuffer(t *testing.T) {
	f := New(parse(t, star))
	from, to := f.Interfaces[0], f.Interfaces[1]
	hosts := &inbox{pool: to.Pool}
	to.Attach(hosts)
	p := fromNIC(t, from, addressOf(to, false), 0, 4096)
	whole := bytes.Clone(new(renderer).render(p, nil))
	trim.TrimPacket(from.Pool, p, &trim.Config{Keep: 64})
	from.OriginatePacket(0, p)
	finish(t, f)
	if len(hosts.got) != 1 || !bytes.Equal(hosts.got[0], whole[:14+20+64]) {
		t.Errorf("got %x", hosts.got)
	}
	// Its memory returns to its pool.
	for range 1000 {
		if q := to.Pool.NewFrame(9000); len(q.Frame) != 9000 {
			t.Fatalf("%d bytes", len(q.Frame))
		}
	}
}

// TestHostWithNIC_GetsRoCEAtTheNIC: packets for a NIC go to the NIC, with all their bytes;
// other packets go to the device.
func TestHostWithNIC_GetsRoCEAtTheNIC(t *testing.T) {
	f := New(parse(t, star))
	from, to := f.Interfaces[0], f.Interfaces[1]
	nic := newTestNIC(t, to)
	device := &inbox{pool: to.Pool}
	to.Attach(device)
	src, dst := addressOf(from, false), addressOf(to, false)
	udp := func(port layers.UDPPort, fragment bool, n int) []byte {
		h := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: asIP(src), DstIP: asIP(dst)}
		if fragment {
			h.Flags = layers.IPv4MoreFragments
		}
		u := &layers.UDP{SrcPort: 1, DstPort: port}
		_ = u.SetNetworkLayerForChecksum(h)
		return frameOf(t, from, h, u, gopacket.Payload(make([]byte, n)))
	}
	from.OriginatePacket(0, fromNIC(t, from, dst, 0, 100))
	from.OriginatePacket(0, fromNIC(t, from, addressOf(to, true), 0, 100))
	enter(from, udp(4791, false, 20))
	enter(from, udp(4791, true, 24))
	enter(from, udp(4790, false, 20))
	// From a kernel with checksum and segmentation offload.
	partial := udp(4791, false, 20)
	p := from.Pool.NewFrame(len(partial))
	copy(p.Frame, partial)
	p.Parse()
	p.Sum = 14 + 20 + 6
	p.Frame[p.Sum], p.Frame[p.Sum+1] = 0, 0
	from.Enter(0, p)
	enterSuper(t, from, udp(4791, false, 200), gso.Header{Flags: gso.NeedsCsum, GSOType: gso.GSOUDPL4, GSOSize: 100})
	// Sent to all, and to a group.
	p = fromNIC(t, from, dst, 0, 8)
	p.Dest, p.Dst = packet.Flood, 0x01005e000001
	from.OriginatePacket(0, p)
	finish(t, f)
	want := []string{
		"UC RDMA WRITE Middle 10.0.0.1>10.0.0.2 psn 0", "UC RDMA WRITE Middle fd00::1>fd00::2 psn 1",
		"frame of 62, sum 0", "frame of 62, sum 0", "frame of 142, sum 0", "frame of 142, sum 0", "UC RDMA WRITE Middle 10.0.0.1>10.0.0.2 psn 8",
	}
	if diff := cmp.Diff(want, nic.got); diff != "" {
		t.Errorf("the NIC (-want +got):\n%s", diff)
	}
	if len(device.got) != 2 || to.Delivered != 9 {
		t.Errorf("the device got %d, %d delivered", len(device.got), to.Delivered)
	}
	// The third host has neither, and got a copy of what was sent to all.
	if a := f.Accounts(); a.Drops["no-receiver"] != 1 || a.Replicated != 1 {
		t.Errorf("%+v", a)
	}
}

// TestCapture_PredictsPacketsWithoutAReceiver: a capture shows as dropped exactly the packets
// without a receiver.
func TestCapture_PredictsPacketsWithoutAReceiver(t *testing.T) {
	f := New(parse(t, star))
	iface := f.Interfaces[1]
	roceFrame := &packet.Packet{Kind: packet.Real, Proto: wire.ProtoUDP, DstPort: roce.Port}
	nic := &packet.Packet{Kind: packet.NIC}
	other := &packet.Packet{Kind: packet.Real, Proto: wire.ProtoTCP, DstPort: roce.Port}
	see := func(p *packet.Packet) packet.Fate { return iface.PeekFate(0, iface.Port, p) }
	for _, p := range []*packet.Packet{roceFrame, nic, other} {
		if see(p) != packet.NoReceiver {
			t.Errorf("nobody is there: %v", see(p))
		}
	}
	newTestNIC(t, iface)
	if see(roceFrame) != packet.Fine || see(nic) != packet.Fine || see(other) != packet.NoReceiver {
		t.Errorf("with a NIC: %v %v %v", see(roceFrame), see(nic), see(other))
	}
	iface.Attach(&sink{})
	if see(other) != packet.Fine || see(&packet.Packet{}) != packet.Fine {
		t.Error("with a device")
	}
}

// TestRouters_ForwardRoCEAndReportErrors: routers forward packets of NICs by their fields,
// report errors to the senders with the packets' bytes, and answer for themselves.
func TestRouters_ForwardRoCEAndReportErrors(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		pick := func(v4, ipv6 string) string {
			if v6 {
				return ipv6
			}
			return v4
		}
		for _, c := range []struct {
			name     string
			to       string
			ttl      uint8
			size     int
			back     string
			arrives  bool
			consumed uint64
			drops    map[string]uint64
		}{
			{"a packet", pick("10.0.1.2", "fd00::1:2"), 64, 1024, "", true, 0, nil},
			{"TTL 2", pick("10.0.1.2", "fd00::1:2"), 2, 1024, pick("10.255.0.2>10.0.0.2 ttl 63 TimeExceeded(TTLExceeded)", "fd00:ffff::2>fd00::2 hops 63 TimeExceeded(HopLimitExceeded)"), false, 0, map[string]uint64{"ttl-expired": 1}},
			{"too big", pick("10.0.1.2", "fd00::1:2"), 64, 1400, pick("10.255.0.2>10.0.0.2 ttl 63 DestinationUnreachable(FragmentationNeeded) mtu 1400", "fd00:ffff::2>fd00::2 hops 63 PacketTooBig mtu 1400"), false, 0, map[string]uint64{"too-big": 1}},
			{"nobody there", pick("10.0.1.77", "fd00::1:99"), 64, 10, pick("10.255.0.3>10.0.0.2 ttl 62 DestinationUnreachable(Host)", "fd00:ffff::3>fd00::2 hops 62 DestinationUnreachable(AddressUnreachable)"), false, 0, map[string]uint64{"no-host": 1}},
			{"no route", pick("10.0.7.7", "fd09::1"), 64, 10, pick("10.0.0.1>10.0.0.2 ttl 64 DestinationUnreachable(Net)", "fd00::1>fd00::2 hops 64 DestinationUnreachable(NoRouteToDst)"), false, 0, map[string]uint64{"no-route": 1}},
			{"for a router", pick("10.255.0.3", "fd00:ffff::3"), 64, 10, pick("10.255.0.3>10.0.0.2 ttl 62 DestinationUnreachable(Port)", "fd00:ffff::3>fd00::2 hops 62 DestinationUnreachable(PortUnreachable)"), false, 1, nil},
		} {
			t.Run(fmt.Sprintf("%s, IPv6 %v", c.name, v6), func(t *testing.T) {
				f := New(parse(t, routed))
				hosts := inboxes(f)
				from, to := f.Interfaces[0], f.Interfaces[1]
				nic := newTestNIC(t, to)
				var ttl uint8
				var dst wire.MAC
				nic.check = func(p *packet.Packet) { ttl, dst = p.TTL, p.Dst }
				p := fromNIC(t, from, netip.MustParseAddr(c.to), 0, c.size)
				p.TTL = c.ttl
				sent := bytes.Clone(new(renderer).render(p, nil))
				from.OriginatePacket(0, p)
				finish(t, f)
				if c.arrives != (to.Delivered == 1) || c.arrives && (ttl != c.ttl-3 || dst != to.MAC) {
					t.Errorf("%d arrived, with TTL %d for %v", to.Delivered, ttl, dst)
				}
				switch got := hosts[0].got; {
				case c.back == "" && len(got) == 0:
				case len(got) != 1:
					t.Errorf("%d came back", len(got))
				default:
					if s := summary(t, got[0]); !strings.HasSuffix(s, c.back) || c.back == "" {
						t.Errorf("came back: %s", s)
					}
					// The quoted packet is the original, except for what routers change.
					quote := got[0][14+20+8:]
					if v6 {
						quote = got[0][14+40+8:]
					}
					l4 := pickInt(v6, wire.IPv6Header, wire.IPv4Header)
					if want := sent[14+l4:]; len(quote) <= l4 || !bytes.HasPrefix(want, quote[l4:]) {
						t.Errorf("quoted is %x", quote)
					}
				}
				if a := f.Accounts(); cmp.Diff(c.drops, a.Drops) != "" || a.Consumed != c.consumed {
					t.Errorf("%+v", a)
				}
			})
		}
	}
}

func pickInt(v6 bool, six, four int) int {
	if v6 {
		return six
	}
	return four
}

// randomNIC sends packets of all kinds at random times, and checks what it receives.
type randomNIC struct {
	testNIC
	rand  *rand.Rand
	timer sim.Timer
	tos   []uint8
}

// Fire sends a burst of packets.
func (n *randomNIC) Fire(now units.Time) {
	interfaces := networkOf(n.iface).fabric.Interfaces
	to := interfaces[n.rand.IntN(len(interfaces))]
	if n.rand.IntN(2) == 0 {
		to = interfaces[0]
	}
	if to != n.iface {
		tos := n.tos[n.rand.IntN(len(n.tos))]
		for range n.rand.IntN(12) {
			n.send(sending{addressOf(to, n.rand.IntN(4) == 0), tos, 4 * n.rand.IntN(300), n.rand.IntN(2) == 0})
		}
	}
	n.timer.Arm(now + units.Time(n.rand.IntN(60_000_000)))
}

func (n *randomNIC) checkPacket(p *packet.Packet) {
	r := p.RoCE
	if p.Kind != packet.NIC || int(r.BTH.PSN) != r.Length || len(r.Payload) > 0 && bytes.Count(r.Payload, []byte{byte(r.Length)}) != r.Length {
		n.t.Errorf("%s received %+v with %+v", n.iface.Port.Name, p, r)
	}
	if r.To != addressOf(n.iface, r.To.Is6()) {
		n.t.Errorf("%s received a packet for %v", n.iface.Port.Name, r.To)
	}
}

// addRandomNICs gives every host a randomNIC.
func addRandomNICs(t testing.TB, f *Fabric) (all []*randomNIC) {
	for _, iface := range f.Interfaces {
		n := &randomNIC{rand: sim.NewRand(f.Plan.Seed, "nic "+iface.Port.Name), tos: []uint8{3<<2 | wire.ECT0, 1<<2 | wire.ECT0, 12 << 2, 0}}
		n.t, n.iface = t, iface
		n.check = n.checkPacket
		iface.SetNIC(n)
		iface.Port.SetFeeder(n)
		n.timer = f.engineOf(iface.Node).NewTimer(n)
		n.timer.Arm(0)
		all = append(all, n)
	}
	return all
}

// TestNICPackets_AreTheSameWithAnyNumberOfWorkers: whatever switches and links do to packets
// of NICs, and to those of modelled flows beside them, every packet is accounted for, what
// arrives is what was sent, and it is the same with several workers.
func TestNICPackets_AreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	checkWorkers(t, fabrictest.DrawQoSLab, func(f *Fabric) { addRandomNICs(t, f) })
}

// routedNICs is a lab with routers with depth that trim, send back, mark,
// pause, duplicate and damage.
const routedNICs = `
duration: 2ms
topology:
  kinds:
    switch:
      address: auto
      buffer: {size: 1MB}
      classes:
        guarded: {dscp: [3], priority: 3, pfc: {xoff: 9KB, xon: 4KB}, mark: {red: {kmin: 2KB, kmax: 9KB, pmax: 0.3}}}
        bulk: {dscp: [1], priority: 1, limit: 6KB, trim: {preset: ndp, dscp: 12}}
        headers: {dscp: [12], priority: 7, limit: 2KB}
        default: {mark: {step: {k: 3KB}}}
    host: {attach: none}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 3, rate: 500Mbps, delay: 1us, corrupt: 1%, duplicate: 1%}}
`

// TestNICPackets_ComeBackAcrossRouters: the same with routers, where packets sent back find
// their NIC; the runs are the same in one shard and several.
func TestNICPackets_ComeBackAcrossRouters(t *testing.T) {
	p := parse(t, routedNICs)
	var want []any
	for n := 1; n <= 3; n++ {
		f, err := NewWithWorkers(p, n)
		if err != nil {
			t.Fatal(err)
		}
		nics := addRandomNICs(t, f)
		returned := make([]int, len(f.Interfaces))
		for i, iface := range f.Interfaces {
			nic := nics[i]
			nic.check = func(p *packet.Packet) {
				if !p.Returned {
					nic.checkPacket(p)
					return
				}
				returned[i]++
				if p.Origin == iface.ID || p.RoCE.To != addressOf(iface, p.RoCE.To.Is6()) || p.SrcPort != roce.Port {
					t.Errorf("%s got %+v back", iface.Port.Name, p)
				}
			}
		}
		if err := f.Run(context.Background(), 2*units.Millisecond); err != nil {
			t.Fatal(err)
		}
		a := f.Accounts()
		back := 0
		for _, n := range returned {
			back += n
		}
		if !a.Balanced() || a.Trimmed == 0 || back == 0 || a.Marked == 0 || a.Consumed == 0 || a.Duplicated == 0 || a.Drops["bad-fcs"] == 0 {
			t.Errorf("%d workers: too little has happened, or not all is accounted for: %d came back, %+v", n, back, a)
		}
		if got := outcome(f); n == 1 {
			want = got
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d workers (-one +%d):\n%s", n, n, diff)
		}
	}
}

// TestDropMatch_SelectsNICPacketsByIdentification: scripted loss selects packets of NICs by
// their identification.
func TestDropMatch_SelectsNICPacketsByIdentification(t *testing.T) {
	f := New(parse(t, "duration: 1s\ntopology: {generate: {star: {hosts: 2, rate: 1Gbps, drop-match: \"ip-id=0x***5\"}}}\n"))
	from, to := f.Interfaces[0], f.Interfaces[1]
	nic := newTestNIC(t, to)
	for range 32 {
		from.OriginatePacket(0, fromNIC(t, from, addressOf(to, false), 0, 100))
	}
	finish(t, f)
	if a := f.Accounts(); a.Drops["link-match"] != 2 || len(nic.got) != 30 {
		t.Errorf("%d arrived, %+v", len(nic.got), a)
	}
}

// copier is a NIC that sends copies of one packet.
type copier struct {
	iface *hosts.Interface
	of    *packet.Packet
	left  int
}

func (c *copier) ReceivePacket(_ units.Time, p *packet.Packet) { c.iface.Pool.Free(p) }

func (c *copier) Next(now units.Time, _ uint8) *packet.Packet {
	if c.left == 0 {
		return nil
	}
	c.left--
	p := c.iface.Pool.ClonePacket(c.of)
	c.iface.Admit(now, p)
	return p
}

// TestFedPort_DoesNotAllocate: a hop of a fed packet with all features makes no garbage.
func TestFedPort_DoesNotAllocate(t *testing.T) {
	if fabrictest.Race {
		t.Skip("SKIPPED: the race detector allocates; counted without it")
	}
	f := New(parse(t, strings.Replace(routedNICs, "duration: 2ms", "duration: 1h", 1)))
	var all []*copier
	for i, iface := range f.Interfaces {
		c := &copier{iface: iface, of: fromNIC(t, iface, addressOf(f.Interfaces[(i+3)%len(f.Interfaces)], false), 3<<2|wire.ECT0, 1024)}
		iface.SetNIC(c)
		iface.Port.SetFeeder(c)
		all = append(all, c)
	}
	at := units.Time(0)
	step := func() {
		for _, c := range all {
			c.left = 20
			c.iface.Port.AnnouncePacket(f.Now(), 3, c.of.Size)
		}
		at += 800 * units.Microsecond
		if err := f.Run(context.Background(), at); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(10, step); n > 5 {
		// The check for deadlocks every millisecond makes a few allocations.
		t.Errorf("%.1f allocations for %d packets", n, 20*len(all))
	}
	if a := f.Accounts(); a.Marked == 0 || a.Delivered < 1000 {
		t.Errorf("%+v", a)
	}
}

// TestRoCECapture_IsReadByTshark lets tshark check a capture of NICs' packets: whole ones of
// real and of zero bytes, one that a switch has marked, one that is damaged, and trimmed ones.
func TestRoCECapture_IsReadByTshark(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing, nothing was judged: apt-get install tshark")
	}
	f := New(parse(t, strings.Replace(routedNICs, "corrupt: 1%", "corrupt: 2%", 1)))
	addRandomNICs(t, f)
	leaf, _ := f.Plan.Node("leaf1")
	var ports []Watched
	for i := range f.Plan.Nodes[leaf].Ports {
		ports = append(ports, Watched{Node: leaf, Port: i, In: true, Out: true})
	}
	c, err := f.NewCapture(ports, capture.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), &file)
		ended <- err
	}()
	stop := f.Watch(ports, c)
	if err := f.Run(context.Background(), units.Millisecond); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tshark", "-r", "-", "-o", "udp.ignore_ipv6_zero_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
		"--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib",
		"-T", "fields", "-E", "separator=|", "-E", "aggregator=;", "-e", "_ws.malformed", "-e", "_ws.expert.message", "-e", "ip.checksum.status", "-e", "infiniband.bth.opcode",
		"-e", "frame.comment", "-e", "frame.packet_flags_crc_error", "-e", "frame.protocols", "-e", "udp.length", "-e", "frame.len")
	cmd.Stdin = &file
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		row := strings.Split(line, "|")
		malformed, expert, sum, opcode, comment, crc, protocols := row[0], row[1], row[2], row[3], row[4], row[5], row[6]
		if strings.Contains(protocols, "macc") {
			continue
		}
		what := "whole"
		var udpLength, length int
		_, _ = fmt.Sscan(row[7], &udpLength)
		_, _ = fmt.Sscan(row[8], &length)
		header := wire.IPv4Header
		if strings.Contains(protocols, "ipv6") {
			header = wire.IPv6Header
		}
		trimmed := udpLength > length-wire.EthernetHeader-header
		expert = strings.TrimPrefix(expert, comment) // tshark reports a comment as an expert item
		switch {
		case trimmed:
			what = "trimmed"
		case crc == "1":
			what = "damaged"
		case strings.HasPrefix(comment, "marked"):
			what = "marked"
		}
		count[what]++
		if !trimmed && (malformed != "" || expert != "" || opcode != "39") || sum != "" && sum != "1" || !strings.Contains(protocols, ":udp") {
			t.Errorf("frame %d, %s: %s", i+1, what, line)
		}
	}
	for _, what := range []string{"whole", "trimmed", "damaged", "marked"} {
		if count[what] == 0 {
			t.Errorf("there is no packet that is %s: %v", what, count)
		}
	}
}
