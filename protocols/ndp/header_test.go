package ndp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/internal/oracle"
)

// TestHeader: fields are where the package comment shows them.
func TestHeader(t *testing.T) {
	for _, c := range []struct {
		h    Header
		want string
	}{
		{Header{Flags: FlagSYN | FlagLast, Service: 2, Path: 0x1234, Connection: 0x56789abc, Seq: 0xdef01234, Pull: 0x55667788}, "c002 1234 56789abc def01234 55667788"},
		{Header{Flags: FlagACK, Seq: 1}, "0400 0000 00000000 00000001 00000000"},
		{Header{Flags: FlagNACK, Path: 7}, "0200 0007 00000000 00000000 00000000"},
		{Header{Flags: FlagPULL, Pull: 9}, "0100 0000 00000000 00000000 00000009"},
	} {
		b := bytes.Repeat([]byte{0xee}, HeaderLen)
		c.h.EncodeTo(b)
		if got, want := hex.EncodeToString(b), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%v is %s, want %s", c.h.Flags, got, want)
		}
	}
}

// TestDecodeRefuses: truncated and contradictory headers are errors.
func TestDecodeRefuses(t *testing.T) {
	var h Header
	for n := range HeaderLen {
		if h.Decode(make([]byte, n)) != ErrShort {
			t.Errorf("%d bytes are taken for a header", n)
		}
	}
	for f := range 256 {
		b := make([]byte, HeaderLen)
		b[0] = byte(f)
		_, good := map[int]bool{0: true, 0x80: true, 0x40: true, 0xc0: true, 1: true, 2: true, 4: true}[f]
		if err := h.Decode(b); (err == nil) != good || err != nil && err != ErrFlags {
			t.Errorf("flags %02x: %v", f, err)
		}
	}
}

func TestFlagNames(t *testing.T) {
	for f, want := range map[Flags]string{0: "data", FlagSYN | FlagLast: "SYN+LAST", FlagACK: "ACK", FlagNACK: "NACK", FlagPULL: "PULL"} {
		if f.String() != want {
			t.Errorf("%v, want %s", f, want)
		}
	}
}

// FuzzHeader reads any bytes as a header: a valid header is written as the same bytes, and
// gopacket's layer agrees.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{"c002123456789abcdef0123455667788", "04000000000000000000000100000000ff", "03"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		good := h.Decode(b) == nil
		if again := make([]byte, HeaderLen); good {
			if h.EncodeTo(again); !bytes.Equal(again, b[:HeaderLen]) {
				t.Fatalf("% x is written as % x", b[:HeaderLen], again)
			}
		}
		l := new(Layer)
		if err := l.DecodeFromBytes(b, gopacket.NilDecodeFeedback); (err == nil) != good || good && (l.Header != h || len(l.Payload) != len(b)-HeaderLen) {
			t.Fatalf("gopacket's layer is %+v: %v", l, err)
		}
	})
}

// frame returns the frame of a packet.
func frame(t testing.TB, h Header, payload int) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: layers.UDPPort(SourcePort(h.Path)), DstPort: Port}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, eth, ip, udp, &Layer{Header: h}, gopacket.Payload(make([]byte, payload))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLayer: gopacket decodes a packet completely.
func TestLayer(t *testing.T) {
	want := Header{Flags: FlagSYN, Service: 1, Path: 3, Connection: 4, Seq: 5, Pull: 6}
	g := gopacket.NewPacket(frame(t, want, 40), layers.LayerTypeEthernet, gopacket.Default)
	if e := g.ErrorLayer(); e != nil {
		t.Fatal(e.Error())
	}
	if l := g.Layer(LayerType).(*Layer); l.Header != want || len(g.ApplicationLayer().Payload()) != 40 {
		t.Errorf("%+v", l)
	}
}

// TestTshark reads packets with the dissector that comes with weft.
func TestTshark(t *testing.T) {
	var frames [][]byte
	var want [][]string
	draw := rapid.Custom(func(t *rapid.T) Header {
		return Header{
			Flags: rapid.SampledFrom([]Flags{0, FlagSYN, FlagSYN | FlagLast, FlagLast, FlagACK, FlagNACK, FlagPULL}).Draw(t, "flags"), Service: rapid.Uint8().Draw(t, "service"),
			Path: rapid.Uint16Max(4095).Draw(t, "path"), Connection: rapid.Uint32().Draw(t, "connection"), Seq: rapid.Uint32().Draw(t, "seq"), Pull: rapid.Uint32().Draw(t, "pull"),
		}
	})
	for i := range 40 {
		h := draw.Example(i)
		frames = append(frames, frame(t, h, i))
		row := []string{}
		for _, f := range []Flags{FlagSYN, FlagLast, FlagACK, FlagNACK, FlagPULL} {
			row = append(row, map[bool]string{true: "1", false: "0"}[h.Flags&f != 0])
		}
		want = append(want, append(row, fmt.Sprint(h.Service), fmt.Sprint(h.Path), fmt.Sprint(h.Connection), fmt.Sprint(h.Seq), fmt.Sprint(h.Pull)))
	}
	got := oracle.Tshark(t, "ndp.lua", frames, "ndp_dc.flags.syn", "ndp_dc.flags.last", "ndp_dc.flags.ack", "ndp_dc.flags.nack", "ndp_dc.flags.pull",
		"ndp_dc.service", "ndp_dc.path", "ndp_dc.connection", "ndp_dc.seq", "ndp_dc.pull_number")
	for _, row := range got {
		for i, v := range row {
			switch v { // newer versions of tshark write booleans in this way
			case "True":
				row[i] = "1"
			case "False":
				row[i] = "0"
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
