package dissector

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/observe/pcapng"
	"github.com/weftlab/weft/protocols/cm"
)

const cnpOpcode, sendOnly, writeOnly = 0x81, 0x04, 0x0a

// frame serialises layers with their lengths set and keeps only the first
// bytes; 0 keeps all.
func frame(t *testing.T, keep int, l ...gopacket.SerializableLayer) []byte {
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, l...); err != nil {
		t.Fatal(err)
	}
	if keep == 0 {
		return b.Bytes()
	}
	return b.Bytes()[:keep]
}

var (
	macA, macB = net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	eth4       = &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: layers.EthernetTypeIPv4}
	eth6       = &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: layers.EthernetTypeIPv6}
)

func ip4(proto layers.IPProtocol, dscp uint8) *layers.IPv4 {
	return &layers.IPv4{Version: 4, IHL: 5, TOS: dscp << 2, TTL: 64, Protocol: proto, SrcIP: net.IP{10, 0, 0, 1}, DstIP: net.IP{10, 0, 0, 2}}
}

func ip6(dscp uint8) *layers.IPv6 {
	return &layers.IPv6{Version: 6, TrafficClass: dscp << 2, NextHeader: layers.IPProtocolUDP, HopLimit: 64, SrcIP: net.ParseIP("fd00::1"), DstIP: net.ParseIP("fd00::2")}
}

func udp(port layers.UDPPort, over gopacket.NetworkLayer) *layers.UDP {
	u := &layers.UDP{SrcPort: 49152, DstPort: port}
	if err := u.SetNetworkLayerForChecksum(over); err != nil {
		panic(err)
	}
	return u
}

// udp4 returns a UDP datagram over IPv4 with n bytes of payload.
func udp4(t *testing.T, n, keep int, dscp uint8) []byte {
	ip := ip4(layers.IPProtocolUDP, dscp)
	return frame(t, keep, eth4, ip, udp(5000, ip), gopacket.Payload(make([]byte, n)))
}

// roce returns a RoCEv2 packet. bits is the byte with FECN and BECN.
func roce(t *testing.T, keep int, opcode, bits uint8, qp, psn uint32, rest ...byte) []byte {
	bth := []byte{opcode, 0, 0xff, 0xff, bits, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(bth[4:], uint32(bits)<<24|qp)
	binary.BigEndian.PutUint32(bth[8:], psn)
	ip := ip4(layers.IPProtocolUDP, 26)
	return frame(t, keep, eth4, ip, udp(4791, ip), gopacket.Payload(append(bth, rest...)))
}

// shark returns the output of tshark for frames, one line each. Odd frames
// carry a comment.
func shark(t *testing.T, frames [][]byte, snap int, args ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing, the dissector was not judged: apt-get install tshark")
	}
	var file, complaints bytes.Buffer
	w, err := pcapng.NewWriter(&file, pcapng.Section{})
	must(t, err)
	id, err := w.AddInterface(pcapng.Interface{Name: "s1:1"})
	must(t, err)
	for i, f := range frames {
		p := pcapng.Packet{At: int64(i), Data: f, Length: len(f)}
		if snap > 0 && len(f) > snap {
			p.Data = f[:snap]
		}
		if i%2 == 1 {
			p.Comment = fmt.Sprint("comment ", i)
		}
		must(t, w.WritePacket(id, p))
	}
	must(t, w.Flush())
	lua := filepath.Join(t.TempDir(), "weft.lua")
	must(t, os.WriteFile(lua, Lua(), 0o600))
	name := filepath.Join(t.TempDir(), "frames.pcapng") // two passes need a file
	must(t, os.WriteFile(name, file.Bytes(), 0o600))
	cmd := exec.Command("tshark", append([]string{"-X", "lua_script:" + lua, "-r", name}, args...)...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &complaints)
	}
	if s := complaints.String(); strings.Contains(s, "Lua") || strings.Contains(s, ".lua") {
		t.Errorf("tshark says:\n%s", s)
	}
	if s := string(out); strings.Contains(s, "Lua Error") {
		t.Errorf("tshark says:\n%s", s)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fields(names ...string) []string {
	args := []string{"-T", "fields", "-E", "separator=|"}
	for _, n := range names {
		args = append(args, "-e", n)
	}
	return args
}

func TestTrimmed(t *testing.T) {
	ip := ip6(26)
	tcp := &layers.TCP{SrcPort: 5001, DstPort: 5002, ACK: true, DataOffset: 5}
	over := ip4(layers.IPProtocolTCP, 0)
	must(t, tcp.SetNetworkLayerForChecksum(over))
	arp := &layers.ARP{AddrType: 1, Protocol: 0x800, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
		SourceHwAddress: macA, SourceProtAddress: net.IP{10, 0, 0, 1}, DstHwAddress: make([]byte, 6), DstProtAddress: net.IP{10, 0, 0, 2}}
	vlan := &layers.Dot1Q{VLANIdentifier: 7, Type: layers.EthernetTypeIPv4}
	ethVLAN := &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: layers.EthernetTypeDot1Q}
	inner := ip4(layers.IPProtocolUDP, 0)
	quote := frame(t, 28, inner, udp(5000, inner), gopacket.Payload(make([]byte, 500)))
	icmp := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 3)}
	frames := [][]byte{
		udp4(t, 1000, 0, 0),
		udp4(t, 1000, 66, 26),
		udp4(t, 1000, 0, 48), // complete, with the DSCP of trimmed packets
		frame(t, 78, eth6, ip, udp(5000, ip), gopacket.Payload(make([]byte, 1000))),
		frame(t, 0, eth6, ip, udp(5000, ip), gopacket.Payload(make([]byte, 1000))),
		roce(t, 70, writeOnly, 0, 0x12, 7, make([]byte, 1044)...),
		roce(t, 46, sendOnly, 0, 0x12, 7, make([]byte, 1028)...), // within the BTH
		frame(t, 58, eth4, over, tcp, gopacket.Payload(make([]byte, 1000))),
		frame(t, 0, eth4, over, tcp, gopacket.Payload(make([]byte, 1000))),
		frame(t, 70, ethVLAN, vlan, inner, udp(5000, inner), gopacket.Payload(make([]byte, 1000))),
		frame(t, 0, eth4, ip4(layers.IPProtocolICMPv4, 0), icmp, gopacket.Payload(quote)), // quotes part of a packet
		append(udp4(t, 2, 0, 0), make([]byte, 16)...),                                     // padded
		frame(t, 0, &layers.Ethernet{SrcMAC: macA, DstMAC: macB, EthernetType: layers.EthernetTypeARP}, arp),
	}
	type row struct{ trimmed, kept, original string }
	none := row{}
	want := []row{
		none,
		{"1", "66", "1042"},
		none,
		{"1", "78", "1062"},
		none,
		{"1", "70", "1098"},
		{"1", "46", "1082"},
		{"1", "58", "1054"},
		none,
		{"1", "70", "1046"},
		none,
		none,
		none,
	}
	names := fields("weft.trimmed", "weft.trimmed.kept", "weft.trimmed.original_length", "frame.comment", "_ws.col.Info")
	for _, c := range []struct {
		name string
		snap int
		args []string
		dscp row // of the complete packet with the DSCP of trimmed ones
	}{
		{name: "whole capture"},
		{name: "with a snap length", snap: 44}, // what the capture cut off was not trimmed
		{name: "by DSCP", args: []string{"-o", "weft.trimmed_dscp:48"}, dscp: row{"1", "1042", ""}},
		{name: "two passes", args: []string{"-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := append([]row{}, want...)
			want[2] = c.dscp
			var got []row
			for i, line := range shark(t, frames, c.snap, append(c.args, names...)...) {
				v := strings.SplitN(line, "|", 5)
				r := row{v[0], v[1], v[2]}
				got = append(got, r)
				if comment := fmt.Sprint("comment ", i); i%2 == 1 && v[3] != comment {
					t.Errorf("packet %d has the comment %q, want %q", i, v[3], comment)
				}
				note := fmt.Sprintf("[Trimmed: %s of %s bytes]", r.kept, r.original)
				if r.original == "" {
					note = fmt.Sprintf("[Trimmed: %s bytes, original length unknown]", r.kept)
				}
				if trimmed := r.trimmed == "1"; strings.Contains(v[4], "Trimmed") != trimmed || trimmed && !strings.HasSuffix(v[4], note) {
					t.Errorf("packet %d: info %q", i, v[4])
				}
				if strings.Contains(v[4], "Malformed") || strings.Contains(v[4], "BAD UDP") {
					t.Errorf("packet %d: info %q", i, v[4])
				}
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("filter", func(t *testing.T) {
		got := shark(t, frames, 0, append([]string{"-Y", "weft.trimmed && weft.trimmed.original_length > 1060 && weft.trimmed.kept < 78"}, fields("frame.number")...)...)
		if diff := cmp.Diff([]string{"6", "7"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("tree", func(t *testing.T) {
		text := strings.Join(shark(t, frames[1:2], 0, "-V"), "\n")
		for _, want := range []string{"\nTrimmed: 66 of 1042 bytes\n", "[Kept: 66 bytes]", "[Original length: 1042 bytes]", "Source Port: 49152"} {
			if !strings.Contains(text, want) {
				t.Errorf("the tree lacks %q:\n%s", want, text)
			}
		}
	})
}

// TestRoCE: the last four bytes of the notification are its ICRC.
func TestRoCE(t *testing.T) {
	frames := [][]byte{
		roce(t, 0, cnpOpcode, 0x40, 0x1234, 0, append(make([]byte, 16), 0x82, 0xfd, 0x00, 0x2a)...),
		roce(t, 0, sendOnly, 0x80, 0x12, 9, make([]byte, 68)...),
		roce(t, 0, sendOnly, 0x00, 0x12, 10, make([]byte, 68)...),
		roce(t, 47, cnpOpcode, 0x40, 0x1234, 0, make([]byte, 20)...), // up to the bits, included
		roce(t, 46, cnpOpcode, 0x40, 0x1234, 0, make([]byte, 20)...), // without the bits
		udp4(t, 100, 0, 0),
	}
	got := shark(t, frames, 0, fields("weft.cnp", "weft.cnp.opcode", "weft.cnp.destqp", "weft.cnp.psn", "weft.cnp.reserved", "weft.cnp.icrc",
		"weft.bth.fecn", "weft.bth.becn", "weft.trimmed", "infiniband.bth.psn", "frame.comment")...)
	want := []string{
		"1|0x81|0x001234|0|" + strings.Repeat("00", 16) + "|0x82fd002a|0|1||0|",
		"||||||1|0||9|comment 1",
		"||||||0|0||10|",
		"1|0x81|||||0|1|1||comment 3",
		"||||||||1||",
		"||||||||||comment 5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info := shark(t, frames, 0, "-T", "fields", "-e", "_ws.col.Info")
	if !strings.HasPrefix(info[0], "CNP QP=0x001234") {
		t.Errorf("the notification is shown as %q", info[0])
	}
	if !strings.HasPrefix(info[1], "RC Send Only QP=0x000012") || strings.Contains(info[1], "Trimmed") {
		t.Errorf("a packet is shown as %q", info[1])
	}
	if lines := shark(t, frames, 0, "-Y", "weft.cnp && weft.bth.becn == 1 && !weft.trimmed"); len(lines) != 1 {
		t.Errorf("a filter finds %q", lines)
	}
}

// TestNAKs: the info column distinguishes RNR NAKs, other NAKs and ACKs.
func TestNAKs(t *testing.T) {
	const ack, readResponse = 0x11, 0x10
	acknowledge := func(opcode, syndrome uint8) []byte {
		return roce(t, 0, opcode, 0, 0x12, 9, syndrome, 0, 0, 7, 1, 2, 3, 4)
	}
	frames := [][]byte{
		acknowledge(ack, 0x1f), acknowledge(ack, 0x60), acknowledge(ack, 0x20), acknowledge(ack, 0x2c), acknowledge(ack, 0x3f),
		acknowledge(ack, 0x40), acknowledge(readResponse, 0x2c),
		roce(t, 54, ack, 0, 0x12, 9, make([]byte, 8)...),        // cut off after the BTH
		roce(t, 55, ack, 0, 0x12, 9, 0x2c, 0, 0, 0, 0, 0, 0, 0), // after the syndrome
	}
	want := []string{
		"", "[PSN Sequence Error]", "[RNR NAK: 655.36 ms]", "[RNR NAK: 0.64 ms]", "[RNR NAK: 491.52 ms]", "", "",
		"[Trimmed: 54 of 62 bytes]", "[RNR NAK: 0.64 ms] [Trimmed: 55 of 62 bytes]",
	}
	for i, line := range shark(t, frames, 0, fields("_ws.col.Info")...) {
		if _, got, _ := strings.Cut(line, "QP=0x000012"); strings.TrimSpace(got) != want[i] {
			t.Errorf("packet %d: info %q, want %q", i, line, want[i])
		}
	}
}

// TestConnectionManagement: fields that Wireshark lacks or misreads have the values
// that were written.
func TestConnectionManagement(t *testing.T) {
	path := cm.Path{LocalLID: cm.PermissiveLID, RemoteLID: cm.PermissiveLID, FlowLabel: 0x9b916, Rate: 0x15, HopLimit: 64}
	for _, c := range []struct {
		m      cm.Message
		info   string            // at its end
		fields map[string]string // all others are empty
	}{
		{&cm.REQ{Service: cm.IPService(cm.ProtocolTCP, 7174), Primary: path}, "CM: ConnectRequest", map[string]string{
			"weft.cm.req": "1", "weft.cm.req.prim_flowlabel": "0x09b916", "weft.cm.req.prim_pktrate": "0x15"}},
		{&cm.REQ{Primary: path, Alternate: cm.Path{LocalLID: 1, FlowLabel: 0xfffff, Rate: 0x3f}}, "CM: ConnectRequest", map[string]string{
			"weft.cm.req": "1", "weft.cm.req.prim_flowlabel": "0x09b916", "weft.cm.req.prim_pktrate": "0x15",
			"weft.cm.req.alt_flowlabel": "0x0fffff", "weft.cm.req.alt_pktrate": "0x3f"}},
		{&cm.MRA{LocalID: 7, RemoteID: 0xfffffff0, Subject: cm.SubjectREP, ServiceTimeout: 20, PrivateData: [cm.MRAPrivateLen]byte{0xab, cm.MRAPrivateLen - 1: 0xcd}},
			"CM: MsgRcptAck [REP within 4294.97 ms]", map[string]string{
				"weft.cm.mra": "1", "weft.cm.mra.localcommid": "0x00000007", "weft.cm.mra.remotecommid": "0xfffffff0", "weft.cm.mra.message": "1",
				"weft.cm.mra.timeout": "20", "weft.cm.mra.private": "ab" + strings.Repeat("00", cm.MRAPrivateLen-2) + "cd"}},
		{&cm.REJ{Subject: cm.SubjectOther, Reason: cm.ReasonTimeout}, "CM: ConnectReject [timeout]", map[string]string{
			"weft.cm.rej": "1", "weft.cm.rej.message": "2", "weft.cm.rej.reason": "4"}},
		{&cm.REJ{Reason: 34}, "CM: ConnectReject [reason 34]", map[string]string{"weft.cm.rej": "1", "weft.cm.rej.message": "0", "weft.cm.rej.reason": "34"}},
		{&cm.SIDRREQ{RequestID: 5, PKey: 0xffff, Service: cm.IPService(cm.ProtocolUDP, 7174), PrivateData: [cm.SIDRREQPrivateLen]byte{cm.SIDRREQPrivateLen - 1: 1}},
			"CM: ServiceIDResReq", map[string]string{
				"weft.cm.sidr_req": "1", "weft.cm.sidr.requestid": "0x00000005", "weft.cm.sidr.pkey": "0xffff", "weft.cm.sidr.serviceid": "0x0000000001111c06",
				"weft.cm.sidr.private": strings.Repeat("00", cm.SIDRREQPrivateLen-1) + "01"}},
		{&cm.SIDRREP{RequestID: 5, QPN: 0x37, QKey: 0x1234567, Service: 9, PrivateData: [cm.SIDRREPPrivateLen]byte{2}}, "CM: ServiceIDResReqResp [QP=0x000037]", map[string]string{
			"weft.cm.sidr_rep": "1", "weft.cm.sidr.requestid": "0x00000005", "weft.cm.sidr.status": "0", "weft.cm.sidr.qpn": "0x000037", "weft.cm.sidr.qkey": "0x01234567",
			"weft.cm.sidr.serviceid": "0x0000000000000009", "weft.cm.sidr.private": "02" + strings.Repeat("00", cm.SIDRREPPrivateLen-1)}},
		{&cm.SIDRREP{Status: cm.SIDRUnsupported}, "CM: ServiceIDResReqResp [service ID not supported]", map[string]string{
			"weft.cm.sidr_rep": "1", "weft.cm.sidr.requestid": "0x00000000", "weft.cm.sidr.status": "1", "weft.cm.sidr.qpn": "0x000000", "weft.cm.sidr.qkey": "0x00000000",
			"weft.cm.sidr.serviceid": "0x0000000000000000", "weft.cm.sidr.private": strings.Repeat("00", cm.SIDRREPPrivateLen)}},
		{&cm.REP{}, "CM: ConnectReply", nil},
		{&cm.RTU{}, "CM: ReadyToUse", nil},
		{&cm.DREQ{}, "CM: DisconnectRequest", nil},
	} {
		mad := make([]byte, cm.MADLen)
		cm.PutMAD(mad, 1, c.m)
		datagram := append([]byte{0x80, 1, 0, 0, 0, 0, 0, 1}, mad...) // DETH
		whole := roce(t, 0, 0x64, 0, 1, 9, append(datagram, 0, 0, 0, 0)...)
		frames := [][]byte{
			whole,
			roce(t, 0, 0x64, 0, 2, 9, append(datagram, 0, 0, 0, 0)...), // for another queue pair
			whole[:len(whole)-5], // trimmed
		}
		names := append([]string{"_ws.col.Source", "_ws.col.Info"}, cmFields...)
		lines := shark(t, frames, 0, fields(names...)...)
		got := strings.Split(lines[0], "|")
		if got[0] != "10.0.0.1" || got[1] != c.info {
			t.Errorf("%v: source %q, info %q, want %q", c.m.Attribute(), got[0], got[1], c.info)
		}
		for i, n := range cmFields {
			if got[2+i] != c.fields[n] {
				t.Errorf("%v: %s is %q, want %q", c.m.Attribute(), n, got[2+i], c.fields[n])
			}
		}
		for _, other := range lines[1:] {
			if v := strings.SplitN(other, "|", 3); v[2] != strings.Repeat("|", len(cmFields)-1) {
				t.Errorf("%v that is none: %q", c.m.Attribute(), other)
			}
		}
	}
}

// cmFields are the dissector's fields of connection management.
var cmFields = strings.Fields(`weft.cm.req weft.cm.req.prim_flowlabel weft.cm.req.prim_pktrate weft.cm.req.alt_flowlabel weft.cm.req.alt_pktrate
	weft.cm.mra weft.cm.mra.localcommid weft.cm.mra.remotecommid weft.cm.mra.message weft.cm.mra.timeout weft.cm.mra.private
	weft.cm.rej weft.cm.rej.message weft.cm.rej.reason
	weft.cm.sidr_req weft.cm.sidr_rep weft.cm.sidr.requestid weft.cm.sidr.pkey weft.cm.sidr.serviceid weft.cm.sidr.status weft.cm.sidr.qpn
	weft.cm.sidr.qkey weft.cm.sidr.private`)

// TestReasons: the dissector names the reasons of a REJ as package cm does.
func TestReasons(t *testing.T) {
	var frames [][]byte
	for r := range cm.Reason(36) {
		mad := make([]byte, cm.MADLen)
		cm.PutMAD(mad, 1, &cm.REJ{Reason: r})
		frames = append(frames, roce(t, 0, 0x64, 0, 1, 9, append(append([]byte{0x80, 1, 0, 0, 0, 0, 0, 1}, mad...), 0, 0, 0, 0)...))
	}
	for i, info := range shark(t, frames, 0, "-T", "fields", "-e", "_ws.col.Info") {
		if want := fmt.Sprintf("CM: ConnectReject [%v]", cm.Reason(i)); info != want {
			t.Errorf("%q, want %q", info, want)
		}
	}
}

// TestOrdinaryPacketsAreLeftAlone: tshark prints the same with and without the
// dissector.
func TestOrdinaryPacketsAreLeftAlone(t *testing.T) {
	ip := ip6(0)
	fragment := ip4(layers.IPProtocolUDP, 0)
	fragment.Flags = layers.IPv4MoreFragments
	frames := [][]byte{
		udp4(t, 0, 0, 0),
		udp4(t, 1400, 0, 46),
		frame(t, 0, eth6, ip, udp(53, ip), gopacket.Payload(make([]byte, 40))),
		frame(t, 0, eth4, fragment, udp(4791, fragment), gopacket.Payload(make([]byte, 16))),
		make([]byte, 60),
		make([]byte, 10),
	}
	with := shark(t, frames, 0, "-V")
	without := shark(t, frames, 0, "-V", "--disable-protocol", "weft")
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
}
