package wire

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCreditFrame checks the layout that Credits documents, byte by byte.
func TestCreditFrame(t *testing.T) {
	c := Credits{Sends: 1 << 3, Grants: 1<<3 | 1<<5, Sent: [8]uint16{3: 0x0102}, Limit: [8]uint16{3: 0x1122, 5: 0xfffe}}
	want, _ := hex.DecodeString("0180c2000001" + "060000000102" + "8808" + "fffe" + "7a57ef" + "01" + "08" + "28" +
		"00000000" + "00000000" + "00000000" + "01021122" + "00000000" + "0000fffe" + "00000000" + "00000000")
	want = append(want, make([]byte, CreditFrame-len(want))...)
	b := make([]byte, CreditFrame)
	c.PutFrame(b, 0x060000000102)
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, ok := ParseCredits(b); !ok || got != c {
		t.Errorf("read back as %+v, %v", got, ok)
	}
	if _, ok := ParsePause(b); ok {
		t.Error("it passes for a PAUSE")
	}
}

// TestParseCreditsRefuses: truncated frames, and frames with other opcodes, IDs and
// types.
func TestParseCreditsRefuses(t *testing.T) {
	b := make([]byte, CreditFrame)
	(&Credits{Grants: 1}).PutFrame(b, 1)
	for n := range creditCounters + 32 {
		if _, ok := ParseCredits(b[:n]); ok {
			t.Errorf("%d bytes were taken for a frame", n)
		}
	}
	for i := 12; i < 20; i++ {
		other := append([]byte(nil), b...)
		other[i] ^= 0x40
		if _, ok := ParseCredits(other); ok {
			t.Errorf("a frame with another byte %d was taken for one", i)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := Credits{Sends: rapid.Uint8().Draw(t, "sends"), Grants: rapid.Uint8().Draw(t, "grants")}
		for i := range 8 {
			if c.Sends>>i&1 != 0 {
				c.Sent[i] = rapid.Uint16().Draw(t, "sent")
			}
			if c.Grants>>i&1 != 0 {
				c.Limit[i] = rapid.Uint16().Draw(t, "limit")
			}
		}
		c.PutFrame(b, 2)
		if got, ok := ParseCredits(b); !ok || got != c {
			t.Fatalf("%+v was read as %+v, %v", c, got, ok)
		}
	})
}
