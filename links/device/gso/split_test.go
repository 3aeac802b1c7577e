package gso

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// TestSplit: a piece renders to the frame that gopacket makes of the segment, and
// has that frame's fields.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pool packet.Pool
		m, size := drawModel(t)
		want := m.cut(size)
		got := m.pieces(t, &pool, size)
		if len(got) != len(want) {
			t.Fatalf("%d pieces, want %d", len(got), len(want))
		}
		buf := make([]byte, 0, packet.MaxFrame)
		for i, p := range got {
			f := want[i].frame(t)
			same(t, f, RenderPacket(p, buf))
			fields := packet.Packet{Frame: f, Kind: packet.Real}
			fields.Parse()
			fields.Dest, fields.Origin, fields.Created = 3, 4, 5
			if diff := cmp.Diff(fields, *p, cmpopts.IgnoreFields(packet.Packet{}, "Frame", "Piece"), cmpopts.IgnoreUnexported(packet.Packet{})); diff != "" {
				t.Fatalf("piece %d (-want +got):\n%s", i, diff)
			}
			pool.Free(p)
		}
		if pool.LivePackets() != 0 || pool.LiveSupers() != 0 {
			t.Fatalf("%d packets and %d super-packets remain", pool.LivePackets(), pool.LiveSupers())
		}
	})
}

// TestRenderChanged: changes to a piece in the fabric appear in its bytes.
func TestRenderChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pool packet.Pool
		m, size := drawModel(t)
		ps := m.pieces(t, &pool, size)
		i := rapid.IntRange(0, len(ps)-1).Draw(t, "piece")
		p, want := ps[i], m.cut(size)[i]
		if p.MarkCE() {
			want.tos |= 3
		}
		p.TTL--
		want.ttl--
		same(t, want.frame(t), RenderPacket(p, nil))
	})
}

// TestUDPChecksumZero: a checksum of 0 would mean that there is none (RFC 768).
func TestUDPChecksumZero(t *testing.T) {
	var pool packet.Pool
	m := base()
	m.udp, m.payload = true, []byte{0, 0}
	at := m.l4() + 6
	copy(m.payload, m.frame(t)[at:at+2]) // the difference to 0xffff
	p := m.pieces(t, &pool, 2)[0]
	f := RenderPacket(p, nil)
	if f[at] != 0xff || f[at+1] != 0xff {
		t.Errorf("a checksum of %x", f[at:at+2])
	}
	same(t, m.frame(t), f)
}

// TestCopy: a copy has all fields and the bytes, and no super-packet.
func TestCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pool packet.Pool
		m, size := drawModel(t)
		segments := m.cut(size)
		for i, p := range m.pieces(t, &pool, size) {
			p.ID, p.Fate, p.Depth, p.At, p.BadFCS, p.Seq = 77, packet.Marked, 8, 9, true, 10
			before := *p
			c := CopyPacket(&pool, p)
			if diff := cmp.Diff(before, *c, cmpopts.IgnoreFields(packet.Packet{}, "Frame", "Piece", "Sum"), cmpopts.IgnoreUnexported(packet.Packet{})); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			if c.Piece != (packet.Piece{}) || CopyPacket(&pool, c) != c {
				t.Fatal("the copy still is a piece")
			}
			want := segments[i].frame(t)
			same(t, want, RenderPacket(c, nil))
			completed(c)
			completed(c) // nothing more to do
			if c.Sum != 0 || !bytes.Equal(c.Frame, want) || &RenderPacket(c, nil)[0] != &c.Frame[0] {
				t.Fatalf("completed: %x", c.Frame)
			}
			pool.Free(c)
		}
		if pool.LivePackets() != 0 || pool.LiveSupers() != 0 {
			t.Fatalf("%d packets and %d super-packets remain", pool.LivePackets(), pool.LiveSupers())
		}
	})
}

// extended is an IPv6 packet with an extension header of n bytes.
func extended(kind uint8, n int) model {
	m := base()
	m.v6, m.extended, m.extension = true, kind, make([]byte, n)
	return m
}

// TestPrepareRefuses: every error that a super-packet can have.
func TestPrepareRefuses(t *testing.T) {
	v6 := base()
	v6.v6 = true
	udp := base()
	udp.udp = true
	l4 := base().l4()
	for _, c := range []struct {
		name string
		m    model
		do   func(f []byte, h *Header) []byte
		say  string
	}{
		{"no segmentation", base(), func(f []byte, h *Header) []byte { h.GSOType = GSONone; return f }, "type 0x0, which"},
		{"UFO", udp, func(f []byte, h *Header) []byte { h.GSOType = 3; return f }, "type 0x3, which"},
		{"tunnel", udp, func(f []byte, h *Header) []byte { h.GSOType = 0x20 | GSOTCPv4; return f }, "type 0x21, which"},
		{"UDP as TCP", udp, func(f []byte, h *Header) []byte { h.GSOType = GSOTCPv4; return f }, "IP version 4, protocol 17"},
		{"TCP as UDP", base(), func(f []byte, h *Header) []byte { h.GSOType = GSOUDPL4; return f }, "protocol 6"},
		{"IPv6 as IPv4", v6, func(f []byte, h *Header) []byte { h.GSOType = GSOTCPv4; return f }, "IP version 6"},
		{"IPv4 as IPv6", base(), func(f []byte, h *Header) []byte { h.GSOType = GSOTCPv6; return f }, "IP version 4"},
		{"not IP", base(), func(f []byte, h *Header) []byte { f[13] = 6; return f }, "IP version 0"},
		{"segments of 0 bytes", base(), func(f []byte, h *Header) []byte { h.GSOSize = 0; return f }, "segments of 0"},
		{"no payload", base(), func(f []byte, h *Header) []byte { f = f[:l4+20]; f[16], f[17] = 0, 40; return f }, "without payload"},
		{"no frame", base(), func(f []byte, h *Header) []byte { return f[:13] }, "truncated"},
		{"nothing", base(), func(f []byte, h *Header) []byte { return nil }, "truncated"},
		{"TCP cut", base(), func(f []byte, h *Header) []byte { f = f[:l4+19]; f[16], f[17] = 0, 39; return f }, "truncated"},
		{"TCP options cut", base(), func(f []byte, h *Header) []byte { f = f[:l4+20]; f[l4+12] = 0x60; f[16], f[17] = 0, 40; return f }, "truncated"},
		{"TCP header too short", base(), func(f []byte, h *Header) []byte { f[l4+12] = 0x40; return f }, "truncated"},
		{"UDP cut", udp, func(f []byte, h *Header) []byte { f = f[:l4+7]; f[16], f[17] = 0, 27; return f }, "truncated"},
		{"more fragments", base(), func(f []byte, h *Header) []byte { f[20] |= 0x20; return f }, "fragment"},
		{"later fragment", base(), func(f []byte, h *Header) []byte { f[21] = 1; return f }, "fragment"},
		{"longer than IP says", base(), func(f []byte, h *Header) []byte { return append(f, 0) }, "1041 bytes claims to have 1040"},
		{"shorter than IP says", v6, func(f []byte, h *Header) []byte { return f[:len(f)-1] }, "1059 bytes claims to have 1060"},
		{"IPv6 fragment", extended(44, 8), func(f []byte, h *Header) []byte { return f }, "fragment"},
		{"routing header on its way", extended(43, 24), func(f []byte, h *Header) []byte { f[57] = 1; return f }, "segments left"},
		{"too many extensions", extended(60, 400), func(f []byte, h *Header) []byte { return f }, "protocol"},
		{"longer than a frame", model{ttl: 1, dst: 2, flags: ack, payload: bytesOf(1, 20000)}, func(f []byte, h *Header) []byte { h.GSOSize = 19000; return f }, "segments of 19054"},
		{"nothing but VLAN tags", base(), func(f []byte, h *Header) []byte { return bytes.Repeat([]byte{0x81, 0}, 34000) }, "IP version 0"},
	} {
		var pool packet.Pool
		s := pool.NewSuper()
		h := c.m.header(500)
		f := c.do(c.m.frame(t), &h)
		s.Data = s.DataRoom()[:copy(s.DataRoom(), f)]
		var head packet.Packet
		if err := PrepareSuper(s, h, &head); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", c.name, err, c.say)
		}
	}
}

// TestMarkPartial: which checksums are recorded, completed at once or refused.
func TestMarkPartial(t *testing.T) {
	tcp := base().frame(t)
	n := len(tcp)
	// In VXLAN (RFC 7348), the inner TCP's checksum is partial.
	outer := base()
	outer.udp, outer.port = true, 4789
	outer.payload = append(make([]byte, 8), tcp...)
	vxlan := outer.frame(t)
	inner := outer.l4() + 8 + 8
	for _, c := range []struct {
		name  string
		frame []byte
		h     Header
		skip  int
		sum   uint16 // 0 and no error: completed, or nothing to do
		bad   bool
	}{
		{"TCP", tcp, Header{NeedsCsum, 0, 0, 0, 34, 16}, 0, 50, false},
		{"TCP of a TUN", tcp, Header{NeedsCsum, 0, 0, 0, 20, 16}, 14, 50, false},
		{"verified", tcp, Header{DataValid, 0, 0, 0, 60000, 60000}, 0, 0, false},
		{"beyond", tcp, Header{NeedsCsum, 0, 0, 0, uint16(n), 16}, 0, 0, true},
		{"the field beyond", tcp, Header{NeedsCsum, 0, 0, 0, 34, uint16(n - 34 - 1)}, 0, 0, true},
		{"far", tcp, Header{NeedsCsum, 0, 0, 0, 0xffff, 0xffff}, 14, 0, true},
		{"in Ethernet", tcp, Header{NeedsCsum, 0, 0, 0, 0, 16}, 0, 0, true},
		{"in IP", tcp, Header{NeedsCsum, 0, 0, 0, 33, 16}, 0, 0, true},
		{"the last field", tcp, Header{NeedsCsum, 0, 0, 0, 34, uint16(n - 34 - 2)}, 0, 0, false},
		{"inner TCP", vxlan, Header{NeedsCsum, 0, 0, 0, uint16(inner + 34), 16}, 0, 0, false},
	} {
		var pool packet.Pool
		p := pool.NewFrame(len(c.frame))
		copy(p.Frame, c.frame)
		p.Parse()
		err := MarkPartial(p, c.h, c.skip)
		if (err != nil) != c.bad || p.Sum != c.sum {
			t.Errorf("%s: at %d, %v; want %d", c.name, p.Sum, err, c.sum)
		}
		if c.sum != 0 || c.bad || c.h.Flags != NeedsCsum {
			continue
		}
		// Summed from the start, a complete checksum gives 0xffff minus the former
		// content of the field, which was the sum of a pseudo-header.
		start := int(c.h.CsumStart)
		held := binary.BigEndian.Uint16(c.frame[start+int(c.h.CsumOffset):])
		var b uint32
		for x := append(bytes.Clone(p.Frame[start:]), 0); len(x) > 1; x = x[2:] {
			b += uint32(binary.BigEndian.Uint16(x))
		}
		b += uint32(held)
		for b>>16 != 0 {
			b = b&0xffff + b>>16
		}
		if b != 0xffff {
			t.Errorf("%s: sum %#x", c.name, b)
		}
	}
}

// TestHeader: the layout of struct virtio_net_hdr, on a little-endian machine.
func TestHeader(t *testing.T) {
	b := []byte{1, 0x81, 66, 0, 0xa8, 5, 34, 0, 16, 0}
	h := DecodeHeader(b)
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		if want := (Header{NeedsCsum, GSOTCPv4 | GSOECN, 66, 1448, 34, 16}); h != want {
			t.Errorf("%+v, want %+v", h, want)
		}
	}
	again := make([]byte, HeaderLen)
	if h.EncodeTo(again); !bytes.Equal(b, again) {
		t.Errorf("%x, want %x", again, b)
	}
	if size := reflect.TypeFor[Header]().Size(); size != HeaderLen {
		t.Errorf("%d bytes", size)
	}
}

// TestSum compares with the definition, in RFC 1071 §1, for all lengths and
// alignments of the fast loops.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "length")
		b := bytesOf(rapid.Uint64().Draw(t, "seed"), n)
		for range rapid.IntRange(0, n/8).Draw(t, "words of ones") {
			i := rapid.IntRange(0, n-8).Draw(t, "at")
			copy(b[i:], "\xff\xff\xff\xff\xff\xff\xff\xff")
		}
		start := rapid.OneOf(rapid.Uint16(), rapid.Just(uint16(0xffff))).Draw(t, "start")
		want := uint32(start)
		for i := range b {
			want += uint32(b[i]) << (8 * (1 - i%2))
		}
		for want>>16 != 0 {
			want = want&0xffff + want>>16
		}
		if got := toWord(foldSum(addWords(b, toWord(start)))); got != uint64(want) {
			t.Fatalf("%#x, want %#x", got, want)
		}
	})
	for _, n := range []int{8, 32, 64, 1 << 16} {
		ones := bytes.Repeat([]byte{0xff}, n)
		if got := foldSum(addWords(ones, 1<<64-1)); got != 0xffff {
			t.Errorf("%d bytes of ones: %#x", n, got)
		}
	}
}

// FuzzPrepare: no input from a host makes PrepareSuper panic, and accepted input renders
// to frames that gopacket reads, with all of the payload.
func FuzzPrepare(f *testing.F) {
	seed := func(m model, size int) {
		h := make([]byte, HeaderLen)
		m.header(size).EncodeTo(h)
		f.Add(append(h, m.frame(f)...))
	}
	m := base()
	seed(m, 300)
	m.v6, m.tags, m.options = true, []uint16{7, 8}, make([]byte, 10)
	seed(m, 1000)
	m.udp = true
	seed(m, 100)
	m.v6, m.ipOptions = false, true
	seed(m, 1)
	f.Fuzz(func(t *testing.T, b []byte) {
		var pool packet.Pool
		s := pool.NewSuper()
		if len(b) < HeaderLen || len(b)-HeaderLen > len(s.DataRoom()) {
			return
		}
		h := DecodeHeader(b)
		s.Data = s.DataRoom()[:copy(s.DataRoom(), b[HeaderLen:])]
		var head packet.Packet
		if PrepareSuper(s, h, &head) != nil {
			return
		}
		cut := NewSplitter(&pool, s, &head)
		at, buf := int(s.Payload), make([]byte, 0, packet.MaxFrame)
		for p := cut.Next(); p != nil; p = cut.Next() {
			r := RenderPacket(p, buf)
			if units.Bytes(len(r)) != p.Size || len(r) > packet.MaxFrame {
				t.Fatalf("%d bytes of %d", len(r), p.Size)
			}
			g := gopacket.NewPacket(r, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
			// gopacket is stricter about options than the kernel, which
			// does not look at them.
			if e := g.ErrorLayer(); e != nil && len(s.Data[s.L3:s.L4]) == 20 && s.Payload-s.L4 <= 20 {
				t.Fatalf("%v in %x", e.Error(), r)
			}
			q := packet.Packet{Frame: r}
			if !q.Parse() || q.Hash != p.Hash || q.IPID != p.IPID || q.TOS != p.TOS || q.TTL != p.TTL || q.L3 != p.L3 {
				t.Fatalf("%+v reads back as %+v", p, q)
			}
			if data := r[s.Payload:]; !bytes.Equal(data, s.Data[at:at+len(data)]) {
				t.Fatalf("the payload at %d is another", at)
			}
			at += len(r) - int(s.Payload)
			pool.Free(p)
		}
		pool.ReleaseSuper(s)
		if at != len(s.Data) || pool.LivePackets() != 0 || pool.LiveSupers() != 0 {
			t.Fatalf("%d of %d bytes; %d packets remain", at, len(s.Data), pool.LivePackets())
		}
	})
}

// completed completes the checksum of p.Frame, if it is partial.
func completed(p *packet.Packet) {
	if p.Frame == nil || p.Sum == 0 {
		return
	}
	field := csumField(p.Proto)
	completeChecksum(p.Frame, int(p.Sum)-field, field)
	p.Sum = 0
}
