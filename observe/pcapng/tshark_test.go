package pcapng

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runWireshark runs one of Wireshark's tools on the sample file.
func runWireshark(t *testing.T, tool, pkg string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("%s is missing, nothing was judged: apt-get install %s", tool, pkg)
	}
	file := filepath.Join(t.TempDir(), "sample.pcapng")
	must(t, os.WriteFile(file, sample(t), 0o600))
	cmd := exec.Command(tool, append(args, file)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, problems.String())
	}
	return string(out)
}

func TestTsharkReadsPackets(t *testing.T) {
	out := runWireshark(t, "tshark", "tshark", "-T", "fields", "-E", "separator=|",
		"-e", "frame.interface_name", "-e", "frame.interface_description", "-e", "frame.time_epoch",
		"-e", "frame.cap_len", "-e", "frame.len", "-e", "frame.comment", "-e", "frame.drop_count",
		"-e", "frame.packet_flags_direction", "-e", "frame.packet_flags_crc_error", "-e", "eth.fcs", "-r")
	want := []string{
		"s1:1|switch s1|1700000000.123456789|60|60|||0x00000001|0|",
		"s1:2|switch s1|1700000000.123456790|61|1500|dropped: buffer full, 12 kB queued|7|0x00000002|0|",
		"late||1700000000.123456791|70|70|é☃||0x00000000|1|",
	}
	if d := cmp.Diff(want, strings.Split(strings.TrimSpace(out), "\n")); d != "" {
		t.Error(d)
	}
}

// TestTsharkReadsBlocks checks the structure of the file with tshark, block by block.
func TestTsharkReadsBlocks(t *testing.T) {
	out := runWireshark(t, "tshark", "tshark", "-X", "read_format:MIME Files Format", "-V", "-r")
	for _, want := range []string{
		"Option: Hardware Description = none", "Option: OS Description = Linux", "Option: User Application = weft",
		"Option: Comment = a lab, dilation 10", "Option: Interface Name = s1:2",
		"Received Packets: 100", "Dropped Packets: 7", "Accepted by Filter Packets: 3", "Delivered to the User Packets: 1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what tshark says of the file", want)
		}
	}
	if t.Failed() || strings.Contains(out, "Malformed") {
		t.Errorf("tshark says:\n%s", out)
	}
}

func TestCapinfos(t *testing.T) {
	out := runWireshark(t, "capinfos", "wireshark-common", "-M")
	for _, want := range []string{
		"Number of interfaces in file: 3", "Name = s1:1", "Description = switch s1", "Capture length = 128",
		"Speed = 25000000000", "Time precision = nanoseconds (9)", "Number of stat entries = 1",
		"Number of packets:   3", "Capture application: weft", "Capture comment:     a lab, dilation 10",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in what capinfos says of the file", want)
		}
	}
	if t.Failed() {
		t.Logf("capinfos says:\n%s", out)
	}
}
