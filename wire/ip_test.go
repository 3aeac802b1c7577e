package wire

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"
)

// judge reads an IP packet with gopacket and returns what ParseIP should return. It
// fails if gopacket rejects the packet: then the test has built one that proves
// nothing.
func judge(t *rapid.T, b []byte) (want IP) {
	first := layers.LayerTypeIPv4
	if b[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(b, first, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("gopacket refuses %x: %v", b, e.Error())
	}
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.IPv4:
			want = IP{Version: l.Version, TOS: l.TOS, TTL: l.TTL, Proto: uint8(l.Protocol), ID: l.Id, Fragment: l.FragOffset != 0, Header: len(l.Contents)}
		case *layers.IPv6:
			want = IP{Version: l.Version, TOS: l.TrafficClass, TTL: l.HopLimit, Proto: uint8(l.NextHeader), Header: len(l.Contents)}
		case *layers.IPv6HopByHop:
			want.Proto = uint8(l.NextHeader)
			want.Header += len(l.Contents)
		case *layers.IPv6Routing:
			want.Proto = uint8(l.NextHeader)
			want.Header += len(l.Contents)
		case *layers.IPv6Destination:
			want.Proto = uint8(l.NextHeader)
			want.Header += len(l.Contents)
		case *layers.IPv6Fragment:
			want.Proto, want.Fragment = uint8(l.NextHeader), l.FragmentOffset != 0
			want.Header += len(l.Contents)
		case *layers.TCP:
			want.SrcPort, want.DstPort = uint16(l.SrcPort), uint16(l.DstPort)
		case *layers.UDP:
			want.SrcPort, want.DstPort = uint16(l.SrcPort), uint16(l.DstPort)
		}
	}
	return want
}

// drawTransport returns a protocol number and bytes that gopacket accepts for it.
// TCP and UDP have no payload, because gopacket would decode it by the port number.
func drawTransport(t *rapid.T) (proto uint8, b []byte) {
	const esp = 50
	proto = rapid.SampledFrom([]uint8{ProtoTCP, ProtoUDP, ProtoICMP, esp}).Draw(t, "proto")
	b = rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "transport")
	switch proto {
	case ProtoTCP:
		b[12] = 5 << 4
	case ProtoUDP:
		b = b[:UDPHeader]
		binary.BigEndian.PutUint16(b[4:], UDPHeader)
	}
	return proto, b
}

func drawIPv4(t *rapid.T) []byte {
	proto, payload := drawTransport(t)
	words := rapid.IntRange(5, 15).Draw(t, "header words") // the options are no-operations
	b := make([]byte, 4*words, 4*words+len(payload))
	for i := IPv4Header; i < len(b); i++ {
		b[i] = 1
	}
	b[0] = 4<<4 | uint8(words)
	b[1] = rapid.Byte().Draw(t, "tos")
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(payload)))
	binary.BigEndian.PutUint16(b[4:], rapid.Uint16().Draw(t, "id"))
	flags := rapid.SampledFrom([]uint16{0, 0x4000, 0x2000}).Draw(t, "flags")
	offset := rapid.SampledFrom([]uint16{0, 0, 1, 185, 0x1fff}).Draw(t, "offset")
	binary.BigEndian.PutUint16(b[6:], flags|offset)
	b[8] = rapid.Byte().Draw(t, "ttl")
	b[9] = proto
	copy(b[12:20], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "addresses"))
	binary.BigEndian.PutUint16(b[10:], IPv4Checksum(b))
	return append(b, payload...)
}

// drawIPv6 puts extension headers in random order and number, with padding as their
// only options, before a transport header or a fragment with any content.
func drawIPv6(t *rapid.T) []byte {
	proto, payload := drawTransport(t)
	b := make([]byte, IPv6Header)
	b[0] = 6 << 4
	b[7] = rapid.Byte().Draw(t, "hop limit")
	copy(b[8:40], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "addresses"))
	binary.BigEndian.PutUint16(b, binary.BigEndian.Uint16(b)|uint16(rapid.Byte().Draw(t, "class"))<<4)
	binary.BigEndian.PutUint16(b[2:], rapid.Uint16().Draw(t, "flow label"))

	kinds := rapid.SliceOfN(rapid.SampledFrom([]uint8{43, 44, 60}), 0, 3).Draw(t, "extensions")
	if rapid.Bool().Draw(t, "hop by hop") {
		kinds = append([]uint8{0}, kinds...)
	}
	next := &b[6]
	for _, kind := range kinds {
		*next = kind
		words := rapid.IntRange(0, 3).Draw(t, "words")
		switch kind {
		case 43: // type 0 lists whole addresses
			words = words / 2 * 2
		case 44:
			words = 0
		}
		h := make([]byte, 8+8*words)
		h[1] = uint8(words)
		if kind == 44 {
			offset := rapid.SampledFrom([]uint16{0, 0, 1, 0x1fff}).Draw(t, "offset")
			binary.BigEndian.PutUint16(h[2:], offset<<3|uint16(rapid.IntRange(0, 1).Draw(t, "more")))
		}
		at := len(b)
		b = append(b, h...)
		next = &b[at]
	}
	*next = proto
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-IPv6Header))
	return b
}

func TestParseIPAgainstGopacket(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) []byte{"IPv4": drawIPv4, "IPv6": drawIPv6} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			b := draw(t)
			want := judge(t, b)
			// What follows the packet in the buffer does not matter.
			for _, tail := range [][]byte{nil, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
				got, ok := ParseIP(append(b[:len(b):len(b)], tail...))
				if diff := cmp.Diff(want, got); !ok || diff != "" {
					t.Fatalf("%x with %d bytes behind: %v (-gopacket +ParseIP):\n%s", b, len(tail), ok, diff)
				}
			}
		}))
	}
}

// TestParseIPTruncated cuts packets at every length: an incomplete header is
// refused, an incomplete extension header is not skipped.
func TestParseIPTruncated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.OneOf(rapid.Custom(drawIPv4), rapid.Custom(drawIPv6)).Draw(t, "packet")
		whole, _ := ParseIP(b)
		fixed := IPv6Header
		if whole.Version == 4 {
			fixed = whole.Header
		}
		for n := range b {
			got, ok := ParseIP(b[:n])
			if ok != (n >= fixed) {
				t.Fatalf("%d bytes of a header of %d: %v", n, fixed, ok)
			}
			if !ok {
				continue
			}
			if got.Header > n || got.Header > whole.Header {
				t.Fatalf("%d bytes: a header of %d, whole it is %d", n, got.Header, whole.Header)
			}
			if n >= whole.Header+4 && got != whole || n < whole.Header+4 && (got.SrcPort != 0 || got.DstPort != 0) {
				t.Fatalf("%d bytes of %x read as %+v, whole it is %+v", n, b, got, whole)
			}
		}
	})
}

// TestFragmentsOfOneIPv6Packet: the destination options of a fragmented packet are
// in its first fragment only. All fragments must look alike, or they take different
// paths, and the payload of a later one must not be read as a header.
func TestFragmentsOfOneIPv6Packet(t *testing.T) {
	fragment := func(offset uint16, payload ...byte) []byte {
		b := make([]byte, IPv6Header+8)
		b[0], b[6], b[7] = 6<<4, 44, 64
		b[40] = 60 // destination options follow in the reassembled packet
		binary.BigEndian.PutUint16(b[42:], offset<<3|1)
		return append(b, payload...)
	}
	first, _ := ParseIP(fragment(0, ProtoUDP, 0, 1, 4, 0, 0, 0, 0, 0x13, 0x88, 0x13, 0x89, 0, 16, 0, 0))
	later, _ := ParseIP(fragment(2, ProtoTCP, 0, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8))
	if first.Fragment || !later.Fragment {
		t.Errorf("fragments read as later: %v, %v; want false, true", first.Fragment, later.Fragment)
	}
	if later.Fragment = first.Fragment; first != later {
		t.Errorf("the first fragment reads %+v, a later one %+v", first, later)
	}
}

func TestParseIPRefuses(t *testing.T) {
	ok4 := func(change func(b []byte)) []byte {
		b := make([]byte, 40)
		b[0] = 0x45
		change(b)
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"version 0":          ok4(func(b []byte) { b[0] = 0x05 }),
		"version 5":          ok4(func(b []byte) { b[0] = 0x55 }),
		"header of 4 words":  ok4(func(b []byte) { b[0] = 0x44 }),
		"header of 15 words": ok4(func(b []byte) { b[0] = 0x4f }),
		"IPv6 of 39 bytes":   ok4(func(b []byte) { b[0] = 0x60 })[:39],
	} {
		if h, ok := ParseIP(b); ok {
			t.Errorf("%s is read as %+v", name, h)
		}
	}
}

// TestSetTOSEveryPair rewrites every ToS octet to every other, and some with every
// checksum that a header can have: the checksum stays correct and nothing else
// changes.
func TestSetTOSEveryPair(t *testing.T) {
	rewrite := func(id uint16, from, to uint8) {
		header := func(tos uint8) (b [IPv4Header]byte) {
			b = [...]byte{0x45, tos, 0x05, 0xdc, byte(id >> 8), byte(id), 0x40, 0, 64, ProtoUDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
			binary.BigEndian.PutUint16(b[10:], IPv4Checksum(b[:]))
			return b
		}
		b, want := header(from), header(to)
		if SetTOS(b[:], to); b != want {
			t.Fatalf("tos %#x to %#x, id %#x: % x, want % x", from, to, id, b, want)
		}
	}
	for from := range 256 {
		for to := range 256 {
			rewrite(0x1234, uint8(from), uint8(to))
		}
	}
	for id := range 1 << 16 {
		rewrite(uint16(id), ECT0, CE)
		rewrite(uint16(id), ECT1, CE)
		rewrite(uint16(id), 0xff, 0)
		rewrite(uint16(id), 0, 0xff)
	}
}

// TestSetTOS does the same in random packets of both versions, where the
// checksum takes every value and the payload follows.
func TestSetTOS(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.OneOf(rapid.Custom(drawIPv4), rapid.Custom(drawIPv6)).Draw(t, "packet")
		tos := rapid.Byte().Draw(t, "new tos")
		want := append([]byte(nil), b...)
		if b[0]>>4 == 4 {
			n := int(b[0]&15) * 4
			want[1], want[10], want[11] = tos, 0, 0
			binary.BigEndian.PutUint16(want[10:], IPv4Checksum(want[:n]))
		} else {
			first := binary.BigEndian.Uint32(b)&^(0xff<<20) | uint32(tos)<<20
			binary.BigEndian.PutUint32(want, first)
		}
		SetTOS(b, tos)
		if diff := cmp.Diff(want, b); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if h, _ := ParseIP(b); h.TOS != tos || b[0]>>4 == 4 && IPv4Checksum(b[:h.Header]) != 0 {
			t.Fatalf("rewritten to %#x it reads %+v, checksum over it %#x", tos, h, IPv4Checksum(b[:h.Header]))
		}
	})
}

// TestIPv4Checksum uses a published example (Wikipedia, "Internet checksum"), and
// gopacket on random headers.
func TestIPv4Checksum(t *testing.T) {
	b := []byte{0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7}
	if got := IPv4Checksum(b); got != 0xb861 {
		t.Errorf("checksum %#x, want 0xb861", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		// Without options, which gopacket writes differently.
		b := rapid.SliceOfN(rapid.Byte(), IPv4Header, IPv4Header).Draw(t, "header")
		b[0], b[2], b[3], b[10], b[11] = 0x45, 0, IPv4Header, 0, 0
		want := IPv4Checksum(b)
		ip := &layers.IPv4{}
		if err := ip.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err != nil {
			t.Fatal(err)
		}
		buf := gopacket.NewSerializeBuffer()
		if err := ip.SerializeTo(buf, gopacket.SerializeOptions{ComputeChecksums: true}); err != nil {
			t.Fatal(err)
		}
		if ip.Checksum != want {
			t.Fatalf("checksum %#x, gopacket's %#x", want, ip.Checksum)
		}
	})
}

func TestMAC(t *testing.T) {
	b := []byte{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}
	m := ReadMAC(b)
	if m != 0x021122334455 || m.IsMulticast() || !Broadcast.IsMulticast() || !MAC(0x01005e000001).IsMulticast() || !MAC(0x333300000001).IsMulticast() {
		t.Errorf("%012x: group bits are read wrongly", uint64(m))
	}
	rapid.Check(t, func(t *rapid.T) {
		m := MAC(rapid.Uint64Range(0, uint64(Broadcast)).Draw(t, "mac"))
		b := []byte{9, 9, 9, 9, 9, 9, 9}
		m.EncodeTo(b)
		if ReadMAC(b) != m || b[6] != 9 {
			t.Fatalf("%012x is written as % x", uint64(m), b)
		}
	})
}

// FuzzParseIP: whatever the bytes are, the parser does not read beyond them and its
// result is plausible.
func FuzzParseIP(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := ParseIP(b)
		switch {
		case !ok:
			return
		case h.Version == 4 && (h.Header < IPv4Header || h.Header > 60 || h.Header > len(b)),
			h.Version == 6 && (h.Header < IPv6Header || h.Header%8 != 0 || h.Header > len(b)),
			h.Version != 4 && h.Version != 6:
			t.Fatalf("%d bytes are read as %+v", len(b), h)
		case (h.SrcPort != 0 || h.DstPort != 0) && (h.Fragment || h.Proto != ProtoTCP && h.Proto != ProtoUDP):
			t.Fatalf("ports without a transport header: %+v", h)
		}
		SetTOS(b, h.TOS^CE)
		if again, ok := ParseIP(b); !ok || again.TOS != h.TOS^CE || again.Header != h.Header {
			t.Fatalf("%+v becomes %+v with another ToS", h, again)
		}
	})
}

// TestDecrementTTL: the header is what gopacket writes with the TTL decremented,
// and a wrong checksum stays as wrong as before.
func TestDecrementTTL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, b := range [][]byte{drawIPv4(t), drawIPv6(t)} {
			h, _ := ParseIP(b)
			if h.TTL == 0 {
				continue
			}
			before := h
			DecrementTTL(b)
			h, _ = ParseIP(b)
			before.TTL--
			if diff := cmp.Diff(before, h); diff != "" {
				t.Fatal(diff)
			}
			if h.Version == 4 && IPv4Checksum(b[:h.Header]) != 0 {
				t.Fatalf("checksum of %x", b)
			}
			if h.Version == 4 && h.TTL > 0 {
				b[11] ^= 1
				wrong := IPv4Checksum(b[:h.Header])
				DecrementTTL(b)
				if IPv4Checksum(b[:h.Header]) != wrong {
					t.Fatal("a wrong checksum was changed")
				}
			}
		}
	})
}
