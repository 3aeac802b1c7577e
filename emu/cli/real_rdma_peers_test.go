package cli

import (
	"strconv"
	"strings"
	"time"
)

// lasting are clients whose transfers last until they are ended.
var lasting = [][]string{
	{"ib_write_bw", "-x", "0", "-D", "60", "-u", "12"},
	{"ib_send_bw", "-x", "0", "-D", "60", "-u", "12"},
	{"ib_read_bw", "-x", "0", "-D", "60", "-u", "12"},
}

// lasts starts a program in h1 and its client in h2, and waits until they transfer data.
func (l *realLab) lasts(argv []string) (server, client *rdmaServer) {
	l.t.Helper()
	server = l.rdmaServer("h1", argv...)
	l.listens("h1", "18515")
	client = l.rdmaServer("h2", plus(argv, "10.0.0.1")...)
	l.flows("h1", "leaf1:h1", 1000)
	return server, client
}

// testRDMANotReady: SENDs without a posted receive.
func (l *realLab) testRDMANotReady(peer string) {
	counted := l.counts("h1", "h2")
	l.peer(peer, "rnr", "h1", "h2", 1, 14)
	if n, beyond, without := counted("rnr_nak_retry_err"), counted("req_rnr_retries_exceeded"), counted("out_of_buffer"); n < 10 || beyond != 1 || without < n {
		l.t.Errorf("%d RNR NAKs, %d beyond the last, %d packets without a receive", n, beyond, without)
	}
	// A stopped program soon has no receives left. The link is slow meanwhile, so that
	// the transfer lasts.
	l.set("leaf1:h1", "rate=50Mbps")
	counted = l.counts("h1", "h2")
	argv := []string{"ib_send_bw", "-x", "0", "-r", "10", "-s", "4096", "-n", "2000"}
	s := l.rdmaServer("h1", argv...)
	l.listens("h1", "18515")
	c := l.rdmaServer("h2", plus(argv, "10.0.0.1")...)
	l.becomesTrue("a transfer", func() bool { return counted("received_payload") > 200e3 })
	resume := l.stopProgram("h1", "ib_send_bw")
	l.becomesTrue("an RNR NAK", func() bool { return counted("rnr_nak_retry_err") > 10 })
	resume()
	l.set("leaf1:h1", "rate=5Gbps")
	for _, p := range []*rdmaServer{c, s} {
		if err := p.ends(); err != nil || !strings.Contains(p.out.String(), "4096       2000") {
			l.t.Errorf("%v: %v\n%s", p.Args, err, &p.out)
		}
	}
}

// testRDMAAccess: requests refused over the wire, and memory that is deregistered.
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
		// A server notices if it sends, or reads from its TCP connection; the other
		// servers wait for ever, on real NICs too.
		_ = s.Process.Kill()
		l.unused("h1")
	}
	for _, op := range []string{"write", "read", "send"} {
		for _, victim := range []string{"server", "client"} {
			l.peer(peer, "killed-"+op+"-"+victim, "h1", "h2", 1, 10)
		}
	}
	// rdma_cm notifies the other side of a connection.
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
	if _, said := l.rdma(argv, plus(argv, "-s", "10.0.0.1")); !strings.Contains(said, "return status 0") {
		l.t.Errorf("%s", said)
	}
}

// testRDMAManyPairs: 256 queue pairs at once, in one thread and in eight.
func (l *realLab) testRDMAManyPairs(peer string) {
	if said := l.alike("h1", "h2", "ib_write_bw", "-x", "0", "-q", "256", "-n", "5", "-s", "4096"); !strings.Contains(said, "4096       1280") {
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

// testRDMABesideTCP: RDMA and TCP share a port at the same time, and both get a
// share of it.
func (l *realLab) testRDMABesideTCP(string) {
	const line = 200e6
	l.setFor("leaf2:h2", "rate=200Mbps", "rate=5Gbps")
	s, c := l.lasts([]string{"ib_write_bw", "-x", "0", "-D", "60", "-u", "17"})
	counted := l.counts("h1")
	begin := time.Now()
	tcp := l.iperf3("h2", "h1", "10.0.0.1", "-t", "2", "-C", "cubic").End.Received.Bits
	l.ping("h1", "h2")
	rdma := float64(counted("received_payload")) * 8 / time.Since(begin).Seconds()
	if l.t.Logf("iperf3 %.0f Mb/s, RDMA %.0f Mb/s", tcp/1e6, rdma/1e6); tcp < line/10 || rdma < line/10 || tcp > line {
		l.t.Errorf("of %.0f Mb/s iperf3 has %.0f and RDMA %.0f", line/1e6, tcp/1e6, rdma/1e6)
	}
	_, _ = s.Process.Kill(), c.Process.Kill()
}
