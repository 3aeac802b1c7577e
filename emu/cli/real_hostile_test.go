package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRDMAHostile: while a program of a host does its worst, another of the same host
// goes on with its peer, and new ones begin when it is over.
func TestRDMAHostile(t *testing.T) {
	l := startRDMA(t, rdmaPair, "rping")
	program := filepath.Join(t.TempDir(), "hostile")
	out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread", "-I../../nicemu/verbs", "-o", program, "testdata/rdma/hostile.c").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	list, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	// -V compares all bytes, at both ends.
	server := l.rdmaServer("h1", "rping", "-s", "-V", "-S", "3000")
	var client *rdmaServer
	for try := 0; client == nil; try++ {
		c := l.rdmaServer("h2", "rping", "-c", "-a", "10.0.0.1", "-V", "-S", "3000")
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		if l.pings(20, ended) {
			client = c
		} else if try == 50 || !refused.MatchString(c.out.String()) {
			t.Fatalf("rping does not begin:\n%s%s", server.out.String(), c.out.String())
		}
	}
	for _, name := range strings.Fields(string(list)) {
		t.Run(name, func(t *testing.T) {
			if o, e, code := l.run("exec", "-l", l.name, "h1", "--", program, name); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, o, e)
			}
			if !l.pings(20, nil) {
				t.Fatalf("rping has come to an end:\n%s%s", server.out.String(), client.out.String())
			}
			on := *l
			on.t = t
			on.rdma([]string{"rping", "-s", "-p", "7175", "-C", "3", "-V"}, []string{"rping", "-c", "-p", "7175", "-a", "10.0.0.1", "-C", "3", "-V"})
		})
	}
	_ = client.Process.Kill()
}

// pings tells whether h1 is sent so many packets more, in a minute at most and before a
// program has ended.
func (l *realLab) pings(packets uint64, ended <-chan error) bool {
	before := l.ports()["s1:1"].TxPackets
	for range 1200 {
		if l.ports()["s1:1"].TxPackets-before > packets {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}
