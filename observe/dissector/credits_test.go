package dissector

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/wire"
)

// TestCredits: a credit frame is shown class by class; Wireshark still dissects PFC, PAUSE and
// other vendors' extensions.
func TestCredits(t *testing.T) {
	credit, pfc, pause := make([]byte, wire.CreditFrame), make([]byte, wire.PauseFrame), make([]byte, wire.PauseFrame)
	(&wire.Credits{Sends: 1 << 3, Grants: 1<<3 | 1<<7, Sent: [8]uint16{3: 1000}, Limit: [8]uint16{3: 1039, 7: 65535}}).PutFrame(credit, 1)
	(&wire.Pause{Classes: 1 << 3, Quanta: [8]uint16{3: 9}}).PutFrame(pfc, 1)
	(&wire.Pause{Global: true, Quanta: [8]uint16{9}}).PutFrame(pause, 1)
	other := append([]byte(nil), credit...)
	other[17]++
	frames := [][]byte{credit, pfc, pause, other}
	got := shark(t, frames, 0, fields("_ws.col.Protocol", "_ws.col.Info", "weft.credits.cid", "weft.credits.sends", "weft.credits.grants", "weft.credits.fctbs", "weft.credits.fccl")...)
	want := []string{
		"Credits|Credits in blocks of 64 B, class 3: sent 1000 may send to 1039; class 7: may send to 65535|0x7a57ef|0x08|0x88|1000|1039,65535",
		"MAC CTRL|Class Based Flow Control [CBFC] Pause|||||",
		"MAC CTRL|Pause: pause_time: 9 quanta|||||",
		"MAC CTRL|Unknown|||||",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
