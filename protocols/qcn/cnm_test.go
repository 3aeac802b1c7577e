package qcn

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// TestCNM checks that the fields are where 802.1Q puts them (33.3): version 4 bits,
// reserved 6, feedback 6, CPID 64, offset 16, delta 16, priority 16, destination 48,
// length 16, MSDU.
func TestCNM(t *testing.T) {
	for _, c := range []struct {
		name string
		m    CNM
		want string
	}{
		{"a usual one", CNM{Fb: 41, Point: 0x0102030405060708, QOffset: -14 * 64, QDelta: 36 * 64, Priority: 3, DA: 0x02000000000c, MSDU: []byte{8, 0, 0x45}},
			"0029 0102030405060708 fff2 0024 6000 02000000000c 0003 080045"},
		{"beyond what the fields hold", CNM{QOffset: -units.GB, QDelta: units.GB, Fb: 255},
			"003f 0000000000000000 8000 7fff 0000 000000000000 0000"},
		{"units are of 64 bytes, towards 0", CNM{QOffset: -127, QDelta: 127},
			"0000 0000000000000000 ffff 0001 0000 000000000000 0000"},
		{"a long MSDU", CNM{MSDU: bytes.Repeat([]byte{9}, 70)},
			"0000 0000000000000000 0000 0000 0000 000000000000 0040" + strings.Repeat("09", 64)},
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, written(&c.m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// written returns the bytes of a message, written over other bytes.
func written(m *CNM) []byte {
	b := bytes.Repeat([]byte{0xee}, m.Len())
	m.EncodeTo(b)
	return b
}

// TestCNMReadsBack checks that a written message reads back the same, except for the
// flow, with and without padding, and that a copy shares nothing.
func TestCNMReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawCNM(t)
		b := append(written(&want), make([]byte, rapid.IntRange(0, 30).Draw(t, "padding"))...)
		got := CNM{Flow: want.Flow, MSDU: make([]byte, 9)}
		if err := got.Parse(b); err != nil {
			t.Fatal(err)
		}
		got.Flow = want.Flow
		same := func(what string) {
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", what, diff)
			}
		}
		same("read back")
		got.Reset()
		if got.FlowKey() != (packet.FlowKey{}) || got.Len() != pduLen || got.Fb != 0 {
			t.Fatalf("after Reset: %+v", got)
		}
		got.Set(&want)
		if got.FlowKey() != want.Flow {
			t.Fatalf("about %+v", got.FlowKey())
		}
		same("copied")
		if len(got.MSDU) > 0 && &got.MSDU[0] == &want.MSDU[0] {
			t.Fatal("a copy shares its MSDU")
		}
	})
}

func drawCNM(t *rapid.T) CNM {
	blocks := rapid.Int64Range(-1<<15, 1<<15-1)
	return CNM{
		Flow: packet.FlowKey{From: netip.AddrFrom4([4]byte{10, 0, 0, 1}), To: netip.AddrFrom4([4]byte{10, 0, 0, 2}), QP: rapid.Uint32().Draw(t, "QP")},
		Fb:   rapid.Uint8Range(0, MaxFb).Draw(t, "feedback"), Point: rapid.Uint64().Draw(t, "point"),
		QOffset: units.Bytes(blocks.Draw(t, "offset")) * 64, QDelta: units.Bytes(blocks.Draw(t, "delta")) * 64,
		Priority: rapid.Uint8Range(0, 7).Draw(t, "priority"), DA: wire.MAC(rapid.Uint64Range(0, 1<<48-1).Draw(t, "DA")),
		MSDU: rapid.SliceOfN(rapid.Byte(), 0, MaxMSDU).Draw(t, "MSDU"),
	}
}

// TestParseRefuses checks that Parse refuses messages that are truncated or shorter
// than they say.
func TestParseRefuses(t *testing.T) {
	pdu := written(&CNM{Fb: 3, MSDU: make([]byte, 40)})
	var got CNM
	for n := range pdu {
		if err := got.Parse(pdu[:n]); err == nil {
			t.Errorf("%d bytes of %d are taken for a CNM", n, len(pdu))
		}
	}
	for _, c := range []struct {
		length uint16
		want   string
	}{
		{296, "qcn: a CNM claims 296 bytes of a frame: it has 40, and may have 64"},
		{41, "qcn: a CNM claims 41 bytes of a frame: it has 40, and may have 64"},
	} {
		binary.BigEndian.PutUint16(pdu[22:], c.length)
		if err := got.Parse(pdu); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// FuzzParse parses any bytes: nothing panics, and a valid message is written and read
// back unchanged.
func FuzzParse(f *testing.F) {
	for _, m := range []CNM{{Fb: 1}, {Fb: 63, MSDU: make([]byte, 64)}, {QOffset: -64}} {
		f.Add(written(&m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again CNM
		if m.Parse(b) != nil {
			return
		}
		if err := again.Parse(written(&m)); err != nil || !bytes.Equal(written(&m), written(&again)) {
			t.Fatalf("%v\n%+v\n%+v", err, m, again)
		}
	})
}

// TestTsharkReadsCNMs uses weft's dissector: Wireshark has none.
func TestTsharkReadsCNMs(t *testing.T) {
	var frames [][]byte
	var want [][]string
	for i := range 50 {
		m := rapid.Custom(drawCNM).Example(i)
		b := make([]byte, wire.EthernetHeader, wire.EthernetMin)
		wire.MAC(0x02000000000a).EncodeTo(b)
		wire.MAC(0x02000000000b).EncodeTo(b[wire.MACLen:])
		binary.BigEndian.PutUint16(b[12:], EtherTypeCNM)
		b = append(b, written(&m)...)
		b = append(b, make([]byte, max(0, wire.EthernetMin-len(b)))...)
		msdu := ""
		if len(m.MSDU) > 0 {
			msdu = hex.EncodeToString(m.MSDU)
		}
		da := make([]byte, wire.MACLen)
		m.DA.EncodeTo(da)
		frames = append(frames, b)
		want = append(want, []string{
			"0", fmt.Sprint(m.Fb), fmt.Sprintf("0x%016x", m.Point), fmt.Sprint(int64(m.QOffset)), fmt.Sprint(int64(m.QDelta)),
			fmt.Sprint(m.Priority), net.HardwareAddr(da).String(), fmt.Sprint(len(m.MSDU)), msdu,
		})
	}
	got := oracle.Tshark(t, "../../observe/dissector/weft.lua", frames,
		"weft.cnm.version", "weft.cnm.feedback", "weft.cnm.cpid", "weft.cnm.qoffset", "weft.cnm.qdelta",
		"weft.cnm.priority", "weft.cnm.da", "weft.cnm.length", "weft.cnm.msdu")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
