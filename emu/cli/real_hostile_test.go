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
	l.rdmaServer("h1", "rping", "-s", "-V", "-S", "3000")
	var client *background
	for try := 0; client == nil; try++ {
		c := l.background("h2", "rping", "-c", "-a", "10.0.0.1", "-V", "-S", "3000")
		if l.pings(20, c.ended) {
			client = c
		} else if try == 50 || !refused.MatchString(c.end()) {
			t.Fatalf("rping does not begin:\n%s", c.end())
		}
	}
	for _, name := range strings.Fields(string(list)) {
		t.Run(name, func(t *testing.T) {
			if o, e, code := l.run("exec", "-l", l.name, "h1", "--", program, name); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, o, e)
			}
			if !l.pings(20, client.ended) {
				t.Fatalf("rping has come to an end:\n%s", client.end())
			}
			on := *l
			on.t = t
			on.rdma([]string{"rping", "-s", "-p", "7175", "-C", "3", "-V"}, []string{"rping", "-c", "-p", "7175", "-a", "10.0.0.1", "-C", "3", "-V"})
		})
	}
}

// background is a program that somebody watches.
type background struct {
	rdmaServer
	ended chan struct{}
}

func (l *realLab) background(host string, argv ...string) *background {
	l.t.Helper()
	b := &background{rdmaServer{Cmd: l.command(append([]string{"exec", "-l", l.name, host, "--"}, argv...)...)}, make(chan struct{})}
	b.Stdout, b.Stderr = &b.out, &b.out
	if err := b.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(b.ended)
		_ = b.Wait() // that it has ended is what matters
	}()
	l.t.Cleanup(func() { b.end() })
	return b
}

// end ends the program, and gives what it has said.
func (b *background) end() string {
	_ = b.Process.Kill()
	<-b.ended
	return b.out.String()
}

// pings tells whether h1 is sent so many packets more, in a minute at most and before a
// program has ended.
func (l *realLab) pings(packets uint64, ended <-chan struct{}) bool {
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
