package accurate

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
)

// written returns the bytes of an FRP, written over other bytes.
func written(f *FRP) []byte {
	b := bytes.Repeat([]byte{0xee}, f.Len())
	f.EncodeTo(b)
	return b
}

// TestFRP: fields are where the doc comment of FRP shows them.
func TestFRP(t *testing.T) {
	tcp := packet.FlowKey{From: addrA, To: addrB, Proto: wire.ProtoTCP, SrcPort: 1, DstPort: 80, Flow: -1}
	for _, c := range []struct {
		name string
		f    FRP
		want string
	}{
		{"a queue pair's", FRP{Flow: queuePair, Period: 0x1234, CR: 10 * units.Gbps, DR: 40 * units.Gbps}, "1000 1234 11112233 c00112b7 00989680 02625a00"},
		{"a flow-init", FRP{Kind: Init, Flow: tcp, CR: 1500, DR: units.Kbps}, "1100 0000 06000000 00010050 00000001 00000001"},
		{"a flow-stop", FRP{Kind: Stop, Counted: true, Flow: tcp}, "1204 0000 06000000 00010050 00000000 00000000"},
		{"a response", FRP{Response: true, Flow: tcp}, "1001 0000 06000000 00010050 00000000 00000000"},
		{"a short-circuit reply", FRP{Kind: Init, Response: true, Short: true, Flow: tcp, CR: 10_000 * units.Tbps}, "1103 0000 06000000 00010050 ffffffff 00000000"},
	} {
		if got := hex.EncodeToString(written(&c.f)); got != strings.ReplaceAll(c.want, " ", "") || len(got) != 2*Len {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
}

func drawFRP(t *rapid.T) FRP {
	rate := func(name string) units.Rate { return units.Rate(rapid.Uint32().Draw(t, name)) * units.Kbps }
	f := FRP{
		Kind: Kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), Response: rapid.Bool().Draw(t, "response"),
		Short: rapid.Bool().Draw(t, "short"), Counted: rapid.Bool().Draw(t, "counted"),
		Period: rapid.Uint16().Draw(t, "period"), CR: rate("CR"), DR: rate("DR"), Flow: queuePair,
	}
	k := &f.Flow
	k.Proto, k.QP = rapid.Uint8().Draw(t, "proto"), rapid.Uint32Range(0, 1<<24-1).Draw(t, "qp")
	k.SrcPort, k.DstPort = rapid.Uint16().Draw(t, "from"), rapid.Uint16().Draw(t, "to")
	return f
}

// parse reads an FRP as it arrives on the wire.
func parse(f *FRP, response bool, b []byte) error {
	if response {
		return f.Parse(addrB, addrA, b)
	}
	return f.Parse(addrA, addrB, b)
}

// TestFRPsReadBack: an FRP is read back as it was written, with padding and without; a copy is
// equal.
func TestFRPsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFRP(t)
		b := append(written(&want), make([]byte, rapid.IntRange(0, 30).Draw(t, "padding"))...)
		got := FRP{CR: 9}
		if err := parse(&got, want.Response, b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameAddress); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		if got.Reset(); got != (FRP{}) {
			t.Fatalf("after Reset: %+v", got)
		}
		if got.Set(&want); got != want || got.FlowKey() != want.Flow {
			t.Fatalf("copied: %+v", got)
		}
	})
}

// TestParseRefuses: truncated FRPs and other bytes are errors.
func TestParseRefuses(t *testing.T) {
	var f FRP
	whole := written(&FRP{Flow: queuePair})
	for n := range whole {
		if err := f.Parse(addrA, addrB, whole[:n]); err == nil {
			t.Errorf("%d bytes are taken for an FRP", n)
		}
	}
	for _, c := range []struct {
		at   int
		v    byte
		want string
	}{
		{0, 0x20, "accurate: unknown FRP version 2: must be 1"},
		{0, 0x13, "accurate: unknown kind of FRP 3"},
		{1, 8, "accurate: unknown flags 0x8"},
	} {
		b := bytes.Clone(whole)
		b[c.at] = c.v
		if err := f.Parse(addrA, addrB, b); err == nil || err.Error() != c.want {
			t.Errorf("%#x at %d: %v, want %s", c.v, c.at, err, c.want)
		}
	}
}

// TestTurn: an FRP comes back once, and a flow-stop never.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		f    FRP
		want bool
	}{{FRP{}, true}, {FRP{Kind: Init}, true}, {FRP{Kind: Stop}, false}, {FRP{Response: true}, false}} {
		f := c.f
		if got := f.TurnAround(); got != c.want || f.Response != (c.want || c.f.Response) {
			t.Errorf("%+v is turned: %v, and is then %+v", c.f, got, f)
		}
	}
}

// FuzzParse reads any bytes as an FRP: nothing panics, contention and reaction points handle it
// without harm, and a valid FRP is the same after it is written and read again.
func FuzzParse(f *testing.F) {
	for _, x := range []FRP{{}, {Kind: Init, CR: 10 * units.Gbps}, {Kind: Stop, Counted: true}, {Response: true, Short: true}} {
		x.Flow = queuePair
		f.Add(written(&x))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var x, again FRP
		if x.Parse(addrA, addrB, b) != nil {
			return
		}
		if err := parse(&again, x.Response, written(&x)); err != nil {
			t.Fatal(err)
		}
		if x.Response {
			x.Flow.From, x.Flow.To = x.Flow.To, x.Flow.From
		}
		if again.Flow.From != addrA || again.CR != x.CR || again.Kind != x.Kind {
			t.Fatalf("%+v\n%+v", x, again)
		}
		r := newControl(t, nil)
		r.SetActive(0, true)
		r.OnMessage(us, &x)
		if rate := r.Rate(); rate < r.config.RMin || rate > r.line {
			t.Fatalf("a rate of %v", rate)
		}
		p := newPoint(0.05, 3*gbps)
		p.ProcessFRP(0, &x)
		if now, _ := p.Registers(20 * us); now.FSR <= 0 {
			t.Fatalf("%+v", now)
		}
	})
}

// TestTsharkReadsFRPs uses the dissector that comes with weft.
func TestTsharkReadsFRPs(t *testing.T) {
	var frames [][]byte
	var want [][]string
	flag := map[bool]string{true: "1", false: "0"}
	for i := range 40 {
		f := rapid.Custom(drawFRP).Example(i)
		frames = append(frames, frameOf(&f))
		want = append(want, []string{
			"1", fmt.Sprint(uint8(f.Kind)), flag[f.Response], flag[f.Short], flag[f.Counted], fmt.Sprint(f.Period), fmt.Sprint(f.Flow.Proto),
			fmt.Sprintf("0x%06x", f.Flow.QP), fmt.Sprint(f.Flow.SrcPort), fmt.Sprint(f.Flow.DstPort), fmt.Sprint(int64(f.CR / units.Kbps)), fmt.Sprint(int64(f.DR / units.Kbps)),
		})
	}
	got := oracle.Tshark(t, "accurate.lua", frames, "accurate.version", "accurate.kind", "accurate.response", "accurate.short", "accurate.counted", "accurate.period",
		"accurate.flow.proto", "accurate.flow.qp", "accurate.flow.srcport", "accurate.flow.dstport", "accurate.cr", "accurate.dr")
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

// frameOf returns the frame of an FRP.
func frameOf(f *FRP) []byte {
	b := make([]byte, wire.EthernetHeader+wire.IPv4Header+wire.UDPHeader)
	wire.MAC(0x02000000000a).EncodeTo(b)
	wire.MAC(0x02000000000b).EncodeTo(b[wire.MACLen:])
	b[12] = 8
	ip, udp := b[wire.EthernetHeader:], b[wire.EthernetHeader+wire.IPv4Header:]
	ip[0], ip[3], ip[8], ip[9] = 0x45, wire.IPv4Header+wire.UDPHeader+Len, 64, wire.ProtoUDP
	copy(ip[12:], addrA.AsSlice())
	copy(ip[16:], addrB.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], wire.IPv4Checksum(ip[:wire.IPv4Header]))
	binary.BigEndian.PutUint16(udp, Port)
	binary.BigEndian.PutUint16(udp[2:], Port)
	binary.BigEndian.PutUint16(udp[4:], wire.UDPHeader+Len)
	return append(b, written(f)...)
}

// TestReplace: contents of an FRP that replaces one that has not left.
func TestReplace(t *testing.T) {
	frp := func(k Kind, period uint16, counted bool) FRP {
		return FRP{Kind: k, Period: period, Counted: counted, CR: units.Gbps, Flow: queuePair}
	}
	for _, c := range []struct {
		name         string
		older, newer FRP
		want         FRP
		gone         bool
	}{
		{"a heartbeat", frp(Regular, 1, false), frp(Regular, 2, false), frp(Regular, 2, false), false},
		{"a flow that has not begun still has to", frp(Init, 1, false), frp(Regular, 2, false), frp(Init, 2, false), false},
		{"a stop in a period whose heartbeat has not left", frp(Regular, 2, false), frp(Stop, 2, true), frp(Stop, 2, false), false},
		{"a stop of a flow that is counted", frp(Regular, 1, false), frp(Stop, 2, true), frp(Stop, 2, true), false},
		{"nobody has heard of the flow", frp(Init, 1, false), frp(Stop, 2, true), FRP{}, true},
		{"nobody has heard of the stop", frp(Stop, 1, true), frp(Init, 2, false), frp(Regular, 2, false), false},
	} {
		got := c.newer
		if ok := got.ReplacesOlder(&c.older); ok == c.gone || ok && got != c.want {
			t.Errorf("%s: %v, %+v", c.name, ok, got)
		}
	}
	a, b := FRP{Response: true, Kind: Regular, Period: 3}, FRP{Response: true, Kind: Init, Period: 2}
	if want := a; !a.ReplacesOlder(&b) || a != want {
		t.Errorf("the newer response says %+v", a)
	}
}
