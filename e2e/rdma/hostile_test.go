package rdma

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestRDMAHostile: while a program of a host misbehaves, another on the same host
// continues with its peer, and new ones can start afterwards.
func TestRDMAHostile(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "rping")
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
	l.StartProgram("h1", "rping", "-s", "-V", "-S", "3000")
	var client *testlab.Program
	for try := 0; client == nil; try++ {
		c := l.StartProgram("h2", "rping", "-c", "-a", "10.0.0.1", "-V", "-S", "3000")
		if pings(l, 20, c) {
			client = c
		} else if try == 50 || !c.Exited() || !testlab.TooEarly.MatchString(c.Out.String()) {
			t.Fatalf("rping does not begin:\n%s", c.KillAndRead())
		}
	}
	for _, name := range strings.Fields(string(list)) {
		t.Run(name, func(t *testing.T) {
			if o, e, code := l.Run("exec", "-l", l.Name, "h1", "--", program, name); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, o, e)
			}
			if !pings(l, 20, client) {
				t.Fatalf("rping has come to an end:\n%s", client.KillAndRead())
			}
			on := *l
			on.T = t
			on.RunRDMA([]string{"rping", "-s", "-p", "7175", "-C", "3", "-V"}, []string{"rping", "-c", "-p", "7175", "-a", "10.0.0.1", "-C", "3", "-V"})
		})
	}
}

// pings reports whether this many further packets are sent to h1, within a minute and
// before the program that sends them has ended.
func pings(l *testlab.Lab, packets uint64, by *testlab.Program) bool {
	before := l.Ports()["s1:1"].TxPackets
	for range 1200 {
		if l.Ports()["s1:1"].TxPackets-before > packets {
			return true
		}
		select {
		case <-by.Done:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return false
}
