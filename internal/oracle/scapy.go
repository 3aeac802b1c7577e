package oracle

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"
)

//go:embed icrc.py
var icrcScript string

// ScapyICRC returns the invariant CRC that scapy computes for each frame, an
// Ethernet frame with RoCEv2 and no padding after it. It is nil where scapy cannot
// compute it: before version 2.6 it knows IPv4 only. The test is skipped without
// scapy.
func ScapyICRC(t *testing.T, frames [][]byte) (crcs [][]byte) {
	t.Helper()
	python := pythonWithScapy()
	if python == "" {
		t.Skip("scapy is missing, the ICRC was not judged: apt-get install python3-scapy")
	}
	var in, out, complaints bytes.Buffer
	for _, f := range frames {
		in.WriteString(hex.EncodeToString(f) + "\n")
	}
	cmd := exec.Command(python, "-c", icrcScript)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("scapy: %v\n%s", err, &complaints)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != len(frames)+1 {
		t.Fatalf("scapy answers %d lines for %d frames:\n%s", len(lines)-1, len(frames), &complaints)
	}
	for i, line := range lines[:len(frames)] {
		if line == "unknown" {
			crcs = append(crcs, nil)
			continue
		}
		crc, err := hex.DecodeString(line)
		if err != nil {
			t.Fatalf("scapy says %q of frame %d, %x", line, i, frames[i])
		}
		crcs = append(crcs, crc)
	}
	return crcs
}

// pythonWithScapy returns the first Python that has scapy, or the empty string: the
// one in PATH, which may belong to a virtual environment, or the distribution's.
func pythonWithScapy() string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import scapy.contrib.roce").Run() == nil {
			return python
		}
	}
	return ""
}
