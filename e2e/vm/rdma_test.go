package vm

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
)

// rdmaGuestLab is a guest, whose RDMA is the kernel's rdma_rxe, and a host with
// weft's NIC, each at its own switch. An emulated processor that shares the machine
// with others receives no more than a few MB/s: at a higher rate the guest falls
// behind by more than the ACK timeout of the programs, and retransmissions then
// make that worse.
const rdmaGuestLab = `
topology:
  kinds: {link: {rate: 20Mbps, delay: 20us}}
  nodes:
    v1: {kind: vm, address: 10.0.0.1/24}
    h1: {kind: host, address: 10.0.0.2/24, nic: roce}
    s1: {kind: switch}
    s2: {kind: switch}
  links:
    - {endpoints: ["v1:eth0", "s1:1"]}
    - {endpoints: ["s1:s2", "s2:s1"]}
    - {endpoints: ["h1:eth0", "s2:1"]}
`

// rdmaPrograms are Debian's programs, with the arguments of both ends. Where possible,
// sizes are not multiples of 4, so that there is padding, and several packets long.
// perftest has little outstanding (-t) and waits 0.5 s for an ACK (-u 17) rather than
// 67 ms, because a guest may get no processor for a while. It also has no more READs and
// atomics outstanding (-o) than weft's NIC supports, which is 16: by default it would
// request the 128 that rxe supports.
//
// UC and UD are for links without loss: lost data stays lost, and all of these programs
// then wait for it for ever. Under loss, two programs that connect with rdma_cm are
// enough, because each wait for an answer costs 2 s.
var rdmaPrograms = []struct {
	argv        string
	clean, loss bool // where it runs
}{
	{"rping -C 10 -S 4001 -v -V", true, true},
	{"ibv_rc_pingpong -n 100 -s 4001 -c", true, false},
	{"ibv_rc_pingpong -n 100 -s 4001 -c -e", false, true},
	{"ibv_uc_pingpong -n 100 -s 4001 -c", true, false},
	{"ibv_ud_pingpong -n 100 -s 1001 -c", true, false},
	{"ib_send_bw -t 4 -u 17 -n 50 -s 16381", true, true},
	{"ib_send_bw -R -t 4 -n 50 -s 16381", true, false},
	{"ib_write_bw -t 4 -u 17 -n 50 -s 16381", true, true},
	{"ib_write_bw -R -t 4 -n 50 -s 16381", true, true},
	{"ib_read_bw -o 4 -u 17 -n 50 -s 16381", true, true},
	{"ib_read_bw -R -o 4 -n 50 -s 16381", true, false},
	{"ib_atomic_bw -o 4 -u 17 -n 50", true, false},
	{"ib_send_bw -c UC -n 50 -s 16381", true, false},
	{"ib_write_bw -c UC -n 50 -s 16381", true, false},
	{"ib_send_bw -c UD -n 50 -s 1001", true, false},
}

// rdmaEnd is a host that runs a program.
type rdmaEnd struct {
	host, address string
	gid           string // the index of the address among the GIDs
}

// findRDMAEnd finds the GID index of a host's IPv4 address.
func findRDMAEnd(l *testlab.Lab, host, address string) rdmaEnd {
	l.T.Helper()
	m := regexp.MustCompile(`GID\[ *(\d+)\]:\s*::ffff:` + address + `, RoCE v2`).FindStringSubmatch(l.Exec(host, "ibv_devinfo", "-v"))
	if m == nil {
		l.T.Fatalf("%s has no GID for %s", host, address)
	}
	return rdmaEnd{host, address, m[1]}
}

// call returns the complete command line of a program at this end.
func (e rdmaEnd) call(program string, server rdmaEnd) []string {
	argv := strings.Fields(program)
	switch {
	case argv[0] == "rping" && e == server:
		return append(argv, "-s", "-a", server.address)
	case argv[0] == "rping":
		return append(argv, "-c", "-a", server.address)
	case strings.HasPrefix(argv[0], "ibv_"):
		argv = append(argv, "-g", e.gid)
	case !byRDMACM(program):
		argv = append(argv, "-x", e.gid)
	}
	if e != server {
		argv = append(argv, server.address)
	}
	return argv
}

// byRDMACM reports whether a program connects with rdma_cm; otherwise it uses TCP.
func byRDMACM(program string) bool {
	return strings.HasPrefix(program, "rping ") || strings.Contains(program, " -R ")
}

// another reports failures after which both ends are restarted. The server does not
// listen yet: perftest -R listens twice, and its client, which does not wait for that,
// fails or crashes. Or perftest finds the clock of an emulated processor too uneven for
// its report. Or a pingpong gets no ACK for its 8 times 67 ms, which cannot be set,
// because the guest gets no processor for that long, or because one end has finished
// and is gone when the ACK of its peer's last message is lost: weft's NIC reports that;
// rxe, to which 7 retries mean endless ones, sends for ever.
func another(program, served, said string) bool {
	const done = " iters in "
	return regexp.MustCompile(`RDMA_CM_EVENT_REJECTED|Unexpected CM event bl blka 8|Can't produce a report|parse WC failed`).MatchString(served+said) ||
		strings.HasPrefix(program, "ibv_rc_") && strings.Contains(served, done) != strings.Contains(said, done)
}

// exchange runs a program at both ends until they succeed, and returns what they print.
func exchange(l *testlab.Lab, program string, server, client rdmaEnd) (served, said string) {
	l.T.Helper()
	for try := 1; ; try++ {
		ends := [2]*testlab.Program{l.StartProgram(server.host, server.call(program, server)...)}
		if byRDMACM(program) {
			time.Sleep(time.Duration(try) * 300 * time.Millisecond)
		} else {
			l.WaitListening(server.host, "18515")
		}
		ends[1] = l.StartProgram(client.host, client.call(program, server)...)
		failed := join(l, ends[:])
		served, said = ends[0].Out.String(), ends[1].Out.String()
		switch {
		case !failed:
			return served, said
		case try < 10 && another(program, served, said):
			l.T.Logf("once more, after the server's %v and the client's %v", ends[0].ProcessState, ends[1].ProcessState)
		default:
			l.T.Fatalf("server: %v\n%s\nclient: %v\n%s", ends[0].ProcessState, served, ends[1].ProcessState, said)
		}
	}
}

// join waits until the programs of a pair have ended, and reports whether one of them
// has failed. When one has ended, the other may wait for it for ever: it gets some
// time, less after a failure.
func join(l *testlab.Lab, ends []*testlab.Program) (failed bool) {
	ended := make(chan error, len(ends))
	for _, e := range ends {
		go func() { <-e.Done; ended <- e.Err }()
	}
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for range ends {
		select {
		case err := <-ended:
			if err == nil {
				limit.Reset(30 * time.Second)
				continue
			}
			failed = true
			limit.Reset(2 * time.Second)
		case <-limit.C:
			failed = true
			for _, e := range ends {
				_ = e.Process.Kill()
			}
			<-ended
		}
	}
	return failed
}

// runProgram runs a program at both ends and checks that they have transferred everything.
func runProgram(l *testlab.Lab, program string, server, client rdmaEnd) {
	l.T.Helper()
	served, said := exchange(l, program, server, client)
	argv := strings.Fields(program)
	flag := func(name string) string {
		for i, a := range argv[:len(argv)-1] {
			if a == name {
				return argv[i+1]
			}
		}
		return ""
	}
	switch {
	case argv[0] == "rping": // -V compares
		for who, out := range map[string]string{"server ping data: ": served, "\nping data: ": "\n" + said} {
			if n := strings.Count(out, who+"rdma-ping-"); strconv.Itoa(n) != flag("-C") {
				l.T.Errorf("%q has come %d times", who, n)
			}
		}
	case strings.HasPrefix(argv[0], "ibv_"): // -c reports errors, but continues
		for _, out := range []string{served, said} {
			if !strings.Contains(out, flag("-n")+" iters in") || strings.Contains(out, "invalid data") {
				l.T.Errorf("an end prints\n%s", out)
			}
		}
	default:
		size := flag("-s")
		if size == "" {
			size = "8"
		}
		if !regexp.MustCompile(`(?m)^ *` + size + ` +` + flag("-n") + ` `).MatchString(said) {
			l.T.Errorf("the client prints\n%s", said)
		}
	}
}

// lost returns how many packets the link between the switches has lost.
func lost(l *testlab.Lab) uint64 {
	p := l.Ports()
	return p["s1:s2"].Drops["link-loss"] + p["s2:s1"].Drops["link-loss"]
}

// rxe returns a counter of the guest's RDMA device.
func rxe(l *testlab.Lab, name string) int {
	l.T.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(l.Exec("v1", "cat", path.Join("/sys/class/infiniband/rxe0/ports/1/hw_counters", name))))
	if err != nil {
		l.T.Fatal(err)
	}
	return n
}

// TestRDMAWithAGuest: weft's NIC and an independent one, Linux's rdma_rxe,
// connect in both directions and transfer data, with loss on the path and without.
func TestRDMAWithAGuest(t *testing.T) {
	t.Parallel()
	needVM(t, "rping", "ibv_devinfo", "ib_write_bw", "tshark", "gcc")
	l := testlab.StartRDMA(t, rdmaGuestLab)
	guest, host := findRDMAEnd(l, "v1", "10.0.0.1"), findRDMAEnd(l, "h1", "10.0.0.2")
	// each runs a function for all programs in both directions.
	each := func(t *testing.T, loss bool, run func(l *testlab.Lab, program string, server, client rdmaEnd)) {
		for _, p := range rdmaPrograms {
			if loss && p.loss || !loss && p.clean {
				t.Run(p.argv+"/GuestServes", func(t *testing.T) { run(l.In(t), p.argv, guest, host) })
				t.Run(p.argv+"/GuestIsClient", func(t *testing.T) { run(l.In(t), p.argv, host, guest) })
			}
		}
	}
	t.Run("Clean", func(t *testing.T) {
		stop := l.In(t).Capture("h1:eth0")
		each(t, false, runProgram)
		checkGuestCapture(l.In(t), stop())
		c := l.NIC("h1").Counters
		for _, name := range []string{"port_rcv_errors", "rx_icrc_encapsulated", "bad_pkey_cntr", "rx_wrong_address", "qkey_viol_cntr",
			"req_remote_invalid_request", "req_remote_access_errors", "resp_local_length_error", "resp_remote_access_errors"} {
			if n := c.Of(name); n > 0 {
				t.Errorf("%s is %d", name, n)
			}
		}
		t.Logf("sent again without loss: %d by our NIC, %d by the guest", c.Of("retransmitted_packets"), rxe(l, "completer_retry_err"))
	})
	// A stopped receiver posts no new receive requests, so it runs out of them on any
	// machine, and RNR NAKs tell the sender to wait.
	t.Run("ReceiverNotReady", func(t *testing.T) {
		l := l.In(t)
		nic, nak, wait := l.NIC("h1").Counters, rxe(l, "send_rnr_err"), rxe(l, "rcvd_rnr_err")
		tryNotReady(l, "h1:eth0", guest, host, func() bool {
			return l.NIC("h1").Counters.Of("rnr_nak_retry_err") > nic.Of("rnr_nak_retry_err") && rxe(l, "send_rnr_err") > nak
		})
		tryNotReady(l, "v1:eth0", host, guest, func() bool {
			return l.NIC("h1").Counters.Of("out_of_buffer") > nic.Of("out_of_buffer") && rxe(l, "rcvd_rnr_err") > wait
		})
	})
	// The loss is random: rxe ignores a second NAK before an ACK has arrived and then
	// waits for its timeout, which is 2 s when rdma_cm sets it; loss at regular
	// intervals would stop it for ever.
	t.Run("Loss", func(t *testing.T) {
		l.In(t).Must("set", "-l", l.Name, "s1:s2", "loss=1%")
		before, retries := l.NIC("h1").Counters, rxe(l, "completer_retry_err")
		each(t, true, func(l *testlab.Lab, program string, server, client rdmaEnd) {
			was := lost(l)
			for try := 0; lost(l) == was; try++ {
				if try == 10 {
					l.T.Fatal("nothing was lost")
				}
				runProgram(l, program, server, client)
			}
			l.T.Logf("%d packets lost", lost(l)-was)
		})
		after := l.NIC("h1").Counters
		for _, name := range []string{"retransmitted_packets", "packet_seq_err", "out_of_sequence", "duplicate_request"} {
			if after.Of(name) == before.Of(name) {
				t.Errorf("%s has not grown beyond %d", name, before.Of(name))
			}
		}
		if rxe(l, "completer_retry_err") == retries {
			t.Error("the guest has sent nothing again")
		}
	})
}

// TestIRNWithAGuest: Linux's NIC, which uses go-back-N, and weft's with IRN refuse each other.
func TestIRNWithAGuest(t *testing.T) {
	t.Parallel()
	needVM(t, "rping", "ib_write_bw", "gcc")
	l := testlab.StartRDMA(t, strings.Replace(rdmaGuestLab, "nic: roce", "nic: {recovery: irn}", 1))
	guest, host := findRDMAEnd(l, "v1", "10.0.0.1"), findRDMAEnd(l, "h1", "10.0.0.2")
	refused := func(server, client rdmaEnd, want string) {
		t.Helper()
		l.StartProgram(server.host, "rping", "-s", "-a", server.address, "-C", "1")
		for try := 0; ; try++ {
			said, code := l.TryRDMA(client.host, "rping", "-c", "-a", server.address, "-C", "1")
			if try < 50 && regexp.MustCompile(`error 8\b`).MatchString(said) { // no server listens yet: invalid service ID
				time.Sleep(100 * time.Millisecond)
				continue
			}
			if code == 0 || !strings.Contains(said, want) {
				t.Errorf("%s: exit code %d, %q", client.host, code, said)
			}
			return
		}
	}
	refused(host, guest, "RDMA_CM_EVENT_REJECTED, error 9")  // invalid transport service type
	refused(guest, host, "RDMA_CM_EVENT_REJECTED, error 28") // Linux only says that it is the consumer's reason
	// Queue pairs whose numbers are exchanged by programs notice it at the first packet.
	s := l.StartProgram("h1", "ib_write_bw", "-x", "0", "-n", "50")
	l.WaitListening("h1", "18515")
	if said, code := l.TryRDMA("v1", "ib_write_bw", "-x", "1", "-n", "50", "10.0.0.2"); code == 0 {
		t.Errorf("ib_write_bw from the guest says\n%s", said)
	}
	_ = s.Process.Kill()
	if n := l.NIC("h1").Counters.Of("recovery_mismatch"); n == 0 {
		t.Error("the NIC has not noticed")
	}
}

// tryNotReady transfers data with SENDs and stops the server's program in between until
// told reports that its receives have run out. Everything has to arrive nevertheless.
// from is the client's port.
func tryNotReady(l *testlab.Lab, from string, server, client rdmaEnd, told func() bool) {
	l.T.Helper()
	// At the link's 20 Mb/s this takes 2.4 s and more.
	const program = "ib_send_bw -t 4 -u 17 -n 2000 -s 3001 -r 10"
	before := l.Ports()[from].TxBytes
	ends := []*testlab.Program{l.StartProgram(server.host, server.call(program, server)...)}
	l.WaitListening(server.host, "18515")
	ends = append(ends, l.StartProgram(client.host, client.call(program, server)...))
	l.WaitFor("a transfer", func() bool { return l.Ports()[from].TxBytes > before+200e3 })
	resume := l.SuspendProgram(server.host, "ib_send_bw")
	l.WaitFor("an RNR NAK", told)
	resume()
	if failed := join(l, ends); failed || !strings.Contains(ends[1].Out.String(), "3001       2000") {
		l.T.Errorf("server: %v\n%s\nclient: %v\n%s", ends[0].ProcessState, &ends[0].Out, ends[1].ProcessState, &ends[1].Out)
	}
}

// checkGuestCapture checks that tshark finds no fault, and that the capture has
// what it must have: connections made by either side, and all transports.
func checkGuestCapture(l *testlab.Lab, file string) {
	l.T.Helper()
	// tshark takes some of the payload for RPC.
	args := []string{"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "--disable-protocol", "rpcordma"}
	if bad := testlab.Tshark(l.T, file, append(args, "-Y", "infiniband && (_ws.malformed || _ws.expert.severity == error || ip.checksum.status == 0 || udp.checksum.status == 0)")...); len(bad) > 0 {
		l.T.Errorf("tshark finds fault with %d packets: %s", len(bad), bad[0])
	}
	count := map[string]int{}
	for _, line := range testlab.Tshark(l.T, file, "-Y", "infiniband", "-T", "fields", "-e", "ip.src", "-e", "infiniband.bth.opcode", "-e", "infiniband.mad.attributeid") {
		count[strings.TrimSpace(line)]++
	}
	for _, from := range []string{"10.0.0.1", "10.0.0.2"} {
		for what, line := range map[string]string{
			"REQ": "100\t0x0010", "REP": "100\t0x0013", "RTU": "100\t0x0014", "DREQ": "100\t0x0015",
			"RC SEND": "0", "RC WRITE": "6", "RC READ": "12", "RC READ response": "13", "RC ACK": "17",
			"RC atomic": "20", "RC atomic response": "18", "UC SEND": "32", "UC WRITE": "38", "UD SEND": "100",
		} {
			if count[from+"\t"+line] == 0 {
				l.T.Errorf("%s has sent no %s", from, what)
			}
		}
	}
	if l.T.Failed() {
		l.T.Log(fmt.Sprint(count))
	}
}
