package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// buildVerbs builds the libraries for RDMA programs once, beside the command.
var buildVerbs = sync.OnceValue(func() error {
	weft, err := buildWeft()
	if err != nil {
		return err
	}
	c := exec.Command("../../scripts/verbs.sh", filepath.Join(filepath.Dir(weft), "verbs"))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("scripts/verbs.sh: %w\n%s", err, out)
	}
	return nil
})

// rdmaPair is two hosts with NICs.
const rdmaPair = `
topology:
  kinds: {host: {nic: roce}}
  nodes: {h1: {kind: host, address: 10.0.0.1/24}, h2: {kind: host, address: 10.0.0.2/24}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 5Gbps, delay: 5us}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 5Gbps, delay: 5us}
`

// rdmaLeaves is two hosts with NICs and two paths between their switches.
const rdmaLeaves = `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1, rate: 5Gbps, delay: 5us}}
`

// startRDMA is startLab for programs that use the NICs.
func startRDMA(t *testing.T, text string, programs ...string) *realLab {
	t.Helper()
	needReal(t, append(programs, "gcc")...)
	needVerbs(t)
	return startLab(t, text, programs...)
}

// needVerbs skips a test if the libraries cannot be built.
func needVerbs(t *testing.T) {
	t.Helper()
	for _, header := range []string{"infiniband/verbs.h", "rdma/rdma_cma.h"} {
		c := exec.Command("gcc", "-E", "-x", "c", "-")
		c.Stdin = strings.NewReader("#include <" + header + ">\n")
		if c.Run() != nil {
			t.Skipf("SKIPPED: this test needs the header %s: run scripts/test.sh, which installs it", header)
		}
	}
	if err := buildVerbs(); err != nil {
		t.Fatal(err)
	}
}

// rdmaServer is a program that runs beside the test.
type rdmaServer struct {
	*exec.Cmd
	out  bytes.Buffer // valid once it has ended
	done chan struct{}
	err  error // valid once it has ended
}

// rdmaCommand returns the command that runs a program in a host. Before its report,
// perftest measures the frequency of its processor, which fails on a busy machine;
// with -F it continues.
func (l *realLab) rdmaCommand(host string, argv []string) []string {
	c := []string{"exec", "-l", l.name, host, "--", argv[0]}
	if strings.HasPrefix(argv[0], "ib_") {
		c = append(c, "-F")
	}
	return append(c, argv[1:]...)
}

// rdmaServer starts a program, such as a server for a client.
func (l *realLab) rdmaServer(host string, argv ...string) *rdmaServer {
	l.t.Helper()
	s := &rdmaServer{Cmd: l.command(l.rdmaCommand(host, argv)...), done: make(chan struct{})}
	s.Stdout, s.Stderr = &s.out, &s.out
	if err := s.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { s.err = s.Wait(); close(s.done) }()
	l.t.Cleanup(func() { _ = s.Process.Kill(); <-s.done })
	return s
}

// exited reports whether the program has ended.
func (s *rdmaServer) exited() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// rdma runs a server in h1 and its client in h2 until both succeed, and returns
// what they print.
func (l *realLab) rdma(server, client []string) (served, said string) {
	l.t.Helper()
	return l.rdmaBetween("h1", "h2", server, client)
}

// rdmaBetween is like rdma, in other hosts. A client that finds no listening server
// is tried again with a fresh server, because some servers count clients that were
// refused in part.
func (l *realLab) rdmaBetween(at, from string, server, client []string) (served, said string) {
	l.t.Helper()
	for try := 0; ; try++ {
		s := l.rdmaServer(at, server...)
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
		said, code := l.rdmaTry(from, client...)
		if code != 0 {
			_ = s.Process.Kill()
			<-s.done
			if try < 20 && early.MatchString(said) {
				continue
			}
			l.t.Fatalf("%s: exit code %d\n%s\nserver:\n%s", strings.Join(client, " "), code, endOf(said), endOf(s.out.String()))
		}
		if err := s.ends(); err != nil {
			l.t.Fatalf("%s: %v\n%s\nclient:\n%s", strings.Join(server, " "), err, endOf(s.out.String()), endOf(said))
		}
		return s.out.String(), said
	}
}

// endOf returns the end of what a program said: rping -V prints all its data.
func endOf(said string) string {
	const most = 2000 // bytes
	if len(said) <= most {
		return said
	}
	return "... " + said[len(said)-most:]
}

// ends waits until the program has ended by itself, and returns its error.
func (s *rdmaServer) ends() error {
	select {
	case <-s.done:
		return s.err
	case <-time.After(2 * time.Minute):
		_ = s.Process.Kill()
		<-s.done
		return fmt.Errorf("it does not end: %w", s.err)
	}
}

// early matches what clients print if no server listens yet.
var early = regexp.MustCompile(`RDMA_CM_EVENT_REJECTED|RDMA_CM_EVENT_UNREACHABLE|Connection refused|Unexpected CM event|Couldn't connect to`)

// rdmaTry runs a client once.
func (l *realLab) rdmaTry(host string, argv ...string) (said string, code int) {
	l.t.Helper()
	o, e, code := l.run(l.rdmaCommand(host, argv)...)
	return o + e, code
}

// rdmaClient runs a client until it succeeds, as soon as a server listens.
func (l *realLab) rdmaClient(host string, argv ...string) string {
	l.t.Helper()
	for try := 0; ; try++ {
		said, code := l.rdmaTry(host, argv...)
		switch {
		case code == 0:
			return said
		case try < 50 && early.MatchString(said):
			time.Sleep(100 * time.Millisecond)
		default:
			l.t.Fatalf("%s: exit code %d\n%s", strings.Join(argv, " "), code, said)
		}
	}
}

// TestRping: Debian's rping, unmodified, on a kernel without RDMA: the data is
// correct at both ends, and tshark accepts what went over the wire.
func TestRping(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaLeaves, "rping", "tshark")
	rping := func(count, size string) {
		t.Helper()
		flags := []string{"-C", count, "-S", size, "-v", "-V"}
		served, said := l.rdma(append([]string{"rping", "-s"}, flags...), append([]string{"rping", "-c", "-a", "10.0.0.1"}, flags...))
		want, _ := strconv.Atoi(count)
		for who, out := range map[string]string{"server ping data: ": served, "ping data: ": said} {
			if n := strings.Count(out, "\n"+who+"rdma-ping-") + strings.Count(out[:min(len(out), 30)], who+"rdma-ping-0"); n != want {
				t.Errorf("%q has come %d times, not %s:\n%.600s", who, n, count, out)
			}
		}
	}
	stop := l.capture("leaf1:h1")
	rping("100", "4096")
	file := stop()
	if bad := tshark(t, file, "-Y", "_ws.malformed || (infiniband && _ws.expert.severity == error)"); len(bad) > 0 {
		t.Errorf("tshark finds fault with %d packets: %s", len(bad), bad[0])
	}
	for filter, want := range map[string]int{
		"infiniband.mad.attributeid == 0x0010": 1, // REQ
		"infiniband.mad.attributeid == 0x0014": 1, // RTU
		"infiniband.bth.opcode == 12":          100,
	} {
		if n := len(tshark(t, file, "-Y", filter)); n < want {
			t.Errorf("%s: %d packets, not %d", filter, n, want)
		}
	}
	rping("1000", "65535")
}

// TestRDMAPrograms: the programs of rdma-core and perftest, each against itself,
// across two switches with two paths between them.
func TestRDMAPrograms(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaLeaves, "ucmatose", "udaddy", "rdma_client", "ibv_rc_pingpong", "ib_write_bw")
	const server = "10.0.0.1"
	for _, c := range []struct {
		argv string // of the server; of the client too, with to and the address appended
		to   string
		want string // the client prints
	}{
		{"ibv_rc_pingpong -g 0", "", `1000 iters in`},
		{"ibv_rc_pingpong -g 0 -e -s 100000", "", `1000 iters in`},
		{"ibv_rc_pingpong -g 1 -c", "", `1000 iters in`},
		{"ibv_uc_pingpong -g 0", "", `1000 iters in`},
		{"ibv_uc_pingpong -g 0 -e", "", `1000 iters in`},
		{"ibv_ud_pingpong -g 0 -s 1000", "", `1000 iters in`},
		{"ibv_ud_pingpong -g 0 -e", "", `1000 iters in`},
		{"ibv_srq_pingpong -g 0", "", `1000 iters in`},
		{"ibv_srq_pingpong -g 0 -e -q 32", "", `1000 iters in`},
		{"ucmatose", "-s", `return status 0`},
		{"ucmatose -c 50 -C 20 -S 3000", "-s", `return status 0`},
		{"udaddy", "-s", `return status 0`},
		{"udaddy -c 3 -C 20", "-s", `return status 0`},
		{"udaddy -P ipoib", "-s", `return status 0`},
		{"rping -s -C 20 -P", "", ""}, // its client below
		{"rdma_server", "", ""},
		{"rdma_xserver", "", ""}, // which posts inline data without having requested it
		{"ib_send_bw -x 0 -n 300", "", `65536 +300`},
		{"ib_write_bw -x 0 -n 300", "", `65536 +300`},
		{"ib_read_bw -x 0 -n 300", "", `65536 +300`},
		{"ib_atomic_bw -x 0 -n 300", "", `8 +300`},
		{"ib_send_lat -x 0 -n 100", "", `2 +100`},
		{"ib_write_lat -x 0 -n 100", "", `2 +100`},
		{"ib_read_lat -x 0 -n 100", "", `2 +100`},
		{"ib_atomic_lat -x 0 -n 100", "", `8 +100`},
		{"ib_send_bw -R -n 200", "", `65536 +200`},
		{"ib_write_bw -R -n 200", "", `65536 +200`},
		{"ib_read_bw -R -n 200", "", `65536 +200`},
		{"ib_atomic_bw -R -n 200", "", `8 +200`},
		{"ib_send_lat -R -n 100", "", `2 +100`},
		{"ib_write_lat -R -n 100", "", `2 +100`},
		{"ib_read_lat -R -n 100", "", `2 +100`},
		{"ib_atomic_lat -R -n 100", "", `8 +100`},
		// perftest has no UC with -R: "UC is not supported in librdmacm".
		{"ib_send_bw -R -c UD -s 1024 -n 200", "", `1024 +200`},
		{"ib_send_lat -R -c UD -n 100", "", `2 +100`},
		{"ib_send_bw -R -b -q 4 -n 50", "", `65536 +200`},
		{"ib_write_bw -R -b -q 4 -n 50", "", `65536 +200`},
		{"ib_read_bw -R -q 4 -n 50", "", `65536 +200`},
		{"ib_send_bw -x 0 -q 4 -n 50", "", `65536 +200`},
		{"ib_write_bw -x 0 -q 4 -n 200", "", `65536 +800`},
		{"ib_read_bw -x 0 -q 4 -n 50", "", `65536 +200`},
		{"ib_atomic_bw -x 0 -b -q 4 -n 50", "", `8 +200`},
		{"ib_send_bw -x 0 -b -n 200", "", `65536 +200`},
		{"ib_write_bw -x 0 -b -n 200", "", `65536 +200`},
		{"ib_read_bw -x 0 -b -q 4 -n 100", "", `65536 +400`},
		{"ib_send_bw -x 0 -e -n 200", "", `65536 +200`},
		{"ib_send_bw -x 0 -c UC -n 200", "", `65536 +200`},
		{"ib_send_bw -x 0 -c UD -s 1024 -n 200", "", `1024 +200`},
		{"ib_send_bw -x 0 -c UC -b -q 4 -n 50", "", `65536 +200`},
		{"ib_send_bw -x 0 -c UD -b -q 4 -s 1024 -n 50", "", `1024 +200`},
		{"ib_write_bw -x 0 -c UC -n 200", "", `65536 +200`},
		{"ib_write_bw -x 0 -c UC -b -q 4 -n 50", "", `65536 +200`},
		{"ib_send_lat -x 0 -e -n 100", "", `2 +100`},
		{"ib_send_lat -x 0 -c UC -n 100", "", `2 +100`},
		{"ib_send_lat -x 0 -c UD -n 100", "", `2 +100`},
		{"ib_write_lat -x 0 -c UC -n 100", "", `2 +100`},
		{"ib_send_bw -x 0 --use-srq -n 200", "", `65536 +200`},
		{"ib_write_bw -x 0 --odp -n 200", "", `65536 +200`},
		{"ib_send_bw -x 1 -n 200", "", `65536 +200`}, // over IPv6
		{"ib_write_bw -x 0 -s 8388608 -n 5", "", `8388608 +5`},
	} {
		t.Run(c.argv, func(t *testing.T) {
			on := *l
			on.t = t
			argv := strings.Fields(c.argv)
			var client []string
			switch argv[0] {
			case "rping":
				client = []string{"rping", "-c", "-a", server, "-C", "20"}
				s := on.rdmaServer("h1", argv...) // -P serves for ever
				on.rdmaClient("h2", client...)
				_ = s.Process.Kill()
				return
			case "rdma_server":
				client = []string{"rdma_client", "-s", server}
			case "rdma_xserver":
				client = []string{"rdma_xclient", "-s", server}
			case "ucmatose", "udaddy":
				client = append(append([]string{}, argv...), c.to, server)
			default:
				client = append(append([]string{}, argv...), server)
			}
			_, said := on.rdma(argv, client)
			if !regexp.MustCompile(c.want).MatchString(said) {
				t.Errorf("the client has not printed %q:\n%s", c.want, said)
			}
		})
	}
	t.Run("ways", func(t *testing.T) {
		on := *l
		on.t = t
		// A queue pair keeps its path; many use both. The few other packets are from
		// the TCP connection through which perftest's sides find each other.
		const beside = 100
		for pairs, both := range map[string]bool{"1": false, "32": true} {
			before := on.ports()
			on.alike("h1", "h2", "ib_send_bw", "-x", "0", "-n", "30", "-q", pairs)
			after := on.ports()
			a := after["leaf2:spine1"].TxPackets - before["leaf2:spine1"].TxPackets
			b := after["leaf2:spine2"].TxPackets - before["leaf2:spine2"].TxPackets
			if t.Logf("%s queue pairs: %d and %d packets", pairs, a, b); a+b < 1920 || (min(a, b) > beside) != both {
				t.Errorf("%s queue pairs: %d packets by one way, %d by the other", pairs, a, b)
			}
		}
	})
}

// TestRDMADevices: what programs see of the NICs.
func TestRDMADevices(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaPair, "ibv_devices", "ibv_devinfo")
	if out := l.exec("h1", "ibv_devices"); !regexp.MustCompile(`roce0\s+[0-9a-f]{16}`).MatchString(out) {
		t.Errorf("ibv_devices:\n%s", out)
	}
	out := l.exec("h2", "ibv_devinfo", "-v")
	for _, want := range []string{"hca_id:\troce0", "PORT_ACTIVE", "link_layer:\t\tEthernet", "active_mtu:\t\t1024", "GID[  0]:\t\t::ffff:10.0.0.2, RoCE v2", "ATOMIC_HCA"} {
		if !strings.Contains(out, want) {
			t.Errorf("ibv_devinfo -v does not say %q:\n%s", want, out)
		}
	}
	// Some programs also read these files.
	for file, want := range map[string]string{
		"/sys/class/infiniband/roce0/ports/1/gid_attrs/ndevs/0": "eth0\n",
		"/sys/class/infiniband/roce0/ports/1/gid_attrs/types/0": "RoCE v2\n",
		"/sys/class/infiniband/roce0/ports/1/gids/0":            "0000:0000:0000:0000:0000:ffff:0a00:0002\n",
		"/sys/class/infiniband_verbs/uverbs0/ibdev":             "roce0\n",
	} {
		if got := l.exec("h2", "cat", file); got != want {
			t.Errorf("%s has %q, not %q", file, got, want)
		}
	}
	if got := l.exec("h2", "stat", "-c", "%F", "/dev/infiniband/uverbs0", "/dev/null", "/sys/class/net/eth0/"); got != "character special file\ncharacter special file\ndirectory\n" {
		t.Errorf("/dev and /sys have %q", got)
	}
	if _, err := os.Stat("/sys/class/infiniband/roce0"); err == nil {
		t.Error("the machine's own /sys has the NIC of a host")
	}
	// The kernel's own RDMA devices, if any, do not include weft's NIC.
	if out, _, _ := l.run("exec", "--kernel-rdma", "-l", l.name, "h1", "--", "ibv_devices"); strings.Contains(out, "roce0") {
		t.Errorf("ibv_devices with --kernel-rdma:\n%s", out)
	}
}

// TestRDMALibrariesMissing: without the libraries RDMA programs are refused with the
// fix, and others run.
func TestRDMALibrariesMissing(t *testing.T) {
	weft := needReal(t, "ibv_devices")
	t.Setenv("WEFT_VERBS", t.TempDir())
	l := newLab(t, weft, t.TempDir(), rdmaPair)
	l.must("up", "-d", l.file)
	_, e, code := l.run("exec", "-l", l.name, "h1", "--", "ibv_devices")
	if code == 0 || !strings.Contains(e, "scripts/verbs.sh") || !strings.Contains(e, "--kernel-rdma") {
		t.Errorf("exit code %d: %s", code, e)
	}
	l.exec("h1", "true")
}

// flows waits until a port has sent this many further packets to a host.
func (l *realLab) flows(host, port string, packets uint64) {
	l.t.Helper()
	before := l.ports()[port].TxPackets
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l.ports()[port].TxPackets-before > packets {
			return
		}
	}
	l.t.Fatalf("%s gets no packets", host)
}

// buildChecks builds the program of testdata/rdma.
func buildChecks(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "check")
	sources, err := filepath.Glob("testdata/rdma/*.c")
	if err != nil {
		t.Fatal(err)
	}
	argv := append(append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program}, sources...), "-libverbs", "-lrdmacm")
	out, err := exec.Command("gcc", argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// TestRDMAChecks runs weft's own program for what Debian's programs do not test:
// misuse, forks, flags of descriptors, threads, extended verbs.
func TestRDMAChecks(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaPair)
	program := buildChecks(t)
	list, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(list)) {
		t.Run(name, func(t *testing.T) {
			if o, e, code := l.run("exec", "-l", l.name, "h1", "--", program, name); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, o, e)
			}
		})
	}
}

// TestRDMADebug: with WEFT_VERBS_DEBUG the libraries say why they refuse a posted
// request, which the lab never sees.
func TestRDMADebug(t *testing.T) {
	l := startRDMA(t, rdmaPair)
	program := buildChecks(t)
	_, quiet, _ := l.run("exec", "-l", l.name, "h1", "--", program, "posting")
	t.Setenv("WEFT_VERBS_DEBUG", "1")
	_, said, code := l.run("exec", "-l", l.name, "h1", "--", program, "posting")
	for _, want := range []string{
		"65 bytes inline: max_inline_data is 64", "num_sge is 4: max_send_sge is 3", "its type does not have opcode 77", "it is not in RTS yet", "it is in RESET",
		"a datagram has no address handle", "is not of 8 bytes",
	} {
		if code != 0 || strings.Contains(quiet, want) || !strings.Contains(said, want) {
			t.Errorf("exit code %d, and not %q:\n%s", code, want, said)
		}
	}
}

// TestRDMARootless: the same for a user's own lab.
func TestRDMARootless(t *testing.T) {
	l := userLab(t, rdmaPair, "rping", "ibv_rc_pingpong", "gcc")
	needVerbs(t)
	l.must("up", "-d", l.file)
	l.rdma([]string{"rping", "-s", "-C", "10"}, []string{"rping", "-c", "-a", "10.0.0.1", "-C", "10"})
	l.rdma([]string{"ibv_rc_pingpong", "-g", "0"}, []string{"ibv_rc_pingpong", "-g", "0", "10.0.0.1"})
	if info, err := os.Stat("/dev/fuse"); err == nil && info.Mode().Perm()&6 == 6 {
		if n, err := strconv.Atoi(l.sysfs("h1", "ports/1/counters/port_rcv_packets")); err != nil || n == 0 {
			t.Errorf("port_rcv_packets is %d, %v", n, err)
		}
	}
}
