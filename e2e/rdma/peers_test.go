package rdma

import (
	"io"
	"strconv"
	"strings"

	"github.com/weftlab/weft/e2e/testlab"
)

// lasting are clients whose transfers last until they are ended.
var lasting = [][]string{
	{"ib_write_bw", "-x", "0", "-D", "3600", "-u", "12"},
	{"ib_send_bw", "-x", "0", "-D", "3600", "-u", "12"},
	{"ib_read_bw", "-x", "0", "-D", "3600", "-u", "12"},
}

// lasts starts a program as server and as client, and waits until they transfer data.
func lasts(l *testlab.Lab, p testlab.Pair, argv []string) (server, client *testlab.Program) {
	l.T.Helper()
	counted := counts(l, p.At, p.From)
	server = l.StartServing(p.At, argv...)
	client = l.StartProgram(p.From, plus(argv, p.Address())...)
	client.WaitFor(l, "it transfers data", func() bool { return counted("received_payload") > 1e6 })
	return server, client
}

// lateReceive: a SEND is retried for lack of a receive as often as allowed, and not more often.
func lateReceive(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		counted := counts(l, p.At, p.From)
		s := l.NewProgram(p.At, peer, "rnr")
		key, err := s.StdinPipe()
		if err != nil {
			l.T.Fatal(err)
		}
		s.Serve(l)
		c := l.StartProgram(p.From, peerClient(peer, "rnr", p, 1, 14)...)
		c.WaitFor(l, "RNR NAKs", func() bool { return counted("rnr_nak_retry_err") >= 10 })
		if _, err := io.WriteString(key, "\n"); err != nil { // now it posts the receive
			l.T.Fatal(err)
		}
		for _, x := range []*testlab.Program{c, s} {
			if err := x.WaitEnd(l.T); err != nil {
				l.T.Errorf("%v: %v\n%s", x.Args, err, &x.Out)
			}
		}
		if n, beyond, without := counted("rnr_nak_retry_err"), counted("req_rnr_retries_exceeded"), counted("out_of_buffer"); beyond != 1 || without < n {
			l.T.Errorf("%d RNR NAKs, %d beyond the last, %d packets without a receive", n, beyond, without)
		}
	}
}

// stopped: a program that is stopped soon has no receives left.
func stopped(l *testlab.Lab, p testlab.Pair) {
	slow(l, p)
	counted := counts(l, p.At, p.From)
	argv := []string{"ib_send_bw", "-x", "0", "-r", "10", "-s", "4096", "-n", "2000"}
	s := l.StartServing(p.At, argv...)
	c := l.StartProgram(p.From, plus(argv, p.Address())...)
	c.WaitFor(l, "it transfers data", func() bool { return counted("received_payload") > 200e3 })
	resume := l.SuspendProgram(p.At, "ib_send_bw")
	c.WaitFor(l, "RNR NAKs", func() bool { return counted("rnr_nak_retry_err") > 10 })
	resume()
	fast(l, p)
	for _, x := range []*testlab.Program{c, s} {
		if err := x.WaitEnd(l.T); err != nil || !strings.Contains(x.Out.String(), "4096       2000") {
			l.T.Errorf("%v: %v\n%s", x.Args, err, &x.Out)
		}
	}
}

// notAllowed: requests are refused over the wire, and memory is deregistered.
func notAllowed(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		counted := counts(l, p.At, p.From)
		runPeer(l, peer, "access", p, 1, 14)
		if n, invalid := counted("req_remote_access_errors"), counted("req_remote_invalid_request"); n != 17 || invalid != 4 || counted("resp_remote_access_errors") != n {
			l.T.Errorf("%d NAKs for access, %d for invalid requests", n, invalid)
		}
		runPeer(l, peer, "unfit", p, 1, 14)
		for _, name := range []string{"revoked-write", "revoked-read", "revoked-send"} {
			runPeer(l, peer, name, p, 1, 14)
		}
	}
}

// killed: either side is killed in the middle of a transfer.
func killed(peer string) (faults []fault) {
	for _, argv := range lasting {
		faults = append(faults, fault{name: "ServerIsKilled_ClientGivesUp/" + argv[0], run: func(l *testlab.Lab, p testlab.Pair) {
			counted := counts(l, p.At, p.From)
			s, c := lasts(l, p, argv)
			s.KillAndRead()
			c.CheckGivesUp(l.T)
			if counted("req_transport_retries_exceeded") == 0 || counted("req_remote_access_errors") != 0 {
				l.T.Errorf("%v: the client's requests were answered after the server was killed", argv)
			}
		}}, fault{name: "ClientIsKilled_NothingIsLeft/" + argv[0], run: func(l *testlab.Lab, p testlab.Pair) {
			s, c := lasts(l, p, argv)
			c.KillAndRead()
			unused(l, p.From)
			// A server notices if it sends, or reads from its TCP connection; the other
			// servers wait for ever, on real NICs too.
			s.KillAndRead()
		}})
	}
	for _, op := range []string{"write", "read", "send"} {
		for _, victim := range []string{"server", "client"} {
			name := "killed-" + op + "-" + victim
			faults = append(faults, fault{name: "ProgramIsKilled_ItsMemoryIsLeftAlone/" + name, run: func(l *testlab.Lab, p testlab.Pair) { runPeer(l, peer, name, p, 1, 10) }})
		}
	}
	// rdma_cm notifies the other side of a connection.
	for _, victim := range []string{"server", "client"} {
		faults = append(faults, fault{name: "ProgramIsKilled_ItsPeerIsDisconnected/" + victim, run: func(l *testlab.Lab, p testlab.Pair) {
			counted := counts(l, p.At, p.From)
			s := l.StartServing(p.At, "rping", "-s")
			c := l.StartProgram(p.From, "rping", "-c", "-a", p.Address())
			c.WaitFor(l, "it transfers data", func() bool { return counted("received_payload") > 10e3 })
			if victim == "client" {
				s, c = c, s
			}
			s.KillAndRead()
			if err := c.WaitEnd(l.T); !strings.Contains(c.Out.String(), "DISCONNECT") {
				l.T.Errorf("%v after the other was killed: %v\n%s", c.Args, err, &c.Out)
			}
		}})
	}
	return faults
}

// connectedInTurn: connections one after the other in one process.
func connectedInTurn(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) { runPeer(l, peer, "connects", p, 100, 14) }
}

// connectedAtOnce: connections at once in one process.
func connectedAtOnce(l *testlab.Lab, p testlab.Pair) {
	argv := []string{"ucmatose", "-c", "200", "-C", "5", "-S", "2000"}
	if _, said := l.RunRDMABetween(p.At, p.From, argv, plus(argv, "-s", p.Address())); !strings.Contains(said, "return status 0") {
		l.T.Errorf("%s", said)
	}
}

// manyPairs: 256 queue pairs at once, in one thread and in eight.
func manyPairs(peer string) func(*testlab.Lab, testlab.Pair) {
	return func(l *testlab.Lab, p testlab.Pair) {
		if said := alike(l, p.At, p.From, "ib_write_bw", "-x", "0", "-q", "256", "-n", "5", "-s", "4096"); !strings.Contains(said, "4096       1280") {
			l.T.Errorf("%s", said)
		}
		runPeer(l, peer, "qps", p, 256, 14)
	}
}

// manyPrograms: several pairs of programs at once, in both directions.
func manyPrograms(l *testlab.Lab, p testlab.Pair) {
	var servers, clients []*testlab.Program
	for i := range 8 {
		p := p
		if i%2 == 1 {
			p.At, p.From = p.From, p.At
		}
		argv := []string{"ibv_rc_pingpong", "-g", "0", "-c", "-n", "300", "-p", strconv.Itoa(18600 + i)}
		if i%4 > 1 {
			argv = append(argv, "-e")
		}
		servers = append(servers, l.StartServing(p.At, argv...))
		clients = append(clients, l.StartProgram(p.From, plus(argv, p.Address())...))
	}
	for i := range servers {
		for _, s := range []*testlab.Program{clients[i], servers[i]} {
			if err := s.WaitEnd(l.T); err != nil || !strings.Contains(s.Out.String(), "300 iters in") {
				l.T.Errorf("%v: %v\n%s", s.Args, err, &s.Out)
			}
		}
	}
}

// besideTCP: RDMA and TCP share a port at the same time, and both get on.
func besideTCP(l *testlab.Lab, p testlab.Pair) {
	setFor(l, p.From, "rate=200Mbps", "rate=5Gbps")
	s, c := lasts(l, p, []string{"ib_write_bw", "-x", "0", "-D", "3600", "-u", "17"})
	counted := counts(l, p.At)
	tcp := l.Iperf3(p.From, p.At, p.Address(), "-n", "4M", "-C", "cubic").End
	ping(l, p)
	if l.T.Logf("iperf3 %.0f Mb/s, and RDMA has moved %d bytes meanwhile", tcp.Received.Bits/1e6, counted("received_payload")); tcp.Sent.Bytes < 4e6 || counted("received_payload") < 1e6 {
		l.T.Errorf("iperf3 has moved %.0f bytes, and RDMA %d bytes meanwhile", tcp.Sent.Bytes, counted("received_payload"))
	}
	_, _ = s.KillAndRead(), c.KillAndRead()
}
