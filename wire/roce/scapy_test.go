package roce

import (
	"bytes"
	"testing"

	"github.com/weftlab/weft/internal/oracle"
)

// TestScapyAgrees: scapy computes the same ICRC for generated packets of all
// opcodes, and for packets that Linux sent.
func TestScapyAgrees(t *testing.T) {
	var frames [][]byte
	add := func(more [][]byte) {
		for _, b := range more {
			frames = append(frames, b[:ethernet+len(whole(b))])
		}
	}
	add(made(t))
	for _, name := range captures {
		add(oracle.UDP(t, name, Port))
	}
	crcs := oracle.ScapyICRC(t, frames)
	for version, name := range map[byte]string{4: "IPv4", 6: "IPv6"} {
		t.Run(name, func(t *testing.T) {
			judged := 0
			for i, b := range frames {
				if b[ethernet]>>4 != version {
					continue
				}
				if crcs[i] == nil && version == 6 {
					t.Skip("this scapy knows no ICRC over IPv6, it was not judged: install scapy 2.6 or later")
				}
				judged++
				if sent := b[len(b)-ICRCLen:]; !bytes.Equal(crcs[i], sent) {
					t.Errorf("%x ends in the ICRC %x, scapy says %x", b, sent, crcs[i])
				}
			}
			if judged < 100 {
				t.Errorf("only %d frames", judged)
			}
		})
	}
}
