package tuntap

import (
	"testing"

	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/wire"
)

// FuzzTUN: no frame from the fabric makes a TUN panic or send an unsolicited answer:
// there is at most one answer, a frame from the TUN's MAC.
func FuzzTUN(f *testing.F) {
	f.Add(build(f, ethernet(peerMAC, wire.Broadcast, layers.EthernetTypeARP), arpRequest(host4)))
	f.Add(solicitation(f, peer6, host6, 255))
	f.Add(append(build(f, ethernet(peerMAC, hostMAC, layers.EthernetTypeIPv4)), ipTo(f, "10.0.0.9")...))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < wire.EthernetHeader || len(frame) > packet.MaxFrame {
			return
		}
		tun, k := newTestTUN(t)
		deliver(tun, k, frame)
		if len(k.entered) > 1 || uint64(len(k.entered)) != tun.AnsweredRequests() {
			t.Fatalf("%d frames entered, %d answered", len(k.entered), tun.AnsweredRequests())
		}
		for _, e := range k.entered {
			if wire.ReadMAC(e[6:]) != hostMAC {
				t.Errorf("an answer from %x", wire.ReadMAC(e[6:]))
			}
		}
	})
}
