package gso

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// host is a device that splits runs again, as the kernel would.
type host struct {
	t      rapid.TB
	ip     bool
	writes []write
}

// write is the content of one write.
type write struct {
	h           Header
	slices      int
	packets     int
	first, last units.Time
	frames      [][]byte // split again, checksums complete
}

func (k *host) WriteRun(r *Run) {
	t := k.t
	var b []byte
	for _, v := range r.Iov {
		b = append(b, unsafe.Slice(v.Base, int(v.Len))...)
	}
	h := DecodeHeader(b)
	if h != r.Header {
		t.Fatalf("the header in memory is %+v, not %+v", h, r.Header)
	}
	w := write{h: h, slices: len(r.Iov), packets: r.Packets, first: r.First, last: r.Last}
	var size units.Bytes
	var ethernet []byte
	n := 0
	for p := r.List; p != nil; p = p.Next {
		n += p.PacketCount()
		size += units.Bytes(p.PacketCount()) * p.Size
		if ethernet == nil && k.ip {
			if p.Frame != nil {
				ethernet = p.Frame[:p.L3]
			} else {
				ethernet = p.Piece.Of.Data[:p.L3]
			}
		}
	}
	if n != r.Packets || size != r.Bytes || len(r.Iov) > maxSlices {
		t.Fatalf("%d packets of %d bytes in %d slices: %+v", n, size, len(r.Iov), r)
	}
	// Restore the Ethernet header of a TUN's packets.
	b = append(slices.Clone(ethernet), b[HeaderLen:]...)
	var pool packet.Pool
	if h.GSOType == GSONone {
		if r.Packets != 1 || h.HdrLen != 0 || h.GSOSize != 0 {
			t.Fatalf("%d packets go with %+v", r.Packets, h)
		}
		p := &packet.Packet{Frame: b}
		if !p.Parse() {
			t.Fatalf("%x is no frame", b)
		}
		if err := MarkPartial(p, h, len(ethernet)); err != nil {
			t.Fatal(err)
		}
		w.frames = append(w.frames, slices.Clone(RenderPacket(p, nil)))
	} else {
		ps := pieces(t, &pool, b, h)
		s := ps[0].Piece.Of
		if int(h.HdrLen) != int(s.Payload)-len(ethernet) || int(h.CsumStart) != int(s.L4)-len(ethernet) || int(h.CsumOffset) != csumField(ps[0].Proto) || h.Flags != NeedsCsum {
			t.Fatalf("%+v with headers of %d bytes, the last from %d", h, s.Payload, s.L4)
		}
		if len(ps) != r.Packets || len(ps) < 2 {
			t.Fatalf("%d packets go and %d come", r.Packets, len(ps))
		}
		for _, p := range ps {
			w.frames = append(w.frames, RenderPacket(p, nil))
		}
	}
	k.writes = append(k.writes, w)
}

// road leads packets to a Joiner. It records per flow what goes in and compares it
// with what comes out.
type road struct {
	t    rapid.TB
	pool packet.Pool
	k    host
	j    *Joiner
	now  units.Time
	in   map[uint64][][]byte
}

func newRoad(t rapid.TB, ip bool) *road {
	r := &road{t: t, k: host{t: t, ip: ip}, in: map[uint64][][]byte{}}
	r.j = NewJoiner(&r.pool, &r.k, ip)
	return r
}

func (r *road) add(ps ...*packet.Packet) {
	for _, p := range ps {
		r.now++
		r.in[p.Hash] = append(r.in[p.Hash], slices.Clone(RenderPacket(p, nil)))
		r.j.AddPacket(r.now, p)
		if first, open := r.j.OldestRun(); open && (first > r.now || first <= r.now-units.Time(1<<20)) {
			r.t.Fatalf("at %d the oldest is of %d", r.now, first)
		}
	}
}

// end flushes and compares.
func (r *road) end() {
	r.t.Helper()
	r.j.Flush()
	if _, open := r.j.OldestRun(); open {
		r.t.Fatalf("a run is open behind a flush")
	}
	out := map[uint64][][]byte{}
	for _, w := range r.k.writes {
		for _, f := range w.frames {
			p := packet.Packet{Frame: f}
			p.Parse()
			out[p.Hash] = append(out[p.Hash], f)
		}
	}
	if in, out := count(r.in), count(out); in != out {
		r.t.Fatalf("%d packets went in and %d came out", in, out)
	}
	for flow, want := range r.in {
		for i, f := range want {
			if i >= len(out[flow]) {
				r.t.Fatalf("flow %#x: packet %d of %d is missing", flow, i, len(want))
			}
			same(r.t, f, out[flow][i])
		}
	}
	if r.pool.LivePackets() != 0 || r.pool.LiveSupers() != 0 {
		r.t.Fatalf("%d packets and %d super-packets remain", r.pool.LivePackets(), r.pool.LiveSupers())
	}
}

func count(flows map[uint64][][]byte) (n int) {
	for _, frames := range flows {
		n += len(frames)
	}
	return n
}

// TestJoinUndisturbed: a super-packet whose pieces all arrive leaves in one write of
// headers and its own memory, and is unchanged.
func TestJoinUndisturbed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, size := drawModel(t)
		m.ipOptions, m.extension, m.flags = false, nil, m.flags&(ack|psh)
		r := newRoad(t, rapid.Bool().Draw(t, "tun"))
		ps := m.pieces(t, &r.pool, size)
		n := len(ps)
		r.add(ps...)
		r.end()
		if len(r.k.writes) != 1 || r.k.writes[0].slices != 2 || r.k.writes[0].packets != n {
			t.Fatalf("%d pieces in %+v", n, r.k.writes)
		}
		w := r.k.writes[0]
		if w.first != 1 || w.last != units.Time(n) {
			t.Errorf("of %d pieces the first came at %d, the last at %d", n, w.first, w.last)
		}
		if n > 1 {
			want := m.header(size)
			want.HdrLen, want.CsumStart = w.h.HdrLen, w.h.CsumStart
			if w.h != want {
				t.Errorf("%+v, want %+v", w.h, want)
			}
		}
	})
}

// TestJoinDisturbed: packets of flows are lost, marked, reordered, duplicated,
// copied out of their super-packets, and mixed with packets that came alone. For
// each flow, the packets that leave are those that arrived.
func TestJoinDisturbed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRoad(t, rapid.Bool().Draw(t, "tun"))
		var flows [][]*packet.Packet
		for range rapid.IntRange(1, 7).Draw(t, "flows") {
			m, size := drawModel(t)
			m.src = uint16(4000 + len(flows))
			var flow []*packet.Packet
			for range rapid.IntRange(1, 3).Draw(t, "super-packets") {
				m.payload = m.payload[:min(len(m.payload), 8*size)]
				if rapid.Bool().Draw(t, "whole") && m.v6 == (m.id == 0) {
					m.payload = m.payload[:min(len(m.payload), size)]
					flow = append(flow, m.whole(t, &r.pool))
				} else {
					flow = append(flow, m.pieces(t, &r.pool, size)...)
				}
				m.seq += uint32(len(m.payload))
				m.id += uint16((len(m.payload) + size - 1) / size)
				if m.v6 {
					m.id = 0
				}
			}
			flows = append(flows, flow)
		}
		seed := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		trouble := rapid.IntRange(0, 20).Draw(t, "trouble") // in percent
		for len(flows) > 0 {
			i := seed.IntN(len(flows))
			if len(flows[i]) == 0 {
				flows = slices.Delete(flows, i, i+1)
				continue
			}
			for range min(len(flows[i]), 1+seed.IntN(6)) {
				p := flows[i][0]
				flows[i] = flows[i][1:]
				if seed.IntN(100) >= trouble {
					r.add(p)
					continue
				}
				switch seed.IntN(8) {
				case 0:
					r.pool.Free(p)
				case 1:
					p.MarkCE()
					r.add(p)
				case 2:
					r.add(r.pool.ClonePacket(p), p)
				case 3:
					if rest := flows[i]; len(rest) > 0 {
						at := seed.IntN(len(rest))
						rest[at], p = p, rest[at]
					}
					r.add(p)
				case 4:
					r.add(CopyPacket(&r.pool, p))
				case 5:
					p = CopyPacket(&r.pool, p)
					completed(p)
					r.add(p)
				case 6:
					r.add(p)
					r.j.Flush()
				case 7:
					p.TTL--
					if p.Frame != nil { // its bytes do not follow the field
						p.TTL++
					}
					r.add(p)
				}
			}
		}
		r.end()
	})
}

// TestJoinRules: two consecutive packets are joined; with one difference they are not.
func TestJoinRules(t *testing.T) {
	type pair = [2]model
	next := func(m model) model {
		n := m
		n.seq += uint32(len(m.payload))
		n.id++
		n.payload = bytesOf(2, 1000)
		return n
	}
	v6 := base()
	v6.v6, v6.label, v6.tags = true, 0x12345, []uint16{7}
	optioned := base()
	optioned.options = bytesOf(3, 10)
	for _, c := range []struct {
		name  string
		of    model
		do    func(m *pair)
		joins bool
	}{
		{"nothing", base(), func(m *pair) {}, true},
		{"nothing, IPv6", v6, func(m *pair) { m[1].id = 0; m[0].id = 0 }, true},
		{"nothing, with options", optioned, func(m *pair) {}, true},
		{"PSH on the last", base(), func(m *pair) { m[1].flags |= psh }, true},
		{"the last is shorter", base(), func(m *pair) { m[1].payload = m[1].payload[:1] }, true},
		{"all CE", base(), func(m *pair) { m[0].tos |= 3; m[1].tos |= 3 }, true},
		{"wrapping sequence number and identification", base(), func(m *pair) { m[0].seq = 1<<32 - 1000; m[1].seq = 0; m[0].id = 0xffff; m[1].id = 0 }, true},

		{"PSH on the first", base(), func(m *pair) { m[0].flags |= psh }, false},
		{"the last is longer", base(), func(m *pair) { m[1].payload = bytesOf(2, 1001) }, false},
		{"no payload", base(), func(m *pair) { m[1].payload = nil }, false},
		{"a gap", base(), func(m *pair) { m[1].seq++ }, false},
		{"an overlap", base(), func(m *pair) { m[1].seq-- }, false},
		{"the same again", base(), func(m *pair) { m[1].seq = m[0].seq }, false},
		{"an acknowledgement", base(), func(m *pair) { m[1].ack++ }, false},
		{"a window", base(), func(m *pair) { m[1].window++ }, false},
		{"an option", optioned, func(m *pair) { m[1].options = bytesOf(4, 10) }, false},
		{"more options", optioned, func(m *pair) { m[1].options = bytesOf(3, 14) }, false},
		{"no options", optioned, func(m *pair) { m[1].options = nil }, false},
		{"DSCP", base(), func(m *pair) { m[1].tos += 4 }, false},
		{"CE on the last", base(), func(m *pair) { m[1].tos |= 3 }, false},
		{"CE on the first", base(), func(m *pair) { m[0].tos |= 3 }, false},
		{"CE, IPv6", v6, func(m *pair) { m[1].tos |= 3 }, false},
		{"TTL", base(), func(m *pair) { m[1].ttl-- }, false},
		{"hop limit", v6, func(m *pair) { m[1].ttl-- }, false},
		{"DF", base(), func(m *pair) { m[1].df = false }, false},
		{"the same identification", base(), func(m *pair) { m[1].id = m[0].id }, false},
		{"identifications with a gap", base(), func(m *pair) { m[1].id++ }, false},
		{"flow label", v6, func(m *pair) { m[1].label++ }, false},
		{"flow label, its upper bits", v6, func(m *pair) { m[1].label ^= 0x80000 }, false},
		{"VLAN", v6, func(m *pair) { m[1].tags = []uint16{8} }, false},
		{"no VLAN", v6, func(m *pair) { m[1].tags = nil }, false},
		{"another VLAN tag", v6, func(m *pair) { m[1].tags = []uint16{7, 7} }, false},
		{"source port", base(), func(m *pair) { m[1].src++ }, false},
		{"destination port", base(), func(m *pair) { m[1].port++ }, false},
		{"address", base(), func(m *pair) { m[1].dst++ }, false},
		{"address, IPv6", v6, func(m *pair) { m[1].dst++ }, false},
		{"UDP", base(), func(m *pair) { m[0].udp, m[1].udp = true, true }, false},
		{"UDP behind TCP", base(), func(m *pair) { m[1].udp = true }, false},
		{"IPv4 options", base(), func(m *pair) { m[0].ipOptions, m[1].ipOptions = true, true }, false},
		{"IPv6 extension header", extended(60, 8), func(m *pair) {}, false},
		{"FIN", base(), func(m *pair) { m[1].flags |= fin }, false},
		{"SYN", base(), func(m *pair) { m[0].flags |= 2 }, false},
		{"RST", base(), func(m *pair) { m[1].flags |= 4 }, false},
		{"no ACK", base(), func(m *pair) { m[0].flags, m[1].flags = 0, 0 }, false},
		{"URG", base(), func(m *pair) { m[0].flags |= 0x20; m[1].flags |= 0x20 }, false},
		{"ECE", base(), func(m *pair) { m[0].flags |= 0x40; m[1].flags |= 0x40 }, false},
		{"CWR", base(), func(m *pair) { m[0].flags |= cwr }, false},
	} {
		m := pair{c.of, next(c.of)}
		c.do(&m)
		// Each of the two as a frame and as a piece; also as frames with the same
		// Hash, as if their flows collided.
		for kind := range 5 {
			r := newRoad(t, false)
			var ps [2]*packet.Packet
			for i := range ps {
				if kind>>i&1 == 0 || len(m[i].payload) == 0 {
					ps[i] = m[i].whole(t, &r.pool)
				} else {
					ps[i] = m[i].pieces(t, &r.pool, 9000)[0]
				}
			}
			if kind == 4 {
				ps[1].Hash = ps[0].Hash
				for _, p := range ps {
					r.j.AddPacket(0, p)
				}
				r.j.Flush()
			} else {
				r.add(ps[:]...)
				r.end()
			}
			want := 2
			if c.joins {
				want = 1
			}
			if len(r.k.writes) != want {
				t.Errorf("%s (%d): %d writes, want %d", c.name, kind, len(r.k.writes), want)
			}
		}
	}
}

// TestJoinRulesFrames: properties that only packets that came alone can have.
func TestJoinRulesFrames(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *packet.Packet)
		want int
	}{
		{"nothing", func(p *packet.Packet) {}, 1},
		{"a complete checksum", completed, 2},
		{"bad FCS", func(p *packet.Packet) { p.BadFCS = true }, 2},
		{"a later fragment", func(p *packet.Packet) { p.Frame[21] = 9 }, 2},
		{"a first fragment", func(p *packet.Packet) { p.Frame[20] = 0x20 }, 2},
		{"the reserved IP flag", func(p *packet.Packet) { p.Frame[20] |= 0x80 }, 2},
		{"padding", func(p *packet.Packet) { p.Frame[17]-- }, 2},
		{"an urgent pointer", func(p *packet.Packet) { p.Frame[53] = 1 }, 2},
		{"a TCP header too short", func(p *packet.Packet) { p.Frame[46] = 0x40 }, 2},
		{"a TCP header too long", func(p *packet.Packet) { p.Frame, p.Frame[16], p.Frame[17], p.Frame[46] = p.Frame[:60], 0, 46, 0x70 }, 2},
		{"Ethernet source", func(p *packet.Packet) { p.Frame[11]++ }, 2},
		{"a checksum wrongly begun", func(p *packet.Packet) { p.Frame[50]++ }, 2},
		{"another checksum", func(p *packet.Packet) { p.Sum -= 2 }, 2},
	} {
		r := newRoad(t, false)
		m := base()
		p := m.whole(t, &r.pool)
		m.id, m.seq = m.id+1, m.seq+uint32(len(m.payload))
		q := m.whole(t, &r.pool)
		c.do(q)
		k := counter{}
		j := NewJoiner(&r.pool, &k, false)
		j.AddPacket(0, p)
		j.AddPacket(0, q)
		j.Flush()
		if k.runs != c.want || k.packets != 2 || r.pool.LivePackets() != 0 {
			t.Errorf("%s: %d packets in %d writes, want %d", c.name, k.packets, k.runs, c.want)
		}
	}
}

// TestJoinRulesBoth: properties that prevent joining even if both packets have them.
func TestJoinRulesBoth(t *testing.T) {
	tagged := base()
	tagged.v6, tagged.options, tagged.tags = true, make([]byte, 38), make([]uint16, 65)
	fewer := tagged
	fewer.tags = fewer.tags[:64]
	for _, c := range []struct {
		name string
		m    model
		do   func(p *packet.Packet)
		want int
	}{
		{"a reserved TCP flag", base(), func(p *packet.Packet) { p.Frame[46] |= 1 }, 2},
		{"the longest headers", fewer, func(p *packet.Packet) {}, 1},
		{"headers longer than any", tagged, func(p *packet.Packet) {}, 2},
	} {
		r := newRoad(t, false)
		for range 2 {
			p := c.m.whole(t, &r.pool)
			c.do(p)
			r.add(p)
			c.m.seq += uint32(len(c.m.payload))
			if !c.m.v6 {
				c.m.id++
			}
		}
		r.end()
		if len(r.k.writes) != c.want {
			t.Errorf("%s: %d writes, want %d", c.name, len(r.k.writes), c.want)
		}
	}
}

// TestJoinBehindARouter: pieces to which a router gave other addresses are joined,
// even from several super-packets or after they became frames, and reach the host
// with these addresses; pieces from another router are not joined with them.
func TestJoinBehindARouter(t *testing.T) {
	r := newRoad(t, false)
	m := base()
	for i := range 3 {
		m.payload = bytesOf(uint64(i), 10*1000)
		m.flags = ack
		ps := m.pieces(t, &r.pool, 1000)
		for j, p := range ps {
			p.Dst, p.Src = 0x020000000007, 0x020000000008
			if i == 2 && j > 5 {
				p.Src++
			}
			if i == 1 && j == 3 {
				ps[j] = CopyPacket(&r.pool, p)
			}
		}
		r.add(ps...)
		m.seq += uint32(len(m.payload))
		m.id += 10
	}
	r.end()
	var got []int
	for _, w := range r.k.writes {
		got = append(got, w.packets)
		for _, f := range w.frames {
			if dst, src := wire.ReadMAC(f), wire.ReadMAC(f[6:]); dst != 0x020000000007 || src&^1 != 0x020000000008 {
				t.Fatalf("a frame from %x to %x", src, dst)
			}
		}
	}
	if !slices.Equal(got, []int{26, 4}) {
		t.Errorf("writes of %v", got)
	}
}

// TestJoinRulesPieces: a change to a piece in the middle of a super-packet prevents
// joining it with its neighbours.
func TestJoinRulesPieces(t *testing.T) {
	for _, udp := range []bool{false, true} {
		for _, c := range []struct {
			name string
			do   func(p *packet.Packet)
			want []int
		}{
			{"nothing", func(p *packet.Packet) {}, []int{10}},
			{"CE", func(p *packet.Packet) { p.MarkCE() }, []int{4, 1, 5}},
			{"TTL", func(p *packet.Packet) { p.TTL-- }, []int{4, 1, 5}},
			{"identification", func(p *packet.Packet) { p.IPID += 9 }, []int{4, 1, 5}},
			{"a router", func(p *packet.Packet) { p.Src, p.Dst = 0x020000000007, 0x020000000008 }, []int{4, 1, 5}},
			{"bad FCS", func(p *packet.Packet) { p.BadFCS = true }, []int{4, 1, 5}},
		} {
			r := newRoad(t, false)
			m := base()
			m.udp, m.payload = udp, bytesOf(1, 10*1000)
			ps := m.pieces(t, &r.pool, 1000)
			c.do(ps[4])
			r.add(ps...)
			r.end()
			var got []int
			for _, w := range r.k.writes {
				got = append(got, w.packets)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s (UDP %v): writes of %v, want %v", c.name, udp, got, c.want)
			}
		}
	}
}

// counter only counts.
type counter struct{ runs, packets int }

func (k *counter) WriteRun(r *Run) { k.runs, k.packets = k.runs+1, k.packets+r.Packets }

// TestJoinAcross: pieces of two super-packets and frames are in one run, which ends
// at the limit of an IP packet or of the slices.
func TestJoinAcross(t *testing.T) {
	r := newRoad(t, true)
	m := base()
	for range 3 {
		m.payload = bytesOf(5, 20*1000)
		r.add(m.pieces(t, &r.pool, 1000)...)
		m.id, m.seq = m.id+20, m.seq+20*1000
	}
	m.payload = m.payload[:1000]
	for range 10 {
		r.add(m.whole(t, &r.pool))
		m.id, m.seq = m.id+1, m.seq+1000
	}
	if len(r.k.writes) != 1 {
		t.Fatalf("%d writes", len(r.k.writes))
	}
	if w := r.k.writes[0]; w.packets != 65 || w.slices != 1+3+5 {
		t.Errorf("%d packets in %d slices", w.packets, w.slices)
	}
	r.end()

	r = newRoad(t, false)
	for range 4 {
		m.payload = bytesOf(5, 20*1000)
		r.add(m.pieces(t, &r.pool, 1000)...)
		m.id, m.seq = m.id+20, m.seq+20*1000
	}
	r.end()
	if len(r.k.writes) != 2 || r.k.writes[0].packets != 65 {
		t.Errorf("%d writes, the first of %d packets", len(r.k.writes), r.k.writes[0].packets)
	}

	r = newRoad(t, false)
	for range 2 * maxSlices {
		m.payload = m.payload[:10]
		r.add(m.whole(t, &r.pool))
		m.id, m.seq = m.id+1, m.seq+10
	}
	r.end()
	if len(r.k.writes) != 3 || r.k.writes[0].slices != maxSlices {
		t.Errorf("%d writes, the first of %d slices", len(r.k.writes), r.k.writes[0].slices)
	}
}

// TestJoinUDP: datagrams are joined only with others of the same super-packet.
func TestJoinUDP(t *testing.T) {
	r := newRoad(t, false)
	m := base()
	m.udp, m.payload = true, bytesOf(6, 4500)
	first, second := m.pieces(t, &r.pool, 1000), m.pieces(t, &r.pool, 900)
	second[2].MarkCE()
	r.add(first[0], first[1])
	r.pool.Free(first[2]) // lost
	r.add(first[3], first[4])
	r.add(second...)
	if _, open := r.j.OldestRun(); open {
		t.Error("open although no datagram can follow")
	}
	r.end()
	var got []int
	for _, w := range r.k.writes {
		got = append(got, w.packets)
	}
	if want := []int{2, 2, 2, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("writes of %v, want %v", got, want)
	}
}

// TestJoinOrder: the order and the times of writes.
func TestJoinOrder(t *testing.T) {
	r := newRoad(t, false)
	flow := func(i int) model {
		m := base()
		m.src += uint16(i)
		return m
	}
	writes := func(what string, want ...uint16) {
		t.Helper()
		var got []uint16
		for _, w := range r.k.writes {
			got = append(got, binary.BigEndian.Uint16(w.frames[0][34:])-base().src)
		}
		if r.k.writes = nil; !slices.Equal(got, want) {
			t.Errorf("%s: writes of flows %v, want %v", what, got, want)
		}
	}
	for i := range maxOpen {
		r.add(flow(i).whole(t, &r.pool))
	}
	writes("four flows")
	if first, open := r.j.OldestRun(); !open || first != 1 {
		t.Errorf("the oldest is of %d, %v", first, open)
	}
	r.add(flow(4).whole(t, &r.pool))
	writes("a fifth", 0)
	if first, _ := r.j.OldestRun(); first != 2 {
		t.Errorf("the oldest is of %d", first)
	}
	alone := flow(9)
	alone.payload = nil
	r.add(alone.whole(t, &r.pool))
	writes("an ACK of another flow", 9)
	alone = flow(2)
	alone.payload = nil
	r.add(alone.whole(t, &r.pool))
	writes("an ACK of an open flow", 2, 2)
	pushed := flow(3)
	pushed.flags |= psh
	pushed.seq, pushed.id = pushed.seq+1000, pushed.id+1
	r.add(pushed.whole(t, &r.pool))
	writes("PSH", 3)
	r.add(flow(0).whole(t, &r.pool), flow(1).whole(t, &r.pool))
	writes("the same again", 1)
	r.j.Flush()
	writes("all", 4, 0, 1)
}

// TestNoAllocation: neither cutting nor joining nor rendering allocates.
func TestNoAllocation(t *testing.T) {
	var pool packet.Pool
	m := base()
	m.payload = bytesOf(7, 64000)
	f, h := m.frame(t), m.header(1448)
	k := &counter{}
	j := NewJoiner(&pool, k, false)
	var head packet.Packet
	buf := make([]byte, packet.MaxFrame)
	var kept *packet.Packet
	if n := testing.AllocsPerRun(100, func() {
		s := pool.NewSuper()
		s.Data = s.DataRoom()[:copy(s.DataRoom(), f)]
		if err := PrepareSuper(s, h, &head); err != nil {
			t.Fatal(err)
		}
		cut := NewSplitter(&pool, s, &head)
		for p := cut.Next(); p != nil; p = cut.Next() {
			RenderPacket(p, buf)
			if p.Piece.Index == 5 {
				kept = CopyPacket(&pool, pool.ClonePacket(p))
				completed(kept)
				pool.Free(kept)
			}
			j.AddPacket(0, p)
		}
		pool.ReleaseSuper(s)
		j.Flush()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if pool.LivePackets() != 0 || k.runs != 101 {
		t.Errorf("%d packets remain; %d runs", pool.LivePackets(), k.runs)
	}
}

// FuzzJoin runs a script of packets, including any that a program may write, and of
// changes to them; for each flow, the packets that leave are those that arrived.
func FuzzJoin(f *testing.F) {
	raw := base().frame(f)
	f.Add([]byte{0, 3, 9, 5, 1, 1, 1, 1})
	f.Add([]byte{0, 0, 9, 5, 0, 1, 9, 5, 1, 1, 2, 3, 1, 4, 1, 5, 1, 6, 1, 1})
	f.Add(append([]byte{7, 1, 34, 16, byte(len(raw) >> 8), byte(len(raw))}, raw...))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4096 {
			return
		}
		next := func() int {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return int(b)
		}
		r := newRoad(t, next()&1 != 0)
		m := base()
		var waiting []*packet.Packet
		take := func(i int) *packet.Packet {
			p := waiting[i]
			waiting = slices.Delete(waiting, i, i+1)
			return p
		}
		for len(script) > 0 {
			op := next() % 9
			if len(waiting) == 0 && op > 0 && op < 7 {
				continue
			}
			switch op {
			case 0: // the next super-packet of a flow
				kind := next()
				m.v6, m.udp, m.src = kind&1 != 0, kind&2 != 0, 4000+uint16(kind>>2&3)
				m.flags = ack | uint8(kind>>1)&psh
				if kind>>5 == 7 {
					m.flags |= cwr
				}
				size := 1 + next()*8
				m.payload = bytesOf(1, size*(next()&7)+1)
				ps := m.pieces(t, &r.pool, size)
				m.seq, m.id = m.seq+uint32(len(m.payload)), m.id+uint16(len(ps))
				waiting = append(waiting, ps...)
			case 1:
				r.add(take(0))
			case 2:
				r.pool.Free(take(0))
			case 3:
				p := take(0)
				p.MarkCE()
				r.add(p)
			case 4:
				r.add(take(next() % len(waiting)))
			case 5:
				r.add(r.pool.ClonePacket(waiting[0]))
			case 6:
				waiting[0] = CopyPacket(&r.pool, waiting[0])
			case 7: // any frame
				h := Header{Flags: uint8(next()), CsumStart: uint16(next()), CsumOffset: uint16(next())}
				n := min(next()<<8|next(), len(script))
				p := r.pool.NewFrame(n)
				copy(p.Frame, script[:n])
				script = script[n:]
				// A station without MACs needs IP packets.
				if !p.Parse() || MarkPartial(p, h, 0) != nil || r.k.ip && p.Version == 0 {
					r.pool.Free(p)
					continue
				}
				p.Parse() // a checksum may have been written anywhere
				if r.k.ip && p.Version == 0 {
					r.pool.Free(p)
					continue
				}
				r.add(p)
			case 8:
				r.j.Flush()
			}
		}
		for len(waiting) > 0 {
			r.add(take(0))
		}
		r.end()
	})
}

func BenchmarkSplitJoin(b *testing.B) {
	var pool packet.Pool
	j := NewJoiner(&pool, &counter{}, false)
	benchmarkPieces(b, &pool, func(p *packet.Packet) { j.AddPacket(0, p) }, j.Flush)
}

func BenchmarkSplit(b *testing.B) {
	var pool packet.Pool
	benchmarkPieces(b, &pool, pool.Free, func() {})
}

// benchmarkPieces cuts super-packets and reports the cost per packet.
func benchmarkPieces(b *testing.B, pool *packet.Pool, each func(*packet.Packet), end func()) {
	m := base()
	m.options = make([]byte, 10)
	m.payload = bytesOf(7, 45*1448)
	f, h := m.frame(b), m.header(1448)
	var head packet.Packet
	s := pool.NewSuper()
	s.Data = s.DataRoom()[:copy(s.DataRoom(), f)]
	packets := 0
	for b.Loop() {
		if err := PrepareSuper(s, h, &head); err != nil {
			b.Fatal(err)
		}
		cut := NewSplitter(pool, s, &head)
		for p := cut.Next(); p != nil; p = cut.Next() {
			each(p)
			packets++
		}
		end()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
}

func BenchmarkRender(b *testing.B) {
	var pool packet.Pool
	m := base()
	m.payload = bytesOf(7, 3*1448)
	p := m.pieces(b, &pool, 1448)[1]
	buf := make([]byte, packet.MaxFrame)
	for b.Loop() {
		RenderPacket(p, buf)
	}
}

func BenchmarkSum(b *testing.B) {
	x := bytesOf(1, 1500)
	b.SetBytes(1500)
	for b.Loop() {
		addWords(x, 0)
	}
}
