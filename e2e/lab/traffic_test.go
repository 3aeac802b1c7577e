package lab

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// leafSpine is two leaves with two hosts each and two spines: every flow
// between the leaves crosses three switches on one of two equal paths. h4 is
// on a TUN.
const leafSpine = `
topology:
  kinds: {host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: 200Mbps, delay: 10us}}
  nodes:
    h4: {attach: tun}
`

// TestPrograms runs unmodified programs across two paths of three switches.
func TestPrograms(t *testing.T) {
	l := testlab.Start(t, leafSpine, "iperf3", "ping", "arping", "nginx", "curl", "tshark")
	all := []string{"leaf1:h1", "leaf1:spine1", "leaf1:spine2", "leaf2:h3", "leaf2:h4"}
	stop := l.Capture(all...)

	t.Run("ping", func(t *testing.T) {
		for _, args := range [][]string{{"-4", "h3"}, {"-6", "h3"}, {"-4", "h4"}, {"-6", "h4"}} {
			out := l.Exec("h1", "ping", "-c", "5", "-i", "0.05", args[0], args[1])
			if !strings.Contains(out, " 0% packet loss") {
				t.Errorf("ping %v:\n%s", args, out)
			}
		}
		// From the TUN.
		if out := l.Exec("h4", "ping", "-c", "3", "-i", "0.05", "-6", "h1"); !strings.Contains(out, " 0% packet loss") {
			t.Errorf("ping from a TUN:\n%s", out)
		}
	})
	t.Run("arping", func(t *testing.T) {
		for _, host := range []string{"10.0.0.3", "10.0.0.4"} { // a TAP answers itself, the emulator answers for a TUN
			out := l.Exec("h1", "arping", "-c", "3", "-i", "eth0", host)
			if !strings.Contains(out, "3 packets received") && !strings.Contains(out, "Received 3 response") {
				t.Errorf("arping %s:\n%s", host, out)
			}
		}
	})
	t.Run("nginx", func(t *testing.T) {
		dir := t.TempDir()
		page := strings.Repeat("weft carries this page. ", 40_000) // 960 kB
		if err := os.WriteFile(filepath.Join(dir, "page"), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		// The workers of an nginx started by root run as user nobody.
		for d := dir; strings.HasPrefix(d, os.TempDir()) && d != os.TempDir(); d = filepath.Dir(d) {
			_ = os.Chmod(d, 0o755)
		}
		conf := filepath.Join(dir, "nginx.conf")
		text := fmt.Sprintf("daemon off; pid %s/pid; error_log %s/error.log;\nevents {}\nhttp { access_log off; server { listen 80; listen [::]:80; root %s; } }\n", dir, dir, dir)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		l.StartServer("h3", "nginx", "-c", conf)
		l.WaitListening("h3", "80")
		for _, family := range []string{"-4", "-6"} {
			got := l.Exec("h2", "curl", "-s", "-S", family, "--max-time", "30", "http://h3/page")
			if got != page {
				t.Errorf("curl %s: %d bytes that differ from the %d sent", family, len(got), len(page))
			}
		}
	})
	whole := stop()
	// Bulk traffic is captured once, at the host that takes part in all of it, and
	// without its payload: writing more would compete with the tested programs for
	// two cores, and tshark takes long to read it.
	stop = l.Capture("leaf1:h1", "-s", "128")
	t.Run("iperf3", func(t *testing.T) {
		for _, c := range []struct {
			name  string
			flags []string
			host  string
			least float64 // Mb/s of the links' 200, low enough for a busy machine
		}{
			{"TCP", []string{"-t", "1"}, "h3", 50},
			{"TCP reverse", []string{"-t", "1", "-R"}, "h3", 50},
			{"TCP four streams", []string{"-t", "1", "-P", "4"}, "h3", 50},
			{"TCP IPv6", []string{"-t", "1", "-6"}, "h3", 50},
			{"TCP IPv6 reverse", []string{"-t", "1", "-6", "-R"}, "h3", 50},
			{"TCP to a TUN", []string{"-t", "1"}, "h4", 50},
			{"TCP IPv6 from a TUN", []string{"-t", "1", "-6", "-R"}, "h4", 50},
			{"UDP", []string{"-t", "1", "-u", "-b", "50M", "-l", "1200"}, "h3", 20},
			{"UDP reverse", []string{"-t", "1", "-u", "-b", "50M", "-l", "1200", "-R"}, "h3", 20},
			{"UDP IPv6", []string{"-t", "1", "-u", "-b", "50M", "-l", "1200", "-6"}, "h3", 20},
			{"UDP four streams to a TUN", []string{"-t", "1", "-u", "-b", "12M", "-l", "1200", "-P", "4"}, "h4", 20},
		} {
			r := l.Iperf3("h1", c.host, c.host, c.flags...)
			got := max(r.End.Received.Bits, r.End.Sum.Bits) / 1e6
			t.Logf("%-26s %6.1f Mb/s", c.name, got)
			if got < c.least || got > 200 {
				t.Errorf("%s: %.1f Mb/s, want %.0f to 200", c.name, got, c.least)
			}
		}
	})
	headers := stop()

	t.Run("both paths carried flows", func(t *testing.T) {
		p := l.Ports()
		for _, spine := range []string{"leaf1:spine1", "leaf1:spine2"} {
			if p[spine].TxPackets < 100 {
				t.Errorf("%s sent %d packets: ECMP does not use it", spine, p[spine].TxPackets)
			}
		}
	})
	t.Run("tshark finds nothing malformed", func(t *testing.T) {
		for _, file := range []string{whole, headers} {
			if all := testlab.Tshark(t, file, "-T", "fields", "-e", "frame.number"); len(all) < 1000 {
				t.Fatalf("only %d packets captured", len(all))
			}
			// The same packet is in the file once for each port; reassembled
			// streams would overlap themselves.
			if bad := testlab.Tshark(t, file, "-o", "tcp.desegment_tcp_streams:FALSE", "-o", "ip.check_checksum:TRUE", "-Y", "_ws.malformed || ip.checksum.status == 0"); len(bad) > 0 {
				t.Errorf("%d bad packets, the first: %s", len(bad), bad[0])
			}
		}
		// The fabric keeps the hosts' checksums, where the kernel made them.
		// Linux writes one in 65536 as 0xffff, which tshark reports as bad for TCP.
		if bad := testlab.Tshark(t, whole, "-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-Y", "(tcp.checksum.status == 0 && tcp.checksum != 0xffff) || udp.checksum.status == 0"); len(bad) > 0 {
			t.Errorf("%d packets with a bad TCP or UDP checksum, the first: %s", len(bad), bad[0])
		}
	})
}

// TestEveryPacketIsAccountedFor overloads a lab with real TCP and UDP over
// lossy links and then checks where each packet went, from the senders' devices
// to the receivers'.
func TestEveryPacketIsAccountedFor(t *testing.T) {
	l := testlab.Start(t, `
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}
    link: {rate: 100Mbps, delay: 100us}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, uplink: {rate: 50Mbps, loss: 0.5%, corrupt: 0.5%, duplicate: 0.5%, reorder: 1%, reorder-by: 1ms}}}
  nodes: {h4: {attach: tun}}
`, "iperf3")
	l.TryIperf3("h1", "h3", "h3", "-t", "2", "-P", "4")
	for range 5 { // until its handshake survives
		if r := l.TryIperf3("h2", "h4", "h4", "-t", "2", "-u", "-b", "80M", "-l", "1000"); r.Error == "" {
			break
		}
	}
	l.WaitQuiet()
	r := l.Down()
	a := r.Accounts
	t.Logf("%+v", a)
	if !a.Balanced() || a.Held != 0 {
		t.Errorf("%d entered + %d originated + %d replicated + %d duplicated is not %d delivered + %d dropped + %d held",
			a.Entered, a.Originated, a.Replicated, a.Duplicated, a.Delivered, a.Dropped, a.Held)
	}
	var sent, unroutable, answered, refused, received, waiting uint64
	for _, h := range r.Hosts {
		if h.Error != "" {
			t.Errorf("%s: %s", h.Name, h.Error)
		}
		sent += h.TxPackets + h.Offload.Pieces - h.Offload.Supers
		unroutable += h.Unroutable
		answered += h.Answered
		received += h.RxPackets
		refused += h.RxDropped
		waiting += uint64(h.QueuePackets)
	}
	// Packets from the devices' rings, plus those that the emulator answered
	// for a TUN, are the packets that entered, plus those without a destination.
	if sent+answered != a.Entered+unroutable {
		t.Errorf("devices sent %d + %d answered, fabric took %d + %d unroutable", sent, answered, a.Entered, unroutable)
	}
	// A TUN is delivered Ethernet frames that its kernel never sees: the
	// requests answered for it and frames that are not IP.
	for _, h := range r.Hosts {
		received += h.Offload.Written - h.Offload.Writes
	}
	if received+refused > a.Delivered || received+refused+answered+100 < a.Delivered {
		t.Errorf("fabric delivered %d, the hosts' kernels saw %d", a.Delivered, received+refused)
	}
	if waiting != 0 {
		t.Errorf("%d packets wait in the hosts' own queues", waiting)
	}
	for _, reason := range []string{"queue-full", "link-loss", "bad-fcs"} {
		if a.Drops[reason] == 0 {
			t.Errorf("no packet was dropped for %s: the test does not test it", reason)
		}
	}
}

// TestLossIsWhatTheFileSays: 1% of loss on one link, as seen by iperf3 and by
// the counters.
func TestLossIsWhatTheFileSays(t *testing.T) {
	l := testlab.Start(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "s2:1"], rate: 1Gbps, from: {"s1:2": {loss: 1%}}}
    - {endpoints: ["s2:2", "h2:eth0"]}
`, "iperf3")
	var r testlab.Iperf
	// Packets that do not reach the link: while the engine has no core, the sender's device
	// and then the queue of the link overflow.
	short := func() uint64 {
		return statistic(l, "h1", "tx_dropped") + l.Ports()["s1:2"].Drops["queue-full"]
	}
	var before, lost, missed, kept uint64
	for try := 0; ; try++ {
		before = l.Ports()["s1:2"].Drops["link-loss"]
		missed, kept = countMissed(l, "h2"), short()
		r = l.TryIperf3("h1", "h2", "h2", "-4", "-u", "-b", "100M", "-l", "500", "-t", "4")
		if r.Error == "" {
			break
		}
		if try == 5 {
			t.Fatal(r.Error)
		}
	}
	lost = l.Ports()["s1:2"].Drops["link-loss"] - before
	n, got := r.End.Sum.Packets, r.End.Sum.Lost
	// Packets dropped by the receiver's socket, or by its kernel before that, are
	// not lost on the link. iperf3 counts them as lost, unless they came after the
	// last packet that iperf3 read.
	missed, kept = countMissed(l, "h2")-missed, short()-kept
	t.Logf("iperf3: %.0f of %.0f lost (%.3f%%); counter: %d; did not reach the link: %d", got, n, 100*got/n, lost, kept)
	if n < 50_000 {
		t.Fatalf("only %.0f packets sent", n)
	}
	// The counter also includes the few packets of the TCP control connection.
	if gap := got - float64(lost) - float64(kept); gap < -5 || gap > float64(missed)+5 {
		t.Errorf("iperf3 lost %.0f, the link %d, what is before it %d, the receiver's kernel %d", got, lost, kept, missed)
	}
	n -= float64(kept)
	// Four standard deviations of a binomial distribution.
	if sd := math.Sqrt(0.01 * 0.99 / n); math.Abs(float64(lost)/n-0.01) > 4*sd+5/n {
		t.Errorf("loss %.4f%% is not 1%% ± %.4f%%", 100*float64(lost)/n, 400*sd)
	}
}

// TestMarkingSlowsTheSender: with ECN on, a marking queue slows the sender
// without losing a packet, and the capture, the counters, the receiver's kernel
// and ss agree on the marks.
func TestMarkingSlowsTheSender(t *testing.T) {
	l := testlab.Start(t, `
topology:
  kinds: {host: {sysctls: {net.ipv4.tcp_ecn: 1}}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 1Gbps}
    - {endpoints: ["s1:2", "s2:1"], rate: 50Mbps, delay: 500us, from: {"s1:2": {queue: {limit: 1MB, mark: {step: {k: 30KB}}}}}}
    - {endpoints: ["s2:2", "h2:eth0"], rate: 1Gbps}
`, "iperf3", "tshark", "ss")
	stop := l.Capture("s1:2", "--out", "-s", "128")
	s := l.StartServer("h2", "iperf3", "-s", "-1")
	l.WaitListening("h2", "5201")
	client := l.StartServer("h1", "iperf3", "-4", "-c", "h2", "-t", "3", "-C", "cubic")
	time.Sleep(1500 * time.Millisecond)
	info := l.Exec("h1", "ss", "-tin", "dport", "=", ":5201")
	_, _ = client.Process.Wait()
	_, _ = s.Process.Wait()
	l.WaitQuiet()
	port := l.Ports()["s1:2"]
	ce := counter(l, "h2", "IpExtInCEPkts")
	file := stop()

	if port.Marked < 20 || port.Dropped != 0 {
		t.Errorf("%d marks and %d drops: want marks and no drop", port.Marked, port.Dropped)
	}
	// Without marks cubic fills the megabyte; slow start overshoots once.
	t.Logf("%d marked of %d, queue max %v, mean %.0f B", port.Marked, port.TxPackets, port.QueueMax, port.QueueMean)
	if port.QueueMean > 60_000 {
		t.Errorf("the queue was %.0f B long on average: the sender does not slow down", port.QueueMean)
	}
	if !regexp.MustCompile(`delivered_ce:[1-9]`).MatchString(info) {
		t.Errorf("ss does not see that the sender was told of marks:\n%s", info)
	}
	comments := testlab.Tshark(t, file, "-Y", `frame.comment contains "marked CE"`, "-T", "fields", "-e", "ip.dsfield.ecn", "-e", "frame.comment")
	if uint64(len(comments)) != port.Marked || ce != port.Marked {
		t.Errorf("marks: %d by the counter, %d commented in the capture, %d seen by the receiver's kernel", port.Marked, len(comments), ce)
	}
	ok := regexp.MustCompile(`^3\tmarked CE at s1:2 out, queue \d+ B$`)
	for _, c := range comments {
		if !ok.MatchString(c) {
			t.Errorf("a marked packet's ECN field and comment: %q", c)
			break
		}
	}
	if n := len(testlab.Tshark(t, file, "-Y", "ip.dsfield.ecn == 3")); uint64(n) != port.Marked {
		t.Errorf("%d packets carry CE in the capture, %d were marked", n, port.Marked)
	}
}

// counter reads a counter of a host's kernel.
func counter(l *testlab.Lab, host, name string) uint64 {
	l.T.Helper()
	for _, line := range strings.Split(l.Exec(host, "nstat", "-asz", name), "\n") {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			if err != nil {
				l.T.Fatal(err)
			}
			return n
		}
	}
	l.T.Fatalf("%s has no counter %s", host, name)
	return 0
}

// countMissed counts the packets that reached a host's kernel but no program: the
// sockets were full, or the kernel's own queue after the device was.
func countMissed(l *testlab.Lab, host string) uint64 {
	l.T.Helper()
	return statistic(l, host, "rx_dropped") + counter(l, host, "UdpRcvbufErrors")
}

// statistic returns a counter of a host's device.
func statistic(l *testlab.Lab, host, name string) uint64 {
	l.T.Helper()
	text := strings.TrimSpace(l.Exec(host, "cat", "/sys/class/net/eth0/statistics/"+name))
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		l.T.Fatal(err)
	}
	return n
}

// TestTwoClocksAgree: the same file, overloaded by iperf3 UDP in wall-clock
// time and by modelled UDP in virtual time, gives the same loss and the same
// queue within 2%. The sender is a real program: when the machine takes its
// processor away for a tenth of a second, its load differs from the model's. So
// one run out of six has to agree.
func TestTwoClocksAgree(t *testing.T) {
	const text = `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["s1:2", "s2:1"], rate: 20Mbps, delay: 1ms, from: {"s1:2": {queue: {limit: 100KB}}}}
    - {endpoints: ["s2:2", "h2:eth0"], rate: 100Mbps}
workload:
  - {cbr: {from: h1, to: h2, rate: 25Mbps, size: 1000B, at: 0s, for: 8s}}
`
	// The wall-clock lab uses the same file without its workload: there iperf3 sends.
	real, _, _ := strings.Cut(text, "workload:")
	file := filepath.Join(t.TempDir(), "lab.yaml")
	var differ string
	for range 6 {
		l := testlab.Start(t, real, "iperf3")
		r := l.Iperf3("h1", "h2", "h2", "-4", "-u", "-b", "25M", "-l", "1000", "-t", "8")
		wall := l.Ports()["s1:2"]
		// Packets dropped by the receiver's own socket are not lost in the fabric.
		wallLoss := (r.End.Sum.Lost - float64(counter(l, "h2", "UdpRcvbufErrors"))) / r.End.Sum.Packets
		// The mean over the run: the queue was empty before and after.
		wallQueue := wall.QueueMean * l.Down().Emulated.Seconds()

		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v := testlab.Simulate(t, l.Weft, file)
		virtualQueue := testlab.PortOf(t, v, "s1:2").QueueMean * v.Emulated.Seconds()
		virtualLoss := v.Flows[0].LossShare
		t.Logf("loss: wall %.4f, virtual %.4f; queue area: wall %.0f, virtual %.0f byte-seconds", wallLoss, virtualLoss, wallQueue, virtualQueue)
		loss, queue := math.Abs(wallLoss/virtualLoss-1), math.Abs(wallQueue/virtualQueue-1)
		if loss <= 0.02 && queue <= 0.02 {
			return
		}
		differ = fmt.Sprintf("loss differs by %.1f%%, the queue by %.1f%%", 100*loss, 100*queue)
	}
	t.Error(differ)
}
