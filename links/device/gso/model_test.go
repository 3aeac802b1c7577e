package gso

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// model is a TCP or UDP packet in gopacket's terms. gopacket makes the bytes with
// which this package's results are compared.
type model struct {
	v6, udp   bool
	tags      []uint16 // VLANs
	tos, ttl  uint8
	id        uint16
	df        bool
	ipOptions bool
	label     uint32 // IPv6 flow label
	extension []byte // IPv6 extension header, of multiples of 8 bytes
	extended  uint8  // its type
	dst       byte   // last octet of the destination
	src, port uint16
	seq, ack  uint32
	window    uint16
	flags     uint8
	options   []byte // of TCP
	payload   []byte
}

// base returns a TCP packet that may be joined.
func base() model {
	return model{tos: 0xba, ttl: 63, id: 100, df: true, dst: 2, src: 4000, port: 5001, seq: 1000, ack: 7, window: 500, flags: 0x10, payload: bytesOf(1, 1000)}
}

// bytesOf returns n bytes derived from the seed.
func bytesOf(seed uint64, n int) []byte {
	b := make([]byte, n+8)
	r := rand.NewPCG(seed, 1)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n]
}

// frame returns the packet with complete lengths and checksums.
func (m model) frame(t rapid.TB) []byte {
	kind, proto := layers.EthernetTypeIPv4, layers.IPProtocolTCP
	if m.v6 {
		kind = layers.EthernetTypeIPv6
	}
	if m.udp {
		proto = layers.IPProtocolUDP
	}
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, m.dst}, EthernetType: kind}
	stack := []gopacket.SerializableLayer{eth}
	for i, vlan := range m.tags {
		tag := &layers.Dot1Q{VLANIdentifier: vlan, Type: kind}
		if i == 0 {
			eth.EthernetType = layers.EthernetTypeDot1Q
		} else {
			stack[i].(*layers.Dot1Q).Type = layers.EthernetTypeDot1Q
		}
		stack = append(stack, tag)
	}
	var network gopacket.NetworkLayer
	if m.v6 {
		ip := &layers.IPv6{Version: 6, TrafficClass: m.tos, FlowLabel: m.label, HopLimit: m.ttl, NextHeader: proto, SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::1")}
		ip.DstIP[15] = m.dst
		stack, network = append(stack, ip), ip
	} else {
		ip := &layers.IPv4{Version: 4, TOS: m.tos, Id: m.id, TTL: m.ttl, Protocol: proto, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, m.dst}}
		if m.df {
			ip.Flags = layers.IPv4DontFragment
		}
		if m.ipOptions { // router alert (RFC 2113)
			ip.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}
		}
		stack, network = append(stack, ip), ip
	}
	if m.udp {
		udp := &layers.UDP{SrcPort: layers.UDPPort(m.src), DstPort: layers.UDPPort(m.port)}
		_ = udp.SetNetworkLayerForChecksum(network)
		stack = append(stack, udp)
	} else {
		bit := func(n int) bool { return m.flags>>n&1 != 0 }
		tcp := &layers.TCP{
			SrcPort: layers.TCPPort(m.src), DstPort: layers.TCPPort(m.port), Seq: m.seq, Ack: m.ack, Window: m.window,
			FIN: bit(0), SYN: bit(1), RST: bit(2), PSH: bit(3), ACK: bit(4), URG: bit(5), ECE: bit(6), CWR: bit(7),
		}
		if len(m.options) > 0 { // an experimental option (RFC 4727), padded by gopacket
			tcp.Options = []layers.TCPOption{{OptionType: 253, OptionLength: uint8(2 + len(m.options)), OptionData: m.options}}
		}
		_ = tcp.SetNetworkLayerForChecksum(network)
		stack = append(stack, tcp)
	}
	buf := gopacket.NewSerializeBuffer()
	stack = append(stack, gopacket.Payload(m.payload))
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, stack...); err != nil {
		t.Fatal(err)
	}
	b := buf.Bytes()
	if at := m.l4() - len(m.extension) + 6; m.udp && binary.BigEndian.Uint16(b[at:]) == 0 {
		binary.BigEndian.PutUint16(b[at:], 0xffff) // RFC 768; gopacket leaves 0
	}
	// gopacket pads to the minimum of Ethernet; a super-packet is not padded.
	length := int(binary.BigEndian.Uint16(b[m.l3()+2:]))
	if m.v6 {
		length = 40 + int(binary.BigEndian.Uint16(b[m.l3()+4:]))
	}
	return m.extend(b[:m.l3()+length])
}

// extend inserts the extension header after the IPv6 header.
func (m model) extend(b []byte) []byte {
	if len(m.extension) == 0 {
		return b
	}
	at := m.l3() + 40
	x := append(bytes.Clone(b[:at]), m.extension...)
	x[at], x[at+1] = b[m.l3()+6], uint8(len(m.extension)/8-1)
	x[m.l3()+6] = m.extended
	binary.BigEndian.PutUint16(x[m.l3()+4:], uint16(len(b)-at+len(m.extension)))
	return append(x, b[at:]...)
}

// l3 and l4 are the offsets of the headers in the frame.
func (m model) l3() int { return 14 + 4*len(m.tags) }

func (m model) l4() int {
	switch {
	case m.v6:
		return m.l3() + 40 + len(m.extension)
	case m.ipOptions:
		return m.l3() + 24
	}
	return m.l3() + 20
}

// cut returns the packets that the kernel would send for m as a super-packet.
func (m model) cut(size int) (segments []model) {
	for at := 0; at < len(m.payload); at += size {
		s := m
		s.payload = m.payload[at:min(at+size, len(m.payload))]
		s.id += uint16(len(segments))
		s.seq += uint32(at)
		if at > 0 {
			s.flags &^= 0x80 // CWR
		}
		if at+size < len(m.payload) {
			s.flags &^= 0x09 // PSH, FIN
		}
		segments = append(segments, s)
	}
	return segments
}

// header returns the kernel's header for m as a super-packet. Its HdrLen is
// deliberately wrong.
func (m model) header(size int) Header {
	h := Header{Flags: NeedsCsum, GSOType: GSOTCPv4, HdrLen: 9999, GSOSize: uint16(size), CsumStart: uint16(m.l4()), CsumOffset: 16}
	switch {
	case m.udp:
		h.GSOType, h.CsumOffset = GSOUDPL4, 6
	case m.v6:
		h.GSOType = GSOTCPv6
	}
	if m.flags&0x80 != 0 && !m.udp {
		h.GSOType |= GSOECN
	}
	return h
}

// pieces cuts m with this package.
func (m model) pieces(t rapid.TB, pool *packet.Pool, size int) []*packet.Packet {
	return pieces(t, pool, m.frame(t), m.header(size))
}

// pieces cuts a frame.
func pieces(t rapid.TB, pool *packet.Pool, frame []byte, h Header) []*packet.Packet {
	t.Helper()
	return cutUp(t, pool, frame, h, false)
}

// cutUp cuts a frame, into a train and the rest if trains is true and there is one.
func cutUp(t rapid.TB, pool *packet.Pool, frame []byte, h Header, trains bool) (ps []*packet.Packet) {
	t.Helper()
	s := pool.NewSuper()
	s.Data = s.DataRoom()[:copy(s.DataRoom(), frame)]
	var head packet.Packet
	if err := PrepareSuper(s, h, &head); err != nil {
		t.Fatalf("%v: %+v, %.80x", err, h, frame)
	}
	head.Dest, head.Origin, head.Created = 3, 4, 5
	cut := NewSplitter(pool, s, &head)
	if trains {
		if p := cut.CutTrain(); p != nil {
			ps = append(ps, p)
		}
	}
	for p := cut.Next(); p != nil; p = cut.Next() {
		ps = append(ps, p)
	}
	pool.ReleaseSuper(s)
	return ps
}

// whole returns m as a packet that came alone, with a partial checksum.
func (m model) whole(t rapid.TB, pool *packet.Pool) *packet.Packet {
	t.Helper()
	p := pool.NewFrame(len(m.frame(t)))
	copy(p.Frame, m.frame(t))
	if !p.Parse() {
		t.Fatalf("no frame: %x", p.Frame)
	}
	h := Header{Flags: NeedsCsum, CsumStart: uint16(m.l4()), CsumOffset: m.header(1).CsumOffset}
	l4 := p.Frame[m.l4():]
	pseudo := uint32(p.Proto) + uint32(len(l4))
	addresses := p.Frame[m.l3()+12 : m.l3()+20]
	if m.v6 {
		addresses = p.Frame[m.l3()+8 : m.l3()+40]
	}
	for ; len(addresses) > 0; addresses = addresses[2:] {
		pseudo += uint32(binary.BigEndian.Uint16(addresses))
	}
	for pseudo>>16 != 0 {
		pseudo = pseudo&0xffff + pseudo>>16
	}
	binary.BigEndian.PutUint16(l4[h.CsumOffset:], uint16(pseudo))
	if err := MarkPartial(p, h, 0); err != nil || int(p.Sum) != m.l4()+int(h.CsumOffset) {
		t.Fatalf("checksum at %d, %v", p.Sum, err)
	}
	return p
}

// same compares frames.
func same(t rapid.TB, want, got []byte) {
	t.Helper()
	if !bytes.Equal(want, got) {
		t.Fatalf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}

// drawModel draws a packet and a segment size.
func drawModel(t *rapid.T) (m model, size int) {
	m = model{
		v6:      rapid.Bool().Draw(t, "ipv6"),
		udp:     rapid.IntRange(0, 3).Draw(t, "udp") == 0,
		tags:    rapid.SliceOfN(rapid.Uint16Range(1, 4094), 0, 2).Draw(t, "vlans"),
		tos:     rapid.Byte().Draw(t, "tos"),
		ttl:     rapid.Byte().Draw(t, "ttl"),
		df:      rapid.Bool().Draw(t, "df"),
		dst:     2,
		src:     rapid.Uint16Range(4000, 4002).Draw(t, "source port"),
		port:    5001,
		ack:     rapid.Uint32().Draw(t, "ack"),
		window:  rapid.Uint16().Draw(t, "window"),
		options: rapid.SliceOfN(rapid.Byte(), 0, 38).Draw(t, "options"),
		flags:   ack,
	}
	m.ipOptions = rapid.IntRange(0, 9).Draw(t, "IPv4 options") == 0
	// Near the wrap, or anywhere.
	m.id = rapid.OneOf(rapid.Uint16(), rapid.Uint16Min(0xfff0)).Draw(t, "id")
	m.seq = rapid.OneOf(rapid.Uint32(), rapid.Uint32Min(0xffff_f000)).Draw(t, "seq")
	if m.v6 {
		m.label, m.id, m.ipOptions = rapid.Uint32Range(0, 1<<20-1).Draw(t, "label"), 0, false
		if n := rapid.IntRange(-10, 6).Draw(t, "extension"); n > 0 {
			m.extension = make([]byte, 8*n)
			m.extended = rapid.SampledFrom([]uint8{0, 43, 60}).Draw(t, "extension header")
		}
	}
	if rapid.Bool().Draw(t, "psh") {
		m.flags |= psh
	}
	if rapid.IntRange(0, 4).Draw(t, "odd flags") == 0 {
		m.flags |= rapid.SampledFrom([]uint8{fin, cwr, 0x40, 0x20, fin | cwr}).Draw(t, "flags")
	}
	size = rapid.OneOf(rapid.Just(1448), rapid.IntRange(100, 9000)).Draw(t, "segment size")
	room := maxIP - (60 + 60)
	n := rapid.OneOf(rapid.IntRange(1, min(6*size, room)), rapid.Just(min(3*size, room)), rapid.Just(room)).Draw(t, "payload")
	m.payload = bytesOf(rapid.Uint64().Draw(t, "seed"), n)
	return m, size
}

func TestModel(t *testing.T) {
	// A hand-made packet: the model's bytes match its terms.
	m := base()
	m.tags = []uint16{5, 7}
	f := m.frame(t)
	p := packet.Packet{Frame: f}
	if !p.Parse() || int(p.L3) != m.l3() || p.Proto != wire.ProtoTCP || p.TOS != m.tos || p.IPID != m.id {
		t.Fatalf("%+v of %x", p, f)
	}
}
