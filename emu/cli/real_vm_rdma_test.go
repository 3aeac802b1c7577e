package cli

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	netnslab "github.com/weftlab/weft/netns-lab"
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

// rdmaEnd finds the GID index of a host's IPv4 address.
func (l *realLab) rdmaEnd(host, address string) rdmaEnd {
	l.t.Helper()
	m := regexp.MustCompile(`GID\[ *(\d+)\]:\s*::ffff:` + address + `, RoCE v2`).FindStringSubmatch(l.exec(host, "ibv_devinfo", "-v"))
	if m == nil {
		l.t.Fatalf("%s has no GID for %s", host, address)
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
func (l *realLab) exchange(program string, server, client rdmaEnd) (served, said string) {
	l.t.Helper()
	for try := 1; ; try++ {
		ends := [2]*rdmaServer{l.rdmaServer(server.host, server.call(program, server)...)}
		if byRDMACM(program) {
			time.Sleep(time.Duration(try) * 300 * time.Millisecond)
		} else {
			l.listens(server.host, "18515")
		}
		ends[1] = l.rdmaServer(client.host, client.call(program, server)...)
		failed := l.join(ends[:])
		served, said = ends[0].out.String(), ends[1].out.String()
		switch {
		case !failed:
			return served, said
		case try < 10 && another(program, served, said):
			l.t.Logf("once more, after the server's %v and the client's %v", ends[0].ProcessState, ends[1].ProcessState)
		default:
			l.t.Fatalf("server: %v\n%s\nclient: %v\n%s", ends[0].ProcessState, served, ends[1].ProcessState, said)
		}
	}
}

// join waits until the programs of a pair have ended, and reports whether one of them
// has failed. When one has ended, the other may wait for it for ever: it gets some
// time, less after a failure.
func (l *realLab) join(ends []*rdmaServer) (failed bool) {
	ended := make(chan error, len(ends))
	for _, e := range ends {
		go func() { <-e.done; ended <- e.err }()
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

// try runs a program at both ends and checks that they have transferred everything.
func (l *realLab) try(program string, server, client rdmaEnd) {
	l.t.Helper()
	served, said := l.exchange(program, server, client)
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
				l.t.Errorf("%q has come %d times", who, n)
			}
		}
	case strings.HasPrefix(argv[0], "ibv_"): // -c reports errors, but continues
		for _, out := range []string{served, said} {
			if !strings.Contains(out, flag("-n")+" iters in") || strings.Contains(out, "invalid data") {
				l.t.Errorf("an end prints\n%s", out)
			}
		}
	default:
		size := flag("-s")
		if size == "" {
			size = "8"
		}
		if !regexp.MustCompile(`(?m)^ *` + size + ` +` + flag("-n") + ` `).MatchString(said) {
			l.t.Errorf("the client prints\n%s", said)
		}
	}
}

// lost returns how many packets the link between the switches has lost.
func (l *realLab) lost() uint64 {
	p := l.ports()
	return p["s1:s2"].Drops["link-loss"] + p["s2:s1"].Drops["link-loss"]
}

// rxe returns a counter of the guest's RDMA device.
func (l *realLab) rxe(name string) int {
	l.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(l.exec("v1", "cat", path.Join("/sys/class/infiniband/rxe0/ports/1/hw_counters", name))))
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// TestRDMAWithAGuest: weft's NIC and an independent one, Linux's rdma_rxe,
// connect in both directions and transfer data, with loss on the path and without.
func TestRDMAWithAGuest(t *testing.T) {
	t.Parallel()
	needVM(t, "rping", "ibv_devinfo", "ib_write_bw", "tshark", "gcc")
	l := startRDMA(t, rdmaGuestLab)
	guest, host := l.rdmaEnd("v1", "10.0.0.1"), l.rdmaEnd("h1", "10.0.0.2")
	// each runs a function for all programs in both directions.
	each := func(t *testing.T, loss bool, run func(l *realLab, program string, server, client rdmaEnd)) {
		for _, p := range rdmaPrograms {
			if loss && p.loss || !loss && p.clean {
				t.Run(p.argv+"/GuestServes", func(t *testing.T) { run(l.in(t), p.argv, guest, host) })
				t.Run(p.argv+"/GuestIsClient", func(t *testing.T) { run(l.in(t), p.argv, host, guest) })
			}
		}
	}
	t.Run("Clean", func(t *testing.T) {
		stop := l.in(t).capture("h1:eth0")
		each(t, false, (*realLab).try)
		l.in(t).checkGuestCapture(stop())
		c := l.nic("h1").Counters
		for _, name := range []string{"port_rcv_errors", "rx_icrc_encapsulated", "bad_pkey_cntr", "rx_wrong_address", "qkey_viol_cntr",
			"req_remote_invalid_request", "req_remote_access_errors", "resp_local_length_error", "resp_remote_access_errors"} {
			if n := c.Of(name); n > 0 {
				t.Errorf("%s is %d", name, n)
			}
		}
		t.Logf("sent again without loss: %d by our NIC, %d by the guest", c.Of("retransmitted_packets"), l.rxe("completer_retry_err"))
	})
	// A stopped receiver posts no new receive requests, so it runs out of them on any
	// machine, and RNR NAKs tell the sender to wait.
	t.Run("ReceiverNotReady", func(t *testing.T) {
		l := l.in(t)
		nic, nak, wait := l.nic("h1").Counters, l.rxe("send_rnr_err"), l.rxe("rcvd_rnr_err")
		l.tryNotReady("h1:eth0", guest, host, func() bool {
			return l.nic("h1").Counters.Of("rnr_nak_retry_err") > nic.Of("rnr_nak_retry_err") && l.rxe("send_rnr_err") > nak
		})
		l.tryNotReady("v1:eth0", host, guest, func() bool {
			return l.nic("h1").Counters.Of("out_of_buffer") > nic.Of("out_of_buffer") && l.rxe("rcvd_rnr_err") > wait
		})
	})
	// The loss is random: rxe ignores a second NAK before an ACK has arrived and then
	// waits for its timeout, which is 2 s when rdma_cm sets it; loss at regular
	// intervals would stop it for ever.
	t.Run("Loss", func(t *testing.T) {
		l.in(t).must("set", "-l", l.name, "s1:s2", "loss=1%")
		before, retries := l.nic("h1").Counters, l.rxe("completer_retry_err")
		each(t, true, func(l *realLab, program string, server, client rdmaEnd) {
			was := l.lost()
			for try := 0; l.lost() == was; try++ {
				if try == 10 {
					l.t.Fatal("nothing was lost")
				}
				l.try(program, server, client)
			}
			l.t.Logf("%d packets lost", l.lost()-was)
		})
		after := l.nic("h1").Counters
		for _, name := range []string{"retransmitted_packets", "packet_seq_err", "out_of_sequence", "duplicate_request"} {
			if after.Of(name) == before.Of(name) {
				t.Errorf("%s has not grown beyond %d", name, before.Of(name))
			}
		}
		if l.rxe("completer_retry_err") == retries {
			t.Error("the guest has sent nothing again")
		}
	})
}

// TestIRNWithAGuest: Linux's NIC, which uses go-back-N, and weft's with IRN refuse each other.
func TestIRNWithAGuest(t *testing.T) {
	t.Parallel()
	needVM(t, "rping", "ib_write_bw", "gcc")
	l := startRDMA(t, strings.Replace(rdmaGuestLab, "nic: roce", "nic: {recovery: irn}", 1))
	guest, host := l.rdmaEnd("v1", "10.0.0.1"), l.rdmaEnd("h1", "10.0.0.2")
	refused := func(server, client rdmaEnd, want string) {
		t.Helper()
		l.rdmaServer(server.host, "rping", "-s", "-a", server.address, "-C", "1")
		for try := 0; ; try++ {
			said, code := l.rdmaTry(client.host, "rping", "-c", "-a", server.address, "-C", "1")
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
	s := l.rdmaServer("h1", "ib_write_bw", "-x", "0", "-n", "50")
	l.listens("h1", "18515")
	if said, code := l.rdmaTry("v1", "ib_write_bw", "-x", "1", "-n", "50", "10.0.0.2"); code == 0 {
		t.Errorf("ib_write_bw from the guest says\n%s", said)
	}
	_ = s.Process.Kill()
	if n := l.nic("h1").Counters.Of("recovery_mismatch"); n == 0 {
		t.Error("the NIC has not noticed")
	}
}

// tryNotReady transfers data with SENDs and stops the server's program in between until
// told reports that its receives have run out. Everything has to arrive nevertheless.
// from is the client's port.
func (l *realLab) tryNotReady(from string, server, client rdmaEnd, told func() bool) {
	l.t.Helper()
	// At the link's 20 Mb/s this takes 2.4 s and more.
	const program = "ib_send_bw -t 4 -u 17 -n 2000 -s 3001 -r 10"
	before := l.ports()[from].TxBytes
	ends := []*rdmaServer{l.rdmaServer(server.host, server.call(program, server)...)}
	l.listens(server.host, "18515")
	ends = append(ends, l.rdmaServer(client.host, client.call(program, server)...))
	l.becomesTrue("a transfer", func() bool { return l.ports()[from].TxBytes > before+200e3 })
	resume := l.stopProgram(server.host, "ib_send_bw")
	l.becomesTrue("an RNR NAK", told)
	resume()
	if failed := l.join(ends); failed || !strings.Contains(ends[1].out.String(), "3001       2000") {
		l.t.Errorf("server: %v\n%s\nclient: %v\n%s", ends[0].ProcessState, &ends[0].out, ends[1].ProcessState, &ends[1].out)
	}
}

// stopProgram stops a program in a guest or a host (SIGSTOP). resume continues it.
func (l *realLab) stopProgram(host, program string) (resume func()) {
	l.t.Helper()
	if host == "v1" {
		l.exec(host, "sh", "-c", "kill -STOP $(pidof "+program+")")
		return func() { l.t.Helper(); l.exec(host, "sh", "-c", "kill -CONT $(pidof "+program+")") }
	}
	pids := l.processes(host, program)
	if len(pids) == 0 {
		l.t.Fatalf("no %s runs in %s", program, host)
	}
	all := func(s syscall.Signal) {
		l.t.Helper()
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil {
				l.t.Fatalf("%v to the %s of %s: %v", s, program, host, err)
			}
		}
	}
	all(syscall.SIGSTOP)
	return func() { l.t.Helper(); all(syscall.SIGCONT) }
}

// processes returns the machine's PIDs of the programs of a name that use a
// host's network.
func (l *realLab) processes(host, program string) (pids []int) {
	l.t.Helper()
	want, err := os.Stat(filepath.Join("/run/netns", netnslab.Namespace(l.name, host)))
	if err != nil {
		l.t.Fatal(err)
	}
	comms, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, comm := range comms {
		dir := filepath.Dir(comm)
		// A process may end while it is examined.
		name, err := os.ReadFile(comm)
		if err != nil || strings.TrimSpace(string(name)) != program {
			continue
		}
		if its, err := os.Stat(filepath.Join(dir, "ns/net")); err == nil && os.SameFile(its, want) {
			if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// checkGuestCapture checks that tshark finds no fault, and that the capture has
// what it must have: connections made by either side, and all transports.
func (l *realLab) checkGuestCapture(file string) {
	l.t.Helper()
	// tshark takes some of the payload for RPC.
	args := []string{"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "--disable-protocol", "rpcordma"}
	if bad := tshark(l.t, file, append(args, "-Y", "infiniband && (_ws.malformed || _ws.expert.severity == error || ip.checksum.status == 0 || udp.checksum.status == 0)")...); len(bad) > 0 {
		l.t.Errorf("tshark finds fault with %d packets: %s", len(bad), bad[0])
	}
	count := map[string]int{}
	for _, line := range tshark(l.t, file, "-Y", "infiniband", "-T", "fields", "-e", "ip.src", "-e", "infiniband.bth.opcode", "-e", "infiniband.mad.attributeid") {
		count[strings.TrimSpace(line)]++
	}
	for _, from := range []string{"10.0.0.1", "10.0.0.2"} {
		for what, line := range map[string]string{
			"REQ": "100\t0x0010", "REP": "100\t0x0013", "RTU": "100\t0x0014", "DREQ": "100\t0x0015",
			"RC SEND": "0", "RC WRITE": "6", "RC READ": "12", "RC READ response": "13", "RC ACK": "17",
			"RC atomic": "20", "RC atomic response": "18", "UC SEND": "32", "UC WRITE": "38", "UD SEND": "100",
		} {
			if count[from+"\t"+line] == 0 {
				l.t.Errorf("%s has sent no %s", from, what)
			}
		}
	}
	if l.t.Failed() {
		l.t.Log(fmt.Sprint(count))
	}
}
