package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/fabric"
)

// rdmaFaults is h1 and h2 behind switches that choose by ECMP among two ways, h3 and
// h4 behind switches that spray their packets over them, and h5 and h6 with a host
// between them that hands on what it sees.
const rdmaFaults = `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 2, leaves: 4, hosts-per-leaf: 1, rate: 5Gbps, delay: 5us}}
  nodes:
    leaf3: {forwarding: random}
    leaf4: {forwarding: random}
    h5: {kind: host, offload: off}
    h6: {kind: host, offload: off}
    bump: {kind: host, nic: none, offload: off}
  links:
    - {endpoints: ["h5:eth0", "bump:eth0"], rate: 1Gbps, delay: 5us}
    - {endpoints: ["h6:eth0", "bump:eth1"], rate: 1Gbps, delay: 5us}
`

// TestRDMAFaults: what Debian's programs, and one of our own that looks closer, do
// while the network or one of them fails. Each case makes sure that its fault has
// happened.
func TestRDMAFaults(t *testing.T) {
	l := startRDMA(t, rdmaFaults, "rping", "ibv_rc_pingpong", "ib_write_bw", "ucmatose", "iperf3")
	peer := filepath.Join(t.TempDir(), "peer")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", peer, "testdata/rdma/peer.c", "-libverbs", "-lrdmacm").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name string
		run  func(*realLab, string)
	}{
		{"loss", (*realLab).testRDMALoss},
		{"spraying", (*realLab).testRDMASpraying},
		{"FCS", (*realLab).testRDMAFCS},
		{"ICRC", (*realLab).testRDMAICRC},
		{"cut and healed", (*realLab).testRDMAHealed},
		{"cut", (*realLab).testRDMACut},
		{"receiver not ready", (*realLab).testRDMANotReady},
		{"access", (*realLab).testRDMAAccess},
		{"killed", (*realLab).testRDMAKilled},
		{"connections", (*realLab).testRDMAConnections},
		{"many queue pairs", (*realLab).testRDMAManyPairs},
		{"many programs", (*realLab).testRDMAManyPrograms},
		{"beside iperf3", (*realLab).testRDMABesideTCP},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := *l
			on.t = t
			c.run(&on, peer)
			on.unused("h1", "h2", "h3", "h4", "h5", "h6")
		})
	}
	if a := l.down().Accounts; !a.Balanced() {
		t.Errorf("accounts: %+v", a)
	}
}

// addressOf is the first address of a host.
func addressOf(host string) string { return "10.0.0." + strings.TrimPrefix(host, "h") }

// set changes a link until the test ends, when it is to be as in back.
func (l *realLab) set(port string, to string, back ...string) {
	l.t.Helper()
	l.must("set", "-l", l.name, port, to)
	if len(back) > 0 {
		l.t.Cleanup(func() { l.must(append([]string{"set", "-l", l.name, port}, back...)...) })
	}
}

// nic gives the NIC of a host.
func (l *realLab) nic(host string) fabric.NICStatus {
	l.t.Helper()
	var list []fabric.NICStatus
	if err := json.Unmarshal([]byte(l.must("nic", "-l", l.name, "--json", host)), &list); err != nil || len(list) != 1 {
		l.t.Fatalf("%s: %v, %d NICs", host, err, len(list))
	}
	return list[0]
}

// counts begins to count what NICs count; the function that it gives adds up what
// they have counted since under a name.
func (l *realLab) counts(hosts ...string) func(counter string) uint64 {
	l.t.Helper()
	before := map[string]fabric.NICCounters{}
	for _, h := range hosts {
		before[h] = l.nic(h).Counters
	}
	return func(counter string) (n uint64) {
		for _, h := range hosts {
			n += l.nic(h).Counters.Of(counter) - before[h].Of(counter)
		}
		return n
	}
}

// becomesTrue waits until something is so.
func (l *realLab) becomesTrue(what string, is func() bool) {
	l.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return
		}
	}
	l.t.Fatalf("%s has not come about in a minute", what)
}

// unused holds NICs to having no object left of programs that have ended.
func (l *realLab) unused(hosts ...string) {
	l.t.Helper()
	for _, h := range hosts {
		l.becomesTrue("an end of all that programs had of the NIC of "+h, func() bool {
			n := l.nic(h)
			return n.States.Total()+n.CQs+n.SRQs+n.AHs+n.PDs+n.MRs+n.MWs == 0
		})
	}
}

// dropped is how many packets have been dropped for a reason, at all ports.
func (l *realLab) dropped(why string) (n uint64) {
	l.t.Helper()
	for _, p := range l.ports() {
		n += p.Drops[why]
	}
	return n
}

// peer runs a case of testdata/rdma/peer.c in two hosts.
func (l *realLab) peer(program, name, at, from string, count, timeout int) {
	l.t.Helper()
	l.rdmaBetween(at, from, []string{program, name}, []string{program, name, addressOf(at), strconv.Itoa(count), strconv.Itoa(timeout)})
}

// endures runs programs that look at their data, and ones that move much of it, in
// two hosts, to the success of all. The code of the local ACK timeout is for those
// that let it be chosen: what goes missing at the end of something costs as much.
func (l *realLab) endures(peer, at, from string, timeout int) {
	l.t.Helper()
	_, said := l.rdmaBetween(at, from, []string{"rping", "-s", "-C", "10", "-S", "65535", "-V"}, []string{"rping", "-c", "-a", addressOf(at), "-C", "10", "-S", "65535", "-V", "-v"})
	if n := strings.Count(said, "ping data: rdma-ping-"); n != 10 {
		l.t.Errorf("rping has got %d pings back, not 10", n)
	}
	// -c looks at what has come.
	l.rdmaBetween(at, from, []string{"ibv_rc_pingpong", "-g", "0", "-c", "-n", "100"}, []string{"ibv_rc_pingpong", "-g", "0", "-c", "-n", "100", addressOf(at)})
	for _, program := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw"} {
		argv := []string{program, "-x", "0", "-n", "30", "-u", strconv.Itoa(timeout)}
		_, said := l.rdmaBetween(at, from, argv, append(argv[:len(argv):len(argv)], addressOf(at)))
		if !regexp.MustCompile(`65536 +30 `).MatchString(said) {
			l.t.Errorf("%s has not moved what it was to:\n%s", program, said)
		}
	}
	l.peer(peer, "data", at, from, 30, timeout)
}

// testRDMALoss: 1% of all packets is lost on either way.
func (l *realLab) testRDMALoss(peer string) {
	for _, port := range []string{"leaf1:spine1", "leaf1:spine2"} {
		l.set(port, "loss=1%", "loss=0%")
	}
	lost, counted := l.dropped("link-loss"), l.counts("h1", "h2")
	l.endures(peer, "h1", "h2", 12)
	if n := l.dropped("link-loss") - lost; n < 50 {
		l.t.Errorf("%d packets were lost", n)
	}
	for _, name := range []string{"packet_seq_err", "out_of_sequence", "retransmitted_packets", "local_ack_timeout_err"} {
		if counted(name) == 0 {
			l.t.Errorf("%s has counted nothing", name)
		}
	}
}

// testRDMASpraying: packets take either way at random, one of which is longer.
func (l *realLab) testRDMASpraying(peer string) {
	l.set("leaf3:spine2", "delay=10us", "delay=5us")
	before, counted := l.ports(), l.counts("h3", "h4")
	l.endures(peer, "h3", "h4", 12)
	after := l.ports()
	for _, port := range []string{"leaf3:spine1", "leaf3:spine2", "leaf4:spine1", "leaf4:spine2"} {
		if n := after[port].TxPackets - before[port].TxPackets; n < 1000 {
			l.t.Errorf("%s has sent %d packets", port, n)
		}
	}
	if lost, n, again := after["leaf3:h3"].Dropped-before["leaf3:h3"].Dropped, counted("out_of_sequence"), counted("packet_seq_err"); lost != 0 || n < 100 || again < 100 {
		l.t.Errorf("%d packets dropped, %d out of order, %d NAKs for them", lost, n, again)
	}
}

// testRDMAFCS: 1% of all packets is damaged on a link. The next port sees that by
// the FCS, so that nothing of it comes to a NIC.
func (l *realLab) testRDMAFCS(peer string) {
	l.set("leaf1:h1", "corrupt=1%", "corrupt=0%")
	bad, counted := l.dropped("bad-fcs"), l.counts("h1", "h2")
	l.endures(peer, "h1", "h2", 12)
	if n := l.dropped("bad-fcs") - bad; n < 50 || counted("retransmitted_packets") == 0 || counted("rx_icrc_encapsulated") != 0 {
		l.t.Errorf("%d packets with a wrong FCS, %d sent again, %d with a wrong ICRC", n, counted("retransmitted_packets"), counted("rx_icrc_encapsulated"))
	}
}

// testRDMAICRC: what is between two NICs damages 1% of their packets and gives them
// a right FCS, as a switch with faulty memory does. That is what the ICRC is for.
func (l *realLab) testRDMAICRC(peer string) {
	counted := l.counts("h5", "h6")
	damaged, stop := l.bump("bump", 0.01)
	l.endures(peer, "h6", "h5", 12)
	stop()
	if damaged.Load() < 50 {
		l.t.Errorf("%d packets were damaged", damaged.Load())
	}
	l.becomesTrue(fmt.Sprintf("an ICRC error for each of %d packets", damaged.Load()), func() bool {
		return counted("rx_icrc_encapsulated") == damaged.Load()
	})
	if n, bad := counted("retransmitted_packets"), counted("port_rcv_errors"); n == 0 || bad != 0 {
		l.t.Errorf("%d packets were sent again, %d were not RoCE", n, bad)
	}
}

// bump hands on frames between the two interfaces of a host, and turns over a bit in
// a share of the RoCE packets, where the ICRC covers it.
func (l *realLab) bump(host string, share float64) (damaged *atomic.Uint64, stop func()) {
	l.t.Helper()
	var fds [2]int
	for i := range fds {
		fds[i] = socketIn(l, host, func() (int, error) {
			var ifr, err = unix.NewIfreq("eth" + strconv.Itoa(i))
			if err != nil {
				return 0, err
			}
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return 0, err
			}
			if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr); err != nil {
				return 0, err
			}
			const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // big-endian
			if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: int(ifr.Uint32())}); err != nil {
				return 0, err
			}
			wait := unix.NsecToTimeval(int64(50 * time.Millisecond))
			return fd, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
		})
	}
	damaged = &atomic.Uint64{}
	var ended atomic.Bool
	var running sync.WaitGroup
	for i := range fds {
		running.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			frame := make([]byte, 10000)
			for !ended.Load() {
				n, from, err := unix.Recvfrom(fds[i], frame, 0)
				if err != nil || from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_OUTGOING {
					continue
				}
				// Ethernet, IPv4 and UDP; the ICRC leaves out the byte of FECN and BECN.
				const transport, udpPort, becn = 42, 36, 42 + 4
				if n > transport && string(frame[12:14]) == "\x08\x00" && string(frame[udpPort:udpPort+2]) == "\x12\xb7" && random.Float64() < share {
					at := transport + random.IntN(n-transport)
					if at == becn {
						at++
					}
					frame[at] ^= 1 << random.IntN(8)
					damaged.Add(1)
				}
				_, _ = unix.Write(fds[1-i], frame[:n]) // lost, if the device is full
			}
		})
	}
	stop = sync.OnceFunc(func() {
		ended.Store(true)
		running.Wait()
		for _, fd := range fds {
			unix.Close(fd)
		}
	})
	l.t.Cleanup(stop)
	return damaged, stop
}

// testRDMAHealed: a link is cut in the middle of a transfer and healed before the
// retries are used up. The link is slow until then, so that the transfer lasts.
func (l *realLab) testRDMAHealed(peer string) {
	const server = "10.0.0.1"
	for _, c := range [][]string{
		{"rping", "-C", "300", "-S", "65535", "-V"},
		{"ib_write_bw", "-x", "0", "-n", "300", "-u", "17"},
		{"ib_send_bw", "-x", "0", "-n", "300", "-u", "17"},
		{"ib_read_bw", "-x", "0", "-n", "300", "-u", "17"},
		{peer, "data"},
	} {
		at, from := c, append(c[:len(c):len(c)], server)
		switch c[0] {
		case "rping":
			at, from = append(c[:len(c):len(c)], "-s"), append(c[:len(c):len(c)], "-c", "-a", server)
		case peer:
			from = append(from, "300", "17")
		}
		l.must("set", "-l", l.name, "leaf1:h1", "rate=50Mbps")
		counted := l.counts("h1", "h2")
		moved := func() uint64 { return counted("received_payload") }
		s := l.rdmaServer("h1", at...)
		c := l.rdmaServer("h2", from...)
		l.becomesTrue("a transfer", func() bool {
			if moved() > 200e3 {
				return true
			}
			if c.exited() && early.MatchString(c.out.String()) {
				c = l.rdmaServer("h2", from...)
			}
			return false
		})
		l.must("set", "-l", l.name, "leaf1:h1", "state=down")
		l.becomesTrue("a timeout", func() bool { return counted("local_ack_timeout_err") > 0 })
		if c.exited() {
			l.t.Errorf("%v: the client has ended before the link is healed:\n%s", from, &c.out)
		}
		l.must("set", "-l", l.name, "leaf1:h1", "state=up", "rate=5Gbps")
		if err := c.ends(); err != nil {
			l.t.Errorf("%v: %v\n%s", from, err, &c.out)
		}
		if err := s.ends(); err != nil {
			l.t.Errorf("%v: %v\n%s", at, err, &s.out)
		}
		if n := counted("req_transport_retries_exceeded"); n != 0 {
			l.t.Errorf("%v: retries were exceeded %d times", from, n)
		}
	}
}

// lasting are clients of transfers that last until somebody ends them.
var lasting = [][]string{
	{"ib_write_bw", "-x", "0", "-D", "60", "-u", "12"},
	{"ib_send_bw", "-x", "0", "-D", "60", "-u", "12"},
	{"ib_read_bw", "-x", "0", "-D", "60", "-u", "12"},
}

// lasts starts a program in h1 and its client in h2, and waits until they are at it.
func (l *realLab) lasts(argv []string) (server, client *rdmaServer) {
	l.t.Helper()
	server = l.rdmaServer("h1", argv...)
	l.listens("h1", "18515")
	client = l.rdmaServer("h2", append(argv[:len(argv):len(argv)], "10.0.0.1")...)
	l.flows("h1", "leaf1:h1", 1000)
	return server, client
}

// gaveUp is what programs say of IBV_WC_RETRY_EXC_ERR.
var gaveUp = regexp.MustCompile(`Failed status 12|transport retry counter exceeded`)

// givesUp waits until a program has ended because its peer does not answer.
func (s *rdmaServer) givesUp(t *testing.T) {
	t.Helper()
	if err := s.ends(); err == nil {
		t.Errorf("%v has ended well", s.Args)
	}
	if !gaveUp.MatchString(s.out.String()) {
		t.Errorf("%v does not say that its retries are used up:\n%s", s.Args, &s.out)
	}
}

// testRDMACut: a link stays cut for longer than the retries last.
func (l *realLab) testRDMACut(string) {
	pingpong := []string{"ibv_rc_pingpong", "-g", "0", "-c", "-n", "100000000"}
	for _, argv := range append(lasting[:len(lasting):len(lasting)], pingpong) {
		counted := l.counts("h1", "h2")
		s, c := l.lasts(argv)
		l.set("leaf1:h1", "state=down", "state=up")
		if argv[0] == pingpong[0] {
			// It fails at the side whose turn it was, and the other waits for ever.
			l.becomesTrue("an end of one side", func() bool { return s.exited() || c.exited() })
			if s.exited() {
				s, c = c, s
			}
		}
		c.givesUp(l.t)
		if n := counted("req_transport_retries_exceeded"); n == 0 {
			l.t.Errorf("%v: no retries were exceeded", argv)
		}
		l.must("set", "-l", l.name, "leaf1:h1", "state=up")
		// Nobody tells the other, as its TCP connection idles.
		_ = s.Process.Kill()
	}
}

// testRDMANotReady: SENDs that nobody has a receive for.
func (l *realLab) testRDMANotReady(peer string) {
	counted := l.counts("h1", "h2")
	l.peer(peer, "rnr", "h1", "h2", 1, 14)
	if n, beyond, without := counted("rnr_nak_retry_err"), counted("req_rnr_retries_exceeded"), counted("out_of_buffer"); n < 10 || beyond != 1 || without < n {
		l.t.Errorf("%d RNR NAKs, %d beyond the last, %d packets without a receive", n, beyond, without)
	}
	counted = l.counts("h1", "h2")
	argv := []string{"ib_send_bw", "-x", "0", "-r", "1", "-s", "100", "-n", "200"}
	if _, said := l.rdma(argv, append(argv[:len(argv):len(argv)], "10.0.0.1")); !strings.Contains(said, "200") {
		l.t.Errorf("%s", said)
	}
	if counted("rnr_nak_retry_err") == 0 {
		l.t.Error("a single receive was always in time")
	}
}

// testRDMAAccess: requests that are refused over the wire, and memory that is taken
// away.
func (l *realLab) testRDMAAccess(peer string) {
	counted := l.counts("h1", "h2")
	l.peer(peer, "access", "h1", "h2", 1, 14)
	if n, invalid := counted("req_remote_access_errors"), counted("req_remote_invalid_request"); n != 17 || invalid != 4 || counted("resp_remote_access_errors") != n {
		l.t.Errorf("%d NAKs for access, %d for invalid requests", n, invalid)
	}
	l.peer(peer, "unfit", "h1", "h2", 1, 14)
	for _, name := range []string{"revoked-write", "revoked-read", "revoked-send"} {
		l.peer(peer, name, "h1", "h2", 1, 14)
	}
}

// testRDMAKilled: either side is killed in the middle of a transfer.
func (l *realLab) testRDMAKilled(peer string) {
	for _, argv := range lasting {
		counted := l.counts("h1", "h2")
		s, c := l.lasts(argv)
		_ = s.Process.Kill()
		c.givesUp(l.t)
		if counted("req_transport_retries_exceeded") == 0 || counted("req_remote_access_errors") != 0 {
			l.t.Errorf("%v: the client's requests were answered after the server was killed", argv)
		}
		l.unused("h1", "h2")

		s, c = l.lasts(argv)
		_ = c.Process.Kill()
		l.unused("h2")
		// A server learns of it if it sends, or reads from its TCP connection; others
		// of these wait for ever, on real NICs too.
		_ = s.Process.Kill()
		l.unused("h1")
	}
	for _, op := range []string{"write", "read", "send"} {
		for _, victim := range []string{"server", "client"} {
			l.peer(peer, "killed-"+op+"-"+victim, "h1", "h2", 1, 10)
		}
	}
	// rdma_cm tells the other side of a connection.
	for _, victim := range []string{"h1", "h2"} {
		s := l.rdmaServer("h1", "rping", "-s")
		time.Sleep(100 * time.Millisecond)
		c := l.rdmaServer("h2", "rping", "-c", "-a", "10.0.0.1")
		l.flows("h1", "leaf1:h1", 1000)
		if victim == "h2" {
			s, c = c, s
		}
		_ = s.Process.Kill()
		if err := c.ends(); !strings.Contains(c.out.String(), "DISCONNECT") {
			l.t.Errorf("%v after the other was killed: %v\n%s", c.Args, err, &c.out)
		}
	}
	l.endures(peer, "h1", "h2", 14)
}

// testRDMAConnections: 200 connections one after the other in one process, and 200 at
// once.
func (l *realLab) testRDMAConnections(peer string) {
	l.peer(peer, "connects", "h1", "h2", 200, 14)
	argv := []string{"ucmatose", "-c", "200", "-C", "5", "-S", "2000"}
	if _, said := l.rdma(argv, append(argv[:len(argv):len(argv)], "-s", "10.0.0.1")); !strings.Contains(said, "return status 0") {
		l.t.Errorf("%s", said)
	}
}

// testRDMAManyPairs: 256 queue pairs at once, of one thread and of eight.
func (l *realLab) testRDMAManyPairs(peer string) {
	argv := []string{"ib_write_bw", "-x", "0", "-q", "256", "-n", "5", "-s", "4096"}
	if _, said := l.rdma(argv, append(argv[:len(argv):len(argv)], "10.0.0.1")); !strings.Contains(said, "1280") {
		l.t.Errorf("%s", said)
	}
	l.peer(peer, "qps", "h1", "h2", 256, 14)
}

// testRDMAManyPrograms: several pairs of programs at once, in both directions.
func (l *realLab) testRDMAManyPrograms(string) {
	var servers, clients []*rdmaServer
	for i := range 8 {
		port := strconv.Itoa(18600 + i)
		at, from := "h1", "h2"
		if i%2 == 1 {
			at, from = from, at
		}
		argv := []string{"ibv_rc_pingpong", "-g", "0", "-c", "-n", "300", "-p", port}
		if i%4 > 1 {
			argv = append(argv, "-e")
		}
		servers = append(servers, l.rdmaServer(at, argv...))
		l.listens(at, port)
		clients = append(clients, l.rdmaServer(from, append(argv, addressOf(at))...))
	}
	for i := range servers {
		for _, s := range []*rdmaServer{clients[i], servers[i]} {
			if err := s.ends(); err != nil || !strings.Contains(s.out.String(), "300 iters in") {
				l.t.Errorf("%v: %v\n%s", s.Args, err, &s.out)
			}
		}
	}
}

// testRDMABesideTCP: RDMA and TCP leave by the same port at the same time, and both
// have a share of it.
func (l *realLab) testRDMABesideTCP(string) {
	const line = 200e6
	l.set("leaf2:h2", "rate=200Mbps", "rate=5Gbps")
	s, c := l.lasts([]string{"ib_write_bw", "-x", "0", "-D", "60", "-u", "17"})
	counted := l.counts("h1")
	begin := time.Now()
	tcp := l.iperf3("h2", "h1", "10.0.0.1", "-t", "2", "-C", "cubic").End.Received.Bits
	l.rdmaBetween("h1", "h2", []string{"rping", "-s", "-C", "10", "-S", "65535", "-V"}, []string{"rping", "-c", "-a", "10.0.0.1", "-C", "10", "-S", "65535", "-V"})
	rdma := float64(counted("received_payload")) * 8 / time.Since(begin).Seconds()
	if l.t.Logf("iperf3 %.0f Mb/s, RDMA %.0f Mb/s", tcp/1e6, rdma/1e6); tcp < line/10 || rdma < line/10 || tcp > line {
		l.t.Errorf("of %.0f Mb/s iperf3 has %.0f and RDMA %.0f", line/1e6, tcp/1e6, rdma/1e6)
	}
	_, _ = s.Process.Kill(), c.Process.Kill()
}
