package rdma

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/fabric"
)

// rdmaFaults is h1 and h2 behind switches that use ECMP over two paths, h3 and h4
// behind switches that spray their packets over both, and h5 and h6 with a host
// between them that forwards what it sees.
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
    - {endpoints: ["h5:eth0", "bump:eth0"], rate: 50Mbps, delay: 5us}
    - {endpoints: ["h6:eth0", "bump:eth1"], rate: 50Mbps, delay: 5us}
`

// TestRDMAFaults: Debian's programs, and our own that checks more closely, while
// the network or one of them fails. Each case makes sure that its fault has
// happened.
func TestRDMAFaults(t *testing.T) {
	l := testlab.StartRDMA(t, rdmaFaults, "rping", "ibv_rc_pingpong", "ib_write_bw", "ucmatose", "iperf3")
	peer := filepath.Join(t.TempDir(), "peer")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", peer, "testdata/peer/peer.c", "-libverbs", "-lrdmacm").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, c := range []struct {
		name string
		run  func(*testlab.Lab, string)
	}{
		{"loss", testRDMALoss},
		{"spraying", testRDMASpraying},
		{"FCS", testRDMAFCS},
		{"ICRC", testRDMAICRC},
		{"duplicates", testRDMADuplicates},
		{"cut and healed", testRDMAHealed},
		{"cut", testRDMACut},
		{"receiver not ready", testRDMANotReady},
		{"access", testRDMAAccess},
		{"killed", testRDMAKilled},
		{"connections", testRDMAConnections},
		{"many queue pairs", testRDMAManyPairs},
		{"many programs", testRDMAManyPrograms},
		{"beside iperf3", testRDMABesideTCP},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := *l
			on.T = t
			c.run(&on, peer)
			unused(&on, "h1", "h2", "h3", "h4", "h5", "h6")
		})
	}
	if a := l.Down().Accounts; !a.Balanced() {
		t.Errorf("accounts: %+v", a)
	}
}

// addressOf returns the first address of a host.
func addressOf(host string) string { return "10.0.0." + strings.TrimPrefix(host, "h") }

// set changes a link.
func set(l *testlab.Lab, port string, settings ...string) {
	l.T.Helper()
	l.Must(append([]string{"set", "-l", l.Name, port}, settings...)...)
}

// setFor changes a link until the test ends.
func setFor(l *testlab.Lab, port, setting, after string) {
	l.T.Helper()
	set(l, port, setting)
	l.T.Cleanup(func() { set(l, port, after) })
}

// counts starts counting; the returned function sums up the increase of a counter
// of the NICs since then.
func counts(l *testlab.Lab, hosts ...string) func(counter string) uint64 {
	l.T.Helper()
	before := map[string]fabric.NICCounters{}
	for _, h := range hosts {
		before[h] = l.NIC(h).Counters
	}
	return func(counter string) (n uint64) {
		for _, h := range hosts {
			n += l.NIC(h).Counters.Of(counter) - before[h].Of(counter)
		}
		return n
	}
}

// unused checks that NICs have no objects left of programs that have ended.
func unused(l *testlab.Lab, hosts ...string) {
	l.T.Helper()
	for _, h := range hosts {
		l.WaitFor("an end of all that programs had of the NIC of "+h, func() bool {
			n := l.NIC(h)
			return n.States.Total()+n.CQs+n.SRQs+n.AHs+n.PDs+n.MRs+n.MWs == 0
		})
	}
}

// dropped returns how many packets have been dropped for a reason, at all ports.
func dropped(l *testlab.Lab, why string) (n uint64) {
	l.T.Helper()
	for _, p := range l.Ports() {
		n += p.Drops[why]
	}
	return n
}

// plus returns a command with more arguments.
func plus(argv []string, more ...string) []string {
	return append(argv[:len(argv):len(argv)], more...)
}

// alike runs a program as server and as client, with the server's address as the
// client's only additional argument, and returns what the client prints.
func alike(l *testlab.Lab, at, from string, argv ...string) string {
	l.T.Helper()
	_, said := l.RunRDMABetween(at, from, argv, plus(argv, addressOf(at)))
	return said
}

// runPeer runs a case of testdata/peer/peer.c in two hosts.
func runPeer(l *testlab.Lab, program, name, at, from string, count, timeout int) {
	l.T.Helper()
	l.RunRDMABetween(at, from, []string{program, name}, []string{program, name, addressOf(at), strconv.Itoa(count), strconv.Itoa(timeout)})
}

// ping runs rping, which checks the data that comes back.
func ping(l *testlab.Lab, at, from string) {
	l.T.Helper()
	flags := []string{"-C", "10", "-S", "65535", "-v", "-V"}
	_, said := l.RunRDMABetween(at, from, plus([]string{"rping", "-s"}, flags...), plus([]string{"rping", "-c", "-a", addressOf(at)}, flags...))
	if n := strings.Count(said, "ping data: rdma-ping-"); n != 10 {
		l.T.Errorf("rping has got %d pings back, not 10", n)
	}
}

// endures runs programs that check their data, and others that move much of it, in
// two hosts until all succeed. timeout is the code of the local ACK timeout for
// programs that have an option for it: a loss at the end of a transfer costs that
// much time.
func endures(l *testlab.Lab, peer, at, from string, timeout int) {
	l.T.Helper()
	ping(l, at, from)
	// -c checks the received data.
	alike(l, at, from, "ibv_rc_pingpong", "-g", "0", "-c", "-n", "100")
	for _, program := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw"} {
		said := alike(l, at, from, program, "-x", "0", "-n", "30", "-u", strconv.Itoa(timeout))
		if !regexp.MustCompile(`65536 +30 `).MatchString(said) {
			l.T.Errorf("%s has not moved what it was to:\n%s", program, said)
		}
	}
	runPeer(l, peer, "data", at, from, 30, timeout)
}

// testRDMALoss: 1% of all packets is lost on either path.
func testRDMALoss(l *testlab.Lab, peer string) {
	for _, port := range []string{"leaf1:spine1", "leaf1:spine2"} {
		setFor(l, port, "loss=1%", "loss=0%")
	}
	lost, counted := dropped(l, "link-loss"), counts(l, "h1", "h2")
	endures(l, peer, "h1", "h2", 12)
	n := dropped(l, "link-loss") - lost
	l.T.Logf("%d packets lost, %d timeouts", n, counted("local_ack_timeout_err"))
	if n < 50 {
		l.T.Errorf("%d packets were lost", n)
	}
	for _, name := range []string{"packet_seq_err", "out_of_sequence", "retransmitted_packets", "local_ack_timeout_err"} {
		if counted(name) == 0 {
			l.T.Errorf("%s has counted nothing", name)
		}
	}
}

// testRDMASpraying: packets take either path at random, one of which is longer.
func testRDMASpraying(l *testlab.Lab, peer string) {
	setFor(l, "leaf3:spine2", "delay=10us", "delay=5us")
	before, counted := l.Ports(), counts(l, "h3", "h4")
	endures(l, peer, "h3", "h4", 12)
	after := l.Ports()
	for _, port := range []string{"leaf3:spine1", "leaf3:spine2", "leaf4:spine1", "leaf4:spine2"} {
		if n := after[port].TxPackets - before[port].TxPackets; n < 1000 {
			l.T.Errorf("%s has sent %d packets", port, n)
		}
	}
	late, naks := counted("out_of_sequence"), counted("packet_seq_err")
	l.T.Logf("%d packets out of order, %d NAKs for them", late, naks)
	if late < 100 || naks < 50 {
		l.T.Errorf("%d packets out of order, %d NAKs for them", late, naks)
	}
}

// testRDMAFCS: 1% of all packets is damaged on a link. The next port detects that
// with the FCS, so no damaged packet reaches a NIC.
func testRDMAFCS(l *testlab.Lab, peer string) {
	setFor(l, "leaf1:h1", "corrupt=1%", "corrupt=0%")
	before, counted := dropped(l, "bad-fcs"), counts(l, "h1", "h2")
	endures(l, peer, "h1", "h2", 12)
	bad, again, inside := dropped(l, "bad-fcs")-before, counted("retransmitted_packets"), counted("rx_icrc_encapsulated")
	if l.T.Logf("%d packets with a wrong FCS, %d sent again", bad, again); bad < 50 || again == 0 || inside != 0 {
		l.T.Errorf("%d packets with a wrong FCS, %d sent again, %d with a wrong ICRC", bad, again, inside)
	}
}

// testRDMAICRC: a host between two NICs damages 1% of their packets and gives them
// a correct FCS, as a switch with faulty memory does. The ICRC detects that.
func testRDMAICRC(l *testlab.Lab, peer string) {
	counted := counts(l, "h5", "h6")
	damaged, stop := bump(l, "bump", 0.01)
	endures(l, peer, "h6", "h5", 15)
	stop()
	if l.T.Logf("%d packets damaged", damaged.Load()); damaged.Load() < 50 {
		l.T.Errorf("%d packets were damaged", damaged.Load())
	}
	l.WaitFor(fmt.Sprintf("an ICRC error for each of %d packets", damaged.Load()), func() bool {
		return counted("rx_icrc_encapsulated") == damaged.Load()
	})
	if n, bad := counted("retransmitted_packets"), counted("port_rcv_errors"); n == 0 || bad != 0 {
		l.T.Errorf("%d packets were sent again, %d were not RoCE", n, bad)
	}
}

// testRDMADuplicates: packets arrive twice, and their requests are executed once.
func testRDMADuplicates(l *testlab.Lab, peer string) {
	setFor(l, "leaf1:h1", "duplicate=3%", "duplicate=0%")
	counted := counts(l, "h1", "h2")
	ping(l, "h1", "h2")
	runPeer(l, peer, "data", "h1", "h2", 60, 14)
	if counted("duplicate_request") == 0 {
		l.T.Error("no request came twice")
	}
}

// testRDMAHealed: a link is cut in the middle of a transfer and restored before
// the retries are used up. The link is slow until then, so that the transfer lasts.
func testRDMAHealed(l *testlab.Lab, peer string) {
	same := func(argv ...string) [2][]string { return [2][]string{argv, plus(argv, "10.0.0.1")} }
	for _, programs := range [][2][]string{
		{
			{"rping", "-s", "-C", "300", "-S", "65535", "-V"},
			{"rping", "-c", "-a", "10.0.0.1", "-C", "300", "-S", "65535", "-V"},
		},
		same("ib_write_bw", "-x", "0", "-n", "300", "-u", "17"),
		same("ib_send_bw", "-x", "0", "-n", "300", "-u", "17"),
		same("ib_read_bw", "-x", "0", "-n", "300", "-u", "17"),
		{{peer, "data"}, {peer, "data", "10.0.0.1", "300", "17"}},
	} {
		set(l, "leaf1:h1", "rate=50Mbps")
		counted := counts(l, "h1", "h2")
		moved := func() uint64 { return counted("received_payload") }
		s, c := l.StartProgram("h1", programs[0]...), l.StartProgram("h2", programs[1]...)
		l.WaitFor("a transfer", func() bool {
			if moved() > 200e3 {
				return true
			}
			if c.Exited() && testlab.TooEarly.MatchString(c.Out.String()) {
				c = l.StartProgram("h2", programs[1]...)
			}
			return false
		})
		set(l, "leaf1:h1", "state=down")
		l.WaitFor("a timeout", func() bool { return counted("local_ack_timeout_err") > 0 })
		if c.Exited() {
			l.T.Errorf("%v has ended before the link is healed", c.Args)
		}
		set(l, "leaf1:h1", "state=up", "rate=5Gbps")
		for _, p := range []*testlab.Program{c, s} {
			if err := p.WaitEnd(l.T); err != nil {
				l.T.Errorf("%v: %v\n%s", p.Args, err, &p.Out)
			}
		}
		if n := counted("req_transport_retries_exceeded"); n != 0 {
			l.T.Errorf("%v: retries were exceeded %d times", c.Args, n)
		}
	}
}

// testRDMACut: a link stays cut for longer than the retries last.
func testRDMACut(l *testlab.Lab, _ string) {
	const pingpong = "ibv_rc_pingpong"
	for _, argv := range append(lasting[:len(lasting):len(lasting)], []string{pingpong, "-g", "0", "-c", "-n", "100000000"}) {
		counted := counts(l, "h1", "h2")
		s, c := lasts(l, argv)
		setFor(l, "leaf1:h1", "state=down", "state=up")
		if argv[0] == pingpong {
			// The side whose turn it was fails, and the other waits for ever.
			l.WaitFor("an end of one side", func() bool { return s.Exited() || c.Exited() })
			if s.Exited() {
				s, c = c, s
			}
		}
		c.CheckGivesUp(l.T)
		if n := counted("req_transport_retries_exceeded"); n == 0 {
			l.T.Errorf("%v: no retries were exceeded", argv)
		}
		set(l, "leaf1:h1", "state=up")
		// The other side does not learn of it, because its TCP connection is idle.
		_ = s.Process.Kill()
	}
}
