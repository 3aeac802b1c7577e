package lab

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/sim/units"
)

// TestTrimming_DeliversTheHeadersOfEveryPacket overloads a link with real UDP: every packet arrives, complete
// or as its headers, and no header is longer than configured. The receiver's
// kernel counts the same number of truncated packets.
func TestTrimming_DeliversTheHeadersOfEveryPacket(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "iperf3", "tshark", "tcpdump", "nstat")
	for _, offload := range []string{"off", "on"} {
		t.Run("offload "+offload, func(t *testing.T) {
			l := testlab.Start(t, fmt.Sprintf(`
topology:
  kinds:
    host: {offload: %s}
    switch:
      classes:
        data: {dscp: 8, priority: 1, limit: 15KB, trim: {preset: uec, dscp: 10}}
        headers: {dscp: 10, priority: 7, limit: 20KB}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:h2"], rate: 100Mbps}
    - {endpoints: ["h3:eth0", "s1:h3"], rate: 20Mbps}
`, offload), "iperf3", "tshark", "tcpdump", "nstat")
			stop := l.Capture("s1:h3", "--out", "-s", "100", "-f", "udp")
			var senders sync.WaitGroup
			inside := filepath.Join(t.TempDir(), "inside.pcap")
			dump := tcpdump(l, "h3", inside, "udp and (dst port 5201 or dst port 5202)")
			for i, port := range []string{"5201", "5202"} {
				l.StartServer("h3", "iperf3", "-s", "-1", "-p", port)
				l.WaitListening("h3", port)
				c := l.StartServer(fmt.Sprintf("h%d", i+1), "iperf3", "-4", "-c", "h3", "-p", port, "-u", "-b", "30M", "-l", "1200", "-n", "2M", "-S", "32")
				senders.Go(func() { _ = c.Wait() })
			}
			senders.Wait()
			l.WaitQuiet()
			ports := l.Ports()
			truncated := counter(l, "h3", "IpExtInTruncatedPkts")
			// When it ends, tcpdump discards what it has not read yet. So it reads one more
			// datagram that is known.
			l.Exec("h2", "bash", "-c", "echo the last >/dev/udp/10.0.0.3/5202")
			l.WaitFor("tcpdump writes the last datagram", func() bool {
				b, err := os.ReadFile(inside)
				return err == nil && bytes.Contains(b, []byte("the last\n"))
			})
			missed := dump()
			file := stop()

			out := ports["s1:h3"]
			if out.Trimmed < 500 || out.Dropped != 0 {
				t.Fatalf("%d trimmed, %d dropped %v: want many and none", out.Trimmed, out.Dropped, out.Drops)
			}
			if truncated != out.Trimmed {
				t.Errorf("the switch trimmed %d, the receiver's kernel counts %d truncated", out.Trimmed, truncated)
			}
			// 24 B are kept after the IP header. The frame is then shorter than
			// Ethernet's minimum, which the wire pads and a TAP does not.
			const asked = 14 + 20 + 24
			fields := testlab.Tshark(t, file, "-Y", `frame.comment contains "trimmed at s1:h3"`, "-T", "fields", "-e", "frame.len", "-e", "ip.len", "-e", "ip.dsfield.dscp")
			if uint64(len(fields)) != out.Trimmed {
				t.Errorf("%d packets in the capture say that they were trimmed, %d were", len(fields), out.Trimmed)
			}
			for _, f := range fields {
				if f != fmt.Sprintf("%d\t1228\t10", asked) {
					t.Errorf("a trimmed packet's length, IP length and DSCP: %q", f)
					break
				}
			}
			if offload == "on" {
				return // complete datagrams may have been joined
			}
			sent := len(testlab.Tshark(t, file, "-Y", "udp.dstport == 5201 || udp.dstport == 5202"))
			// Datagrams that tcpdump's own socket dropped still reached the host.
			if got := len(testlab.Tshark(t, inside)); got+missed != sent || got < 3000 {
				t.Errorf("the switch sent %d datagrams, whole or trimmed; %d came to the host, and %d more that tcpdump missed", sent, got, missed)
			}
		})
	}
}

// tcpdump writes the packets that enter and leave a host to a file. stop ends
// it and returns how many packets its socket dropped because it was too slow.
func tcpdump(l *testlab.Lab, host, file, filter string) (stop func() (missed int)) {
	l.T.Helper()
	c := l.Command("exec", "-l", l.Name, host, "--", "tcpdump", "-i", "eth0", "-B", "65536", "-U", "-w", file, "-s", "100", "-Z", "root", filter)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	l.WaitFor("a file of tcpdump", func() bool { // it listens once the file exists
		_, err := os.Stat(file)
		return err == nil
	})
	return func() int {
		l.T.Helper()
		_ = c.Process.Signal(unix.SIGINT)
		_ = c.Wait()
		m := regexp.MustCompile(`(\d+) packets? dropped by kernel`).FindStringSubmatch(said.String())
		if m == nil {
			l.T.Fatalf("tcpdump does not say how many packets it missed:\n%s", said.String())
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			l.T.Fatal(err)
		}
		return n
	}
}

// TestWeights_ShareALink: three classes of datagrams of programs share a link 1 : 2 : 4.
func TestWeights_ShareALink(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    switch:
      queue: {limit: 4MB}
      classes:
        one: {dscp: 8, priority: 1, weight: 1}
        two: {dscp: 16, priority: 2, weight: 2}
        four: {dscp: 24, priority: 3, weight: 4}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, h4: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"], rate: 200Mbps}
    - {endpoints: ["h2:eth0", "s1:h2"], rate: 200Mbps}
    - {endpoints: ["h3:eth0", "s1:h3"], rate: 200Mbps}
    - {endpoints: ["h4:eth0", "s1:h4"], rate: 4Mbps, delay: 100us}
`, "iperf3")
	for i := range 3 {
		port := strconv.Itoa(5201 + i)
		l.StartServer("h4", "iperf3", "-s", "-1", "-p", port)
		l.WaitListening("h4", port)
		l.StartServer(fmt.Sprintf("h%d", i+1), "iperf3", "-4", "-c", "h4", "-p", port, "-t", "600", "-u", "-b", "50M", "-l", "1200", "-S", strconv.Itoa(32*(i+1)))
	}
	look := func() (sent [3]float64, wait [3]units.Bytes) {
		for _, c := range l.Ports()["s1:h4"].Classes {
			if c.Priority >= 1 && c.Priority <= 3 {
				sent[c.Priority-1], wait[c.Priority-1] = float64(c.TxBytes+24*c.TxPackets), c.QueueBytes
			}
		}
		return sent, wait
	}
	// The shares are exact only while all classes have something to send. If the programs stop,
	// these queues last for four seconds.
	var from, to [3]float64
	l.WaitFor("2 MB in each queue", func() bool {
		var wait [3]units.Bytes
		from, wait = look()
		return min(wait[0], wait[1], wait[2]) >= 2_000_000
	})
	sum := 0.0
	l.WaitFor("1 MB more", func() bool {
		to, _ = look()
		sum = 0
		for i := range to {
			to[i] -= from[i]
			sum += to[i]
		}
		return sum >= 1_000_000
	})
	t.Logf("%.4f %.4f %.4f of %.0f B", to[0]/sum, to[1]/sum, to[2]/sum, sum)
	// A round of the scheduler is 7 packets of some 1250 B.
	for i, want := range []float64{sum / 7, sum * 2 / 7, sum * 4 / 7} {
		if math.Abs(to[i]-want) > 7*1500 {
			t.Errorf("class %d has sent %.0f B of %.0f, want %.0f", i+1, to[i], sum, want)
		}
	}
}

// TestStrictPriority_DelaysAPingByOnePacket: while iperf3 fills the link, a ping in a higher
// class takes at most the time of one packet longer than on an idle link.
func TestStrictPriority_DelaysAPingByOnePacket(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}
    switch:
      queue: {limit: 150KB}
      classes: {urgent: {dscp: 46, priority: 7}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:h2"], rate: 100Mbps}
    - {endpoints: ["s1:s2", "s2:s1"], rate: 10Mbps, delay: 1ms}
    - {endpoints: ["h3:eth0", "s2:h3"], rate: 100Mbps}
`, "iperf3", "ping", "tshark")
	// 1514 bytes take 1.23 ms at 10 Mb/s. The captures have the emulated time
	// that a ping takes; ping's own time includes what the machine adds.
	ping := func(tos string, minReplies int) (best float64, spent []float64) {
		stop := l.Capture("s1:h2", "s2:h3", "-f", "icmp")
		out := l.Exec("h2", "ping", "-4", "-Q", tos, "-c", "30", "-i", "0.05", "h3")
		file := stop()
		m := regexp.MustCompile(`= ([0-9.]+)/`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("ping:\n%s", out)
		}
		best, _ = strconv.ParseFloat(m[1], 64)
		at := map[string]float64{}
		for _, line := range testlab.Tshark(t, file, "-Y", "icmp.type == 8", "-T", "fields", "-e", "frame.interface_name", "-e", "icmp.seq", "-e", "frame.time_epoch", "-e", "frame.packet_flags_direction") {
			f := strings.Split(line, "\t")
			when := testlab.ParseEpoch(t, f[2])
			now := float64(when.UnixNano()) / 1e6
			if f[0] == "s1:h2" {
				at[f[1]] = now
			} else if from, ok := at[f[1]]; ok {
				spent = append(spent, now-from)
			}
		}
		if len(spent) < minReplies {
			t.Fatalf("only %d of 30 pings are in the capture", len(spent))
		}
		return best, spent
	}
	maxOf := func(x []float64) (m float64) {
		for _, v := range x {
			m = max(m, v)
		}
		return m
	}
	_, idle := ping("184", 30)
	l.StartServer("h3", "iperf3", "-s", "-1")
	l.WaitListening("h3", "5201")
	l.StartServer("h1", "iperf3", "-4", "-c", "h3", "-t", "600", "-C", "cubic", "-P", "2")
	l.WaitFor("a queue before the slow link", func() bool { return l.Ports()["s1:s2"].QueueBytes > 60_000 })
	_, urgent := ping("184", 30)
	_, plain := ping("0", 1) // the queue may be full
	t.Logf("ms across both switches: idle up to %.3f, urgent up to %.3f beside iperf3, in iperf3's own class up to %.1f", maxOf(idle), maxOf(urgent), maxOf(plain))
	if maxOf(plain) < 20 {
		t.Errorf("in iperf3's class a ping took at most %.1f ms: iperf3 did not fill the link", maxOf(plain))
	}
	// Captures have emulated times, so this holds on a busy machine as well.
	// The ping waits for one packet at s1, 1538 bytes on the wire or 1.2304 ms. At s2 it comes
	// 122 bytes, 0.0976 ms, after that packet, which then takes 0.1230 ms to leave.
	if extra := maxOf(urgent) - maxOf(idle); extra > 1.2304+0.1230-0.0976+0.001 {
		t.Errorf("beside iperf3 a ping of the highest class took %.4f ms longer, want 1.2558 at most", extra)
	}
}

// pfcLab is three switches in a row; h1 sends to h3, whose link is slow, and h2
// to h4, whose path is free except for the shared part.
const pfcLab = `
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}
    switch:
      buffer: {size: 4MB}
      classes:
        lossless: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 100KB, xon: 80KB}}
        default: {weight: 1}
    link: {rate: 200Mbps, delay: 10us}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
    h4: {kind: host}
    s1: {kind: switch}
    s2: {kind: switch}
    s3: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["h2:eth0", "s1:h2"]}
    - {endpoints: ["s1:s2", "s2:s1"]}
    - {endpoints: ["s2:s3", "s3:s2"]}
    - {endpoints: ["h3:eth0", "s3:h3"], rate: 20Mbps}
    - {endpoints: ["h4:eth0", "s3:h4"]}
`

// TestPFC_PausesOnlyItsClass: real UDP senders over three lossless switches. Nothing
// is lost, though one of them offers five times what its receiver's link
// carries: the pause spreads to both hosts. In another class the other is never held up beside the
// same culprit: a pause stops one class of a real host and no other.
func TestPFC_PausesOnlyItsClass(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, pfcLab, "iperf3", "tshark", "nstat")
	stop := l.Capture("s1:h1", "-s", "100", "-f", "ether proto 0x8808")
	for _, c := range []struct{ name, tos, class string }{{"in the class of the culprit", "104", "lossless"}, {"in another class", "0", "default"}} {
		before, missed := l.Ports(), counter(l, "h4", "UdpRcvbufErrors")
		l.StartServer("h3", "iperf3", "-s", "-1")
		l.WaitListening("h3", "5201")
		culprit := l.StartProgram("h1", "iperf3", "-4", "-c", "h3", "-u", "-b", "100M", "-l", "1200", "-t", "600", "-S", "104")
		culprit.WaitFor(l, "the pause reaches its host", func() bool {
			return testlab.PausedTime(l.Ports()["h1:eth0"], "lossless") > testlab.PausedTime(before["h1:eth0"], "lossless")
		})
		victim := l.Iperf3("h2", "h4", "h4", "-4", "-u", "-b", "60M", "-l", "1200", "-n", "3M", "-S", c.tos)
		interrupt(l, culprit)
		l.EndPrograms("h3", "iperf3")
		l.WaitQuiet()
		after := l.Ports()
		// Datagrams dropped by a receiver's own socket are not lost in the fabric.
		missed = counter(l, "h4", "UdpRcvbufErrors") - missed
		if victim.End.Sum.Lost > float64(missed) {
			t.Errorf("iperf3 lost %.0f datagrams, %d of them at the receiver's socket", victim.End.Sum.Lost, missed)
		}
		t.Logf("victim %s: %.1f Mb/s, lost %.0f", c.name, victim.End.Sum.Bits/1e6, victim.End.Sum.Lost)
		if n := testlab.ClassOf(t, after["h2:eth0"], c.class).TxPackets - testlab.ClassOf(t, before["h2:eth0"], c.class).TxPackets; n < 1000 {
			t.Errorf("the victim %s has sent %d packets", c.name, n)
		}
		for name, p := range after {
			if n := p.Dropped - before[name].Dropped; n > 0 {
				t.Errorf("%s dropped %d: %v", name, n, p.Drops)
			}
		}
		paused := []string{"s2:s3", "s1:s2", "h1:eth0"}
		if c.class == "lossless" {
			paused = append(paused, "h2:eth0")
		}
		for _, name := range paused {
			if testlab.PausedTime(after[name], "lossless") == testlab.PausedTime(before[name], "lossless") {
				t.Errorf("%s was not paused", name)
			}
		}
		if d := testlab.PausedTime(after["h2:eth0"], "default"); d != 0 {
			t.Errorf("the default class of h2 was paused for %v", d)
		}
	}
	why := l.Must("why-no-pause", "-l", l.Name, "s3:s2")
	if !strings.Contains(why, "It paused: lossless for") || !strings.Contains(why, "lossless at s3:h3: queue up to") {
		t.Errorf("why-no-pause s3:s2:\n%s", why)
	}
	// No sender sends so much to h4 that packets would have to wait.
	why = l.Must("why-no-pause", "-l", l.Name, "s3:h4")
	if !strings.Contains(why, "No packet of lossless came in, but") {
		t.Errorf("why-no-pause s3:h4:\n%s", why)
	}
	if _, e, code := l.Run("why-no-pause", "-l", l.Name, "h1:eth0"); code != 2 || !strings.Contains(e, "a port of a switch") {
		t.Errorf("why-no-pause h1:eth0: exit code %d, %s", code, e)
	}
	if top := l.Must("top", "-l", l.Name, "--once"); !strings.Contains(top, "s2:s3") {
		t.Errorf("top --once:\n%s", top)
	}
	r := l.Down()
	for _, h := range r.Hosts {
		if h.TxDropped+h.QueueDropped > 0 {
			t.Errorf("the device of %s dropped %d, its queueing discipline %d", h.Name, h.TxDropped, h.QueueDropped)
		}
	}
	// The frames are on the wire as Wireshark reads them.
	file := stop()
	if n := len(testlab.Tshark(t, file, "-Y", `frame.comment matches "^xoff: s1:h1 asks for a pause, [0-9]+ B that came in wait$"`)); n == 0 {
		t.Error("no PFC frame has the comment of an xoff")
	}
	frames := testlab.Tshark(t, file, "-Y", "macc.opcode == 0x0101", "-T", "fields", "-e", "eth.dst", "-e", "macc.cbfc.enbv", "-e", "macc.cbfc.pause_time.c3")
	if len(frames) < 2 {
		t.Fatalf("%d PFC frames in the capture", len(frames))
	}
	kinds := map[string]int{}
	for _, f := range frames {
		kinds[f]++
	}
	t.Log(kinds)
	if len(kinds) != 2 || kinds["01:80:c2:00:00:01\t0x0008\t65535"] == 0 || kinds["01:80:c2:00:00:01\t0x0008\t0"] == 0 {
		t.Errorf("PFC frames: %v", kinds)
	}
}

// TestDeadlock_IsNamedAndBroken: static routes send each of three real UDP flows two
// hops around a ring of lossless switches. While the ring is slow all queues
// fill. When it becomes fast, at one instant, all send at once, pause each
// other and deadlock. The report names the cycle, and the watchdog breaks it.
func TestDeadlock_IsNamedAndBroken(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    switch:
      buffer: {size: 2MB}
      classes: {default: {pfc: {xoff: 20KB, xon: 15KB, watchdog: {detect: 500ms, restore: 200ms}}}}
    link: {rate: 50Mbps, delay: 10us}
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host}
    s1: {kind: switch, routes: [{to: h3, via: s2}]}
    s2: {kind: switch, routes: [{to: h1, via: s3}]}
    s3: {kind: switch, routes: [{to: h2, via: s1}]}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["h2:eth0", "s2:h2"]}
    - {endpoints: ["h3:eth0", "s3:h3"]}
    - {endpoints: ["s1:s2", "s2:s1"], rate: 1Mbps}
    - {endpoints: ["s2:s3", "s3:s2"], rate: 1Mbps}
    - {endpoints: ["s3:s1", "s1:s3"], rate: 1Mbps}
events:
  - {at: 4s, link: "s1:s2", set: {rate: 50Mbps}}
  - {at: 4s, link: "s2:s3", set: {rate: 50Mbps}}
  - {at: 4s, link: "s3:s1", set: {rate: 50Mbps}}
`, "bash", "dd")
	for from, to := range map[string]string{"h1": "10.0.0.3", "h2": "10.0.0.1", "h3": "10.0.0.2"} {
		// No socket listens there, so dd sometimes gets an error and is restarted.
		l.StartServer(from, "bash", "-c", "while :; do dd if=/dev/zero bs=1200 2>/dev/null >/dev/udp/"+to+"/9; done")
	}
	// Before that the watchdog may break what is too short to be called a deadlock on a slow link.
	l.WaitFor("the watchdog breaks a named deadlock", func() bool {
		r, err := l.Client().Report(l.T.Context())
		if err != nil {
			l.T.Fatal(err)
		}
		return len(r.Deadlocks) > 0 && r.Deadlocks[0].Ended > 0 && r.Accounts.Drops["watchdog"] > 0
	})
	l.WaitPackets("s1:s2", 100) // they move again
	r := l.Down()
	if len(r.Deadlocks) == 0 || r.Deadlocks[0].String() != "s1:s2 -> s2:s3 -> s3:s1 -> s1:s2" || r.Deadlocks[0].Class != "default" {
		t.Fatalf("deadlocks: %+v", r.Deadlocks)
	}
	t.Log(r.Deadlocks[0].Text())
	if d := r.Deadlocks[0]; d.Ended == 0 {
		t.Errorf("the watchdog has not freed it: %s", d.Text())
	}
	if r.Accounts.Drops["watchdog"] == 0 || r.Accounts.Dropped != r.Accounts.Drops["watchdog"] || !r.Accounts.Balanced() {
		t.Errorf("%+v", r.Accounts)
	}
}
