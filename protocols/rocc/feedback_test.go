package rocc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

var (
	addrA, addrB = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	queuePair    = packet.FlowKey{From: addrA, To: addrB, Proto: wire.ProtoUDP, SrcPort: 0xc001, DstPort: roce.Port, QP: 0x112233, Flow: -1}
	sameAddress  = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	sameLaw      = cmp.AllowUnexported(Law{})
)

// written returns the bytes of a message, written over other bytes.
func written(m *Feedback) []byte {
	b := bytes.Repeat([]byte{0xee}, m.Len())
	m.EncodeTo(b)
	return b
}

// TestFeedback checks that the fields are where the doc comment of Feedback puts them.
func TestFeedback(t *testing.T) {
	tcp := queuePair
	tcp.Proto, tcp.DstPort, tcp.QP = wire.ProtoTCP, 80, 0
	modelled := packet.FlowKey{Proto: wire.ProtoUDP, SrcPort: 7, DstPort: 9, Flow: 3}
	law := Law{QRef: 1, QMid: 2, QMax: 3, FMin: 4 << 16, FMax: 5 << 16, Alpha: 6, Beta: 7}
	quoted4 := func(length, proto, sum string) string {
		return "4500" + length + "00000000 40" + proto + sum + " 0a000001 0a000002 "
	}
	for _, c := range []struct {
		name string
		m    Feedback
		want string
	}{
		{"a queue pair", Feedback{Flow: queuePair, Rate: 400, DeltaF: 10 * units.Mbps, CP: CP{Queue: 0xdeadbeef}},
			"fd000000 00000190 00002710 deadbeef " + quoted4("0028", "11", "66c3") + "c00112b7 00140000 00000000 00112233 00000000"},
		{"TCP", Feedback{Flow: tcp, Rate: 1, DeltaF: units.Kbps},
			"fd000000 00000001 00000001 00000000 " + quoted4("001c", "06", "66da") + "c0010050 00000000"},
		{"a modelled flow", Feedback{Flow: modelled, From: addrA, To: addrB, DeltaF: units.Kbps},
			"fd000000 00000000 00000001 00000000 " + quoted4("001c", "11", "66cf") + "00070009 00080000"},
		{"all inputs", Feedback{Flow: tcp, Code: AtHost, DeltaF: units.Kbps, Inputs: Inputs{F: 0x10008, Q: 9, QOld: 10}, DeltaQ: 600, Law: law},
			"fd010000 00010008 00000001 00000000 00000009 0000000a 00000258 00000001 00000002 00000003 00000004 00000005 00000006 00000007 " + quoted4("001c", "06", "66da") + "c0010050 00000000"},
		{"a registry's", Feedback{Flow: tcp, Code: ByRegistry, DeltaF: units.Kbps, Inputs: Inputs{F: 0x10008, Q: 9, QOld: 10}, DeltaQ: 600, Law: law},
			"fd020000 00010008 00000001 00000000 00000009 0000000a 00000258 00000005 " + quoted4("001c", "06", "66da") + "c0010050 00000000"},
		{"IPv6", Feedback{Flow: packet.FlowKey{From: netip.MustParseAddr("fd00::1"), To: netip.MustParseAddr("fd00::2"), Proto: wire.ProtoTCP, SrcPort: 1, DstPort: 2, Flow: -1}, DeltaF: units.Kbps},
			"c8000000 00000000 00000001 00000000 60000000 00080640 fd000000000000000000000000000001 fd000000000000000000000000000002 00010002 00000000"},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(hex.EncodeToString(want), hex.EncodeToString(written(&c.m))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func drawFlow(t *rapid.T) packet.FlowKey {
	port := rapid.Uint16Range(1, 65535)
	k := packet.FlowKey{Proto: wire.ProtoTCP, SrcPort: port.Draw(t, "from"), DstPort: port.Draw(t, "to"), Flow: -1}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		k.Proto, k.DstPort, k.QP = wire.ProtoUDP, roce.Port, rapid.Uint32Range(1, 1<<24-1).Draw(t, "qp")
	case 1:
		k.Proto = wire.ProtoUDP
		k.DstPort = rapid.Uint16Range(1, 4000).Draw(t, "port")
	}
	bits := rapid.Custom(func(t *rapid.T) netip.Addr {
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4")))
	})
	if rapid.Bool().Draw(t, "v6") {
		bits = rapid.Custom(func(t *rapid.T) netip.Addr {
			b := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v6"))
			b[0] = 0xfd
			return netip.AddrFrom16(b)
		})
	}
	k.From, k.To = bits.Draw(t, "source"), bits.Draw(t, "destination")
	return k
}

func drawFeedback(t *rapid.T) Feedback {
	word := func(name string) int64 { return int64(rapid.Uint32().Draw(t, name)) }
	m := Feedback{
		CP:   CP{Agent: addrB, Queue: uint32(word("queue"))},
		Flow: drawFlow(t), Code: Compute(rapid.IntRange(0, 2).Draw(t, "code")), DeltaF: units.Rate(word("delta F")) * units.Kbps,
	}
	if m.Code == AtSwitch {
		m.Rate = uint32(word("rate"))
		return m
	}
	m.Inputs = Inputs{F: word("F"), Q: word("Q"), QOld: word("Q old")}
	m.DeltaQ = units.Bytes(word("delta Q"))
	m.Law.FMax = word("F max") << 16
	if m.Code == AtHost {
		m.Law = Law{QRef: word("ref"), QMid: word("mid"), QMax: word("max"), FMin: word("F min") << 16, FMax: m.Law.FMax, Alpha: word("alpha"), Beta: word("beta")}
	}
	return m
}

// TestFeedbackReadsBack: a written message reads back the same, with and without padding;
// a copy is the same.
func TestFeedbackReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFeedback(t)
		b := append(written(&want), make([]byte, rapid.IntRange(0, 30).Draw(t, "padding"))...)
		got := Feedback{Rate: 9}
		if err := got.Parse(addrB, b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameAddress, sameLaw); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		got.Reset()
		if got != (Feedback{}) {
			t.Fatalf("after Reset: %+v", got)
		}
		if got.Set(&want); got != want || got.FlowKey() != want.Flow {
			t.Fatalf("copied: %+v", got)
		}
	})
}

// TestParseRefuses checks that Parse refuses truncated messages and other bytes.
func TestParseRefuses(t *testing.T) {
	var got Feedback
	for _, code := range []Compute{AtSwitch, AtHost, ByRegistry} {
		for _, from := range []netip.Addr{addrA, netip.MustParseAddr("fd00::1")} {
			k := queuePair
			k.From = from
			whole := written(&Feedback{Flow: k, Code: code, DeltaF: units.Mbps})
			for n := range whole {
				if err := got.Parse(addrB, whole[:n]); err == nil {
					t.Errorf("%d bytes of %d are taken for a message of code %d", n, len(whole), code)
				}
			}
		}
	}
	whole := written(&Feedback{Flow: queuePair, DeltaF: units.Mbps})
	for at, v := range map[int]byte{0: 3, 1: 3, headLen: 0x50} {
		b := bytes.Clone(whole)
		b[at] = v
		if err := got.Parse(addrB, b); err == nil {
			t.Errorf("a message with %d at %d is read", v, at)
		}
	}
}

// FuzzParse parses any bytes: nothing panics, a reaction point accepts the message, and a
// valid message is written and read back unchanged.
func FuzzParse(f *testing.F) {
	for _, code := range []Compute{AtSwitch, AtHost, ByRegistry} {
		f.Add(written(&Feedback{Flow: queuePair, Code: code, DeltaF: units.Mbps, DeltaQ: 600}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Feedback
		if m.Parse(addrB, b) != nil {
			return
		}
		c := Preset("paper", 40*units.Gbps)
		r := New(&c, 40*units.Gbps)
		r.OnMessage(0, &m)
		r.OnTimer(20 * units.Microsecond)
		if rate := r.Rate(); rate < c.RMin || rate > r.line {
			t.Fatalf("a rate of %v", rate)
		}
		if err := again.Parse(addrB, written(&m)); err != nil || again != m {
			t.Fatalf("%v\n%+v\n%+v", err, m, again)
		}
	})
}

// TestTsharkReadsFeedback uses weft's dissector: Wireshark shows experimental types only
// as such.
func TestTsharkReadsFeedback(t *testing.T) {
	var frames [][]byte
	var want [][]string
	for i := range 60 {
		m := rapid.Custom(drawFeedback).Example(i)
		frames = append(frames, frameOf(&m))
		row := []string{fmt.Sprint(uint8(m.Code)), "", "", fmt.Sprintf("0x%08x", m.CP.Queue), "", "", "", "", fmt.Sprint(m.Flow.Proto), fmt.Sprint(m.Flow.SrcPort), fmt.Sprint(m.Flow.DstPort), ""}
		if m.Code == AtSwitch {
			row[1] = fmt.Sprint(m.Rate)
		} else {
			row[2] = fmt.Sprint(m.Inputs.Q)
			row[4] = fmt.Sprint(m.Law.FMax >> 16)
		}
		if m.Code == AtHost {
			row[5] = fmt.Sprint(m.Law.QMax)
		}
		if m.Flow.From.Is4() {
			row[6] = m.Flow.From.String()
		} else {
			row[7] = m.Flow.From.String()
		}
		if m.Flow.QP != 0 {
			row[11] = fmt.Sprintf("0x%08x", m.Flow.QP)
		}
		want = append(want, row)
	}
	got := oracle.Tshark(t, "rocc.lua", frames, "rocc.code", "rocc.rate_units", "rocc.q_cur", "rocc.queue", "rocc.f_max", "rocc.q_max",
		"rocc.flow.src", "rocc.flow.src6", "rocc.flow.proto", "rocc.flow.srcport", "rocc.flow.dstport", "rocc.flow.qp")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// frameOf returns the frame of a message.
func frameOf(m *Feedback) []byte {
	body := written(m)
	b := make([]byte, wire.EthernetHeader)
	wire.MAC(0x02000000000a).EncodeTo(b)
	wire.MAC(0x02000000000b).EncodeTo(b[wire.MACLen:])
	if m.Flow.From.Is4() {
		b[12] = 8
		binary.BigEndian.PutUint16(body[2:], wire.Checksum(body, 0))
		ip := make([]byte, wire.IPv4Header)
		ip[0], ip[3], ip[8], ip[9] = 0x45, byte(wire.IPv4Header+len(body)), 64, wire.ProtoICMP
		copy(ip[12:], addrB.AsSlice())
		copy(ip[16:], addrA.AsSlice())
		sum := wire.IPv4Checksum(ip)
		ip[10], ip[11] = byte(sum>>8), byte(sum)
		b = append(b, ip...)
	} else {
		b[12], b[13] = 0x86, 0xdd
		ip := make([]byte, wire.IPv6Header)
		ip[0], ip[5], ip[6], ip[7] = 0x60, byte(len(body)), wire.ProtoICMPv6, 64
		ip[8], ip[24] = 0xfd, 0xfd
		sum := uint32(2*0xfd00 + len(body) + wire.ProtoICMPv6) // the pseudo-header (RFC 4443 §2.3)
		binary.BigEndian.PutUint16(body[2:], wire.Checksum(body, sum))
		b = append(b, ip...)
	}
	return append(b, body...)
}
