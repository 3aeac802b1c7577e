package lab

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestTwoWorkers_LookLikeOne: a lab in two shards, each with its own thread, looks like
// one lab: programs talk across shards, and captures, changes of the link
// between the shards, accounts and reports are the same as with one shard.
func TestTwoWorkers_LookLikeOne(t *testing.T) {
	t.Parallel()
	l := testlab.StartOn(t, "2", `
topology:
  generate: {dumbbell: {left: 2, right: 2, rate: 100Mbps, delay: 5us, bottleneck: {rate: 50Mbps, delay: 500us}}}
`, "iperf3", "tshark")
	stop := l.Capture("h1:eth0", "s1:s2", "s2:h3", "-s", "100")
	l.Ping("h1", 5, "-4", "h3")
	l.Ping("h4", 3, "-6", "h2")
	for _, flags := range [][]string{{"-4", "-t", "2"}, {"-6", "-t", "1", "-R"}} {
		r := l.Iperf3("h1", "h3", "h3", flags...)
		t.Logf("iperf3 %v: %.1f Mb/s", flags, r.End.Received.Bits/1e6)
	}
	file := stop()
	if bits := rateIn(t, file, "-Y", `frame.interface_name == "s1:s2" && frame.packet_flags_direction == 2`); bits > 50.5e6 {
		t.Errorf("%.2f Mb/s over a link of 50", bits/1e6)
	}
	if n := len(testlab.Tshark(t, file, "-Y", "icmp.type == 8 && frame.interface_name == \"s1:s2\"")); n != 5 {
		t.Errorf("the capture shows %d requests on the link between the shards, want 5", n)
	}

	l.Must("set", "-l", l.Name, "s1:s2", "state=down")
	if out, _, _ := l.Run("exec", "-l", l.Name, "h1", "--", "ping", "-c", "2", "-i", "0.1", "-W", "1", "h3"); !strings.Contains(out, " 0 received") {
		t.Errorf("ping over a link that is down:\n%s", out)
	}
	l.Must("set", "-l", l.Name, "s1:s2", "state=up")
	l.Ping("h1", 2, "h3")
	if _, stderr, code := l.Run("set", "-l", l.Name, "s1:s2", "delay=1us"); code == 0 || !strings.Contains(stderr, "joins two workers") {
		t.Errorf("a delay below the look-ahead was not refused: %d, %s", code, stderr)
	}
	l.WaitQuiet()
	r := l.Down()
	if a := r.Accounts; !a.Balanced() || a.Held != 0 || a.Entered == 0 {
		t.Errorf("accounts %+v", a)
	}
	if r.Timing.Workers != 2 {
		t.Errorf("%d workers in the report", r.Timing.Workers)
	}
}
