package wire

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestPauseFrames checks frames against IEEE 802.3 annexes 31B and 31D.
func TestPauseFrames(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Pause
		want string // up to the padding
	}{
		{"PFC of classes 3 and 7", Pause{Classes: 1<<3 | 1<<7, Quanta: [8]uint16{3: 0xffff, 7: 2}},
			"0180c2000001" + "060000000102" + "8808" + "0101" + "0088" + "000000000000ffff0000000000000002"},
		{"PFC that ends a pause", Pause{Classes: 1},
			"0180c2000001" + "060000000102" + "8808" + "0101" + "0001" + "00000000000000000000000000000000"},
		{"PAUSE", Pause{Global: true, Classes: 0xff, Quanta: [8]uint16{0x1234, 0x1234, 0x1234, 0x1234, 0x1234, 0x1234, 0x1234, 0x1234}},
			"0180c2000001" + "060000000102" + "8808" + "0001" + "1234"},
	} {
		b := make([]byte, PauseFrame)
		c.p.PutFrame(b, 0x060000000102)
		want, _ := hex.DecodeString(c.want)
		want = append(want, make([]byte, PauseFrame-len(want))...)
		if diff := cmp.Diff(want, b); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if got, ok := ParsePause(b); !ok || got != c.p {
			t.Errorf("%s: read back as %+v, %v", c.name, got, ok)
		}
	}
}

// TestParsePauseRefuses: other frames are refused, and no input makes the parser
// read beyond its end.
func TestParsePauseRefuses(t *testing.T) {
	frame := make([]byte, PauseFrame)
	(&Pause{Classes: 1, Quanta: [8]uint16{9}}).PutFrame(frame, 1)
	for n := range 34 {
		if _, ok := ParsePause(frame[:n]); ok {
			t.Errorf("%d bytes of a PFC frame were taken for one", n)
		}
	}
	other := append([]byte(nil), frame...)
	other[15] = 2 // opcode
	if _, ok := ParsePause(other); ok {
		t.Error("another opcode was taken for PFC")
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "frame")
		ParsePause(b)
	})
}
