package rdma

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rspreload is the library that gives a program rsockets in place of its sockets.
const rspreload = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"

// TestRsockets_CarryStreams: Debian's programs for rsockets, in the ways that they can wait, with
// messages that fit one announced buffer and those that do not, and with their data verified.
func TestRsockets_CarryStreams(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "rstream", "riostream")
	type test struct{ argv string }
	cases := []test{
		{"rstream -C 5 -I 5 -S 1000"},
		{"rstream -C 5 -I 5 -S 100000 -T b -T v"},
		{"rstream -C 5 -I 5 -S 300000 -T a -T v"},
		{"rstream -C 5 -I 5 -S 300000 -T n -T v"},
		{"rstream -C 5 -I 5 -S 1000 -B 4096 -T v"},
		{"riostream -C 2 -I 2 -S 70000"},
	}
	if _, err := os.Stat(rspreload); err == nil {
		cases = append(cases, test{"env LD_PRELOAD=" + rspreload + " rstream -C 5 -I 5 -S 100000 -T s -T b -T v"})
	}
	testlab.OnPairs(l, cases, func(c test) string { return c.argv }, func(l *testlab.Lab, p testlab.Pair, c test) {
		argv := strings.Fields(c.argv)
		_, said := l.RunRDMABetween(p.At, p.From, argv, plus(plus(argv, "-s"), p.Address()))
		if !strings.Contains(said, "custom") {
			l.T.Errorf("it has measured nothing:\n%s", said)
		}
	})
}

// TestRcopy_CopiesAFile: every byte of a file arrives.
func TestRcopy_CopiesAFile(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "rcopy")
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	data := bytes.Repeat(sha256.New().Sum(nil), 100_000)
	for i := range data {
		data[i] += byte(i / 32)
	}
	if err := os.WriteFile(from, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := l.StartServing("h1", "rcopy")
	if said, code := l.TryRDMA("h2", "rcopy", from, "10.0.0.1:"+to); code != 0 {
		t.Fatalf("exit code %d\n%s\nserver:\n%s", code, said, s.KillAndRead())
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes have arrived, or others: %v", len(got), len(data), err)
	}
}

// TestUdpong_SendsDatagrams: Debian's program for datagrams of rsockets, in the ways that it can wait,
// goes from queue pair to queue pair once these are known. Debian builds it so that part of its
// calls of sockets go past librspreload.
func TestUdpong_SendsDatagrams(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "udpong")
	cases := []string{"udpong -C 50 -S 500 -T b -T e", "udpong -C 50 -S 1000 -T a", "udpong -C 50 -S 100 -T n -T e"}
	testlab.OnPairs(l, cases, itself, func(l *testlab.Lab, p testlab.Pair, c string) {
		argv := strings.Fields(c)
		before := l.NIC(p.At).Counters.Of("port_rcv_packets")
		s := l.StartProgram(p.At, plus(plus(argv, "-b"), p.Address())...)
		said, code := l.TryRDMA(p.From, plus(plus(argv, "-s"), p.Address())...)
		if code != 0 || !strings.Contains(said, "custom") {
			l.T.Errorf("exit code %d:\n%s\nserver:\n%s", code, said, s.Out.String())
		}
		// The first datagrams may go by UDP, while the queue pairs are not known.
		if n := l.NIC(p.At).Counters.Of("port_rcv_packets") - before; n < 40 {
			l.T.Errorf("%d packets have arrived at the NIC", n)
		}
		s.KillAndRead()
	})
}

// TestKeepAlives_GoWhileTheProgramWaits: a stream with keep-alives sends messages without data while
// its program waits.
func TestKeepAlives_GoWhileTheProgramWaits(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs)
	program := buildChecks(t)
	server := l.StartProgram("h1", program, "keep")
	server.WaitFor(l, "it listens", func() bool { return strings.Contains(server.Out.String(), "listens") })
	client := l.StartProgram("h2", program, "keep", "10.0.0.1")
	for _, s := range []*testlab.Program{server, client} {
		s.WaitFor(l, "the connection", func() bool { return strings.Contains(s.Out.String(), "connected") })
	}
	writes := func() uint64 { return l.NIC("h1").Counters.Of("rx_write_requests") }
	before := writes()
	l.WaitFor("three keep-alives", func() bool { return writes() >= before+3 }) // one may grant credits
	for _, s := range []*testlab.Program{server, client} {
		if s.Exited() {
			t.Errorf("it has ended: %s", s.Out.String())
		}
	}
	_, _ = server.KillAndRead(), client.KillAndRead() // the end of one ends the other
}
