package cli

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
	l := startRDMA(t, rdmaFaults, "rping", "ibv_rc_pingpong", "ib_write_bw", "ucmatose", "iperf3")
	peer := filepath.Join(t.TempDir(), "peer")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", peer, "testdata/peer/peer.c", "-libverbs", "-lrdmacm").CombinedOutput(); err != nil {
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
		{"duplicates", (*realLab).testRDMADuplicates},
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

// addressOf returns the first address of a host.
func addressOf(host string) string { return "10.0.0." + strings.TrimPrefix(host, "h") }

// set changes a link.
func (l *realLab) set(port string, settings ...string) {
	l.t.Helper()
	l.must(append([]string{"set", "-l", l.name, port}, settings...)...)
}

// setFor changes a link until the test ends.
func (l *realLab) setFor(port, setting, after string) {
	l.t.Helper()
	l.set(port, setting)
	l.t.Cleanup(func() { l.set(port, after) })
}

// nic returns the NIC of a host.
func (l *realLab) nic(host string) fabric.NICStatus {
	l.t.Helper()
	var list []fabric.NICStatus
	if err := json.Unmarshal([]byte(l.must("nic", "-l", l.name, "--json", host)), &list); err != nil || len(list) != 1 {
		l.t.Fatalf("%s: %v, %d NICs", host, err, len(list))
	}
	return list[0]
}

// counts starts counting; the returned function sums up the increase of a counter
// of the NICs since then.
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

// unused checks that NICs have no objects left of programs that have ended.
func (l *realLab) unused(hosts ...string) {
	l.t.Helper()
	for _, h := range hosts {
		l.becomesTrue("an end of all that programs had of the NIC of "+h, func() bool {
			n := l.nic(h)
			return n.States.Total()+n.CQs+n.SRQs+n.AHs+n.PDs+n.MRs+n.MWs == 0
		})
	}
}

// dropped returns how many packets have been dropped for a reason, at all ports.
func (l *realLab) dropped(why string) (n uint64) {
	l.t.Helper()
	for _, p := range l.ports() {
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
func (l *realLab) alike(at, from string, argv ...string) string {
	l.t.Helper()
	_, said := l.rdmaBetween(at, from, argv, plus(argv, addressOf(at)))
	return said
}

// peer runs a case of testdata/peer/peer.c in two hosts.
func (l *realLab) peer(program, name, at, from string, count, timeout int) {
	l.t.Helper()
	l.rdmaBetween(at, from, []string{program, name}, []string{program, name, addressOf(at), strconv.Itoa(count), strconv.Itoa(timeout)})
}

// ping runs rping, which checks the data that comes back.
func (l *realLab) ping(at, from string) {
	l.t.Helper()
	flags := []string{"-C", "10", "-S", "65535", "-v", "-V"}
	_, said := l.rdmaBetween(at, from, plus([]string{"rping", "-s"}, flags...), plus([]string{"rping", "-c", "-a", addressOf(at)}, flags...))
	if n := strings.Count(said, "ping data: rdma-ping-"); n != 10 {
		l.t.Errorf("rping has got %d pings back, not 10", n)
	}
}

// endures runs programs that check their data, and others that move much of it, in
// two hosts until all succeed. timeout is the code of the local ACK timeout for
// programs that have an option for it: a loss at the end of a transfer costs that
// much time.
func (l *realLab) endures(peer, at, from string, timeout int) {
	l.t.Helper()
	l.ping(at, from)
	// -c checks the received data.
	l.alike(at, from, "ibv_rc_pingpong", "-g", "0", "-c", "-n", "100")
	for _, program := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw"} {
		said := l.alike(at, from, program, "-x", "0", "-n", "30", "-u", strconv.Itoa(timeout))
		if !regexp.MustCompile(`65536 +30 `).MatchString(said) {
			l.t.Errorf("%s has not moved what it was to:\n%s", program, said)
		}
	}
	l.peer(peer, "data", at, from, 30, timeout)
}

// testRDMALoss: 1% of all packets is lost on either path.
func (l *realLab) testRDMALoss(peer string) {
	for _, port := range []string{"leaf1:spine1", "leaf1:spine2"} {
		l.setFor(port, "loss=1%", "loss=0%")
	}
	lost, counted := l.dropped("link-loss"), l.counts("h1", "h2")
	l.endures(peer, "h1", "h2", 12)
	n := l.dropped("link-loss") - lost
	l.t.Logf("%d packets lost, %d timeouts", n, counted("local_ack_timeout_err"))
	if n < 50 {
		l.t.Errorf("%d packets were lost", n)
	}
	for _, name := range []string{"packet_seq_err", "out_of_sequence", "retransmitted_packets", "local_ack_timeout_err"} {
		if counted(name) == 0 {
			l.t.Errorf("%s has counted nothing", name)
		}
	}
}

// testRDMASpraying: packets take either path at random, one of which is longer.
func (l *realLab) testRDMASpraying(peer string) {
	l.setFor("leaf3:spine2", "delay=10us", "delay=5us")
	before, counted := l.ports(), l.counts("h3", "h4")
	l.endures(peer, "h3", "h4", 12)
	after := l.ports()
	for _, port := range []string{"leaf3:spine1", "leaf3:spine2", "leaf4:spine1", "leaf4:spine2"} {
		if n := after[port].TxPackets - before[port].TxPackets; n < 1000 {
			l.t.Errorf("%s has sent %d packets", port, n)
		}
	}
	late, naks := counted("out_of_sequence"), counted("packet_seq_err")
	l.t.Logf("%d packets out of order, %d NAKs for them", late, naks)
	if late < 100 || naks < 50 {
		l.t.Errorf("%d packets out of order, %d NAKs for them", late, naks)
	}
}

// testRDMAFCS: 1% of all packets is damaged on a link. The next port detects that
// with the FCS, so no damaged packet reaches a NIC.
func (l *realLab) testRDMAFCS(peer string) {
	l.setFor("leaf1:h1", "corrupt=1%", "corrupt=0%")
	before, counted := l.dropped("bad-fcs"), l.counts("h1", "h2")
	l.endures(peer, "h1", "h2", 12)
	bad, again, inside := l.dropped("bad-fcs")-before, counted("retransmitted_packets"), counted("rx_icrc_encapsulated")
	if l.t.Logf("%d packets with a wrong FCS, %d sent again", bad, again); bad < 50 || again == 0 || inside != 0 {
		l.t.Errorf("%d packets with a wrong FCS, %d sent again, %d with a wrong ICRC", bad, again, inside)
	}
}

// testRDMAICRC: a host between two NICs damages 1% of their packets and gives them
// a correct FCS, as a switch with faulty memory does. The ICRC detects that.
func (l *realLab) testRDMAICRC(peer string) {
	counted := l.counts("h5", "h6")
	damaged, stop := l.bump("bump", 0.01)
	l.endures(peer, "h6", "h5", 15)
	stop()
	if l.t.Logf("%d packets damaged", damaged.Load()); damaged.Load() < 50 {
		l.t.Errorf("%d packets were damaged", damaged.Load())
	}
	l.becomesTrue(fmt.Sprintf("an ICRC error for each of %d packets", damaged.Load()), func() bool {
		return counted("rx_icrc_encapsulated") == damaged.Load()
	})
	if n, bad := counted("retransmitted_packets"), counted("port_rcv_errors"); n == 0 || bad != 0 {
		l.t.Errorf("%d packets were sent again, %d were not RoCE", n, bad)
	}
}

// testRDMADuplicates: packets arrive twice, and their requests are executed once.
func (l *realLab) testRDMADuplicates(peer string) {
	l.setFor("leaf1:h1", "duplicate=3%", "duplicate=0%")
	counted := l.counts("h1", "h2")
	l.ping("h1", "h2")
	l.peer(peer, "data", "h1", "h2", 60, 14)
	if counted("duplicate_request") == 0 {
		l.t.Error("no request came twice")
	}
}

// testRDMAHealed: a link is cut in the middle of a transfer and restored before
// the retries are used up. The link is slow until then, so that the transfer lasts.
func (l *realLab) testRDMAHealed(peer string) {
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
		l.set("leaf1:h1", "rate=50Mbps")
		counted := l.counts("h1", "h2")
		moved := func() uint64 { return counted("received_payload") }
		s, c := l.rdmaServer("h1", programs[0]...), l.rdmaServer("h2", programs[1]...)
		l.becomesTrue("a transfer", func() bool {
			if moved() > 200e3 {
				return true
			}
			if c.exited() && early.MatchString(c.out.String()) {
				c = l.rdmaServer("h2", programs[1]...)
			}
			return false
		})
		l.set("leaf1:h1", "state=down")
		l.becomesTrue("a timeout", func() bool { return counted("local_ack_timeout_err") > 0 })
		if c.exited() {
			l.t.Errorf("%v has ended before the link is healed", c.Args)
		}
		l.set("leaf1:h1", "state=up", "rate=5Gbps")
		for _, p := range []*rdmaServer{c, s} {
			if err := p.ends(); err != nil {
				l.t.Errorf("%v: %v\n%s", p.Args, err, &p.out)
			}
		}
		if n := counted("req_transport_retries_exceeded"); n != 0 {
			l.t.Errorf("%v: retries were exceeded %d times", c.Args, n)
		}
	}
}

// gaveUp matches what programs print for IBV_WC_RETRY_EXC_ERR.
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
	const pingpong = "ibv_rc_pingpong"
	for _, argv := range append(lasting[:len(lasting):len(lasting)], []string{pingpong, "-g", "0", "-c", "-n", "100000000"}) {
		counted := l.counts("h1", "h2")
		s, c := l.lasts(argv)
		l.setFor("leaf1:h1", "state=down", "state=up")
		if argv[0] == pingpong {
			// The side whose turn it was fails, and the other waits for ever.
			l.becomesTrue("an end of one side", func() bool { return s.exited() || c.exited() })
			if s.exited() {
				s, c = c, s
			}
		}
		c.givesUp(l.t)
		if n := counted("req_transport_retries_exceeded"); n == 0 {
			l.t.Errorf("%v: no retries were exceeded", argv)
		}
		l.set("leaf1:h1", "state=up")
		// The other side does not learn of it, because its TCP connection is idle.
		_ = s.Process.Kill()
	}
}
