package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRDMAHostile: while a program of a host misbehaves, another on the same host
// continues with its peer, and new ones can start afterwards.
func TestRDMAHostile(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaPair, "rping")
	program := filepath.Join(t.TempDir(), "hostile")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread", "-I../../nicemu/verbs", "-o", program, "testdata/hostile/hostile.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	list, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	// -V compares all bytes, at both ends.
	l.rdmaServer("h1", "rping", "-s", "-V", "-S", "3000")
	var client *rdmaServer
	for try := 0; client == nil; try++ {
		c := l.rdmaServer("h2", "rping", "-c", "-a", "10.0.0.1", "-V", "-S", "3000")
		if l.pings(20, c) {
			client = c
		} else if try == 50 || !c.exited() || !early.MatchString(c.out.String()) {
			t.Fatalf("rping does not begin:\n%s", c.said())
		}
	}
	for _, name := range strings.Fields(string(list)) {
		t.Run(name, func(t *testing.T) {
			if o, e, code := l.run("exec", "-l", l.name, "h1", "--", program, name); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, o, e)
			}
			if !l.pings(20, client) {
				t.Fatalf("rping has come to an end:\n%s", client.said())
			}
			on := *l
			on.t = t
			on.rdma([]string{"rping", "-s", "-p", "7175", "-C", "3", "-V"}, []string{"rping", "-c", "-p", "7175", "-a", "10.0.0.1", "-C", "3", "-V"})
		})
	}
}

// said ends a program and returns its output.
func (s *rdmaServer) said() string {
	_ = s.Process.Kill()
	<-s.done
	return s.out.String()
}

// pings reports whether this many further packets are sent to h1, within a minute and
// before the program that sends them has ended.
func (l *realLab) pings(packets uint64, by *rdmaServer) bool {
	before := l.ports()["s1:1"].TxPackets
	for range 1200 {
		if l.ports()["s1:1"].TxPackets-before > packets {
			return true
		}
		select {
		case <-by.done:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}
