package eqds

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
	"github.com/weftlab/weft/sim/units"
)

// TestHeaders: fields are where the package comment shows them.
func TestHeaders(t *testing.T) {
	data := func(d Data) string {
		b := bytes.Repeat([]byte{0xee}, HeaderLen)
		d.EncodeTo(b)
		return hex.EncodeToString(b)
	}
	control := func(c Control) string {
		b := bytes.Repeat([]byte{0xee}, HeaderLen)
		c.EncodeTo(b)
		return hex.EncodeToString(b)
	}
	for _, c := range []struct{ name, got, want string }{
		{"data", data(Data{Next: NextIPv4, Seq: 0x1234, Target: 0x5678, Path: 0x9a, Sender: 0xbc}), "0004 1234 5678 9abc"},
		{"SYN", data(Data{Flags: FlagSYN, Next: NextIPv6, Seq: Epoch(63).First()}), "4029 fc00 0000 0000"},
		{"RTS", data(Data{Flags: FlagSYN | FlagRTS, Next: NextNothing, Seq: 1, Target: 2}), "503b 0001 0002 0000"},
		{"ACK", control(Control{Flags: FlagControl | FlagACK | FlagPULL, Sender: 7, Ack: 0x1234, Pull: 0x5678, Busy: 0x9abc}), "9207 1234 5678 9abc"},
		{"SYN-NACK", control(Control{Flags: FlagControl | FlagSYN | FlagNACK}), "c800 0000 0000 0000"},
		{"RST", control(Control{Flags: FlagControl | FlagRST, Ack: 3}), "a000 0003 0000 0000"},
	} {
		if want := strings.ReplaceAll(c.want, " ", ""); c.got != want {
			t.Errorf("%s is %s, want %s", c.name, c.got, want)
		}
	}
}

// TestDecodeRefuses: truncated and contradictory headers are errors.
func TestDecodeRefuses(t *testing.T) {
	var d Data
	var c Control
	for n := range HeaderLen {
		b := make([]byte, n)
		if d.Decode(b) != ErrShort || c.Decode(b) != ErrShort {
			t.Errorf("%d bytes are taken for a header", n)
		}
	}
	for _, x := range []struct {
		bytes string
		err   error
	}{
		{"80 04", ErrControl}, {"01 04", ErrFlags}, {"08 04", ErrFlags}, {"30 3b", ErrFlags}, {"10 04", ErrNext}, {"20 29", ErrNext}, {"00 3b", ErrNext},
	} {
		if err := d.Decode(padded(t, x.bytes)); err != x.err {
			t.Errorf("data %s: %v, want %v", x.bytes, err, x.err)
		}
	}
	for _, x := range []struct {
		bytes string
		err   error
	}{
		{"10 00", ErrControl}, {"81 00", ErrFlags}, {"98 00", ErrFlags}, {"8c 00", ErrFlags}, {"b0 00", ErrFlags}, {"e0 00", ErrFlags}, {"a2 00", ErrFlags},
	} {
		if err := c.Decode(padded(t, x.bytes)); err != x.err {
			t.Errorf("control %s: %v, want %v", x.bytes, err, x.err)
		}
	}
}

func padded(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, HeaderLen-len(b))...)
}

func TestFlagNames(t *testing.T) {
	for f, want := range map[Flags]string{
		0: "data", FlagControl: "control", FlagSYN | FlagRTS: "SYN+RTS", FlagControl | FlagSYN | FlagACK | FlagPULL: "SYN+ACK+PULL", FlagControl | FlagRST: "RST",
	} {
		if f.String() != want {
			t.Errorf("%v, want %s", f, want)
		}
	}
}

// TestEpochs: epochs wrap around: of any two that do not differ by 32, one is after the other.
func TestEpochs(t *testing.T) {
	for e := range Epoch(64) {
		if EpochOf(e.First()) != e || EpochOf(e.First()+Span-1) != e || EpochOf(e.First()-1) == e {
			t.Errorf("epoch %d begins with %d", e, e.First())
		}
		if !e.Next().After(e) || e.After(e.Next()) || e.After(e) {
			t.Errorf("the epoch after %d is %d", e, e.Next())
		}
		for f := range Epoch(64) {
			if half := (e-f)%64 == 32; e != f && !half && e.After(f) == f.After(e) || half && e.After(f) {
				t.Errorf("%d after %d: %v, and the other way round %v", e, f, e.After(f), f.After(e))
			}
		}
	}
}

func TestBusyTime(t *testing.T) {
	for _, x := range []struct{ t, want units.Time }{
		{0, 0}, {-units.Second, 0}, {1, units.Microsecond}, {units.Microsecond, units.Microsecond}, {units.Millisecond + 1, 1001 * units.Microsecond},
		{units.Second, 65535 * units.Microsecond}, {units.Hour * 24 * 100, 65535 * units.Microsecond},
	} {
		if c := (Control{Busy: EncodeBusy(x.t)}); c.BusyTime() != x.want {
			t.Errorf("%v is told as %v, want %v", x.t, c.BusyTime(), x.want)
		}
	}
}

// FuzzHeaders reads any bytes as a header: a valid header is written as the same bytes, and
// gopacket's layer agrees.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"0004123456789abc", "503b000100020000", "92071234567800ff", "a000000300000000", "00"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Data
		var c Control
		asData, asControl := d.Decode(b), c.Decode(b)
		if asData == nil && asControl == nil {
			t.Fatalf("% x is of both kinds", b)
		}
		again := make([]byte, HeaderLen)
		switch {
		case asData == nil:
			d.EncodeTo(again)
		case asControl == nil:
			c.EncodeTo(again)
		}
		good := asData == nil || asControl == nil
		if good && !bytes.Equal(again, b[:HeaderLen]) {
			t.Fatalf("% x is written as % x", b[:HeaderLen], again)
		}
		// gopacket's own layers, for what is inside, panic at some bytes: they are left out.
		l := new(Layer)
		var found []gopacket.LayerType
		parser := gopacket.NewDecodingLayerParser(LayerType, l)
		parser.IgnoreUnsupported, parser.IgnorePanic = true, true
		_ = parser.DecodeLayers(b, &found)
		ok := len(found) == 1
		if ok != good {
			t.Fatalf("gopacket has a layer: %v; % x is a header: %v", ok, b, good)
		}
		if good && (l.IsControl != (asControl == nil) || !l.IsControl && l.Data != d || l.IsControl && l.Control != c) {
			t.Fatalf("gopacket's layer is %+v", l)
		}
	})
}

// tunnelled returns the frame of a tunnel packet around what it carries.
func tunnelled(t testing.TB, l *Layer, inside ...gopacket.SerializableLayer) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: Port}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	all := append([]gopacket.SerializableLayer{eth, ip, udp, l}, inside...)
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// carried returns packets for each next protocol, with what they carry.
func carried(t testing.TB) map[uint8][]gopacket.SerializableLayer {
	ip4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 9, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2}}
	ip6 := &layers.IPv6{Version: 6, HopLimit: 9, NextHeader: layers.IPProtocolUDP, SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::2")}
	udp := func(over gopacket.NetworkLayer) *layers.UDP {
		u := &layers.UDP{SrcPort: 7001, DstPort: 7002}
		if err := u.SetNetworkLayerForChecksum(over); err != nil {
			t.Fatal(err)
		}
		return u
	}
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 3}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 4}, EthernetType: layers.EthernetTypeIPv4}
	vxlan := &layers.VXLAN{ValidIDFlag: true, VNI: 77}
	body := gopacket.Payload(make([]byte, 40))
	return map[uint8][]gopacket.SerializableLayer{
		NextIPv4: {ip4, udp(ip4), body}, NextIPv6: {ip6, udp(ip6), body},
		NextEthernet: {eth, ip4, udp(ip4), body}, NextVXLAN: {vxlan, eth, ip4, udp(ip4), body},
	}
}

// TestLayers: gopacket decodes tunnel packets completely, at once and with a parser.
func TestLayers(t *testing.T) {
	for next, inside := range carried(t) {
		want := Layer{Data: Data{Flags: FlagSYN, Next: next, Seq: 5, Target: 9, Path: 3, Sender: 2}}
		b := tunnelled(t, &want, inside...)
		g := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		if e := g.ErrorLayer(); e != nil {
			t.Fatalf("next %d: %v", next, e.Error())
		}
		if got := g.Layer(LayerType).(*Layer); got.Data != want.Data || got.IsControl {
			t.Errorf("next %d: %+v", next, got)
		}
		all := g.Layers()
		if got := all[len(all)-2]; got.LayerType() != layers.LayerTypeUDP || got.(*layers.UDP).DstPort != 7002 {
			t.Errorf("next %d: the last header is %v", next, got.LayerType())
		}
	}
	c := Layer{IsControl: true, Control: Control{Flags: FlagControl | FlagPULL, Sender: 2, Pull: 8}}
	var eth layers.Ethernet
	var ip layers.IPv4
	var udp layers.UDP
	var got Layer
	var found []gopacket.LayerType
	if err := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip, &udp, &got).DecodeLayers(tunnelled(t, &c), &found); err != nil {
		t.Fatal(err)
	}
	if len(found) != 4 || got.Control != c.Control || !got.IsControl {
		t.Errorf("%v, %+v", found, got)
	}
}

func drawData(t *rapid.T) Data {
	d := Data{
		Flags: rapid.SampledFrom([]Flags{0, FlagSYN}).Draw(t, "flags"), Next: rapid.SampledFrom([]uint8{NextIPv4, NextIPv6, NextEthernet, NextVXLAN, NextNothing}).Draw(t, "next"),
		Seq: rapid.Uint16().Draw(t, "seq"), Target: rapid.Uint16().Draw(t, "target"), Path: rapid.Uint8().Draw(t, "path"), Sender: rapid.Uint8().Draw(t, "sender"),
	}
	if d.Next == NextNothing {
		d.Flags |= rapid.SampledFrom([]Flags{FlagRTS, FlagRST}).Draw(t, "what")
	}
	return d
}

func drawControl(t *rapid.T) Control {
	return Control{
		Flags:  FlagControl | rapid.SampledFrom([]Flags{FlagRST, FlagACK, FlagNACK | FlagPULL, FlagSACK, FlagSYN, FlagSYN | FlagACK, FlagSYN | FlagSACK | FlagPULL, FlagPULL}).Draw(t, "flags"),
		Sender: rapid.Uint8().Draw(t, "sender"), Ack: rapid.Uint16().Draw(t, "ack"), Pull: rapid.Uint16().Draw(t, "pull"), Busy: rapid.Uint16().Draw(t, "busy"),
	}
}

// TestTshark reads tunnels and their contents with the dissector that comes with weft.
func TestTshark(t *testing.T) {
	var frames [][]byte
	var want [][]string
	bit := func(f Flags, b Flags) string { return map[bool]string{true: "1", false: "0"}[f.Has(b)] }
	epoch := func(f Flags, n uint16) string {
		if f.Has(FlagSYN) {
			return fmt.Sprint(EpochOf(n))
		}
		return ""
	}
	ports := map[uint8]string{NextNothing: ""}
	inside := carried(t)
	for next := range inside {
		ports[next] = ",7002"
	}
	for i := range 40 {
		d := rapid.Custom(drawData).Example(i)
		frames = append(frames, tunnelled(t, &Layer{Data: d}, inside[d.Next]...))
		want = append(want, []string{bit(d.Flags, FlagControl), bit(d.Flags, FlagSYN), bit(d.Flags, FlagRST), bit(d.Flags, FlagRTS), "", "", "", "",
			fmt.Sprint(d.Next), fmt.Sprint(d.Seq), epoch(d.Flags, d.Seq), fmt.Sprint(d.Target), fmt.Sprint(d.Path), fmt.Sprint(d.Sender), "", "", "", fmt.Sprint(Port) + ports[d.Next]})
		c := rapid.Custom(drawControl).Example(i)
		frames = append(frames, tunnelled(t, &Layer{IsControl: true, Control: c}))
		want = append(want, []string{"1", bit(c.Flags, FlagSYN), bit(c.Flags, FlagRST), "", bit(c.Flags, FlagACK), bit(c.Flags, FlagNACK), bit(c.Flags, FlagSACK), bit(c.Flags, FlagPULL),
			"", "", epoch(c.Flags, c.Ack), "", "", fmt.Sprint(c.Sender), fmt.Sprint(c.Ack), fmt.Sprint(c.Pull), fmt.Sprint(c.Busy), fmt.Sprint(Port)})
	}
	// A switch that trims may leave eight bytes of what is inside.
	cut := Data{Next: NextIPv4, Seq: 7}
	frames = append(frames, tunnelled(t, &Layer{Data: cut}, gopacket.Payload(make([]byte, 8))))
	want = append(want, []string{"0", "0", "0", "0", "", "", "", "", "4", "7", "", "0", "0", "0", "", "", "", fmt.Sprint(Port)})
	got := oracle.Tshark(t, "eqds.lua", frames, "eqds.flags.control", "eqds.flags.syn", "eqds.flags.rst", "eqds.flags.rts", "eqds.flags.ack", "eqds.flags.nack", "eqds.flags.sack", "eqds.flags.pull",
		"eqds.next", "eqds.seq", "eqds.epoch", "eqds.pull_target", "eqds.path", "eqds.sender", "eqds.ack_number", "eqds.pull_number", "eqds.busy_time", "udp.dstport")
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
