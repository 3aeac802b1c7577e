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
	"github.com/weftlab/weft/emu/status"
)

// rdmaFaults is the pairs of rdmaPairs behind switches that use ECMP over two paths; h9 and h10
// behind switches that spray their packets over both; and h11 and h12 with a host between them
// that forwards what it sees.
const rdmaFaults = `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 4, rate: 5Gbps, delay: 5us, uplink: {rate: 20Gbps}}}
  nodes:
    leaf3: {kind: switch, forwarding: random}
    leaf4: {kind: switch, forwarding: random}
    h1: {address: 10.0.0.1/24}
    h2: {address: 10.0.0.2/24}
    h3: {address: 10.0.0.3/24}
    h4: {address: 10.0.0.4/24}
    h5: {address: 10.0.0.5/24}
    h6: {address: 10.0.0.6/24}
    h7: {address: 10.0.0.7/24}
    h8: {address: 10.0.0.8/24}
    h9: {kind: host, address: 10.0.0.9/24}
    h10: {kind: host, address: 10.0.0.10/24}
    # bump copies frames between its links, so h11 and h12 are in one subnet.
    h11: {kind: host, offload: off, address: 10.0.0.11/24}
    h12: {kind: host, offload: off, address: 10.0.0.12/24}
    bump: {kind: host, nic: none, offload: off, interfaces: {eth0: {address: 10.0.0.13/24}, eth1: {address: 10.0.0.14/24}}}
  links:
    - {endpoints: ["h9:eth0", "leaf3:h9"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["h10:eth0", "leaf4:h10"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["leaf3:spine1", "spine1:leaf3"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["leaf3:spine2", "spine2:leaf3"], rate: 5Gbps, delay: 10us}
    - {endpoints: ["leaf4:spine1", "spine1:leaf4"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["leaf4:spine2", "spine2:leaf4"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["h11:eth0", "bump:eth0"], rate: 50Mbps, delay: 5us}
    - {endpoints: ["h12:eth0", "bump:eth1"], rate: 50Mbps, delay: 5us}
`

// fault is a part of TestRDMA_UnderFaults.
type fault struct {
	name string
	run  func(*testlab.Lab, testlab.Pair)
	on   *testlab.Pair // its hosts; nil means those of any of testlab.OnPairs
}

// TestRDMA_UnderFaults: Debian's programs, and our own that checks more closely, while the
// network or one of them fails. Each part makes sure that its fault has happened, and that the
// NICs have no objects left afterwards of programs that have ended.
func TestRDMA_UnderFaults(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaFaults, "rping", "ibv_rc_pingpong", "ib_write_bw", "ucmatose", "iperf3")
	t.Cleanup(func() {
		if a := l.Down().Accounts; !a.Balanced() {
			t.Errorf("accounts: %+v", a)
		}
	})
	dir := t.TempDir()
	peer := filepath.Join(dir, "peer")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", peer, "testdata/peer/peer.c", "-libverbs", "-lrdmacm").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	faults := []fault{
		{name: "PacketsTakeTwoPaths_AreReordered", run: sprayed(peer), on: &testlab.Pair{At: "h9", From: "h10"}},
		{name: "PacketsDamagedInASwitch_FailTheICRC", run: damagedInside(peer), on: &testlab.Pair{At: "h12", From: "h11"}},
		{name: "PacketsAreLost_AreSentAgain", run: lost(peer)},
		{name: "PacketsDamagedOnALink_FailTheFCS", run: damagedOnLink(peer)},
		{name: "PacketsArriveTwice_RequestsAreExecutedOnce", run: duplicated(peer)},
		{name: "ReceivesComeLate_SendsWait", run: lateReceive(peer)},
		{name: "ProgramIsStopped_SendsWait", run: stopped},
		{name: "AccessIsNotAllowed_NothingChanges", run: notAllowed(peer)},
		{name: "HundredConnections_OneAfterTheOther", run: connectedInTurn(peer)},
		{name: "TwoHundredConnections_AtOnce", run: connectedAtOnce},
		{name: "ManyQueuePairs_CarryTheirOwnData", run: manyPairs(peer)},
		{name: "ManyPrograms_RunBothWays", run: manyPrograms},
		{name: "TCP_SharesAPortWithRDMA", run: besideTCP},
	}
	faults = append(faults, healed(peer)...)
	faults = append(faults, cut()...)
	faults = append(faults, killed(peer)...)
	testlab.OnPairs(l, faults, func(f fault) string { return f.name }, func(l *testlab.Lab, p testlab.Pair, f fault) {
		if f.on != nil {
			p = *f.on
		}
		f.run(l, p)
		unused(l, p.At, p.From)
	})
}

// set changes a link.
func set(l *testlab.Lab, port string, settings ...string) {
	l.T.Helper()
	l.Must(append([]string{"set", "-l", l.Name, port}, settings...)...)
}

// setFor changes the link of a host until the test ends.
func setFor(l *testlab.Lab, host, setting, after string) {
	l.T.Helper()
	set(l, host+":eth0", setting)
	l.T.Cleanup(func() { set(l, host+":eth0", after) })
}

// slow makes the links of a pair so slow that a transfer of some MB lasts until the test has
// looked at it. The NICs send at the rates of their links, so no queue overflows.
func slow(l *testlab.Lab, p testlab.Pair) {
	l.T.Helper()
	setFor(l, p.At, "rate=5Mbps", "rate=5Gbps")
	setFor(l, p.From, "rate=5Mbps", "rate=5Gbps")
}

// fast ends slow.
func fast(l *testlab.Lab, p testlab.Pair) {
	l.T.Helper()
	set(l, p.At+":eth0", "rate=5Gbps", "state=up")
	set(l, p.From+":eth0", "rate=5Gbps")
}

// counts starts counting; the returned function sums up the increase of a counter
// of the NICs since then.
func counts(l *testlab.Lab, hosts ...string) func(counter string) uint64 {
	l.T.Helper()
	before := map[string]status.NICCounters{}
	for _, h := range hosts {
		before[h] = l.NIC(h).Counters
	}
	return func(counter string) (n uint64) {
		l.T.Helper()
		for _, h := range hosts {
			n += l.NIC(h).Counters.Of(counter) - before[h].Of(counter)
		}
		return n
	}
}

// unused waits until NICs have no objects of programs.
func unused(l *testlab.Lab, hosts ...string) {
	l.T.Helper()
	for _, h := range hosts {
		l.WaitFor("an end of all that programs had of the NIC of "+h, func() bool {
			n := l.NIC(h)
			return n.States.Total()+n.CQs+n.SRQs+n.AHs+n.PDs+n.MRs+n.MWs == 0
		})
	}
}

// dropped returns how many packets have been dropped for a reason at both ends of a host's link.
func dropped(l *testlab.Lab, leaf, host, why string) uint64 {
	l.T.Helper()
	p := l.Ports()
	return p[leaf+":"+host].Drops[why] + p[host+":eth0"].Drops[why]
}

// plus returns a command with more arguments.
func plus(argv []string, more ...string) []string {
	return append(argv[:len(argv):len(argv)], more...)
}

// alike runs a program as server and as client, with the server's address as the
// client's only additional argument, and returns what the client prints.
func alike(l *testlab.Lab, at, from string, argv ...string) string {
	l.T.Helper()
	_, said := l.RunRDMABetween(at, from, argv, plus(argv, testlab.AddressOf(at)))
	return said
}

// runPeer runs a case of testdata/peer/peer.c in two hosts.
func runPeer(l *testlab.Lab, program, name string, p testlab.Pair, count, timeout int) {
	l.T.Helper()
	l.RunRDMABetween(p.At, p.From, []string{program, name}, peerClient(program, name, p, count, timeout))
}

func peerClient(program, name string, p testlab.Pair, count, timeout int) []string {
	return []string{program, name, p.Address(), strconv.Itoa(count), strconv.Itoa(timeout)}
}

// ping runs rping, which checks the data that comes back.
func ping(l *testlab.Lab, p testlab.Pair) {
	l.T.Helper()
	flags := []string{"-C", "10", "-S", "65535", "-v", "-V"}
	_, said := l.RunRDMABetween(p.At, p.From, plus([]string{"rping", "-s"}, flags...), plus([]string{"rping", "-c", "-a", p.Address()}, flags...))
	if n := strings.Count(said, "ping data: rdma-ping-"); n != 10 {
		l.T.Errorf("rping has got %d pings back, not 10", n)
	}
}

// endures runs programs that check their data, and others that move much of it, until all
// succeed. timeout is the code of the local ACK timeout for programs that have an option for it:
// a loss at the end of a transfer costs that much time. The pingpongs are not among them: if the
// ACK of the last message is lost, its receiver is gone when that is sent again.
func endures(l *testlab.Lab, peer string, p testlab.Pair, timeout int) {
	l.T.Helper()
	ping(l, p)
	for _, program := range []string{"ib_write_bw", "ib_send_bw", "ib_read_bw"} {
		said := alike(l, p.At, p.From, program, "-x", "0", "-n", "30", "-u", strconv.Itoa(timeout))
		if !regexp.MustCompile(`65536 +30 `).MatchString(said) {
			l.T.Errorf("%s has not moved what it was to:\n%s", program, said)
		}
	}
	runPeer(l, peer, "data", p, 30, timeout)
}

// lost: 1% of all packets is lost.
func lost(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		setFor(l, p.At, "loss=1%", "loss=0%")
		before, counted := dropped(l, "leaf1", p.At, "link-loss"), counts(l, p.At, p.From)
		endures(l, peer, p, 12)
		n := dropped(l, "leaf1", p.At, "link-loss") - before
		if l.T.Logf("%d packets lost, %d timeouts", n, counted("local_ack_timeout_err")); n == 0 {
			l.T.Error("no packet was lost")
		}
		for _, name := range []string{"packet_seq_err", "out_of_sequence", "retransmitted_packets"} {
			if counted(name) == 0 {
				l.T.Errorf("%s has counted nothing", name)
			}
		}
	}
}

// sprayed: packets take either path at random, one of which is longer.
func sprayed(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		before, counted := l.Ports(), counts(l, p.At, p.From)
		endures(l, peer, p, 12)
		alike(l, p.At, p.From, "ibv_rc_pingpong", "-g", "0", "-c", "-n", "100") // -c checks the received data
		after := l.Ports()
		for _, port := range []string{"leaf3:spine1", "leaf3:spine2", "leaf4:spine1", "leaf4:spine2"} {
			if n := after[port].TxPackets - before[port].TxPackets; n < 1000 {
				l.T.Errorf("%s has sent %d packets", port, n)
			}
		}
		late, naks := counted("out_of_sequence"), counted("packet_seq_err")
		if l.T.Logf("%d packets out of order, %d NAKs for them", late, naks); late == 0 || naks == 0 {
			l.T.Error("no packet was out of order, or none was NAKed")
		}
	}
}

// damagedOnLink: 1% of all packets is damaged on a link. The next port detects that
// with the FCS, so no damaged packet reaches a NIC.
func damagedOnLink(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		setFor(l, p.At, "corrupt=1%", "corrupt=0%")
		before, counted := dropped(l, "leaf1", p.At, "bad-fcs"), counts(l, p.At, p.From)
		endures(l, peer, p, 12)
		bad, again, inside := dropped(l, "leaf1", p.At, "bad-fcs")-before, counted("retransmitted_packets"), counted("rx_icrc_encapsulated")
		if l.T.Logf("%d packets with a wrong FCS, %d sent again", bad, again); bad == 0 || again == 0 || inside != 0 {
			l.T.Errorf("%d packets with a wrong FCS, %d sent again, %d with a wrong ICRC", bad, again, inside)
		}
	}
}

// damagedInside: a host between two NICs damages 1% of their packets and gives them
// a correct FCS, as a switch with faulty memory does. The ICRC detects that.
func damagedInside(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		counted := counts(l, p.At, p.From)
		damaged, stop := bump(l, "bump", 0.01)
		endures(l, peer, p, 18) // the host is a program, which may get no processor for a while
		stop()
		if l.T.Logf("%d packets damaged", damaged.Load()); damaged.Load() == 0 {
			l.T.Error("no packet was damaged")
		}
		l.WaitFor(fmt.Sprintf("an ICRC error for each of %d packets", damaged.Load()), func() bool {
			return counted("rx_icrc_encapsulated") == damaged.Load()
		})
		if n, bad := counted("retransmitted_packets"), counted("port_rcv_errors"); n == 0 || bad != 0 {
			l.T.Errorf("%d packets were sent again, %d were not RoCE", n, bad)
		}
	}
}

// duplicated: packets arrive twice, and their requests are executed once.
func duplicated(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		setFor(l, p.At, "duplicate=3%", "duplicate=0%")
		counted := counts(l, p.At, p.From)
		ping(l, p)
		alike(l, p.At, p.From, "ibv_rc_pingpong", "-g", "0", "-c", "-n", "100")
		runPeer(l, peer, "data", p, 60, 14)
		if counted("duplicate_request") == 0 {
			l.T.Error("no request came twice")
		}
	}
}

// healed: a link is cut in the middle of a transfer and restored before the retries are used up.
func healed(peer string) (faults []fault) {
	const timeout = 19 // 2.1 s for each of 7 retries
	perftest := func(program string) func(p testlab.Pair) (server, client []string) {
		return func(p testlab.Pair) (server, client []string) {
			server = []string{program, "-x", "0", "-n", "300", "-u", strconv.Itoa(timeout)}
			return server, plus(server, p.Address())
		}
	}
	for name, commands := range map[string]func(p testlab.Pair) (server, client []string){
		"rping": func(p testlab.Pair) (server, client []string) {
			flags := []string{"-C", "300", "-S", "65535", "-V"}
			return plus([]string{"rping", "-s"}, flags...), plus([]string{"rping", "-c", "-a", p.Address()}, flags...)
		},
		"write": perftest("ib_write_bw"), "send": perftest("ib_send_bw"), "read": perftest("ib_read_bw"),
		"all": func(p testlab.Pair) (server, client []string) {
			return []string{peer, "data"}, peerClient(peer, "data", p, 300, timeout)
		},
	} {
		faults = append(faults, fault{name: "LinkIsCutAndHealed_TransferContinues/" + name, run: func(l *testlab.Lab, p testlab.Pair) {
			slow(l, p)
			counted := counts(l, p.At, p.From)
			server, client := commands(p)
			s := l.StartServing(p.At, server...)
			c := l.StartProgram(p.From, client...)
			c.WaitFor(l, "it transfers data", func() bool { return counted("received_payload") > 200e3 })
			set(l, p.At+":eth0", "state=down")
			c.WaitFor(l, "a timeout", func() bool { return counted("local_ack_timeout_err") > 0 })
			fast(l, p)
			for _, x := range []*testlab.Program{c, s} {
				if err := x.WaitEnd(l.T); err != nil {
					l.T.Errorf("%v: %v\n%s", x.Args, err, testlab.Tail(x.Out.String()))
				}
			}
			if n := counted("req_transport_retries_exceeded"); n != 0 {
				l.T.Errorf("%v: retries were exceeded %d times", c.Args, n)
			}
		}})
	}
	return faults
}

// cut: a link stays cut for longer than the retries last.
func cut() (faults []fault) {
	const pingpong = "ibv_rc_pingpong"
	for _, argv := range append(lasting[:len(lasting):len(lasting)], []string{pingpong, "-g", "0", "-c", "-n", "100000000"}) {
		faults = append(faults, fault{name: "LinkStaysCut_RetriesAreExceeded/" + argv[0], run: func(l *testlab.Lab, p testlab.Pair) {
			counted := counts(l, p.At, p.From)
			s, c := lasts(l, p, argv)
			setFor(l, p.At, "state=down", "state=up")
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
			// The other side does not learn of it, because its TCP connection is idle.
			s.KillAndRead()
		}})
	}
	return faults
}
