package capture

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/internal/await"
)

// TestCapture_WritesWhatPassesAPort captures at a port in every way that the command offers.
func TestCapture_WritesWhatPassesAPort(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, testlab.TwoHosts, "ping", "tshark", "tcpdump")
	ping := func(l *testlab.Lab) { l.Ping("h1", 4, "-4", "h2") }

	t.Run("BothDirections_HaveNamesAndNanoseconds", func(t *testing.T) {
		l := l.In(t)
		stop := l.Capture("s1:1", "s1:2", "-f", "icmp")
		before := time.Now()
		ping(l)
		after := time.Now()
		lines := testlab.Tshark(t, stop(), "-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "frame.time_epoch")
		if len(lines) != 16 { // 4 pings, 2 directions, 2 ports
			t.Fatalf("%d packets, want 16:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		seen := map[string]int{}
		for _, line := range lines {
			f := strings.Split(line, "\t")
			seen[f[0]+" "+f[1]]++
			// A lab that is late gives earlier stamps.
			if at := testlab.ParseEpoch(t, f[2]); at.Before(before.Add(-await.Limit)) || at.After(after.Add(time.Second)) {
				t.Errorf("stamp %v is not between %v and %v", at, before, after)
			}
		}
		for _, k := range []string{"s1:1 0x00000001", "s1:1 0x00000002", "s1:2 0x00000001", "s1:2 0x00000002"} {
			if seen[k] != 4 {
				t.Errorf("%s: %d packets, want 4 (%v)", k, seen[k], seen)
			}
		}
	})
	t.Run("OneDirection_EndsAtItsCount", func(t *testing.T) {
		l := l.In(t)
		file := filepath.Join(t.TempDir(), "c.pcapng")
		c := testlab.Launch(t, l.Command("capture", "-l", l.Name, "s1:1", "--in", "-s", "60", "-c", "3", "-f", "icmp[icmptype] == icmp-echo", "-w", file))
		l.WaitFor("an end of the capture after three packets", func() bool { ping(l); return c.Exited() })
		if c.Err != nil {
			t.Fatalf("%v\n%s", c.Err, &c.Out)
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
	t.Run("Pipe_IsReadWhileItRuns", func(t *testing.T) {
		l := l.In(t)
		// Hosts sometimes solicit routers: without the filter that may come first.
		var stream testlab.Output
		c := l.Command("capture", "-l", l.Name, "s1:1", "-f", "icmp", "-w", "-")
		c.Stdout = &stream
		p := testlab.Launch(t, c)
		// The headers are shorter, so packets have been captured.
		p.Await(t, "packets are in its stream", func() bool { ping(l); return len(stream.String()) > 1000 })
		shark := exec.Command("tshark", "-r", "-", "-Y", "icmp", "-c", "1")
		shark.Stdin = strings.NewReader(stream.String())
		// The stream is cut where the test stopped reading. What matters is that a reader sees
		// the packets before the end of the stream.
		o, _ := shark.Output()
		if !strings.Contains(string(o), "ICMP") {
			t.Errorf("tshark reads %q from the live stream", o)
		}
	})
	t.Run("Errors_NameTheCause", func(t *testing.T) {
		l := l.In(t)
		file := filepath.Join(t.TempDir(), "x.pcapng")
		for _, c := range []struct {
			args []string
			say  string
		}{
			{[]string{"s9:1", "-w", file}, "s9"},
			{[]string{"s1:1", "-w", file, "-f", "tcp prot 80"}, "syntax error"},
			{[]string{"s1:1", "-w", "/no/such/dir/x"}, "no such file"},
			{[]string{"s1:1"}, "write"},
		} {
			_, e, code := l.Run(append([]string{"capture", "-l", l.Name}, c.args...)...)
			if code == 0 || !strings.Contains(e, c.say) {
				t.Errorf("capture %v: exit code %d, %q does not say %q", c.args, code, e, c.say)
			}
		}
	})
}

// TestCapture_SaysWhyPacketsAreDropped: every kind of drop is in the capture with its reason, as
// often as the counters say.
func TestCapture_SaysWhyPacketsAreDropped(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["s1:2", "s2:1"], rate: 20Mbps, from: {"s1:2": {loss: 2%, corrupt: 2%, queue: {limit: 20KB}}}}
    - {endpoints: ["s2:2", "h2:eth0"], rate: 100Mbps}
`, "ping", "python3", "tshark")
	l.MinRTT("h1", "h2", 1) // with the neighbour's address; it may be lost, too
	stop := l.Capture("s1:2", "s2:1", "-s", "64")
	l.Exec("h1", "python3", "-c", testlab.SendDatagrams, "10.0.0.2", "7000", "8000")
	l.WaitQuiet()
	before := l.Ports()
	file := stop()
	after := l.Ports() // hosts may send something at any time
	for _, c := range []struct{ port, reason, comment string }{
		{"s1:2", "queue-full", "dropped: the queue's limit is reached at s1:2 out, queue "},
		{"s1:2", "link-loss", "lost: random loss of the link at s1:2 out"},
		{"s2:1", "bad-fcs", "dropped: bad FCS at s2:1 in"},
	} {
		minDrops, maxDrops := before[c.port].Drops[c.reason], after[c.port].Drops[c.reason]
		got := uint64(len(testlab.Tshark(t, file, "-Y", `frame.comment contains "`+c.comment+`"`)))
		t.Logf("%s %s: %d", c.port, c.reason, got)
		if minDrops == 0 || got < minDrops || got > maxDrops {
			t.Errorf("%s %s: counter %d to %d, capture %d", c.port, c.reason, minDrops, maxDrops, got)
		}
	}
	bad := uint64(len(testlab.Tshark(t, file, "-Y", "frame.packet_flags_crc_error == 1")))
	if bad < before["s2:1"].Drops["bad-fcs"] || bad > after["s2:1"].Drops["bad-fcs"] {
		t.Errorf("%d packets flagged with a CRC error, %d to %d counted", bad, before["s2:1"].Drops["bad-fcs"], after["s2:1"].Drops["bad-fcs"])
	}
}
