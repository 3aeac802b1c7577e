package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestTrimming overloads a link with real UDP: every packet arrives, complete
// or as its headers, and no header is longer than configured. The receiver's
// kernel counts the same number of truncated packets.
func TestTrimming(t *testing.T) {
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
				c := l.StartServer(fmt.Sprintf("h%d", i+1), "timeout", "60", "iperf3", "-4", "-c", "h3", "-p", port, "-u", "-b", "30M", "-l", "1200", "-t", "2", "-S", "32")
				senders.Go(func() { _ = c.Wait() })
			}
			senders.Wait()
			l.WaitQuiet()
			ports := l.Ports()
			truncated := counter(l, "h3", "IpExtInTruncatedPkts")
			// When it ends, tcpdump discards what it has not read yet, and on a
			// busy machine it falls behind.
			for last, same := int64(-1), 0; same < 10; time.Sleep(100 * time.Millisecond) {
				info, err := os.Stat(inside)
				if err != nil {
					t.Fatal(err)
				}
				if same++; info.Size() != last {
					last, same = info.Size(), 0
				}
			}
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

// TestWeightsShareALink: three classes of real TCP share a link 1 : 2 : 4.
func TestWeightsShareALink(t *testing.T) {
	l := testlab.Start(t, `
topology:
  kinds:
    host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}
    switch:
      queue: {limit: 400KB}
      classes:
        one: {dscp: 8, priority: 1, weight: 1}
        two: {dscp: 16, priority: 2, weight: 2}
        four: {dscp: 24, priority: 3, weight: 4}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host}, h4: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"], rate: 200Mbps}
    - {endpoints: ["h2:eth0", "s1:h2"], rate: 200Mbps}
    - {endpoints: ["h3:eth0", "s1:h3"], rate: 200Mbps}
    - {endpoints: ["h4:eth0", "s1:h4"], rate: 20Mbps, delay: 100us}
`, "iperf3")
	for i := range 3 {
		port := strconv.Itoa(5201 + i)
		l.StartServer("h4", "iperf3", "-s", "-1", "-p", port)
		l.WaitListening("h4", port)
		// Four connections each: one alone leaves its queue empty after a loss.
		l.StartServer(fmt.Sprintf("h%d", i+1), "iperf3", "-4", "-c", "h4", "-p", port, "-t", "120", "-P", "4", "-C", "cubic", "-S", strconv.Itoa(32*(i+1)))
	}
	time.Sleep(3 * time.Second)
	bytes := func() (b [3]float64) {
		for _, c := range l.Ports()["s1:h4"].Classes {
			if c.Priority >= 1 && c.Priority <= 3 {
				b[c.Priority-1] = float64(c.TxBytes + 24*c.TxPackets)
			}
		}
		return b
	}
	// DWRR shares are exact only while all classes have something to send, and
	// on a busy machine a sender may fall behind. So one of three intervals has
	// to agree.
	var said []string
	for range 3 {
		from := bytes()
		time.Sleep(4 * time.Second)
		to := bytes()
		var sum, off float64
		for i := range to {
			to[i] -= from[i]
			sum += to[i]
		}
		for i, want := range []float64{1. / 7, 2. / 7, 4. / 7} {
			off = max(off, to[i]/sum/want-1, 1-to[i]/sum/want)
		}
		said = append(said, fmt.Sprintf("%.4f %.4f %.4f of %.1f Mb/s", to[0]/sum, to[1]/sum, to[2]/sum, sum*8/4e6))
		if off < 0.02 {
			t.Log(said)
			return
		}
	}
	t.Errorf("the shares are %q, want 1/7 2/7 4/7 within 2%%", said)
}

// TestStrictPriorityKeepsAPing: while iperf3 fills the link, a ping in a higher
// class takes at most the time of one packet longer than on an idle link.
func TestStrictPriorityKeepsAPing(t *testing.T) {
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
	ping := func(tos string) (best float64, spent []float64) {
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
		if len(spent) < 25 {
			t.Fatalf("only %d of 30 pings are in the capture", len(spent))
		}
		return best, spent
	}
	most := func(x []float64) (m float64) {
		for _, v := range x {
			m = max(m, v)
		}
		return m
	}
	_, idle := ping("184")
	l.StartServer("h3", "iperf3", "-s", "-1")
	l.WaitListening("h3", "5201")
	l.StartServer("h1", "iperf3", "-4", "-c", "h3", "-t", "120", "-C", "cubic", "-P", "2") // until the test ends
	time.Sleep(2 * time.Second)
	_, urgent := ping("184")
	_, plain := ping("0")
	t.Logf("ms across both switches: idle up to %.3f, urgent up to %.3f beside iperf3, in iperf3's own class up to %.1f", most(idle), most(urgent), most(plain))
	if most(plain) < 20 {
		t.Errorf("in iperf3's class a ping took at most %.1f ms: iperf3 did not fill the link", most(plain))
	}
	// Captures have emulated times, so this holds on a busy machine as well.
	if extra := most(urgent) - most(idle); extra > 1.25 {
		t.Errorf("beside iperf3 a ping of the highest class took %.3f ms longer, one packet takes 1.23", extra)
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

// TestPauseOfRealHosts: real UDP senders over three lossless switches. Nothing
// is lost, though one of them offers five times what its receiver's link
// carries; the pause spreads to both hosts, and the victim gets about as much
// as the culprit, as textbooks say. In another class it gets all it offers
// beside the same culprit: a pause stops one class of a real host and no other.
func TestPauseOfRealHosts(t *testing.T) {
	l := testlab.Start(t, pfcLab, "iperf3", "tshark", "nstat")
	stop := l.Capture("s1:h1", "-s", "100", "-f", "ether proto 0x8808")
	send := func(from, to, port, tos, rate string, flags ...string) (*exec.Cmd, *bytes.Buffer) {
		s := l.Command(append([]string{"exec", "-l", l.Name, to, "--"}, "iperf3", "-s", "-1", "-p", port, "-J")...)
		var out bytes.Buffer
		s.Stdout = &out
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		l.WaitListening(to, port)
		l.StartServer(from, append([]string{"iperf3", "-4", "-c", to, "-p", port, "-u", "-b", rate, "-l", "1200", "-t", "4", "-S", tos}, flags...)...)
		return s, &out
	}
	got := func(s *exec.Cmd, out *bytes.Buffer) (mbps, lost float64) {
		t.Helper()
		if err := s.Wait(); err != nil {
			t.Fatalf("iperf3 -s: %v\n%s", err, out)
		}
		var r testlab.Iperf
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r.End.Received.Bits / 1e6, r.End.Received.Lost
	}
	// The victim offers 60 Mb/s. A machine with one core cannot carry that beside the
	// culprit, but still shows that the victim is no longer held up.
	held := 0.0 // Mb/s of the victim in the class of the culprit
	for _, c := range []struct {
		name, tos string
		most      float64 // Mb/s of the victim
	}{{"in the class of the culprit", "104", 40}, {"in another class", "0", 61}} {
		before, missed := l.Ports(), counter(l, "h3", "UdpRcvbufErrors")+counter(l, "h4", "UdpRcvbufErrors")
		culprit, outC := send("h1", "h3", "5201", "104", "100M")
		victim, outV := send("h2", "h4", "5202", c.tos, "60M")
		gotC, lostC := got(culprit, outC)
		gotV, lostV := got(victim, outV)
		l.WaitQuiet()
		after := l.Ports()
		// Datagrams dropped by a receiver's own socket are not lost in the fabric.
		missed = counter(l, "h3", "UdpRcvbufErrors") + counter(l, "h4", "UdpRcvbufErrors") - missed
		if lostC+lostV > float64(missed) {
			t.Errorf("iperf3 lost %.0f and %.0f datagrams, %d of them at the receivers' sockets", lostC, lostV, missed)
		}
		t.Logf("victim %s: culprit %.1f Mb/s, victim %.1f; lost %.0f and %.0f", c.name, gotC, gotV, lostC, lostV)
		if gotV > c.most || gotV < 1.5*held {
			t.Errorf("the victim %s has %.1f Mb/s", c.name, gotV)
		}
		held = gotV
		for name, p := range after {
			if n := p.Dropped - before[name].Dropped; n > 0 {
				t.Errorf("%s dropped %d: %v", name, n, p.Drops)
			}
		}
		for _, name := range []string{"s2:s3", "s1:s2", "h1:eth0"} {
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
	if _, e, code := l.Run("why-no-pause", "-l", l.Name, "h1:eth0"); code != 1 || !strings.Contains(e, "a port of a switch") {
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

// TestDeadlockOfRealHosts: static routes send each of three real UDP flows two
// hops around a ring of lossless switches. While the ring is slow all queues
// fill. When it becomes fast, at one instant, all send at once, pause each
// other and deadlock. The report names the cycle, and the watchdog breaks it.
func TestDeadlockOfRealHosts(t *testing.T) {
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
	time.Sleep(7 * time.Second)
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
