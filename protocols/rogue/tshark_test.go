package rogue

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/sim/units"
)

// datagram returns a frame with a RoCEv2 datagram for a queue key.
func datagram(t *testing.T, key uint32, message []byte) []byte {
	t.Helper()
	head := make([]byte, 20)
	head[0] = 0x64
	binary.BigEndian.PutUint32(head[12:], key)
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
	udp := &layers.UDP{SrcPort: 50000, DstPort: 4791}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: layers.EthernetTypeIPv4},
		ip, udp, gopacket.Payload(append(append(head, message...), 0, 0, 0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTshark: the dissector shows each kind of message with its fields, and ignores
// other datagrams.
func TestTshark(t *testing.T) {
	var frames [][]byte
	for _, m := range []Message{
		{Kind: Resync, From: 1, To: 2, Epoch: 3, Other: 4, PSN: 5, Received: 6},
		{Kind: ResyncReply, From: 2, To: 1, Epoch: 3, Other: 7, PSN: 8, Received: 9},
		{Kind: ResyncDone, From: 1, To: 2, Epoch: 3},
		{Kind: ReadLimit, From: 1, To: 2, Limit: 3 * units.Mbps},
		{Kind: Hello, From: 1, To: 2, Epoch: 10, Other: 11, PSN: 12, Echoes: 13},
		{Kind: HelloReply, From: 2, To: 1, Epoch: 10, Other: 14, PSN: 15, Echoes: 16},
	} {
		frames = append(frames, datagram(t, QKey, m.Append(nil)))
	}
	frames = append(frames, datagram(t, QKey+1, (&Message{Kind: Hello}).Append(nil)), datagram(t, QKey, make([]byte, MessageLen)))
	fields := []string{"rogue.kind", "rogue.from", "rogue.to", "rogue.epoch", "rogue.nonce", "rogue.other", "rogue.psn", "rogue.received", "rogue.echoes", "rogue.limit", "_ws.col.Info"}
	want := []string{
		"1|0x000001|0x000002|3||0x000004|5|6|||RoGUE resync QP=0x000001 to QP=0x000002 other=0x000004 PSN=5",
		"2|0x000002|0x000001|3||0x000007|8|9|||RoGUE resync reply QP=0x000002 to QP=0x000001 other=0x000007 PSN=8",
		"3|0x000001|0x000002|3|||||||RoGUE resync done QP=0x000001 to QP=0x000002",
		"4|0x000001|0x000002|||||||3000|RoGUE READ limit QP=0x000001 to QP=0x000002 limit=3000 kb/s",
		"5|0x000001|0x000002||0x0000000a|0x00000b|12||0x00000d||RoGUE hello QP=0x000001 to QP=0x000002 other=0x00000b PSN=12",
		"6|0x000002|0x000001||0x0000000a|0x00000e|15||0x000010||RoGUE hello reply QP=0x000002 to QP=0x000001 other=0x00000e PSN=15",
	}
	rows := oracle.Tshark(t, "rogue.lua", frames, fields...)
	for i, row := range rows {
		got := strings.Join(row, "|")
		if i < len(want) {
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("message %d (-want +got):\n%s", i, diff)
			}
		} else if row[0] != "" || strings.Contains(got, "RoGUE") {
			t.Errorf("datagram %d is shown as %s", i, got)
		}
	}
	if len(rows) != len(frames) {
		t.Errorf("%d rows of %d frames", len(rows), len(frames))
	}
}
