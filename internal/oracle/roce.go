package oracle

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// RoCEPort is the UDP port of RoCEv2 (IBTA annex A17).
const RoCEPort = 4791

// Frame is a RoCEv2 frame of a capture.
type Frame struct {
	Interface string // where it was seen
	Data      []byte // from the Ethernet header on
	BTH       []byte // of Data, from the base transport header to before the ICRC
}

// Opcode returns the opcode of the base transport header.
func (f *Frame) Opcode() uint8 { return f.BTH[0] }

// PSN returns the packet sequence number.
func (f *Frame) PSN() uint32 { return binary.BigEndian.Uint32(f.BTH[8:]) & 0xffffff }

// QP returns the destination queue pair.
func (f *Frame) QP() uint32 { return binary.BigEndian.Uint32(f.BTH[4:]) & 0xffffff }

// Payload returns the payload without padding, where n bytes of further headers
// follow the base transport header.
func (f *Frame) Payload(n int) []byte { return f.BTH[12+n : len(f.BTH)-int(f.BTH[1]>>4&3)] }

// RoCE returns the RoCEv2 frames of a pcapng file that holds whole frames.
func RoCE(t testing.TB, file string) (all []Frame) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := pcapgo.NewNgReader(in, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, info, err := r.ReadPacketData()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
		udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || udp.DstPort != RoCEPort {
			continue
		}
		if info.CaptureLength != info.Length || len(udp.Payload) < 16 {
			t.Fatalf("a frame of %d bytes, %d of them captured: %x", info.Length, info.CaptureLength, data)
		}
		at, err := r.Interface(info.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Frame{at.Name, data, udp.Payload[:len(udp.Payload)-4]})
	}
}

// ICRC computes the invariant CRC of an Ethernet frame with RoCEv2 in IPv4 or IPv6,
// without a VLAN tag, as IBTA annex A17.3.3 defines it: over 8 bytes of ones and the
// packet from the IP header on, with ones in the fields that routers may change.
func ICRC(frame []byte) uint32 {
	const ethernet, udpLength = 14, 8
	ip := bytes.Clone(frame[ethernet:])
	udp := 20
	if ip[0]>>4 == 4 {
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff // TOS, TTL, checksum
	} else {
		udp = 40
		ip[0], ip[1], ip[2], ip[3], ip[7] = 0x6f, 0xff, 0xff, 0xff, 0xff // traffic class, flow label, hop limit
	}
	ip[udp+6], ip[udp+7] = 0xff, 0xff // UDP checksum
	ip[udp+udpLength+4] = 0xff        // BTH: FECN, BECN, reserved
	return crc32.ChecksumIEEE(append(bytes.Repeat([]byte{0xff}, 8), ip[:len(ip)-4]...))
}

// scapySample is how many frames are checked with scapy, which takes about a
// millisecond for each.
const scapySample = 200

// CheckICRC checks the invariant CRC of every frame against ICRC, and of a sample of
// frames against scapy, where that is installed.
func CheckICRC(t *testing.T, frames []Frame) {
	t.Helper()
	bad := 0
	for i := range frames {
		data := frames[i].Data
		if got, want := binary.LittleEndian.Uint32(data[len(data)-4:]), ICRC(data); got != want {
			if bad++; bad == 1 {
				t.Errorf("frame %d of %d has an ICRC of %08x, want %08x: %x", i+1, len(frames), got, want, data)
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d frames have a wrong ICRC", bad, len(frames))
	}
	checkByScapy(t, frames)
}

func checkByScapy(t *testing.T, frames []Frame) {
	t.Helper()
	if pythonWithScapy() == "" {
		t.Log("NOT TESTED by scapy, which is missing: apt-get install python3-scapy")
		return
	}
	var sample [][]byte
	for i := 0; i < len(frames); i += max(1, len(frames)/scapySample) {
		sample = append(sample, frames[i].Data)
	}
	for i, crc := range ScapyICRC(t, sample) {
		if sent := sample[i][len(sample[i])-4:]; crc != nil && !bytes.Equal(crc, sent) {
			t.Fatalf("scapy has an ICRC of %x for frame %d of the sample, which has %x", crc, i+1, sent)
		}
	}
}

// CheckTshark has tshark dissect a capture. The test fails if tshark finds a RoCE
// frame malformed or warns about it, or if its opcode is not in opcodes. CheckTshark
// returns the number of frames of each opcode.
func CheckTshark(t *testing.T, file string, opcodes ...string) map[string]int {
	t.Helper()
	var stderr bytes.Buffer
	c := exec.Command("tshark", "-r", file, "-Y", "udp.dstport == 4791 && !icmp && !icmpv6", "-o", "ip.check_checksum:TRUE",
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // as rdma_rxe sends them
		"--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib", // guessed from any payload
		"-T", "fields", "-E", "separator=|", "-E", "aggregator=;",
		"-e", "_ws.malformed", "-e", "_ws.expert.message", "-e", "ip.checksum.status", "-e", "infiniband.bth.opcode", "-e", "frame.comment", "-e", "frame.number")
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		malformed, sum, opcode, comment := row[0], row[2], row[3], row[4]
		expert := strings.TrimPrefix(row[1], comment) // tshark reports comments as expert messages
		count[opcode]++
		if malformed != "" || expert != "" || sum == "0" {
			t.Fatalf("tshark says of frame %s: %s", row[5], line)
		}
	}
	known := map[string]bool{}
	for _, o := range opcodes {
		known[o] = true
		if count[o] == 0 {
			t.Errorf("there is no packet of opcode %s in the capture: %v", o, count)
		}
	}
	for o := range count {
		if !known[o] {
			t.Errorf("%d packets of opcode %q are in the capture", count[o], o)
		}
	}
	return count
}
