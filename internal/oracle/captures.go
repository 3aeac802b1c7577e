// Package oracle lets tests check frames against code other than weft's: captures
// made by other implementations, tshark, scapy, and an invariant CRC written from
// the specification.
package oracle

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

// Frames returns the frames of a pcap file.
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

// UDP returns the frames of a pcap file that go to a UDP port, as gopacket reads them.
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

// experiment matches tshark's warning about experimental ICMPv6 types, whichever
// dissector reads them.
var experiment = regexp.MustCompile(`Dissector for ICMPv6 Type \(20[01]\) code not implemented, Contact Wireshark developers if you want this supported`)

// Tshark returns the values of fields in each frame. If a frame has a field several
// times, its values are joined by commas. script is a Lua dissector, or empty. The
// test is skipped without tshark, and fails if tshark finds a frame malformed or
// warns about it.
func Tshark(t *testing.T, script string, frames [][]byte, fields ...string) (rows [][]string) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing, the formats were not judged: apt-get install tshark")
	}
	name := filepath.Join(t.TempDir(), "frames.pcap")
	write(t, name, frames)
	args := []string{"-r", name,
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // rdma_rxe sends them
		"--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib", // guessed from any payload
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
