// Package judge helps tests to hold frames to others than weft's own code: captures
// that other implementations have made, tshark, scapy, and an invariant CRC that is
// written from the specification.
package judge

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Frames gives the frames of a pcap file.
func Frames(t testing.TB, name string) (all [][]byte) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, _, err := r.ReadPacketData()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
}

// UDP gives the frames of a pcap file that go to a UDP port, as gopacket reads
// them.
func UDP(t testing.TB, name string, port layers.UDPPort) (all [][]byte) {
	t.Helper()
	for _, b := range Frames(t, name) {
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		if u, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && u.DstPort == port {
			all = append(all, b)
		}
	}
	return all
}

// experiment is what tshark says of types of ICMPv6 that are for experiments, whichever
// dissector reads them.
var experiment = regexp.MustCompile(`Dissector for ICMPv6 Type \(20[01]\) code not implemented, Contact Wireshark developers if you want this supported`)

// Tshark gives the values of fields in each frame; one that a frame has several
// times has its values joined by commas. script is a dissector in Lua, or
// empty. The test is skipped without tshark. A frame that tshark finds
// malformed, or has something to warn of, is an error of the test.
func Tshark(t *testing.T, script string, frames [][]byte, fields ...string) (rows [][]string) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing, the formats were not judged: apt-get install tshark")
	}
	name := filepath.Join(t.TempDir(), "frames.pcap")
	write(t, name, frames)
	args := []string{"-r", name,
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // rdma_rxe sends them
		"--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib", // they are guessed at from any payload
		"-T", "fields", "-E", "separator=|", "-e", "_ws.malformed", "-e", "_ws.expert.message"}
	if script != "" {
		args = append(args, "-X", "lua_script:"+script)
	}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	var out, complaints bytes.Buffer
	cmd := exec.Command("tshark", args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("tshark: %v\n%s", err, &complaints)
	}
	if strings.Contains(complaints.String(), "Lua") {
		t.Errorf("tshark says:\n%s", &complaints)
	}
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		row := strings.Split(line, "|")
		row[1] = experiment.ReplaceAllString(row[1], "")
		if row[0] != "" || row[1] != "" {
			t.Errorf("tshark says of frame %d, %.100x: %q %q", i, frames[i], row[0], row[1])
		}
		rows = append(rows, row[2:])
	}
	if len(rows) != len(frames) {
		t.Fatalf("tshark shows %d of %d frames", len(rows), len(frames))
	}
	return rows
}

func write(t *testing.T, name string, frames [][]byte) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, b := range frames {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(0, 0), CaptureLength: len(b), Length: len(b)}, b); err != nil {
			t.Fatal(err)
		}
	}
}
