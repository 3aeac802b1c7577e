package testlab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Capture starts a capture of ports into a file. stop ends it cleanly and
// returns the file's name.
func (l *Lab) Capture(args ...string) (stop func() string) {
	l.T.Helper()
	file := filepath.Join(filepath.Dir(l.File), fmt.Sprintf("capture-%d.pcapng", names.Add(1)))
	c := l.Command(append([]string{"capture", "-l", l.Name, "-w", file}, args...)...)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	l.WaitFor("the header of "+file+", with which the capture begins", func() bool {
		s, err := os.Stat(file)
		return err == nil && s.Size() > 0
	})
	return func() string {
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			l.T.Fatalf("capture: %v\n%s", err, said.String())
		}
		if strings.Contains(said.String(), "OVERRUN") {
			l.T.Fatalf("capture: %s", said.String())
		}
		return file
	}
}

// Tshark returns the lines that tshark prints for a file.
func Tshark(t *testing.T, file string, args ...string) []string {
	t.Helper()
	c := exec.Command("tshark", append([]string{"-r", file}, args...)...)
	var e bytes.Buffer
	c.Stderr = &e
	out, err := c.Output()
	if err != nil {
		t.Fatalf("tshark %v: %v\n%s", args, err, e.String())
	}
	var lines []string
	for _, l := range strings.Split(string(out), "\n") {
		if l != "" {
			lines = append(lines, l)
		}
	}
	return lines
}

// ParseEpoch reads tshark's seconds since 1970, to the nanosecond.
func ParseEpoch(t *testing.T, s string) time.Time {
	t.Helper()
	whole, frac, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(sec, ns)
}
