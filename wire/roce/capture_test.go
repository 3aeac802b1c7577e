package roce

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/internal/oracle"
)

// The captures are of two virtual machines with Linux 6.1's rdma_rxe, cabled
// back to back: `rping -C 10`, and ping-pongs over RC, UC and UD with longer
// messages, one of them with a connection of rdma_cm. All RoCE in them is over
// IPv4.
var captures = []string{"testdata/rping.pcap", "testdata/pingpong.pcap"}

const ethernet = 14 // bytes before the IP header in the tests' frames

// TestCapturesRoundTrip decodes packets that Linux sent and encodes them to the
// same bytes, including the ICRC, with Packet and with gopacket's layers.
func TestCapturesRoundTrip(t *testing.T) {
	counts := []int{}
	for _, name := range captures {
		all := oracle.UDP(t, name, Port)
		counts = append(counts, len(all))
		for i, b := range all {
			ip := b[ethernet:]
			var p Packet
			if err := p.DecodeIP(ip); err != nil || p.Truncated || p.Extensions != p.BTH.Opcode.Extensions() {
				t.Fatalf("%s: packet %d: %v, %+v", name, i, err, p)
			}
			if err := CheckICRC(ip); err != nil {
				t.Errorf("%s: packet %d: %v", name, i, err)
			}
			again := bytes.Clone(b)
			clear(again[len(b)-p.Len():])
			if n := p.Put(again[len(b)-p.Len():]); n != p.Len() {
				t.Errorf("%s: packet %d: %d bytes put, of %d", name, i, n, p.Len())
			}
			if err := PutICRC(again[ethernet:]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b, again); diff != "" {
				t.Errorf("%s: packet %d, a %v (-was +made):\n%s", name, i, p.BTH.Opcode, diff)
			}
			if diff := cmp.Diff(b, relayer(t, b)); diff != "" {
				t.Errorf("%s: packet %d, a %v (-was +made of its layers):\n%s", name, i, p.BTH.Opcode, diff)
			}
			for _, at := range []int{ethernet + 12, ethernet + 21, ethernet + 34, len(b) - 5, len(b) - 1} {
				again[at] ^= 4
				if err := CheckICRC(again[ethernet:]); err != ErrICRC {
					t.Errorf("%s: packet %d with a flipped bit in byte %d: %v", name, i, at, err)
				}
				again[at] ^= 4
			}
		}
	}
	if diff := cmp.Diff([]int{125, 180}, counts); diff != "" {
		t.Errorf("RoCE packets in the captures (-want +got):\n%s", diff)
	}
}

// relayer parses a frame with gopacket and serializes its layers, with lengths
// and recomputed checksums.
func relayer(t testing.TB, frame []byte) []byte {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("%x: %v", frame, e.Error())
	}
	var all []gopacket.SerializableLayer
	for _, l := range p.Layers() {
		if s, ok := l.(gopacket.SerializableLayer); ok {
			all = append(all, s)
		} else {
			t.Fatalf("%v cannot be serialized", l.LayerType())
		}
		if l, ok := l.(*ICRCLayer); ok {
			l.Value = 0 // must be computed
		}
	}
	buffer := gopacket.NewSerializeBuffer()
	if err := SerializePacket(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}
