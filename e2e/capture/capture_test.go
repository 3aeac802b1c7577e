package capture

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestCapture captures at a port in every way that the command offers.
func TestCapture(t *testing.T) {
	l := testlab.Start(t, testlab.TwoHosts, "ping", "tshark", "tcpdump")
	ping := func() { l.Exec("h1", "ping", "-4", "-c", "4", "-i", "0.02", "h2") }

	t.Run("both directions, names and nanoseconds", func(t *testing.T) {
		stop := l.Capture("s1:1", "s1:2", "-f", "icmp")
		before := time.Now()
		ping()
		after := time.Now()
		lines := testlab.Tshark(t, stop(), "-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "frame.time_epoch")
		if len(lines) != 16 { // 4 pings, 2 directions, 2 ports
			t.Fatalf("%d packets, want 16:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		seen := map[string]int{}
		for _, line := range lines {
			f := strings.Split(line, "\t")
			seen[f[0]+" "+f[1]]++
			at := testlab.ParseEpoch(t, f[2])
			if at.Before(before.Add(-time.Second)) || at.After(after.Add(time.Second)) {
				t.Errorf("stamp %v is not between %v and %v", at, before, after)
			}
		}
		for _, k := range []string{"s1:1 0x00000001", "s1:1 0x00000002", "s1:2 0x00000001", "s1:2 0x00000002"} {
			if seen[k] != 4 {
				t.Errorf("%s: %d packets, want 4 (%v)", k, seen[k], seen)
			}
		}
	})
	t.Run("one direction, filter, snap length, count", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "c.pcapng")
		c := exec.Command(l.Weft, "capture", "-l", l.Name, "s1:1", "--in", "-s", "60", "-c", "3", "-f", "icmp[icmptype] == icmp-echo", "-w", file)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for more := true; more; { // until it has captured three packets
			ping()
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				more = false
			case <-time.After(10 * time.Millisecond):
			}
		}
		lines := testlab.Tshark(t, file, "-T", "fields", "-e", "icmp.type", "-e", "frame.cap_len", "-e", "frame.len")
		if len(lines) != 3 {
			t.Fatalf("%d packets, want 3", len(lines))
		}
		for _, line := range lines {
			if line != "8\t60\t98" {
				t.Errorf("type, captured and real length: %q, want 8 60 98", line)
			}
		}
	})
	t.Run("live into a pipe", func(t *testing.T) {
		// Hosts sometimes solicit routers: without the filter that may come first.
		c := exec.Command(l.Weft, "capture", "-l", l.Name, "s1:1", "-f", "icmp", "-w", "-")
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
		got := make(chan []byte)
		go func() {
			var all []byte
			b := make([]byte, 65536)
			for len(all) < 1000 { // the headers are shorter, so packets have been captured
				n, err := out.Read(b)
				all = append(all, b[:n]...)
				if err != nil {
					break
				}
			}
			got <- all
		}()
		for {
			ping()
			select {
			case all := <-got:
				shark := exec.Command("tshark", "-r", "-", "-Y", "icmp", "-c", "1")
				shark.Stdin = bytes.NewReader(all)
				// The stream is cut where the test stopped reading. What
				// matters is that a reader sees the packets before the end of
				// the stream.
				o, _ := shark.Output()
				if !bytes.Contains(o, []byte("ICMP")) {
					t.Errorf("tshark reads %q from the live stream", o)
				}
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Run("errors", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			say  string
		}{
			{[]string{"s9:1", "-w", "x"}, "s9"},
			{[]string{"s1:1", "-w", "x", "-f", "tcp prot 80"}, "syntax error"},
			{[]string{"s1:1", "-w", "/no/such/dir/x"}, "no such file"},
			{[]string{"s1:1"}, "write"},
		} {
			_, e, code := l.Run(append([]string{"capture", "-l", l.Name}, c.args...)...)
			if code == 0 || !strings.Contains(e, c.say) {
				t.Errorf("capture %v: exit code %d, %q does not say %q", c.args, code, e, c.say)
			}
			os.Remove("x")
		}
	})
}

// TestCaptureSaysWhy: every kind of drop is in the capture with its reason,
// as often as the counters say.
func TestCaptureSaysWhy(t *testing.T) {
	l := testlab.Start(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["s1:2", "s2:1"], rate: 20Mbps, from: {"s1:2": {loss: 2%, corrupt: 2%, queue: {limit: 20KB}}}}
    - {endpoints: ["s2:2", "h2:eth0"], rate: 100Mbps}
`, "iperf3", "tshark")
	stop := l.Capture("s1:2", "s2:1", "-s", "64")
	l.Iperf3("h1", "h2", "h2", "-u", "-b", "25M", "-l", "1000", "-t", "2")
	l.WaitQuiet()
	p := l.Ports()
	file := stop()
	for _, c := range []struct{ port, reason, comment string }{
		{"s1:2", "queue-full", "dropped: the queue's limit is reached at s1:2 out, queue "},
		{"s1:2", "link-loss", "lost: random loss of the link at s1:2 out"},
		{"s2:1", "bad-fcs", "dropped: bad FCS at s2:1 in"},
	} {
		want := p[c.port].Drops[c.reason]
		got := len(testlab.Tshark(t, file, "-Y", `frame.comment contains "`+c.comment+`"`))
		t.Logf("%s %s: %d", c.port, c.reason, want)
		if want == 0 || uint64(got) != want {
			t.Errorf("%s %s: counter %d, capture %d", c.port, c.reason, want, got)
		}
	}
	if n := len(testlab.Tshark(t, file, "-Y", "frame.packet_flags_crc_error == 1")); uint64(n) != p["s2:1"].Drops["bad-fcs"] {
		t.Errorf("%d packets flagged with a CRC error, %d counted", n, p["s2:1"].Drops["bad-fcs"])
	}
}
