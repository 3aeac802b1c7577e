package rdma

import (
	"strconv"
	"strings"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// lasting are clients whose transfers last until they are ended.
var lasting = [][]string{
	{"ib_write_bw", "-x", "0", "-D", "60", "-u", "12"},
	{"ib_send_bw", "-x", "0", "-D", "60", "-u", "12"},
	{"ib_read_bw", "-x", "0", "-D", "60", "-u", "12"},
}

// lasts starts a program in h1 and its client in h2, and waits until they transfer data.
func lasts(l *testlab.Lab, argv []string) (server, client *testlab.Program) {
	l.T.Helper()
	server = l.StartProgram("h1", argv...)
	l.WaitListening("h1", "18515")
	client = l.StartProgram("h2", plus(argv, "10.0.0.1")...)
	flows(l, "h1", "leaf1:h1", 1000)
	return server, client
}

// testRDMANotReady: SENDs without a posted receive.
func testRDMANotReady(l *testlab.Lab, peer string) {
	counted := counts(l, "h1", "h2")
	runPeer(l, peer, "rnr", "h1", "h2", 1, 14)
	if n, beyond, without := counted("rnr_nak_retry_err"), counted("req_rnr_retries_exceeded"), counted("out_of_buffer"); n < 10 || beyond != 1 || without < n {
		l.T.Errorf("%d RNR NAKs, %d beyond the last, %d packets without a receive", n, beyond, without)
	}
	// A stopped program soon has no receives left. The link is slow meanwhile, so that
	// the transfer lasts.
	set(l, "leaf1:h1", "rate=50Mbps")
	counted = counts(l, "h1", "h2")
	argv := []string{"ib_send_bw", "-x", "0", "-r", "10", "-s", "4096", "-n", "2000"}
	s := l.StartProgram("h1", argv...)
	l.WaitListening("h1", "18515")
	c := l.StartProgram("h2", plus(argv, "10.0.0.1")...)
	l.WaitFor("a transfer", func() bool { return counted("received_payload") > 200e3 })
	resume := l.SuspendProgram("h1", "ib_send_bw")
	l.WaitFor("an RNR NAK", func() bool { return counted("rnr_nak_retry_err") > 10 })
	resume()
	set(l, "leaf1:h1", "rate=5Gbps")
	for _, p := range []*testlab.Program{c, s} {
		if err := p.WaitEnd(l.T); err != nil || !strings.Contains(p.Out.String(), "4096       2000") {
			l.T.Errorf("%v: %v\n%s", p.Args, err, &p.Out)
		}
	}
}

// testRDMAAccess: requests refused over the wire, and memory that is deregistered.
func testRDMAAccess(l *testlab.Lab, peer string) {
	counted := counts(l, "h1", "h2")
	runPeer(l, peer, "access", "h1", "h2", 1, 14)
	if n, invalid := counted("req_remote_access_errors"), counted("req_remote_invalid_request"); n != 17 || invalid != 4 || counted("resp_remote_access_errors") != n {
		l.T.Errorf("%d NAKs for access, %d for invalid requests", n, invalid)
	}
	runPeer(l, peer, "unfit", "h1", "h2", 1, 14)
	for _, name := range []string{"revoked-write", "revoked-read", "revoked-send"} {
		runPeer(l, peer, name, "h1", "h2", 1, 14)
	}
}

// testRDMAKilled: either side is killed in the middle of a transfer.
func testRDMAKilled(l *testlab.Lab, peer string) {
	for _, argv := range lasting {
		counted := counts(l, "h1", "h2")
		s, c := lasts(l, argv)
		_ = s.Process.Kill()
		c.CheckGivesUp(l.T)
		if counted("req_transport_retries_exceeded") == 0 || counted("req_remote_access_errors") != 0 {
			l.T.Errorf("%v: the client's requests were answered after the server was killed", argv)
		}
		unused(l, "h1", "h2")

		s, c = lasts(l, argv)
		_ = c.Process.Kill()
		unused(l, "h2")
		// A server notices if it sends, or reads from its TCP connection; the other
		// servers wait for ever, on real NICs too.
		_ = s.Process.Kill()
		unused(l, "h1")
	}
	for _, op := range []string{"write", "read", "send"} {
		for _, victim := range []string{"server", "client"} {
			runPeer(l, peer, "killed-"+op+"-"+victim, "h1", "h2", 1, 10)
		}
	}
	// rdma_cm notifies the other side of a connection.
	for _, victim := range []string{"h1", "h2"} {
		s := l.StartProgram("h1", "rping", "-s")
		time.Sleep(100 * time.Millisecond)
		c := l.StartProgram("h2", "rping", "-c", "-a", "10.0.0.1")
		flows(l, "h1", "leaf1:h1", 1000)
		if victim == "h2" {
			s, c = c, s
		}
		_ = s.Process.Kill()
		if err := c.WaitEnd(l.T); !strings.Contains(c.Out.String(), "DISCONNECT") {
			l.T.Errorf("%v after the other was killed: %v\n%s", c.Args, err, &c.Out)
		}
	}
	endures(l, peer, "h1", "h2", 14)
}

// testRDMAConnections: 200 connections one after the other in one process, and 200 at
// once.
func testRDMAConnections(l *testlab.Lab, peer string) {
	runPeer(l, peer, "connects", "h1", "h2", 200, 14)
	argv := []string{"ucmatose", "-c", "200", "-C", "5", "-S", "2000"}
	if _, said := l.RunRDMA(argv, plus(argv, "-s", "10.0.0.1")); !strings.Contains(said, "return status 0") {
		l.T.Errorf("%s", said)
	}
}

// testRDMAManyPairs: 256 queue pairs at once, in one thread and in eight.
func testRDMAManyPairs(l *testlab.Lab, peer string) {
	if said := alike(l, "h1", "h2", "ib_write_bw", "-x", "0", "-q", "256", "-n", "5", "-s", "4096"); !strings.Contains(said, "4096       1280") {
		l.T.Errorf("%s", said)
	}
	runPeer(l, peer, "qps", "h1", "h2", 256, 14)
}

// testRDMAManyPrograms: several pairs of programs at once, in both directions.
func testRDMAManyPrograms(l *testlab.Lab, _ string) {
	var servers, clients []*testlab.Program
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
		servers = append(servers, l.StartProgram(at, argv...))
		l.WaitListening(at, port)
		clients = append(clients, l.StartProgram(from, append(argv, addressOf(at))...))
	}
	for i := range servers {
		for _, s := range []*testlab.Program{clients[i], servers[i]} {
			if err := s.WaitEnd(l.T); err != nil || !strings.Contains(s.Out.String(), "300 iters in") {
				l.T.Errorf("%v: %v\n%s", s.Args, err, &s.Out)
			}
		}
	}
}

// testRDMABesideTCP: RDMA and TCP share a port at the same time, and both get a
// share of it.
func testRDMABesideTCP(l *testlab.Lab, _ string) {
	const line = 200e6
	setFor(l, "leaf2:h2", "rate=200Mbps", "rate=5Gbps")
	s, c := lasts(l, []string{"ib_write_bw", "-x", "0", "-D", "60", "-u", "17"})
	counted := counts(l, "h1")
	begin := time.Now()
	tcp := l.Iperf3("h2", "h1", "10.0.0.1", "-t", "2", "-C", "cubic").End.Received.Bits
	ping(l, "h1", "h2")
	rdma := float64(counted("received_payload")) * 8 / time.Since(begin).Seconds()
	if l.T.Logf("iperf3 %.0f Mb/s, RDMA %.0f Mb/s", tcp/1e6, rdma/1e6); tcp < line/10 || rdma < line/10 || tcp > line {
		l.T.Errorf("of %.0f Mb/s iperf3 has %.0f and RDMA %.0f", line/1e6, tcp/1e6, rdma/1e6)
	}
	_, _ = s.Process.Kill(), c.Process.Kill()
}
