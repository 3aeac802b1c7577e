package vm

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rdmaGuestLab is a guest, whose RDMA is the kernel's rdma_rxe, and two hosts with weft's NIC, one
// of which has IRN, at another switch. An emulated processor that shares the machine with others
// receives no more than a few MB/s, and may get no processor for a while: the lab is dilated, so
// that weft's NICs wait longer for it.
//
// The guest boots the kernel of weft's image as a user's own, counts as up at its prompt, and has
// a disk that it must not change.
const rdmaGuestLab = `
dilation: 4
topology:
  kinds: {link: {rate: 80Mbps, delay: 20us}}
  nodes:
    v1: {kind: vm, address: 10.0.0.1/24, %s, disk: disk.raw, console: v1.log, ready: "v1:/#", ready-limit: 10min}
    h1: {kind: host, address: 10.0.0.2/24, nic: roce}
    h2: {kind: host, address: 10.0.0.3/24, nic: {recovery: irn}}
    s1: {kind: switch}
    s2: {kind: switch}
    s3: {kind: switch}
  links:
    - {endpoints: ["v1:eth0", "s1:1"]}
    - {endpoints: ["s1:s2", "s2:s1"]}
    - {endpoints: ["h1:eth0", "s2:1"]}
    - {endpoints: ["h2:eth0", "s2:2"]}
    - {endpoints: ["v1:lan", "s3:1"], mtu: 4000}
`

// rdmaPrograms are Debian's programs, with the arguments of both ends. Where possible,
// sizes are not multiples of 4, so that there is padding, and several packets long.
// perftest has little outstanding (-t). It also has no more READs and
// atomics outstanding (-o) than weft's NIC supports, which is 16: by default it would
// request the 128 that rxe supports.
//
// UC and UD are for links without loss: lost data stays lost, and all of these programs
// then wait for it for ever. So are pingpongs: if the ACK of the last message is lost, its
// receiver is gone when that is sent again. Under loss, two programs that connect with rdma_cm are
// enough, because each wait for an answer costs 2 s.
var rdmaPrograms = []struct {
	argv        string
	clean, loss bool // where it runs
}{
	{"rping -C 10 -S 4001 -v -V", true, true},
	{"ibv_rc_pingpong -n 100 -s 4001 -c", true, false},
	{"ibv_rc_pingpong -n 100 -s 4001 -c -e", true, false},
	{"ibv_uc_pingpong -n 100 -s 4001 -c", true, false},
	{"ibv_ud_pingpong -n 100 -s 1001 -c", true, false},
	{"ib_send_bw -t 4 -n 50 -s 16381", true, true},
	{"ib_send_bw -R -t 4 -n 50 -s 16381", true, false},
	{"ib_write_bw -t 4 -n 50 -s 16381", true, true},
	{"ib_write_bw -R -t 4 -n 50 -s 16381", true, true},
	{"ib_read_bw -o 4 -n 50 -s 16381", true, true},
	{"ib_read_bw -R -o 4 -n 50 -s 16381", true, false},
	{"ib_atomic_bw -o 4 -n 50", true, false},
	{"ib_send_bw -c UC -n 50 -s 16381", true, false},
	{"ib_write_bw -c UC -n 50 -s 16381", true, false},
	{"ib_send_bw -c UD -n 50 -s 1001", true, false},
}

// rdmaEnd is a host that runs a program.
type rdmaEnd struct {
	host, address string
	gid           string // the index of the address among the GIDs
	timeout       string // code of the local ACK timeout of perftest
}

// findRDMAEnd finds the GID index of a host's IPv4 address.
func findRDMAEnd(l *testlab.Lab, host, address, timeout string) rdmaEnd {
	l.T.Helper()
	m := regexp.MustCompile(`GID\[ *(\d+)\]:\s*::ffff:` + address + `, RoCE v2`).FindStringSubmatch(l.Exec(host, "ibv_devinfo", "-v"))
	if m == nil {
		l.T.Fatalf("%s has no GID for %s", host, address)
	}
	return rdmaEnd{host, address, m[1], timeout}
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
	case !slices.Contains(argv, "-R"):
		argv = append(argv, "-x", e.gid, "-u", e.timeout)
	}
	if e != server {
		argv = append(argv, server.address)
	}
	return argv
}

// guest is the host of rdmaGuestLab that is a virtual machine.
const guest = "v1"

// listens reports whether a server in a host listens on a port, with rdma_cm or TCP.
func listens(l *testlab.Lab, host, port string) bool {
	l.T.Helper()
	if host == guest {
		return listensInGuest(l, host, port)
	}
	return l.ListensRDMA(host, port) || l.ListensTCP(host, port)
}

// listensInGuest is listens for a virtual machine.
func listensInGuest(l *testlab.Lab, host, port string) bool {
	l.T.Helper()
	said := l.Exec(host, "sh", "-c", "rdma resource show cm_id; ss -Hltn")
	return regexp.MustCompile(`LISTEN.*:` + port + `\b`).MatchString(said)
}

// exchange runs a program at both ends, which have to succeed, and returns what they print.
func exchange(l *testlab.Lab, program string, server, client rdmaEnd) (served, said string) {
	l.T.Helper()
	port := "18515"
	if strings.HasPrefix(program, "rping ") {
		port = "7174"
	}
	s := l.StartProgram(server.host, server.call(program, server)...)
	s.WaitFor(l, "it listens", func() bool { return listens(l, server.host, port) })
	var c *testlab.Program
	if strings.Contains(program, " -R ") {
		g := l.StartThroughGate(client.host, client.call(program, server)...)
		g.AtGate(l)
		s.WaitFor(l, "it listens again", func() bool { return listens(l, server.host, port) })
		g.Open(l)
		c = g.Program
	} else {
		c = l.StartProgram(client.host, client.call(program, server)...)
	}
	if !succeed(l, c, s) {
		l.T.FailNow()
	}
	return s.Out.String(), c.Out.String()
}

// succeed waits until a client and its server have ended, and reports whether both have succeeded.
func succeed(l *testlab.Lab, client, server *testlab.Program) bool {
	l.T.Helper()
	err := client.WaitEnd(l.T)
	if err != nil {
		_ = server.Process.Kill() // it may wait for the client for ever
	}
	if its := server.WaitEnd(l.T); err != nil || its != nil {
		l.T.Errorf("server: %v\n%s\nclient: %v\n%s", its, testlab.Tail(server.Out.String()), err, testlab.Tail(client.Out.String()))
		return false
	}
	return true
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

// TestRDMA_BetweenWeftAndLinux: weft's NIC and an independent one, Linux's rdma_rxe,
// connect in both directions and transfer data, with loss on the path and without. At the end the
// lab is killed.
func TestRDMA_BetweenWeftAndLinux(t *testing.T) {
	t.Parallel()
	weft, dir := needVM(t, "rping", "ibv_devinfo", "ib_write_bw", "tshark", "gcc"), t.TempDir()
	testlab.NeedVerbs(t)
	disk := filepath.Join(dir, "disk.raw")
	content := bytes.Repeat([]byte("weft"), 1<<18)
	if err := os.WriteFile(disk, content, 0o600); err != nil {
		t.Fatal(err)
	}
	l := testlab.New(t, weft, dir, fmt.Sprintf(rdmaGuestLab, ownKernel(t)))
	up(l)
	// rxe waits in real time, and weft's NICs in the lab's: both about half a second.
	linux, roce, irn := findRDMAEnd(l, guest, "10.0.0.1", "17"), findRDMAEnd(l, "h1", "10.0.0.2", "15"), findRDMAEnd(l, "h2", "10.0.0.3", "15")
	t.Run("OwnKernel_HasItsDiskAndInterfaces", func(t *testing.T) { testOwnKernel(l.In(t), dir) })
	t.Run("WithoutLoss", func(t *testing.T) { testClean(l.In(t), linux, roce) })
	t.Run("ReceiverThatIsNotReady_MakesSendersWait", func(t *testing.T) { testNotReady(l.In(t), linux, roce) })
	t.Run("IRNAndGoBackN_RefuseEachOther", func(t *testing.T) { testIRN(l.In(t), linux, irn) })
	t.Run("WithLoss", func(t *testing.T) { testLoss(l.In(t), linux, roce) })
	t.Run("KilledLab_LeavesNoMachine", func(t *testing.T) {
		l := l.In(t)
		m := machine(l, guest)
		l.Crash()
		waitGone(l, m.PID)
		l.Must("down", l.Name)
		testlab.CheckNothingLeft(t, l.Name)
		if after, err := os.ReadFile(disk); err != nil || !bytes.Equal(after, content) {
			t.Error("the disk was changed, which is not to persist")
		}
	})
}

// testOwnKernel: a guest has the interfaces and the disk of the lab file, and its console is in
// the file that that names.
func testOwnKernel(l *testlab.Lab, dir string) {
	if o := l.Exec(guest, "ip", "-o", "link", "show", "lan"); !strings.Contains(o, "mtu 4000") {
		l.T.Errorf("the second interface is %q", o)
	}
	l.Exec(guest, "modprobe", "virtio_blk")
	if o := l.Exec(guest, "sh", "-c", "head -c 4 /dev/vda && echo changed >/dev/vda && sync && head -c 7 /dev/vda"); o != "weftchanged" {
		l.T.Errorf("the disk reads %q", o)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "v1.log")); err != nil || !strings.Contains(string(b), "v1:/#") {
		l.T.Errorf("the console's file: %v", err)
	}
}

// inTurn runs a function for programs, with the guest and the other end as the server by turns, or
// in the long form both for each program.
func inTurn(l *testlab.Lab, programs []string, guest, other rdmaEnd, run func(l *testlab.Lab, program string, server, client rdmaEnd)) {
	for i, p := range programs {
		if i%2 == 0 || testlab.IsLong() {
			l.T.Run(p+"/GuestServes", func(t *testing.T) { run(l.In(t), p, guest, other) })
		}
		if i%2 == 1 || testlab.IsLong() {
			l.T.Run(p+"/GuestIsClient", func(t *testing.T) { run(l.In(t), p, other, guest) })
		}
	}
}

func testClean(l *testlab.Lab, linux, weft rdmaEnd) {
	stop := l.Capture("h1:eth0")
	var programs []string
	for i, p := range rdmaPrograms {
		if p.clean && testlab.InSample(i) {
			programs = append(programs, p.argv)
		}
	}
	inTurn(l, programs, linux, weft, runProgram)
	checkGuestCapture(l, stop())
	c := l.NIC("h1").Counters
	for _, name := range []string{"port_rcv_errors", "rx_icrc_encapsulated", "bad_pkey_cntr", "rx_wrong_address", "qkey_viol_cntr",
		"req_remote_invalid_request", "req_remote_access_errors", "resp_local_length_error", "resp_remote_access_errors"} {
		if n := c.Of(name); n > 0 {
			l.T.Errorf("%s is %d", name, n)
		}
	}
	l.T.Logf("sent again without loss: %d by our NIC, %d by the guest", c.Of("retransmitted_packets"), rxe(l, "completer_retry_err"))
}

// testNotReady: a stopped receiver posts no new receive requests, so it runs out of them on any
// machine, and RNR NAKs tell the sender to wait.
func testNotReady(l *testlab.Lab, linux, weft rdmaEnd) {
	nic, nak, wait := l.NIC("h1").Counters, rxe(l, "send_rnr_err"), rxe(l, "rcvd_rnr_err")
	stopServer(l, linux, weft, func() bool {
		return l.NIC("h1").Counters.Of("rnr_nak_retry_err") > nic.Of("rnr_nak_retry_err") && rxe(l, "send_rnr_err") > nak
	})
	stopServer(l, weft, linux, func() bool {
		return l.NIC("h1").Counters.Of("out_of_buffer") > nic.Of("out_of_buffer") && rxe(l, "rcvd_rnr_err") > wait
	})
}

// stopServer transfers data with SENDs and stops the server's program in between until
// told reports that its receives have run out. Everything has to arrive nevertheless.
func stopServer(l *testlab.Lab, server, client rdmaEnd, told func() bool) {
	l.T.Helper()
	const program = "ib_send_bw -t 4 -n 2000 -s 3001 -r 10"
	// So slow that the transfer lasts until its server is stopped.
	l.Must("set", "-l", l.Name, client.host+":eth0", "rate=8Mbps")
	s := l.StartProgram(server.host, server.call(program, server)...)
	s.WaitFor(l, "it listens", func() bool { return listens(l, server.host, "18515") })
	before, _ := port(l, client.host+":eth0")
	c := l.StartProgram(client.host, client.call(program, server)...)
	c.WaitFor(l, "it transfers data", func() bool {
		p, _ := port(l, client.host+":eth0")
		return p.TxBytes > before.TxBytes+200e3
	})
	resume := l.SuspendProgram(server.host, "ib_send_bw")
	c.WaitFor(l, "RNR NAKs", told)
	resume()
	l.Must("set", "-l", l.Name, client.host+":eth0", "rate=80Mbps")
	if succeed(l, c, s) && !strings.Contains(c.Out.String(), "3001       2000") {
		l.T.Errorf("the client prints\n%s", &c.Out)
	}
}

// testLoss: the loss is random: rxe ignores a second NAK before an ACK has arrived and then
// waits for its timeout, which is 2 s when rdma_cm sets it; loss at regular
// intervals would stop it for ever.
func testLoss(l *testlab.Lab, linux, weft rdmaEnd) {
	l.Must("set", "-l", l.Name, "s1:s2", "loss=1%")
	before, retries, was := l.NIC("h1").Counters, rxe(l, "completer_retry_err"), lost(l)
	var programs []string
	for _, p := range rdmaPrograms {
		if p.loss {
			programs = append(programs, p.argv)
		}
	}
	inTurn(l, programs, linux, weft, runProgram)
	after := l.NIC("h1").Counters
	l.T.Logf("%d packets lost", lost(l)-was)
	for _, name := range []string{"retransmitted_packets", "packet_seq_err", "out_of_sequence"} {
		if after.Of(name) == before.Of(name) {
			l.T.Errorf("%s has not grown beyond %d", name, before.Of(name))
		}
	}
	if rxe(l, "completer_retry_err") == retries {
		l.T.Error("the guest has sent nothing again")
	}
}

// testIRN: Linux's NIC, which uses go-back-N, and weft's with IRN refuse each other.
func testIRN(l *testlab.Lab, linux, irn rdmaEnd) {
	refused := func(server, client rdmaEnd, want string) {
		l.T.Helper()
		s := l.StartProgram(server.host, "rping", "-s", "-a", server.address, "-C", "1")
		s.WaitFor(l, "it listens", func() bool { return listens(l, server.host, "7174") })
		if said, code := l.TryRDMA(client.host, "rping", "-c", "-a", server.address, "-C", "1"); code == 0 || !strings.Contains(said, want) {
			l.T.Errorf("%s: exit code %d, %q", client.host, code, said)
		}
		s.KillAndRead()
	}
	refused(irn, linux, "RDMA_CM_EVENT_REJECTED, error 9")  // invalid transport service type
	refused(linux, irn, "RDMA_CM_EVENT_REJECTED, error 28") // Linux only says that it is the consumer's reason
	// Queue pairs whose numbers are exchanged by programs notice it at the first packet.
	s := l.StartServing(irn.host, irn.call("ib_write_bw -n 50", irn)...)
	if said, code := l.TryRDMA(guest, linux.call("ib_write_bw -n 50", irn)...); code == 0 {
		l.T.Errorf("ib_write_bw from the guest says\n%s", said)
	}
	s.KillAndRead()
	if n := l.NIC(irn.host).Counters.Of("recovery_mismatch"); n == 0 {
		l.T.Error("the NIC has not noticed")
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
	for what, line := range map[string]string{
		"REQ": "100\t0x0010", "REP": "100\t0x0013", "RTU": "100\t0x0014", "DREQ": "100\t0x0015",
		"RC SEND": "0", "RC WRITE": "6", "RC READ": "12", "RC READ response": "13", "RC ACK": "17",
		"RC atomic": "20", "RC atomic response": "18", "UC SEND": "32", "UC WRITE": "38", "UD SEND": "100",
	} {
		linux, weft := count["10.0.0.1\t"+line], count["10.0.0.2\t"+line]
		inSample := line != "18" && line != "20" && line != "38" && what != "UD SEND" // no atomics, UC WRITE nor UD
		if linux+weft == 0 && inSample || testlab.IsLong() && (linux == 0 || weft == 0) {
			l.T.Errorf("Linux has sent %d times %s, weft %d times", linux, what, weft)
		}
	}
	if l.T.Failed() {
		l.T.Log(fmt.Sprint(count))
	}
}
