package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/internal/await"
)

// fileSizes are the sizes in bytes of the files written by files; none is a
// multiple of a segment.
var fileSizes = map[string]int{"small": 1_000_003, "middle": 3_000_011, "large": 10_000_003}

// files writes files of random bytes and returns their SHA-256 by name.
func files(t *testing.T, names ...string) (dir string, sums map[string]string) {
	t.Helper()
	dir, sums = t.TempDir(), map[string]string{}
	// The workers of an nginx started by root run as user nobody.
	for d := dir; strings.HasPrefix(d, os.TempDir()) && d != os.TempDir(); d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	r := rand.NewPCG(1, 2)
	for _, name := range names {
		b := make([]byte, fileSizes[name]+8)
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], r.Uint64())
		}
		b = b[:fileSizes[name]]
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return dir, sums
}

// nginx serves the files of a directory in hosts.
func nginx(l *testlab.Lab, dir string, hosts ...string) {
	l.T.Helper()
	for _, h := range hosts {
		conf := filepath.Join(dir, h+".conf")
		text := fmt.Sprintf("daemon off; pid %[1]s/%[2]s.pid; error_log %[1]s/%[2]s.log;\nevents {}\nhttp { access_log off; server { listen 80; listen [::]:80; root %[1]s; } }\n", dir, h)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			l.T.Fatal(err)
		}
		l.StartServer(h, "nginx", "-c", conf)
	}
	for _, h := range hosts {
		l.WaitListening(h, "80")
	}
}

// fetch returns the SHA-256 of a file as received by a client.
func fetch(l *testlab.Lab, client, family, server, file string) string {
	l.T.Helper()
	return strings.Fields(l.Exec(client, "sh", "-c", fmt.Sprintf("curl -s -S -f %s --max-time 100 http://%s/%s | sha256sum", family, server, file)))[0]
}

// eight is four hosts on each side of a bottleneck, which is from the b hosts
// to the a hosts: with a TAP, a TUN, and each without offload.
const eight = `
topology:
  kinds:
    host: {join-window: 200us, sysctls: {net.ipv4.tcp_congestion_control: reno, net.ipv4.tcp_ecn: 1}}
    link: {rate: 1Gbps}
  nodes:
    s1: {kind: switch}
    s2: {kind: switch}
    a1: {kind: host}
    a2: {kind: host, attach: tun}
    a3: {kind: host, offload: off}
    a4: {kind: host, attach: tun, offload: off}
    b1: {kind: host}
    b2: {kind: host, attach: tun}
    b3: {kind: host, offload: off}
    b4: {kind: host, attach: tun, offload: off}
  links:
    - {endpoints: ["a1:eth0", "s1:1"]}
    - {endpoints: ["a2:eth0", "s1:2"]}
    - {endpoints: ["a3:eth0", "s1:3"]}
    - {endpoints: ["a4:eth0", "s1:4"]}
    - {endpoints: ["b1:eth0", "s2:1"]}
    - {endpoints: ["b2:eth0", "s2:2"]}
    - {endpoints: ["b3:eth0", "s2:3"]}
    - {endpoints: ["b4:eth0", "s2:4"]}
`

// TestOffload_KeepsBytes: files arrive unchanged between hosts of all kinds with
// and without offload, one after the other and at once, through a bottleneck
// that drops and through one that marks.
func TestOffload_KeepsBytes(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "nginx", "curl", "sha256sum")
	for _, c := range []struct{ name, link string }{
		{"dropping", `{loss: 0.1%, queue: {limit: 100KB}}`},
		{"marking", `{queue: {limit: 2MB, mark: {step: {k: 30KB}}}}`},
		{"disordering", `{reorder: 0.1%, reorder-by: 100us, duplicate: 0.1%, corrupt: 0.02%, queue: {limit: 1MB}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testlab.Start(t, eight+`    - {endpoints: ["s1:5", "s2:5"], rate: 600Mbps, delay: 50us, from: {"s2:5": `+c.link+"}}\n", "nginx", "curl", "sha256sum")
			dir, sums := files(t, "small", "middle", "large")
			nginx(l, dir, "b1", "b2", "b3", "b4")
			start, bytes := time.Now(), 0
			for _, x := range []struct{ server, client, family, file string }{
				{"b1", "a1", "-4", "large"}, // TAP to TAP
				{"b1", "a1", "-6", "large"},
				{"b1", "a2", "-4", "middle"}, // to TUN
				{"b1", "a2", "-6", "middle"},
				{"b2", "a1", "-4", "middle"}, // from TUN
				{"b2", "a1", "-6", "middle"},
				{"b1", "a3", "-4", "middle"}, // offload on to off
				{"b1", "a3", "-6", "small"},
				{"b3", "a1", "-4", "middle"}, // off to on
				{"b3", "a1", "-6", "small"},
				{"b2", "a4", "-6", "small"},
				{"b4", "a2", "-4", "small"},
			} {
				if got := fetch(l, x.client, x.family, x.server, x.file); got != sums[x.file] {
					t.Errorf("curl %s at %s: the %s file of %s came with SHA-256 %s, was sent with %s", x.family, x.client, x.file, x.server, got, sums[x.file])
				}
				bytes += fileSizes[x.file]
			}
			t.Logf("one after the other: %.0f Mb/s", float64(bytes)*8/time.Since(start).Seconds()/1e6)
			// More flows at once than a host joins at a time, from all servers.
			var all sync.WaitGroup
			for _, client := range []string{"a1", "a2"} {
				all.Go(func() {
					script := `for s in b1 b2 b3 b4; do for f in -4 -6; do curl -s -S -f $f --max-time 100 http://$s/small | sha256sum & done; done; wait`
					out, said, code := l.Run("exec", "-l", l.Name, client, "--", "sh", "-c", script)
					if n := strings.Count(out, sums["small"]); code != 0 || n != 8 {
						t.Errorf("at %s %d of 8 files came whole:\n%s%s", client, n, out, said)
					}
				})
			}
			all.Wait()
			l.WaitQuiet()
			r := l.Down()
			checkOffloaded(t, r, []string{"b1", "b2"}, []string{"a1", "a2"}, []string{"a3", "a4", "b3", "b4"})
			a := r.Accounts
			t.Logf("%+v", a)
			if !a.Balanced() || a.Held != 0 {
				t.Errorf("the accounts do not add up: %+v", a)
			}
			// The bottleneck did what the test needs.
			want := map[string][]string{"dropping": {"queue-full", "link-loss"}, "disordering": {"bad-fcs"}}[c.name]
			for _, reason := range want {
				if a.Drops[reason] == 0 {
					t.Errorf("no packet was dropped for %s", reason)
				}
			}
			if (a.Duplicated > 0) != (c.name == "disordering") {
				t.Errorf("%d packets were duplicated", a.Duplicated)
			}
			if p := testlab.PortOf(t, r, "s2:5"); (p.Marked > 0) != (c.name == "marking") {
				t.Errorf("%d packets were marked", p.Marked)
			}
		})
	}
}

// checkOffloaded makes sure that senders have sent super-packets, that
// receivers have been written several packets at once, and that hosts without
// offload had none.
func checkOffloaded(t *testing.T, r *report.Report, senders, receivers, without []string) {
	t.Helper()
	of := map[string]*report.Offload{}
	for _, h := range r.Hosts {
		of[strings.TrimSuffix(h.Name, ":eth0")] = h.Offload
		if h.TxDropped != 0 || h.QueueDropped != 0 || h.RxDropped != 0 {
			t.Errorf("%s: the device dropped %d, its queue %d, receiving %d", h.Name, h.TxDropped, h.QueueDropped, h.RxDropped)
		}
	}
	for _, name := range senders {
		o := of[name]
		t.Logf("%s sent %d packets in %d super-packets", name, o.Pieces, o.Supers)
		if o.Supers == 0 || o.Pieces < 2*o.Supers {
			t.Errorf("%s sent %d packets in %d super-packets: the test does not test splitting", name, o.Pieces, o.Supers)
		}
	}
	for _, name := range receivers {
		o := of[name]
		t.Logf("%s got %d packets in %d writes, held p50 %v, p99 %v, max %v", name, o.Written, o.Writes, o.HeldP50, o.HeldP99, o.HeldMax)
		if o.Written < o.Writes+1000 {
			t.Errorf("%s got %d packets in %d writes: the test does not test joining", name, o.Written, o.Writes)
		}
	}
	for _, name := range without {
		if of[name] != nil {
			t.Errorf("%s has no offload, but counted %+v", name, of[name])
		}
	}
}

// TestOffload_CapturesHoldTheSameStream: in a capture, the same transfer with and without offload
// is the same stream of bytes, in frames no longer than the link allows.
func TestOffload_CapturesHoldTheSameStream(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "nginx", "curl", "tshark")
	dir, sums := files(t, "small")
	sent, err := os.ReadFile(filepath.Join(dir, "small"))
	if err != nil {
		t.Fatal(err)
	}
	for _, offload := range []string{"on", "off"} {
		for _, family := range []string{"-4", "-6"} {
			t.Run(offload+" "+family, func(t *testing.T) {
				l := testlab.Start(t, `
topology:
  kinds: {host: {offload: `+offload+`}, link: {rate: 200Mbps}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
`)
				nginx(l, dir, "h2")
				stop := l.Capture("s1:1", "-f", "tcp")
				if got := fetch(l, "h1", family, "h2", "small"); got != sums["small"] {
					t.Errorf("the file came with SHA-256 %s", got)
				}
				l.WaitQuiet()
				file := stop()
				frames, payload := streamOf(t, file)
				_, body, _ := bytes.Cut(payload, []byte("\r\n\r\n"))
				if !bytes.Equal(body, sent) {
					t.Errorf("the capture has %d bytes of the file, or others than its %d", len(body), len(sent))
				}
				o := l.Down().Hosts[1].Offload
				if (o != nil) != (offload == "on") || (o != nil && o.Pieces < 2*o.Supers) {
					t.Errorf("offload %s, and the sender did %+v", offload, o)
				}
				t.Logf("%d frames, %+v", frames, o)
			})
		}
	}
}

// streamOf checks the frames in a capture of one connection from port 80 and
// reassembles the stream of that side. It also returns the number of frames
// with payload.
func streamOf(t *testing.T, file string) (frames int, payload []byte) {
	t.Helper()
	lines := testlab.Tshark(t, file, "--disable-protocol", "http", "-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.relative_sequence_numbers:TRUE",
		"-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-Y", "tcp", "-T", "fields", "-E", "separator=;", "-e", "frame.len",
		"-e", "ip.checksum.status", "-e", "tcp.checksum.status", "-e", "tcp.checksum", "-e", "tcp.srcport", "-e", "tcp.seq", "-e", "ip.id", "-e", "tcp.payload", "-e", "tcp.flags.syn")
	var last uint16
	longest := 0
	for _, line := range lines {
		f := strings.Split(line, ";")
		if len(f) != 9 {
			t.Fatalf("tshark: %q", line)
		}
		length := number(t, f[0])
		longest = max(longest, length)
		// 1 means good. IPv6 has no checksum. Linux writes one checksum in
		// 65536 as 0xffff, which tshark reports as bad for TCP.
		if (f[1] != "1" && f[1] != "") || (f[2] != "1" && f[3] != "0xffff") {
			t.Fatalf("a frame of %d bytes with checksums of status %q (IP) and %q (TCP, %s)", length, f[1], f[2], f[3])
		}
		if f[4] != "80" || f[7] == "" {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(f[7], ":", ""))
		if err != nil {
			t.Fatal(err)
		}
		if f[6] != "" {
			id := uint16(number(t, f[6]))
			if frames > 0 && int16(id-last) <= 0 {
				t.Errorf("frame %d has the identification %#x, the one before it %#x", frames, id, last)
			}
			last = id
		}
		frames++
		at := number(t, f[5]) - 1 // the SYN takes a sequence number too
		if need := at + len(b); need > len(payload) {
			if at > len(payload) {
				t.Fatalf("a hole of %d bytes before byte %d", at-len(payload), at)
			}
			payload = append(payload, make([]byte, need-len(payload))...)
		} else if !bytes.Equal(payload[at:need], b) {
			t.Errorf("%d bytes at %d were sent again as others", len(b), at)
		}
		copy(payload[at:], b)
	}
	if longest != 1514 {
		t.Errorf("the longest frame has %d bytes, want 1514", longest)
	}
	return frames, payload
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// TestOffload_MarksAreCountedAlike: the queue, the capture and the receiver's kernel count the
// same marks of IPv6 packets and of TUNs, split or to be joined.
// TestMarking_SlowsTheSender shows it for IPv4 and TAPs.
func TestOffload_MarksAreCountedAlike(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "iperf3", "tshark")
	for _, c := range []struct {
		name, attach, family, window, counter string
		joined                                bool
	}{
		{"TAP IPv6", "tap", "-6", "20us", "Ip6InCEPkts", false},
		{"TUN IPv4", "tun", "-4", "20us", "IpExtInCEPkts", false},
		{"TUN IPv6", "tun", "-6", "20us", "Ip6InCEPkts", false},
		{"TAP IPv4, joined", "tap", "-4", "1ms", "IpExtInCEPkts", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testlab.Start(t, `
topology:
  kinds: {host: {attach: `+c.attach+`, join-window: `+c.window+`, sysctls: {net.ipv4.tcp_ecn: 1, net.ipv4.tcp_congestion_control: reno}}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 1Gbps}
    - {endpoints: ["s1:2", "s2:1"], rate: 100Mbps, delay: 500us, from: {"s1:2": {queue: {limit: 1MB, mark: {step: {k: 30KB}}}}}}
    - {endpoints: ["s2:2", "h2:eth0"], rate: 1Gbps}
`, "iperf3", "tshark")
			stop := l.Capture("s1:2", "--out", "-s", "128")
			l.Iperf3("h1", "h2", "h2", c.family, "-t", "1")
			l.WaitQuiet()
			port, ce := l.Ports()["s1:2"], counter(l, "h2", c.counter)
			seen := len(testlab.Tshark(t, stop(), "-Y", "ip.dsfield.ecn == 3 || ipv6.tclass.ecn == 3"))
			r := l.Down()
			from, to := r.Hosts[0].Offload, r.Hosts[1].Offload
			t.Logf("%d marked, %d CE in the capture, %d at the receiver; %d packets from %d super-packets, %d written in %d", port.Marked, seen, ce, from.Pieces, from.Supers, to.Written, to.Writes)
			if port.Marked < 5 || port.Dropped != 0 {
				t.Errorf("%d marks and %d drops: want marks and no drop", port.Marked, port.Dropped)
			}
			if from.Pieces < 2*from.Supers {
				t.Error("the sender sent no super-packets to speak of")
			}
			if uint64(seen) != port.Marked {
				t.Errorf("%d marks by the counter, %d in the capture", port.Marked, seen)
			}
			// A kernel counts joined packets as one, and with the short window two of a busy
			// machine's may be joined as well: either all packets joined into one are marked,
			// or none of them is.
			if joined := to.Written - to.Writes; ce == 0 || ce > port.Marked || ce+joined < port.Marked {
				t.Errorf("%d marks by the counter, %d seen by the receiver's kernel", port.Marked, ce)
			}
			if c.joined && to.Written < to.Writes+500 {
				t.Errorf("%d packets were written in %d: the test does not test joining", to.Written, to.Writes)
			}
		})
	}
}

// udpIn makes a UDP socket at an address of a host with one integer option.
func udpIn(l *testlab.Lab, host string, at netip.AddrPort, level, option, value int) *net.UDPConn {
	l.T.Helper()
	conn := testlab.SocketIn(l, host, func() (*net.UDPConn, error) { return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)) })
	l.T.Cleanup(func() { conn.Close() })
	raw, err := conn.SyscallConn()
	if err != nil {
		l.T.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) }); errors.Join(cerr, err) != nil {
		l.T.Fatal(errors.Join(cerr, err))
	}
	return conn
}

// TestOffload_DatagramsStayDatagrams: one write of a program with UDP_SEGMENT crosses the
// fabric as datagrams, and reaches a socket without that option as datagrams.
func TestOffload_DatagramsStayDatagrams(t *testing.T) {
	t.Parallel()
	const (
		size, tail = 1000, 300  // bytes of each datagram, and of the last one of a write
		writes     = 60         // number of writes
		port       = 4000       // of both ends
		room       = 64_000_000 // of the receiver's buffer
	)
	// A write of 30 datagrams goes to the device as it is; one of 60 is more
	// than the device takes at once at this rate, and the kernel splits it.
	var all [][]byte
	var ends []int // of the writes, in all
	for w := range writes {
		for i := range 30 + w%2*30 {
			n := len(all)
			b := bytes.Repeat([]byte{byte(n), byte(n >> 8)}, size/2)
			binary.BigEndian.PutUint32(b, uint32(n))
			if i == 29+w%2*30 {
				b = b[:tail]
			}
			all = append(all, b)
		}
		ends = append(ends, len(all))
	}
	l := testlab.Start(t, `
topology:
  kinds: {host: {join-window: 200us}, link: {rate: 500Mbps}}
  nodes:
    s1: {kind: switch}
    h1: {kind: host}
    h2: {kind: host}
    h3: {kind: host, attach: tun}
    h4: {kind: host, offload: off}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
    - {endpoints: ["h4:eth0", "s1:4"]}
`, "tshark", "ping")
	for _, c := range []struct {
		from, to string
		v6       bool
	}{{"h1", "h2", false}, {"h1", "h2", true}, {"h1", "h3", false}, {"h3", "h2", true}, {"h1", "h4", false}, {"h4", "h3", true}} {
		family, prefix, headers := "-4", "10.0.0.", 42
		if c.v6 {
			family, prefix, headers = "-6", "fd00::", 62
		}
		what := fmt.Sprintf("%s to %s, %s", c.from, c.to, family)
		// Resolve the neighbours first; otherwise all but a few of the
		// datagrams that wait for the resolution are dropped.
		l.Ping(c.from, 1, family, c.to)
		from, to := netip.MustParseAddr(prefix+c.from[1:]), netip.MustParseAddr(prefix+c.to[1:])
		receiver := udpIn(l, c.to, netip.AddrPortFrom(to, port), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room)
		sender := udpIn(l, c.from, netip.AddrPortFrom(from, port), unix.SOL_UDP, unix.UDP_SEGMENT, size)

		stop := l.Capture("s1:"+c.to[1:], "--out", "-f", "udp")
		sent := 0
		for _, end := range ends {
			if _, err := sender.WriteToUDPAddrPort(bytes.Join(all[sent:end], nil), netip.AddrPortFrom(to, port)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			sent = end
		}
		_ = receiver.SetReadDeadline(time.Now().Add(await.Limit))
		b := make([]byte, 1<<16)
		for n, want := range all {
			got, err := receiver.Read(b)
			if err != nil {
				t.Errorf("%s: datagram %d: %v", what, n, err)
				break
			}
			if !bytes.Equal(b[:got], want) {
				t.Errorf("%s: datagram %d of %d bytes came as %d bytes that begin with %x", what, n, len(want), got, b[:min(got, 8)])
				break
			}
		}
		receiver.Close()
		sender.Close()
		lines := testlab.Tshark(t, stop(), "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y", "udp.port == 4000", "-T", "fields",
			"-e", "frame.len", "-e", "udp.length", "-e", "udp.checksum.status", "-e", "ip.checksum.status")
		if len(lines) != len(all) {
			t.Errorf("%s: %d packets captured, want %d", what, len(lines), len(all))
		}
		for n, line := range lines[:min(len(lines), len(all))] {
			length := len(all[n])
			want := fmt.Sprintf("%d\t%d\t1\t", length+headers, length+8)
			if !c.v6 {
				want += "1"
			}
			if strings.TrimRight(line, "\t") != strings.TrimRight(want, "\t") {
				t.Errorf("%s: packet %d is %q in the capture, want %q", what, n, line, want)
				break
			}
		}
	}
	r := l.Down()
	o := map[string]*report.Offload{}
	for _, h := range r.Hosts {
		o[h.Name] = h.Offload
		if h.TxDropped != 0 || h.QueueDropped != 0 {
			t.Errorf("%s: the device dropped %d, its queue %d", h.Name, h.TxDropped, h.QueueDropped)
		}
	}
	sent, got := o["h1:eth0"], o["h2:eth0"]
	t.Logf("h1 sent %d datagrams in %d super-packets; h2 got %d in %d", sent.Pieces, sent.Supers, got.Written, got.Writes)
	// Before Linux 6.2 the kernel splits them itself.
	if sent.Supers > 0 && (sent.Pieces < 2*sent.Supers || got.Written < got.Writes+500) {
		t.Errorf("sent %+v, got %+v: the test does not test splitting and joining", sent, got)
	}
}

// TestOffload_RefusedPacketsAreCounted: a host whose interface is down refuses each of the
// packets that would have been joined for it.
func TestOffload_RefusedPacketsAreCounted(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds: {host: {join-window: 200us}, link: {rate: 500Mbps}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
`, "ping", "ip")
	l.Ping("h1", 1, "-4", "h2") // so that they have resolved each other
	l.Exec("h2", "ip", "link", "set", "eth0", "down")
	at, to := netip.MustParseAddrPort("10.0.0.1:4000"), netip.MustParseAddrPort("10.0.0.2:4000")
	sender := udpIn(l, "h1", at, unix.SOL_UDP, unix.UDP_SEGMENT, 1000)
	const writes, per = 20, 30
	for range writes {
		if _, err := sender.WriteToUDPAddrPort(make([]byte, per*1000), to); err != nil {
			t.Fatal(err)
		}
	}
	l.WaitQuiet()
	r := l.Down()
	a, o := r.Accounts, r.Hosts[1].Offload
	t.Logf("%+v; h2: %+v", a, o)
	// The hosts' kernels also send a few packets unprompted.
	if n := a.Drops["host-refused"]; n < writes*per || n > writes*per+50 || !a.Balanced() || a.Held != 0 {
		t.Errorf("%d packets were refused, want %d and few more; %+v", n, writes*per, a)
	}
	if o.Written > 100 {
		t.Errorf("%d packets count as written to a host that took none of %d", o.Written, writes*per)
	}
}

// TestOffload_FollowsChangesOfALink: rate and MTU of a link may change during a
// transfer: the rate is kept, no bytes are lost or changed, and the host's
// device drops nothing.
func TestOffload_FollowsChangesOfALink(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds: {host: {sysctls: {net.ipv4.tcp_congestion_control: reno}}, link: {rate: 500Mbps}}
  nodes: {h1: {kind: host}, h2: {kind: host, attach: tun}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
`, "nginx", "curl", "tshark")
	dir, _ := files(t, "middle")
	nginx(l, dir, "h1")

	for _, mbps := range []float64{50, 200} {
		l.Must("set", "-l", l.Name, "h1:eth0", fmt.Sprintf("rate=%.0fMbps", mbps))
		stop := l.Capture("s1:1", "--in", "-s", "100")
		l.Exec("h2", "curl", "-s", "-S", "-f", "-o", "/dev/null", "--max-time", "100", "http://h1/middle")
		bits := rateIn(t, stop())
		t.Logf("at %.0f Mb/s: %.2f Mb/s in emulated time", mbps, bits/1e6)
		if bits > 1.001*mbps*1e6 {
			t.Errorf("%.2f Mb/s over a link of %.0f", bits/1e6, mbps)
		}
	}
	mtu := func(bytes string) {
		l.Must("set", "-l", l.Name, "h2:eth0", "mtu="+bytes)
		l.Must("set", "-l", l.Name, "h1:eth0", "mtu="+bytes)
	}
	for _, address := range []string{"10.0.0.2:4000", "[fd00::2]:4000"} {
		// The connection begins with the long packets, because it never exceeds
		// what its ends supported at the start.
		l.Must("set", "-l", l.Name, "h1:eth0", "rate=100Mbps")
		mtu("9000")
		stop := l.Capture("s1:1", "--in", "-s", "96", "-f", "tcp port 4000")
		end := pour(l, "h1", "h2", address)
		for _, change := range []func(){
			func() {}, func() { mtu("1500") }, func() { l.Must("set", "-l", l.Name, "h1:eth0", "rate=50Mbps") }, func() { mtu("1280") },
			func() { l.Must("set", "-l", l.Name, "h1:eth0", "rate=200Mbps") }, func() { mtu("9000") },
		} {
			change()
			carries(l, "h1:eth0", 1_000_000)
		}
		sent, got := end()
		if !bytes.Equal(sent, got) {
			t.Errorf("%v: SHA-256 %x was sent, %x came", address, sent, got)
		}
		lengths, longest := map[int]int{}, 0
		for _, line := range testlab.Tshark(t, stop(), "-T", "fields", "-e", "frame.len") {
			n := number(t, line)
			lengths[n]++
			longest = max(longest, n)
		}
		t.Logf("%s: frames of 1294 B: %d, of 1514 B: %d, of 9014 B: %d", address, lengths[1294], lengths[1514], lengths[9014])
		if lengths[1294] == 0 || lengths[1514] == 0 || lengths[9014] == 0 || longest != 9014 {
			t.Errorf("%s: not all of the MTUs were used, or others: %v", address, lengths)
		}
	}
	l.WaitQuiet()
	r := l.Down()
	t.Logf("drops: %v", r.Accounts.Drops)
	if a := r.Accounts; !a.Balanced() || a.Held != 0 {
		t.Errorf("the accounts do not add up: %+v", a)
	}
	// A packet that was in flight when the MTU was reduced is too big for it.
	for reason, n := range r.Accounts.Drops {
		if reason != "too-big" {
			t.Errorf("%d packets were dropped: %s", n, reason)
		}
	}
	checkOffloaded(t, r, []string{"h1"}, nil, nil)
}

// carries waits until a port has sent this many further bytes.
func carries(l *testlab.Lab, port string, bytes uint64) {
	l.T.Helper()
	goal := l.Ports()[port].TxBytes + bytes
	l.WaitFor(fmt.Sprintf("%d more bytes from %s", bytes, port), func() bool { return l.Ports()[port].TxBytes >= goal })
}

// pour sends random bytes over TCP from a host to an address of another until
// end is called. end returns the SHA-256 of the bytes sent and of the bytes received.
func pour(l *testlab.Lab, from, to, address string) (end func() (sent, got []byte)) {
	l.T.Helper()
	listener := testlab.SocketIn(l, to, func() (net.Listener, error) { return net.Listen("tcp", address) })
	l.T.Cleanup(func() { listener.Close() })
	out := testlab.SocketIn(l, from, func() (net.Conn, error) { return net.DialTimeout("tcp", address, await.Limit) })
	l.T.Cleanup(func() { out.Close() })
	in, err := listener.Accept()
	if err != nil {
		l.T.Fatal(err)
	}
	l.T.Cleanup(func() { in.Close() })

	var stop atomic.Bool
	sent, got := sha256.New(), sha256.New()
	var both sync.WaitGroup
	both.Go(func() {
		defer out.Close() // so that the receiver ends
		r := rand.New(rand.NewPCG(3, 4))
		for b := make([]byte, 1<<17); !stop.Load(); {
			for i := 0; i < len(b); i += 8 {
				binary.LittleEndian.PutUint64(b[i:], r.Uint64())
			}
			n, err := out.Write(b)
			sent.Write(b[:n])
			if err != nil {
				return
			}
		}
	})
	both.Go(func() { _, _ = io.Copy(got, in) })
	return func() ([]byte, []byte) {
		stop.Store(true)
		for _, c := range []net.Conn{in, out} {
			_ = c.SetDeadline(time.Now().Add(await.Limit))
		}
		both.Wait()
		return sent.Sum(nil), got.Sum(nil)
	}
}

// TestOffload_PacketSocketsSeeGoodChecksums: what reads packets in the host before its transport
// does, such as tcpdump and DHCP clients, finds complete checksums in packets that are not
// joined, and so do those to whom the host quotes a packet in an ICMP error.
func TestOffload_PacketSocketsSeeGoodChecksums(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds: {link: {rate: 100Mbps}}
  nodes: {h1: {kind: host}, h2: {kind: host}, h3: {kind: host, attach: tun}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
    - {endpoints: ["h3:eth0", "s1:3"]}
`, "tcpdump", "tshark", "bash")
	for host, address := range map[string]string{"h2": "10.0.0.2", "h3": "10.0.0.3"} {
		inside := filepath.Join(t.TempDir(), host+".pcap")
		dump := tcpdump(l, host, inside, "tcp or udp or icmp")
		sent, quoted := l.Capture("s1:1", "--in", "-f", "udp"), l.Capture("s1:1", "--out", "-f", "icmp")
		// A datagram to a port that nobody has, and a connection, which is refused.
		l.Exec("h1", "bash", "-c", "echo a datagram >/dev/udp/"+address+"/9")
		l.Run("exec", "-l", l.Name, "h1", "--", "bash", "-c", "echo >/dev/tcp/"+address+"/9")
		l.Exec("h1", "bash", "-c", "echo the last >/dev/udp/"+address+"/9")
		l.WaitFor("tcpdump writes the last datagram", func() bool {
			b, err := os.ReadFile(inside)
			return err == nil && bytes.Contains(b, []byte("the last\n"))
		})
		dump()
		check := []string{"-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"}
		seen := testlab.Tshark(t, inside, slices.Concat(check, []string{"-Y", "ip.dst == " + address + " && !icmp", "-e", "tcp.checksum.status", "-e", "udp.checksum.status"})...)
		if len(seen) < 3 {
			t.Errorf("%s: tcpdump has seen %d packets", host, len(seen))
		}
		for _, s := range seen {
			if strings.TrimSpace(s) != "1" {
				t.Errorf("%s: the status of a checksum is %q, want 1, which is good", host, s)
			}
		}
		field := []string{"-T", "fields", "-e", "udp.checksum"}
		want, got := testlab.Tshark(t, sent(), field...), testlab.Tshark(t, quoted(), field...)
		if len(got) == 0 || len(want) < len(got) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%s: datagrams with the checksums %v were sent, %v are quoted", host, want, got)
		}
	}
}
