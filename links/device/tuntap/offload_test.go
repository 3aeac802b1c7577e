package tuntap

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// window is the join window of the devices here.
const window = 20 * units.Microsecond

// super is a kernel whose device carries super-packets: each message begins with a
// virtio header. Packets that enter from the device are kept until they are
// delivered to another one.
type super struct {
	*kernel
	kind    string // TAP or TUN
	v6      bool
	engine  sim.Engine
	in      endpoint // of the host
	out     endpoint // of the peer, which writes to the same kernel
	without endpoint // as out, without offload
	supers  int
	trains  bool // super-packets enter as trains
	kept    []*packet.Packet
	writes  []delivery
}

type delivery struct {
	at      units.Time
	packets int
}

type endpoint interface {
	Poll(now units.Time, max int) int
	DeliverPacket(now units.Time, p *packet.Packet)
	DeliverTrain(now units.Time, p *packet.Packet)
	Flush(now units.Time)
	OffloadCounters() Offloaded
}

func (s *super) Enter(_ units.Time, p *packet.Packet) { s.kept = append(s.kept, p) }

func (s *super) EnterSuper(now units.Time, u *packet.Super, head *packet.Packet) {
	s.supers++
	split := gso.NewSplitter(&s.pool, u, head)
	if s.trains {
		if p := split.CutTrain(); p != nil {
			s.Enter(now, p)
		}
	}
	for p := split.Next(); p != nil; p = split.Next() {
		s.Enter(now, p)
	}
	s.pool.ReleaseSuper(u)
}

// newSuper makes the devices of a host and of its peer, so that packets read from
// one can be delivered to the other.
func newSuper(t testing.TB, kind string, v6 bool, window units.Time) *super {
	t.Helper()
	k, fd := newKernel(t)
	s := &super{kernel: k, kind: kind, v6: v6}
	c := k.config(fd)
	c.Entrance, c.Offload, c.Engine, c.Window = s, true, &s.engine, window
	c.Delivered = func(now units.Time, packets int) { s.writes = append(s.writes, delivery{now, packets}) }
	if kind == "TUN" {
		s.in = NewTUN(c, hostMAC, nil, neighbours{})
		s.out = NewTUN(c, peerMAC, nil, neighbours{})
		c.Offload = false
		s.without = NewTUN(c, peerMAC, nil, neighbours{})
	} else {
		s.in, s.out = NewTAP(c), NewTAP(c)
		c.Offload = false
		s.without = NewTAP(c)
	}
	t.Cleanup(s.clean)
	return s
}

// clean checks for leaks: all packets are freed, and the only super-packet in use is
// the one that a device reads into.
func (s *super) clean() {
	s.t.Helper()
	s.out.Flush(0)
	for _, p := range s.kept {
		s.pool.Free(p)
	}
	s.kept = nil
	if s.pool.LivePackets() != 0 || s.pool.LiveSupers() > 1 {
		s.t.Errorf("%s: %d packets and %d super-packets are still in use", s.kind, s.pool.LivePackets(), s.pool.LiveSupers())
	}
}

// each runs a test with both kinds of device and both versions of IP.
func each(t *testing.T, window units.Time, test func(t *testing.T, s *super)) {
	for _, kind := range []string{"TAP", "TUN"} {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s IPv%d", kind, map[bool]int{false: 4, true: 6}[v6]), func(t *testing.T) {
				test(t, newSuper(t, kind, v6, window))
			})
		}
	}
}

// skip returns the number of bytes of a frame that the device does not carry.
func (s *super) skip() int {
	if s.kind == "TUN" {
		return wire.EthernetHeader
	}
	return 0
}

// segment describes a packet or super-packet from the host to the peer.
type segment struct {
	v6, udp      bool
	seq          uint32
	id           uint16
	fin, syn, ps bool
	noAck        bool
	port         uint16
	payload      []byte
}

func (g segment) l4() int {
	if g.v6 {
		return wire.EthernetHeader + wire.IPv6Header
	}
	return wire.EthernetHeader + wire.IPv4Header
}

func (g segment) headers() int {
	if g.udp {
		return g.l4() + wire.UDPHeader
	}
	return g.l4() + 32
}

func (g segment) field() int {
	if g.udp {
		return 6
	}
	return 16
}

// frame returns the whole frame as gopacket makes it.
func (g segment) frame(t testing.TB) []byte {
	t.Helper()
	kind, proto := layers.EthernetTypeIPv4, layers.IPProtocolTCP
	if g.v6 {
		kind = layers.EthernetTypeIPv6
	}
	if g.udp {
		proto = layers.IPProtocolUDP
	}
	stack := []gopacket.SerializableLayer{ethernet(hostMAC, peerMAC, kind)}
	var network gopacket.NetworkLayer
	if g.v6 {
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: proto, FlowLabel: 77, SrcIP: host6.AsSlice(), DstIP: peer6.AsSlice()}
		stack, network = append(stack, ip), ip
	} else {
		ip := &layers.IPv4{Version: 4, TTL: 64, Id: g.id, Flags: layers.IPv4DontFragment, Protocol: proto, SrcIP: host4.AsSlice(), DstIP: peer4.AsSlice()}
		stack, network = append(stack, ip), ip
	}
	if g.udp {
		udp := &layers.UDP{SrcPort: layers.UDPPort(40_000 + g.port), DstPort: 40_001}
		_ = udp.SetNetworkLayerForChecksum(network)
		stack = append(stack, udp)
	} else {
		tcp := &layers.TCP{
			SrcPort: layers.TCPPort(40_000 + g.port), DstPort: 40_001, Seq: g.seq, Ack: 7, Window: 500, ACK: !g.noAck, PSH: g.ps, FIN: g.fin, SYN: g.syn,
			Options: []layers.TCPOption{{OptionType: 1}, {OptionType: 1}, {OptionType: 8, OptionLength: 10, OptionData: []byte("weftweft")}},
		}
		_ = tcp.SetNetworkLayerForChecksum(network)
		stack = append(stack, tcp)
	}
	b := build(t, append(stack, gopacket.Payload(g.payload))...)
	return b[:g.headers()+len(g.payload)] // gopacket pads to Ethernet's minimum
}

// begun returns the frame with a checksum that covers only the pseudo-header.
func (g segment) begun(t testing.TB) []byte {
	b := g.frame(t)
	n, proto := len(b)-g.l4(), byte(wire.ProtoTCP)
	if g.udp {
		proto = wire.ProtoUDP
	}
	addresses := b[26:34]
	if g.v6 {
		addresses = b[22:54]
	}
	pseudo := append(bytes.Clone(addresses), 0, proto, byte(n>>8), byte(n))
	binary.BigEndian.PutUint16(b[g.l4()+g.field():], ^wire.IPv4Checksum(pseudo))
	return b
}

// message returns the segment in the device's format; size is the payload of each
// packet of a super-packet, 0 for a single packet.
func (s *super) message(g segment, size int) []byte {
	s.t.Helper()
	h := gso.Header{Flags: gso.NeedsCsum, CsumStart: uint16(g.l4() - s.skip()), CsumOffset: uint16(g.field())}
	if size > 0 {
		h.HdrLen, h.GSOSize = uint16(g.headers()-s.skip()), uint16(size)
		switch {
		case g.udp:
			h.GSOType = gso.GSOUDPL4
		case g.v6:
			h.GSOType = gso.GSOTCPv6
		default:
			h.GSOType = gso.GSOTCPv4
		}
	}
	return s.with(h, g.begun(s.t))
}

// with puts a header before a frame, or before the IP packet in it.
func (s *super) with(h gso.Header, frame []byte) []byte {
	b := make([]byte, gso.HeaderLen)
	h.EncodeTo(b)
	return append(b, frame[s.skip():]...)
}

// stream returns the segment at an offset of a stream of the host.
func (s *super) stream(at, n int) segment {
	return segment{v6: s.v6, seq: uint32(1000 + at), id: uint16(at / 1000), payload: noise(at, n)}
}

// noise returns n bytes that depend on their position in a stream.
func noise(at, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		x := uint32(at+i) * 2654435761
		b[i] = byte(x >> 24)
	}
	return b
}

// cut returns the result of the kernel's own segmentation of g.
func (g segment) cut(size int) (all []segment) {
	for at := 0; at < len(g.payload); at += size {
		c := g
		c.payload = g.payload[at:min(at+size, len(g.payload))]
		c.seq += uint32(at)
		c.id += uint16(len(all))
		if at+size < len(g.payload) {
			c.ps, c.fin = false, false
		}
		all = append(all, c)
	}
	return all
}

// enter sends messages and returns the packets that enter.
func (s *super) enter(messages ...[]byte) []*packet.Packet {
	s.t.Helper()
	for _, m := range messages {
		s.send(m)
	}
	s.in.Poll(s.engine.Now(), 1000)
	return s.take()
}

// take returns the packets that have entered. The caller owns them.
func (s *super) take() []*packet.Packet {
	kept := s.kept
	s.kept = nil
	return kept
}

func (s *super) deliver(now units.Time, ps ...*packet.Packet) {
	s.engine.AdvanceTo(now)
	for _, p := range ps {
		if p.Kind == packet.Train {
			s.out.DeliverTrain(now, p)
		} else {
			s.out.DeliverPacket(now, p)
		}
	}
}

// receiveLong returns what was written to the host, nil when nothing was.
func (s *super) receiveLong() []byte {
	s.t.Helper()
	b := make([]byte, 1<<17)
	n, err := unix.Read(s.fd, b)
	if err == unix.EAGAIN {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return b[:n]
}

// wrote compares what was written to the host.
func (s *super) wrote(what string, want ...[]byte) {
	s.t.Helper()
	for i, w := range want {
		if got := s.receiveLong(); !bytes.Equal(got, w) {
			s.t.Errorf("%s: write %d of %d has %d bytes, want %d:\n%x\n%x", what, i+1, len(want), len(got), len(w), got[:min(len(got), 110)], w[:min(len(w), 110)])
		}
	}
	if got := s.receiveLong(); got != nil {
		s.t.Errorf("%s: a write too many, of %d bytes", what, len(got))
	}
}

// A single packet goes out as it came, with a complete checksum and no claim about it,
// whatever reads it in the host: packet sockets see the field as it is.
func TestOffload_PassesASinglePacketWithItsChecksum(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		for name, g := range map[string]segment{
			"SYN":      {syn: true, noAck: true},
			"ACK":      {},
			"data":     {payload: noise(0, 1000), ps: true},
			"one byte": {payload: noise(0, 1), ps: true},
			"FIN":      {fin: true},
			"UDP":      {udp: true, payload: noise(0, 700)},
			"UDP, odd": {udp: true, payload: noise(0, 1001)},
		} {
			g.v6 = s.v6
			for form, m := range map[string][]byte{"begun": s.message(g, 0), "complete": s.with(gso.Header{}, g.frame(t)), "verified": s.with(gso.Header{Flags: gso.DataValid}, g.frame(t))} {
				ps := s.enter(m)
				if len(ps) != 1 {
					t.Fatalf("%s, %s: %d packets entered", name, form, len(ps))
				}
				if got := gso.RenderPacket(ps[0], nil); !bytes.Equal(got, g.frame(t)) {
					t.Errorf("%s, %s: entered\n%x, want\n%x", name, form, got, g.frame(t))
				}
				if (ps[0].Sum != 0) != (form == "begun") {
					t.Errorf("%s, %s: the checksum is to be made at %d", name, form, ps[0].Sum)
				}
				s.deliver(s.engine.Now(), ps...)
				// None of them can be joined with later packets, so none waits.
				s.wrote(name+", "+form, s.with(gso.Header{}, g.frame(t)))
			}
		}
		o, in := s.out.OffloadCounters(), s.in.OffloadCounters()
		if in.Supers != 0 || in.Pieces != 0 || o.Written != 21 || o.Writes != 21 || o.HeldMax != 0 || s.supers != 0 {
			t.Errorf("counted in %+v, out %+v; %d super-packets", in, o, s.supers)
		}
		if s.malformed != 0 || s.refused != 0 {
			t.Errorf("%d malformed, %d refused", s.malformed, s.refused)
		}
	})
}

// The host gets the fabric's changes to a packet, with matching checksums.
func TestOffload_KeepsTheFabricsMarks(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		g := s.stream(0, 3*1000)
		ps := s.enter(s.message(g, 1000))
		for _, p := range ps {
			p.TOS |= wire.ECT0
			p.MarkCE()
		}
		s.deliver(0, ps...)
		s.out.Flush(0)
		frame := g.begun(t)
		wire.SetTOS(frame[wire.EthernetHeader:], wire.CE)
		want := s.message(g, 1000)
		copy(want[gso.HeaderLen:], frame[s.skip():])
		s.wrote("marked", want)
	})
}

// A train goes out as it came, as packets from a device without offload, and not
// at all from a TUN with another address.
func TestOffload_PassesTrains(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		s.trains = true
		m := s.message(s.stream(0, 3*1000), 1000)
		ps := s.enter(m)
		if len(ps) != 2 || ps[0].PacketCount() != 2 || ps[1].PacketCount() != 1 {
			t.Fatalf("%d packets have entered", len(ps))
		}
		s.deliver(0, ps...)
		s.out.Flush(0)
		s.wrote("a train", m)

		ps = s.enter(m)
		s.without.DeliverTrain(0, ps[0])
		s.without.DeliverPacket(0, ps[1])
		var want [][]byte
		for _, g := range s.stream(0, 3*1000).cut(1000) {
			want = append(want, g.frame(t)[s.skip():])
		}
		s.wrote("without offload", want...)

		if s.kind == "TUN" {
			ps = s.enter(m)
			ps[0].Dst, ps[1].Dst = 0x020000000077, 0x020000000077
			s.deliver(0, ps...)
			s.out.Flush(0)
			s.wrote("to another")
		}
	})
}

// A super-packet enters as the packets that the kernel
// would have sent, and goes out as it came.
func TestOffload_SplitsLikeTheKernel(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		var supers, pieces uint64
		for name, c := range map[string]struct {
			change func(*segment)
			n      int // bytes
			size   int
		}{
			"two":            {func(*segment) {}, 2000, 1000},
			"a short last":   {func(g *segment) { g.ps = true }, 44*1448 + 5, 1448},
			"one":            {func(*segment) {}, 100, 1000},
			"FIN":            {func(g *segment) { g.ps, g.fin = true, true }, 3001, 1000},
			"jumbo":          {func(*segment) {}, 60_000, 8948},
			"the longest":    {func(*segment) {}, 65535 - 72, 1448},
			"tiny":           {func(*segment) {}, 300, 1},
			"UDP":            {func(g *segment) { g.udp = true }, 50_000, 1000},
			"UDP, odd":       {func(g *segment) { g.udp = true }, 5001, 1471},
			"sequence wraps": {func(g *segment) { g.seq, g.id = 1<<32-1500, 1<<16-2 }, 5000, 1000},
		} {
			g := s.stream(0, c.n)
			c.change(&g)
			m := s.message(g, c.size)
			s.send(m)
			want := g.cut(c.size)
			supers++
			pieces += uint64(len(want))
			if n := s.in.Poll(0, 1); n != len(want) {
				t.Errorf("%s: read %d, want %d", name, n, len(want))
			}
			ps := s.take()
			if len(ps) != len(want) {
				t.Fatalf("%s: %d packets entered, want %d", name, len(ps), len(want))
			}
			for i, p := range ps {
				if got := gso.RenderPacket(p, nil); !bytes.Equal(got, want[i].frame(t)) || int(p.Size) != len(got) {
					t.Errorf("%s: packet %d is\n%x, want\n%x", name, i, got[:min(len(got), 100)], want[i].frame(t)[:min(len(got), 100)])
					break
				}
			}
			s.deliver(0, ps...)
			s.out.Flush(0)
			got := s.receiveLong()
			if name == "one" { // one packet is not a super-packet
				m = s.with(gso.Header{}, g.frame(t))
			}
			if !g.fin && !bytes.Equal(got, m) {
				t.Errorf("%s: went out as %d bytes, came as %d", name, len(got), len(m))
			}
			for s.receiveLong() != nil { // the FIN goes alone
			}
		}
		if o := s.in.OffloadCounters(); o.Supers != supers || o.Pieces != pieces || s.supers != int(supers) {
			t.Errorf("counted %+v and %d, want %d of %d", o, s.supers, pieces, supers)
		}
	})
}

// Input that is not a packet is reported as malformed, and
// neither leaks nor affects later packets.
func TestOffload_ReportsMalformedInput(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		g := s.stream(0, 3000)
		whole := s.message(g, 1000)
		change := func(f func(h *gso.Header)) []byte {
			h := gso.DecodeHeader(whole)
			f(&h)
			return s.with(h, g.begun(t))
		}
		front := gso.HeaderLen - s.skip() // of the frame, in the message
		udp := s.stream(0, 3000)
		udp.udp = true
		wrong := map[string][]byte{
			"unknown type":             change(func(h *gso.Header) { h.GSOType = 77 }),
			"UFO":                      change(func(h *gso.Header) { h.GSOType = 3 }),
			"another version":          change(func(h *gso.Header) { h.GSOType ^= gso.GSOTCPv4 ^ gso.GSOTCPv6 }),
			"another protocol":         change(func(h *gso.Header) { h.GSOType = gso.GSOUDPL4 }),
			"segments of no bytes":     change(func(h *gso.Header) { h.GSOSize = 0 }),
			"no payload":               whole[:front+g.headers()],
			"cut in the payload":       whole[:len(whole)-1],
			"cut in the TCP header":    whole[:front+g.l4()+13],
			"cut behind the IP header": whole[:front+g.l4()],
			"too long":                 append(slices.Clone(whole), 0),
			"too long for a single":    s.with(gso.Header{}, segment{v6: s.v6, payload: noise(0, 20_000)}.frame(t)),
			"segments too long":        s.message(s.stream(0, 30_000), 20_000),
			"sum from nowhere":         s.with(gso.Header{Flags: gso.NeedsCsum, CsumStart: 60_000, CsumOffset: 16}, s.stream(0, 100).frame(t)),
			"sum to nowhere":           s.with(gso.Header{Flags: gso.NeedsCsum, CsumStart: uint16(g.l4() - s.skip()), CsumOffset: 5000}, s.stream(0, 100).frame(t)),
			"sum over the IP header":   s.with(gso.Header{Flags: gso.NeedsCsum, CsumStart: 2, CsumOffset: 16}, s.stream(0, 100).frame(t)),
		}
		if s.kind == "TAP" {
			wrong["cut in the Ethernet header"] = whole[:gso.HeaderLen+9]
			wrong["nothing behind the virtio header"] = whole[:gso.HeaderLen]
			wrong["a single one, cut"] = make([]byte, gso.HeaderLen+13)
		}
		n := 0
		for name, m := range wrong {
			n++
			before := s.malformed
			s.send(m)
			s.send(whole) // must not be affected
			if got := s.in.Poll(0, 100); got != 4 || s.malformed != before+1 {
				t.Errorf("%s: read %d, malformed %d; want 4, 1", name, got, s.malformed-before)
			}
			ps := s.take()
			if len(ps) != 3 {
				t.Fatalf("%s: %d packets entered behind it", name, len(ps))
			}
			for i, p := range ps {
				if !bytes.Equal(gso.RenderPacket(p, nil), g.cut(1000)[i].frame(t)) {
					t.Errorf("%s: packet %d behind it is another", name, i)
				}
				s.pool.Free(p)
			}
			if s.pool.LivePackets() != 0 || s.pool.LiveSupers() > 1 {
				t.Errorf("%s: %d packets and %d super-packets live", name, s.pool.LivePackets(), s.pool.LiveSupers())
			}
		}
		if o := s.in.OffloadCounters(); int(o.Supers) != n || int(o.Pieces) != 3*n {
			t.Errorf("counted %+v, want only the %d good ones", o, n)
		}
	})
}

// Of random messages with random headers each is split, malformed or, at a TUN,
// unroutable, and nothing leaks.
func TestOffload_SurvivesNonsense(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		r := rand.New(rand.NewPCG(1, 2))
		whole := [][]byte{s.message(s.stream(0, 5000), 1000), s.message(segment{v6: s.v6, udp: true, payload: noise(0, 5000)}, 1000), s.message(s.stream(0, 900), 0)}
		for range 3000 {
			m := slices.Clone(whole[r.IntN(len(whole))])
			for range r.IntN(4) {
				m[r.IntN(min(len(m), 90))] = byte(r.Uint32())
			}
			m = m[:gso.HeaderLen+r.IntN(len(m)-gso.HeaderLen+1)]
			s.send(m)
			s.in.Poll(0, 1)
			for _, p := range s.take() {
				if f := gso.RenderPacket(p, nil); len(f) != int(p.Size) && p.Frame == nil {
					t.Fatalf("%x becomes a packet of %d bytes that says %d", m, len(f), p.Size)
				}
				s.out.DeliverPacket(0, p)
				s.receiveLong()
			}
			s.out.Flush(0)
			for s.receiveLong() != nil {
			}
			if s.pool.LivePackets() != 0 || s.pool.LiveSupers() > 1 {
				t.Fatalf("%x: %d packets and %d super-packets live", m, s.pool.LivePackets(), s.pool.LiveSupers())
			}
		}
		if s.malformed == 0 || s.supers == 0 || s.refused != 0 {
			t.Errorf("%d malformed, %d super-packets, %d refused", s.malformed, s.supers, s.refused)
		}
	})
}

// Packets and super-packets to unknown addresses, and input
// that is not an IP packet, do not enter from a TUN and are counted.
func TestOffload_CountsUnroutablePackets(t *testing.T) {
	s := newSuper(t, "TUN", false, window)
	g := s.stream(0, 3000)
	nobody := s.message(g, 1000)
	nobody[gso.HeaderLen+19]++ // of the destination
	single := s.message(s.stream(0, 100), 0)
	single[gso.HeaderLen+19]++
	bad := [][]byte{nobody, single, nobody[:gso.HeaderLen+10], nobody[:gso.HeaderLen], append(make([]byte, gso.HeaderLen), 0x55)}
	s.send(s.message(g, 1000))
	for _, m := range bad {
		s.send(m)
	}
	if n := s.in.Poll(0, 100); n != 3+len(bad) || len(s.kept) != 3 || s.in.(*TUN).UnroutablePackets() != uint64(len(bad)) || s.malformed != 0 {
		t.Errorf("read %d, entered %d, unroutable %d, malformed %d; want %d, 3, %d, 0", n, len(s.kept), s.in.(*TUN).UnroutablePackets(), s.malformed, 3+len(bad), len(bad))
	}
	if o := s.in.OffloadCounters(); o.Supers != 1 || o.Pieces != 3 {
		t.Errorf("counted %+v", o)
	}
}

// A long super-packet counts as superCost packets, so that
// a turn takes several.
func TestOffload_PollCountsALongSuperPacketAsFew(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		const packets = superCost + 4
		for i := range 6 {
			s.send(s.message(s.stream(1000*packets*i, 1000*packets), 1000))
		}
		if got := []int{s.in.Poll(0, 4*superCost), s.in.Poll(0, superCost+1), s.in.Poll(0, 1)}; !cmp.Equal(got, []int{4 * packets, 2 * packets, 0}) {
			t.Errorf("read %v", got)
		}
	})
}

// Reading ends at max packets, counted as pieces, and the rest
// wait for the next turn.
func TestOffload_PollStopsAtItsLimit(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		var want [][]byte
		for i := range 4 {
			g := s.stream(3000*i, 3000)
			s.send(s.message(g, 1000))
			for _, c := range g.cut(1000) {
				want = append(want, c.frame(t))
			}
		}
		last := s.stream(12_000, 10)
		s.send(s.message(last, 0))
		want = append(want, last.frame(t))
		if got := []int{s.in.Poll(0, 4), s.in.Poll(0, 1), s.in.Poll(0, 3), s.in.Poll(0, 32), s.in.Poll(0, 32)}; !cmp.Equal(got, []int{6, 3, 3, 1, 0}) {
			t.Errorf("read %v, want 6, 3, 3, 1, 0", got)
		}
		if len(s.kept) != len(want) {
			t.Fatalf("%d packets entered, want %d", len(s.kept), len(want))
		}
		for i, p := range s.kept {
			if !bytes.Equal(gso.RenderPacket(p, nil), want[i]) {
				t.Errorf("packet %d is another", i)
			}
		}
	})
}

// A run is written in one write when its first packet has waited
// for the window, whenever the others came.
func TestOffload_WritesARunAfterItsWindow(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		// Two super-packets and a single packet of one stream.
		a, b, c := s.stream(0, 5000), s.stream(5000, 3000), s.stream(8000, 1000)
		ps := s.enter(s.message(a, 1000), s.message(b, 1000), s.message(c, 0))
		if len(ps) != 9 {
			t.Fatalf("%d packets entered", len(ps))
		}
		const first = 100 * units.Microsecond
		for i, p := range ps {
			s.deliver(first+units.Time(i)*units.Microsecond, p)
		}
		s.engine.Run(first+window-1, 100)
		s.wrote("before the window's end")
		if next := s.engine.Next(); next != first+window {
			t.Errorf("the next event is at %v, want %v", next, first+window)
		}
		s.engine.Run(first+window, 100)
		s.wrote("at the window's end", s.message(s.stream(0, 9000), 1000))
		if diff := cmp.Diff([]delivery{{first + window, 9}}, s.writes, cmp.AllowUnexported(delivery{})); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
		if s.engine.Run(units.Second, 100) != 0 {
			t.Error("a timer was left")
		}
		o := s.out.OffloadCounters()
		if o.Written != 9 || o.Writes != 1 || o.HeldMax < window || o.HeldMax > window+window/50 || o.HeldP50 != o.HeldMax {
			t.Errorf("counted %+v", o)
		}
	})
}

// The timer of a run that was written early does not
// shorten the window of the next one, and each flow has its own run.
func TestOffload_EachRunHasAWholeWindow(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		const us = units.Microsecond
		early := s.stream(0, 1500)
		early.ps = true
		later, other := s.stream(1500, 2000), s.stream(0, 2000)
		other.port = 1
		ps := s.enter(s.message(early, 1000), s.message(later, 1000), s.message(other, 1000))
		s.deliver(0, ps[0])
		s.deliver(5*us, ps[1]) // short, and has PSH: the end of the run
		s.wrote("at PSH", s.message(early, 1000))
		s.deliver(10*us, ps[2])
		s.deliver(12*us, ps[4]) // of the other flow
		s.deliver(20*us, ps[3]) // the first run's timer would be due now
		s.deliver(22*us, ps[5])
		s.engine.Run(30*us-1, 100)
		s.wrote("before the window's end")
		s.engine.Run(30*us, 100)
		// The other flow does not wait longer once a write is due.
		s.wrote("at the window's end", s.message(later, 1000), s.message(other, 1000))
		s.engine.Run(units.Second, 100)
		s.wrote("later")
		if o := s.out.OffloadCounters(); o.Written != 6 || o.Writes != 3 {
			t.Errorf("counted %+v", o)
		}
	})
}

// A full run is written at once.
func TestOffload_WritesAFullRunAtOnce(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		// 65 KB and more: the 46th packet does not fit.
		a, b := s.stream(0, 40*1000), s.stream(40_000, 40*1000)
		ps := s.enter(s.message(a, 1000), s.message(b, 1000))
		headers := s.stream(0, 0).headers() - wire.EthernetHeader
		fit := (65535 - headers) / 1000
		s.deliver(0, ps[:fit]...)
		s.wrote("while there is place")
		s.deliver(1, ps[fit])
		s.wrote("when there is none", s.message(s.stream(0, fit*1000), 1000))
		s.deliver(2, ps[fit+1:]...)
		s.engine.Run(1+window, 100)
		s.wrote("the rest", s.message(s.stream(fit*1000, 80_000-fit*1000), 1000))

		for name, g := range map[string]segment{
			"PSH":     {payload: noise(0, 2000), ps: true},
			"a short": {payload: noise(0, 1999)},
		} {
			g.v6 = s.v6
			s.deliver(units.Second, s.enter(s.message(g, 1000))...)
			s.wrote(name, s.message(g, 1000))
		}
	})
}

// A lost packet ends a run; order is kept.
func TestOffload_ALossEndsARun(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		ps := s.enter(s.message(s.stream(0, 10_000), 1000))
		s.pool.Free(ps[4])
		s.deliver(0, ps[:4]...)
		s.deliver(1, ps[5:]...)
		s.wrote("at the gap", s.message(s.stream(0, 4000), 1000))
		s.engine.Run(1+window, 100)
		s.wrote("behind it", s.message(s.stream(5000, 5000), 1000))
	})
}

// Only packets that come at the same instant are joined.
func TestOffload_WithoutAWindowJoinsOneInstant(t *testing.T) {
	each(t, 0, func(t *testing.T, s *super) {
		ps := s.enter(s.message(s.stream(0, 5000), 1000))
		s.deliver(7, ps[:3]...)
		s.engine.Run(7, 100)
		s.wrote("the first three", s.message(s.stream(0, 3000), 1000))
		s.deliver(8, ps[3])
		s.engine.Run(8, 100)
		s.deliver(9, ps[4])
		s.engine.Run(9, 100)
		one, other := s.stream(3000, 1000), s.stream(4000, 1000)
		s.wrote("one at a time", s.with(gso.Header{}, one.frame(t)), s.with(gso.Header{}, other.frame(t)))
		if o := s.out.OffloadCounters(); o.Written != 5 || o.Writes != 3 || o.HeldMax != 0 {
			t.Errorf("counted %+v", o)
		}
	})
}

// Flush writes waiting packets, and the timer then finds none.
func TestOffload_FlushWritesWhatWaits(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		s.deliver(3, s.enter(s.message(s.stream(0, 3000), 1000))...)
		s.out.Flush(5)
		s.wrote("flushed", s.message(s.stream(0, 3000), 1000))
		s.out.Flush(6)
		s.engine.Run(units.Second, 100)
		s.wrote("again")
		if diff := cmp.Diff([]delivery{{5, 3}}, s.writes, cmp.AllowUnexported(delivery{})); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

// The figures are the waiting times of each run's first packet.
func TestOffload_ReportsWaitingTimes(t *testing.T) {
	s := newSuper(t, "TAP", false, window)
	for i := range 100 { // runs that PSH ends after 1, 2 ... 100 tenths of a microsecond
		g := s.stream(0, 2000)
		g.ps = true
		ps := s.enter(s.message(g, 1000))
		at := units.Time(i) * units.Millisecond
		s.deliver(at, ps[0])
		s.deliver(at+units.Time(i+1)*100*units.Nanosecond, ps[1])
		if s.receiveLong() == nil {
			t.Fatal("nothing was written")
		}
	}
	o := s.out.OffloadCounters()
	for _, c := range []struct {
		name      string
		got, want units.Time
	}{
		{"p50", o.HeldP50, 5 * units.Microsecond}, {"p99", o.HeldP99, 9900 * units.Nanosecond}, {"max", o.HeldMax, 10 * units.Microsecond},
	} {
		if c.got < c.want-c.want/100 || c.got > c.want+c.want/50 {
			t.Errorf("held %s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if o.Written != 200 || o.Writes != 100 {
		t.Errorf("counted %+v", o)
	}
}

// When the host is gone each packet of a run is refused,
// and none is counted as written.
func TestOffload_CountsRefusedPacketsOfARun(t *testing.T) {
	each(t, window, func(t *testing.T, s *super) {
		ps := s.enter(s.message(s.stream(0, 5000), 1000), s.message(segment{v6: s.v6, syn: true}, 0))
		s.close()
		s.deliver(0, ps[:5]...)
		if s.refused != 0 {
			t.Error("refused before it was tried")
		}
		s.engine.Run(window, 100)
		if s.refused != 5 {
			t.Errorf("%d packets refused, want 5", s.refused)
		}
		s.deliver(window, ps[5])
		if s.refused != 6 {
			t.Errorf("%d packets refused, want 6", s.refused)
		}
		if o := s.out.OffloadCounters(); o.Written != 0 || o.Writes != 0 {
			t.Errorf("counted as written: %+v", o)
		}
		if n := s.in.Poll(0, 10); n != 0 {
			t.Errorf("read %d from a device that is gone", n)
		}
	})
}

// A device without offload has nothing to count, and
// Flush does nothing.
func TestOffloaded_IsZeroWithoutOffload(t *testing.T) {
	tun, k := newTestTUN(t)
	k.send(ipTo(t, "10.0.0.2"))
	tun.Poll(0, 10)
	tun.Flush(0)
	if o := tun.OffloadCounters(); o != (Offloaded{}) {
		t.Errorf("counted %+v", o)
	}
}
