package lab

import (
	"encoding/json"
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
	"github.com/weftlab/weft/emu/report"
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

// rateIn returns the bits per second of emulated time that the packets of a capture take on the
// wire, with all that Ethernet adds to them. iperf3's own figures also have what the machine adds:
// the engine catches up after it was late.
func rateIn(t *testing.T, file string, flags ...string) float64 {
	t.Helper()
	const overhead = 8 + 4 + 12 // bytes: preamble, FCS and gap
	var first, last time.Time
	bits := 0
	for i, line := range testlab.Tshark(t, file, append(flags, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len")...) {
		at, length, _ := strings.Cut(line, "\t")
		last = testlab.ParseEpoch(t, at)
		if i == 0 {
			first = last
			continue
		}
		bits += 8 * (number(t, length) + overhead)
	}
	if !last.After(first) {
		t.Fatalf("%s has no packets, or all at one instant", file)
	}
	return float64(bits) / last.Sub(first).Seconds()
}

// TestPrograms_RunUnmodified runs unmodified programs across two paths of three switches.
func TestPrograms_RunUnmodified(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, leafSpine, "iperf3", "ping", "arping", "nginx", "curl", "tshark")
	all := []string{"leaf1:h1", "leaf1:spine1", "leaf1:spine2", "leaf2:h3", "leaf2:h4"}
	stop := l.Capture(all...)

	t.Run("ping", func(t *testing.T) {
		for _, args := range [][]string{{"-4", "h3"}, {"-6", "h3"}, {"-4", "h4"}, {"-6", "h4"}} {
			l.Ping("h1", 5, args...)
		}
		l.Ping("h4", 3, "-6", "h1") // from the TUN
	})
	t.Run("arping", func(t *testing.T) {
		for _, host := range []string{"10.0.0.3", "10.0.0.4"} { // a TAP answers itself, the emulator answers for a TUN
			l.Arping("h1", host)
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
		}{
			{"TCP", []string{"-n", "2M"}, "h3"},
			{"TCP reverse", []string{"-n", "2M", "-R"}, "h3"},
			{"TCP four streams", []string{"-n", "2M", "-P", "4"}, "h3"},
			{"TCP IPv6", []string{"-n", "2M", "-6"}, "h3"},
			{"TCP IPv6 reverse", []string{"-n", "2M", "-6", "-R"}, "h3"},
			{"TCP to a TUN", []string{"-n", "2M"}, "h4"},
			{"TCP IPv6 from a TUN", []string{"-n", "2M", "-6", "-R"}, "h4"},
			{"UDP", []string{"-n", "1M", "-u", "-b", "50M", "-l", "1200"}, "h3"},
			{"UDP reverse", []string{"-n", "1M", "-u", "-b", "50M", "-l", "1200", "-R"}, "h3"},
			{"UDP IPv6", []string{"-n", "1M", "-u", "-b", "50M", "-l", "1200", "-6"}, "h3"},
			{"UDP four streams to a TUN", []string{"-n", "1M", "-u", "-b", "12M", "-l", "1200", "-P", "4"}, "h4"},
		} {
			r := l.Iperf3("h1", c.host, c.host, c.flags...)
			got := max(r.End.Received.Bits, r.End.Sum.Bits) / 1e6
			t.Logf("%-26s %6.1f Mb/s", c.name, got)
			if got == 0 {
				t.Errorf("%s: nothing has arrived", c.name)
			}
		}
	})
	headers := stop()
	for _, direction := range []string{"1", "2"} {
		if bits := rateIn(t, headers, "-Y", "frame.packet_flags_direction == "+direction); bits > 200e6 {
			t.Errorf("%.2f Mb/s over a link of 200", bits/1e6)
		}
	}

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

// TestEveryPacket_IsAccountedFor overloads a lab with real TCP and UDP over
// lossy links and then checks where each packet went, from the senders' devices
// to the receivers'.
func TestEveryPacket_IsAccountedFor(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}
    link: {rate: 100Mbps, delay: 100us}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, uplink: {rate: 50Mbps}}}
  nodes: {h4: {attach: tun}}
`, "iperf3")
	// The links lose nothing before both have shaken hands: iperf3 does not send the first
	// datagram again.
	for from, to := range map[string]string{"h1": "h3", "h2": "h4"} {
		flags := map[string][]string{"h1": {"-P", "4"}, "h2": {"-u", "-b", "80M", "-l", "1000"}}[from]
		l.StartServer(to, "iperf3", "-s", "-1")
		l.WaitListening(to, "5201")
		l.StartProgram(from, append([]string{"iperf3", "-c", to, "-t", "600"}, flags...)...)
		l.WaitPackets("leaf1:"+from, 5) // of those that end the handshake
		l.WaitPackets("leaf2:"+to, 200)
	}
	for _, leaf := range []string{"leaf1", "leaf2"} {
		for _, spine := range []string{"spine1", "spine2"} {
			l.Must("set", "-l", l.Name, leaf+":"+spine, "loss=0.5%", "corrupt=0.5%", "duplicate=0.5%", "reorder=1%", "reorder-by=1ms")
		}
	}
	l.WaitPackets("leaf2:h3", 2000)
	l.WaitPackets("leaf2:h4", 5000)
	for _, host := range []string{"h1", "h2", "h3", "h4"} {
		l.EndPrograms(host, "iperf3")
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

// TestLoss_IsWhatTheFileSays: 1% of loss on one link, as seen by iperf3 and by
// the counters.
func TestLoss_IsWhatTheFileSays(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "s2:1"], rate: 1Gbps}
    - {endpoints: ["s2:2", "h2:eth0"]}
`, "iperf3")
	// Packets that do not reach the link: while the engine has no core, the sender's device
	// and then the queue of the link overflow.
	short := func() uint64 {
		return statistic(l, "h1", "tx_dropped") + l.Ports()["s1:2"].Drops["queue-full"]
	}
	missed, kept := countMissed(l, "h2"), short()
	server := l.StartProgram("h2", "nice", "-n", "-15", "iperf3", "-s", "-1")
	l.WaitListening("h2", "5201")
	client := l.StartProgram("h1", "nice", "-n", "-15", "iperf3", "-J", "-c", "h2", "-4", "-u", "-b", "100M", "-l", "500", "-n", "24M")
	// The link loses nothing before they have shaken hands: iperf3 does not send the first
	// datagram again.
	client.WaitFor(l, "datagrams", func() bool { return l.Ports()["s1:2"].TxPackets > 200 })
	l.Must("set", "-l", l.Name, "--out", "s1:2", "loss=1%")
	before := l.Ports()["s1:2"]
	if err := client.WaitEnd(t); err != nil {
		t.Fatalf("%v\n%s", err, client.Out.String())
	}
	_ = server.WaitEnd(t)
	l.WaitQuiet()
	after := l.Ports()["s1:2"]
	var r testlab.Iperf
	if err := json.Unmarshal([]byte(client.Out.String()), &r); err != nil || r.Error != "" {
		t.Fatalf("%v, %s", err, client.Out.String())
	}
	lost := after.Drops["link-loss"]
	n, got := r.End.Sum.Packets, r.End.Sum.Lost
	// Packets dropped by the receiver's socket, or by its kernel before that, are
	// not lost on the link. iperf3 counts them as lost, unless they came after the
	// last packet that iperf3 read.
	missed, kept = countMissed(l, "h2")-missed, short()-kept
	t.Logf("iperf3: %.0f of %.0f lost (%.3f%%); counter: %d; did not reach the link: %d", got, n, 100*got/n, lost, kept)
	// The counter also includes the few packets of the TCP control connection.
	if gap := got - float64(lost) - float64(kept); gap < -5 || gap > float64(missed)+5 {
		t.Errorf("iperf3 lost %.0f, the link %d, what is before it %d, the receiver's kernel %d", got, lost, kept, missed)
	}
	// The lab's seed decides which packets are lost, so this is not by chance: four standard
	// deviations of a binomial distribution.
	crossed := float64(after.TxPackets - before.TxPackets)
	share, sd := float64(lost-before.Drops["link-loss"])/crossed, math.Sqrt(0.01*0.99/crossed)
	if math.Abs(share-0.01) > 4*sd {
		t.Errorf("loss %.4f%% of %.0f packets is not 1%% ± %.4f%%", 100*share, crossed, 400*sd)
	}
}

// TestMarking_SlowsTheSender: with ECN on, a marking queue slows the sender
// without losing a packet, and the capture, the counters, the receiver's kernel
// and ss agree on the marks.
func TestMarking_SlowsTheSender(t *testing.T) {
	t.Parallel()
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
	client := l.StartProgram("h1", "iperf3", "-4", "-c", "h2", "-t", "600", "-C", "cubic")
	ofMarks := regexp.MustCompile(`delivered_ce:[1-9]`)
	client.WaitFor(l, "ss sees that the sender was told of marks", func() bool { return ofMarks.MatchString(l.Exec("h1", "ss", "-tin", "dport", "=", ":5201")) })
	client.WaitFor(l, "twenty marks and ten thousand packets", func() bool { p := l.Ports()["s1:2"]; return p.Marked > 20 && p.TxPackets > 10_000 })
	interrupt(l, client)
	_, _ = s.Process.Wait()
	l.WaitQuiet()
	port := l.Ports()["s1:2"]
	ce := counter(l, "h2", "IpExtInCEPkts")
	file := stop()
	to := l.Down().Hosts[1].Offload

	if port.Dropped != 0 {
		t.Errorf("%d drops", port.Dropped)
	}
	// Without marks cubic fills the megabyte; slow start overshoots once.
	t.Logf("%d marked of %d, queue max %v, mean %.0f B", port.Marked, port.TxPackets, port.QueueMax, port.QueueMean)
	if port.QueueMean > 60_000 {
		t.Errorf("the queue was %.0f B long on average: the sender does not slow down", port.QueueMean)
	}
	comments := testlab.Tshark(t, file, "-Y", `frame.comment contains "marked CE"`, "-T", "fields", "-e", "ip.dsfield.ecn", "-e", "frame.comment")
	// A kernel counts packets that were joined for it as one.
	if joined := to.Written - to.Writes; uint64(len(comments)) != port.Marked || ce > port.Marked || ce+joined < port.Marked {
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

// TestTwoClocks_DropTheSamePackets: a drop-tail queue overloaded by iperf3 in wall-clock time, and
// by modelled UDP in virtual time, drops what it must drop of the packets that came, and is as long
// as it must be, to the packet: with exact clocks, as 50 ppm are a packet. What comes differs: a real
// program is late when the machine is busy.
func TestTwoClocks_DropTheSamePackets(t *testing.T) {
	t.Parallel()
	const text = `
clock: exact
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["s1:2", "s2:1"], rate: 20Mbps, delay: 1ms, from: {"s1:2": {queue: {limit: 100KB}}}}
    - {endpoints: ["s2:2", "h2:eth0"], rate: 100Mbps}
workload:
  - {cbr: {from: h1, to: h2, rate: 25Mbps, size: 1000B, at: 0s, for: 2s}}
`
	// The wall-clock lab uses the same file without its workload: there iperf3 sends.
	real, _, _ := strings.Cut(text, "workload:")
	l := testlab.Start(t, real, "iperf3", "tshark")
	stop := l.Capture("s1:1", "--in", "-s", "100")
	r := l.Iperf3("h1", "h2", "h2", "-4", "-u", "-b", "25M", "-l", "1000", "-n", "6M")
	l.WaitQuiet()
	arrivals := stop()
	dropped, missed := l.Ports()["s1:2"].Drops["queue-full"], counter(l, "h2", "UdpRcvbufErrors")
	wall := l.Down()
	t.Logf("wall clock: iperf3 lost %.0f of %.0f", r.End.Sum.Lost, r.End.Sum.Packets)
	// iperf3 also counts what its own socket dropped. What was lost behind the last datagram that
	// arrived it does not count: four in a row at most, as five arrive in the time in which one
	// leaves, and five more for each packet of its control connection that takes a place.
	const behind = 4 + 5*6
	if gap := r.End.Sum.Lost - float64(dropped); gap < -behind || gap > float64(missed)+5 {
		t.Errorf("iperf3 lost %.0f, the queue dropped %d, the receiver's socket %d", r.End.Sum.Lost, dropped, missed)
	}
	checkDropTail(t, wall, arrivals)

	dir := t.TempDir()
	file, arrivals := filepath.Join(dir, "lab.yaml"), filepath.Join(dir, "arrivals.pcapng")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	virtual := testlab.Simulate(t, l.Weft, file, "-w", arrivals, "-p", "s1:1")
	checkDropTail(t, virtual, arrivals)
	// A quarter of what comes, with headers, but for what the queue takes at first.
	if share := virtual.Flows[0].LossShare; share < 0.22 || share > 0.25 {
		t.Errorf("%.4f of the modelled flow was lost", share)
	}
}

// checkDropTail compares the queue of s1:2 with what a queue of 100 KB at 20 Mb/s does with the
// packets that came in at s1:1.
func checkDropTail(t *testing.T, r *report.Report, arrivals string) {
	t.Helper()
	var (
		drops    uint64
		area     float64 // byte-seconds
		measured = testlab.PortOf(t, r, "s1:2")
	)
	replayQueue(t, arrivals, 20e6, 100_000, func(a arrival) {
		if a.dropped {
			drops++
		}
		area += float64(a.bytes) * a.wait.Seconds()
	})
	got, mean := measured.Drops["queue-full"], area/r.Emulated.Seconds()
	t.Logf("%v: dropped %d, expected %d; mean queue %.1f B, expected %.1f B", r.Clock, got, drops, measured.QueueMean, mean)
	if got != drops || drops < 500 {
		t.Errorf("the queue dropped %d packets, and a queue of its length drops %d", got, drops)
	}
	if math.Abs(measured.QueueMean/mean-1) > 0.001 {
		t.Errorf("the queue was %.1f B long on average, and a queue of its length is %.1f B long", measured.QueueMean, mean)
	}
}

// arrival is a packet that comes to a queue.
type arrival struct {
	bytes   int // of its frame
	length  int // of the queue before it, in bytes
	dropped bool
	wait    time.Duration // in the queue
	ecn     string        // its codepoint, "0" to "3", or "" if it is not IP
}

// replayQueue computes what a FIFO queue with a rate in bits per second and a limit in bytes does
// with the packets that came in at a port, of which there is a capture.
func replayQueue(t *testing.T, capture string, rate float64, limit int, visit func(arrival)) {
	t.Helper()
	const overhead = 8 + 4 + 12
	type waiting struct {
		bytes int
		start time.Time // of its transmission
	}
	var (
		queue  []waiting
		length int
		free   time.Time // when the link is
	)
	for _, line := range testlab.Tshark(t, capture, "-Y", "frame.packet_flags_direction == 1", "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "ip.dsfield.ecn") {
		f := strings.Split(line, "\t")
		now, bytes := testlab.ParseEpoch(t, f[0]), number(t, f[1])
		for len(queue) > 0 && !queue[0].start.After(now) {
			length -= queue[0].bytes
			queue = queue[1:]
		}
		a := arrival{bytes: bytes, length: length, ecn: f[2]}
		start := now
		if free.After(now) {
			start = free
			a.dropped = length+bytes > limit
		}
		if !a.dropped {
			if a.wait = start.Sub(now); a.wait > 0 {
				length += bytes
				queue = append(queue, waiting{bytes, start})
			}
			free = start.Add(time.Duration(float64(8*(max(bytes, 60)+overhead)) / rate * 1e9))
		}
		visit(a)
	}
}
