package capture

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/sim/units"
)

func needTcpdump(t *testing.T) {
	t.Helper()
	if _, err := findTcpdump(); err != nil {
		t.Skipf("tcpdump is missing, filters were not tested: apt-get install tcpdump")
	}
}

// frames are packets of several kinds.
func frames(t testing.TB) (list [][]byte) {
	t.Helper()
	eth := layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}}
	add := func(l ...gopacket.SerializableLayer) {
		b := gopacket.NewSerializeBuffer()
		must(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, l...))
		list = append(list, bytes.Clone(b.Bytes()))
	}
	for i := range 40 {
		eth.EthernetType = layers.EthernetTypeIPv4
		ip := layers.IPv4{Version: 4, TTL: 64, TOS: uint8(i % 4), SrcIP: []byte{10, 0, 0, byte(i)}, DstIP: []byte{10, 0, 1, 1}}
		payload := gopacket.Payload(make([]byte, 10*i))
		ip.Protocol = layers.IPProtocolTCP
		tcp := layers.TCP{SrcPort: 40000, DstPort: layers.TCPPort(79 + i%3), SYN: i%2 == 0, ACK: i%3 == 0}
		add(&eth, &ip, &tcp, payload)
		ip.Protocol = layers.IPProtocolUDP
		udp := layers.UDP{SrcPort: 5000, DstPort: 4791}
		add(&eth, &ip, &udp, payload)
		eth.EthernetType = layers.EthernetTypeDot1Q
		add(&eth, &layers.Dot1Q{VLANIdentifier: uint16(i), Type: layers.EthernetTypeIPv4}, &ip, &udp, payload)
		eth.EthernetType = layers.EthernetTypeIPv6
		add(&eth, &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolTCP, HopLimit: 9, SrcIP: make([]byte, 16), DstIP: make([]byte, 16)}, &tcp, payload)
		add([]gopacket.SerializableLayer{gopacket.Payload(make([]byte, i))}...)
	}
	return list
}

// runFrames captures the frames into a file.
func runFrames(t *testing.T, o Options) (file string, sum Summary) {
	t.Helper()
	o.Interfaces = ports(2)
	c, err := New(o)
	must(t, err)
	for i, f := range frames(t) {
		c.Tap().PutPacket(Packet{At: units.Time(i) * units.Microsecond, Port: int32(i % 2), Dir: In, Data: f})
	}
	c.Close()
	file = filepath.Join(t.TempDir(), "f.pcapng")
	out, err := os.Create(file)
	must(t, err)
	defer out.Close()
	sum, err = c.Run(context.Background(), out)
	must(t, err)
	return file, sum
}

// A capture with a filter writes what tcpdump selects from a full capture with the same filter.
func TestFilter_AgreesWithTcpdump(t *testing.T) {
	needTcpdump(t)
	all, sum := runFrames(t, Options{})
	for _, expr := range []string{
		"tcp", "tcp port 80", "udp port 4791 and greater 200", "ip6", "vlan 7", "vlan and udp", "not ip", " ",
		"src net 10.0.0.0/28", "tcp[tcpflags] & tcp-syn != 0", "ip[1] & 3 = 3", "ether broadcast", "len % 3 = 1",
		"ip host 10.0.0.5 or (tcp and dst port 79)", "tcp[((tcp[12] & 0xf0) >> 2):4] = 0", "icmp6", "ip[2:2] - 20 > 100",
	} {
		out, err := exec.Command("tcpdump", "-r", all, "-w", "-", "--", expr).Output()
		must(t, err)
		want := len(out) - 24 // bytes of packets, with a 16-byte header each
		name, got := runFrames(t, Options{Filter: expr})
		file, err := os.Open(name)
		must(t, err)
		list, _ := readAll(t, file)
		file.Close()
		n := 0
		for _, p := range list {
			n += 16 + len(p.Data)
		}
		if n != want {
			t.Errorf("%q: %d bytes of packets, tcpdump takes %d", expr, n, want)
		}
		if got.Seen != sum.Seen || got.Seen != got.Filtered+got.Written {
			t.Errorf("%q: %+v of %d", expr, got, sum.Seen)
		}
	}
}

// The filter sees bytes beyond the snap length, and
// the original length.
func TestFilter_SeesWholePackets(t *testing.T) {
	needTcpdump(t)
	_, whole := runFrames(t, Options{Filter: "tcp port 80 and greater 100"})
	_, cut := runFrames(t, Options{Filter: "tcp port 80 and greater 100", SnapLen: 14})
	if whole != cut || whole.Written == 0 || whole.Filtered == 0 {
		t.Errorf("%+v of whole packets, %+v of cut ones", whole, cut)
	}
}

func TestFilter_ExplainsItsErrors(t *testing.T) {
	needTcpdump(t)
	for expr, want := range map[string]string{
		"tcp prot 80":          `capture filter "tcp prot 80": can't parse filter expression: syntax error`,
		"-i lo":                "syntax error",
		"--version":            "syntax error",
		"-w/tmp/x":             "syntax error",
		"$(id)":                "syntax error",
		"inbound":              "inbound/outbound not supported",
		"ip6 protochain 6":     "not supported here",
		"-ip[0] = 1":           "the instruction neg",
		"ip[0] = -ip[1]":       "not supported here",
		"tcp\x00":              "invalid argument",
		"vlan 5000":            "5000",
		"host 10.0.0.256":      "10.0.0.256",
		"ether host 1:2:3:4:5": "1:2:3:4:5",
	} {
		_, err := New(Options{Interfaces: ports(1), Filter: expr})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error that says %q", expr, err, want)
		}
	}
	t.Setenv("PATH", "")
	if _, err := os.Stat("/usr/sbin/tcpdump"); err == nil {
		t.Skip("tcpdump is in /usr/sbin, its absence was not tested")
	}
	_, err := New(Options{Interfaces: ports(1), Filter: "tcp"})
	if err == nil || err.Error() != "a capture filter needs tcpdump: apt-get install tcpdump" {
		t.Errorf("without tcpdump: %v", err)
	}
}

func BenchmarkFilter(b *testing.B) {
	f, err := newFilter("tcp port 80")
	must(b, err)
	list := frames(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.acceptsFrame(list[i%len(list)])
	}
}
