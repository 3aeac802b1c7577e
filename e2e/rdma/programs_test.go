package rdma

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rdmaLeaves is two hosts with NICs and two paths between their switches.
const rdmaLeaves = `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1, rate: 5Gbps, delay: 5us}}
`

// TestRping_GetsItsDataBack: Debian's rping, unmodified, on a kernel without RDMA: the data is
// correct at both ends, and tshark accepts what went over the wire.
func TestRping_GetsItsDataBack(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaLeaves, "rping", "tshark")
	rping := func(count, size string) {
		t.Helper()
		flags := []string{"-C", count, "-S", size, "-v", "-V"}
		served, said := l.RunRDMA(append([]string{"rping", "-s"}, flags...), append([]string{"rping", "-c", "-a", "10.0.0.1"}, flags...))
		want, _ := strconv.Atoi(count)
		for who, out := range map[string]string{"server ping data: ": served, "ping data: ": said} {
			if n := strings.Count(out, "\n"+who+"rdma-ping-") + strings.Count(out[:min(len(out), 30)], who+"rdma-ping-0"); n != want {
				t.Errorf("%q has come %d times, not %s:\n%.600s", who, n, count, out)
			}
		}
	}
	stop := l.Capture("leaf1:h1")
	rping("100", "4096")
	file := stop()
	if bad := testlab.Tshark(t, file, "-Y", "_ws.malformed || (infiniband && _ws.expert.severity == error)"); len(bad) > 0 {
		t.Errorf("tshark finds fault with %d packets: %s", len(bad), bad[0])
	}
	for filter, want := range map[string]int{
		"infiniband.mad.attributeid == 0x0010": 1, // REQ
		"infiniband.mad.attributeid == 0x0014": 1, // RTU
		"infiniband.bth.opcode == 12":          100,
	} {
		if n := len(testlab.Tshark(t, file, "-Y", filter)); n < want {
			t.Errorf("%s: %d packets, not %d", filter, n, want)
		}
	}
	rping("200", "65535")
}

// TestRDMAPrograms_RunUnmodified: a sample of the programs of rdma-core and perftest, in the long
// form all, each against itself, across two switches with two paths between them.
func TestRDMAPrograms_RunUnmodified(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "ucmatose", "udaddy", "rdma_client", "ibv_rc_pingpong", "ib_write_bw")
	type test struct {
		argv string // of the server; of the client too, with to and the address appended
		to   string
		want string // the client prints
	}
	all := []test{
		{"ibv_rc_pingpong -g 0", "", `1000 iters in`},
		{"ibv_rc_pingpong -g 0 -e -s 100000", "", `1000 iters in`},
		{"ibv_rc_pingpong -g 1 -c", "", `1000 iters in`},
		{"ibv_uc_pingpong -g 0", "", `1000 iters in`},
		{"ibv_uc_pingpong -g 0 -e", "", `1000 iters in`},
		{"ibv_ud_pingpong -g 0 -s 1000", "", `1000 iters in`},
		{"ibv_ud_pingpong -g 0 -e", "", `1000 iters in`},
		{"ibv_srq_pingpong -g 0", "", `1000 iters in`},
		{"ibv_srq_pingpong -g 0 -e -q 32", "", `1000 iters in`},
		{"ibv_xsrq_pingpong -g 0", "", `success`},
		{"ibv_xsrq_pingpong -g 1 -e -s 100000", "", `success`},
		{"ib_send_bw -x 0 -c XRC -n 200", "", `65536 +200`},
		{"ib_send_bw -x 0 -c XRC -b -q 4 -n 50", "", `65536 +200`},
		{"ib_write_bw -x 0 -c XRC -n 200", "", `65536 +200`},
		{"ib_read_bw -x 0 -c XRC -n 200", "", `65536 +200`},
		{"ib_atomic_bw -x 0 -c XRC -n 200", "", `8 +200`},
		{"ib_send_lat -x 0 -c XRC -n 100", "", `2 +100`},
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
	}
	var cases []test
	for i, c := range all {
		if testlab.InSample(i) && testlab.InPart(t, i) {
			cases = append(cases, c)
		}
	}
	testlab.OnPairs(l, cases, func(c test) string { return c.argv }, func(l *testlab.Lab, p testlab.Pair, c test) {
		argv := strings.Fields(c.argv)
		client := plus(argv, p.Address())
		switch argv[0] {
		case "rping": // -P serves for ever
			s := l.StartServing(p.At, argv...)
			if said, code := l.TryRDMA(p.From, "rping", "-c", "-a", p.Address(), "-C", "20"); code != 0 {
				l.T.Errorf("exit code %d\n%s\nserver:\n%s", code, said, s.KillAndRead())
			}
			return
		case "rdma_server":
			client = []string{"rdma_client", "-s", p.Address()}
		case "rdma_xserver":
			client = []string{"rdma_xclient", "-s", p.Address()}
		case "ucmatose", "udaddy":
			client = plus(argv, c.to, p.Address())
		}
		_, said := l.RunRDMABetween(p.At, p.From, argv, client)
		if !regexp.MustCompile(c.want).MatchString(said) {
			l.T.Errorf("the client has not printed %q:\n%s", c.want, said)
		}
	})
}

// TestECMP_KeepsAQueuePairOnItsPath: a queue pair keeps its path, and many use both.
func TestECMP_KeepsAQueuePairOnItsPath(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaLeaves, "ib_send_bw")
	// The few other packets are from the TCP connection through which perftest's sides find each
	// other.
	const beside = 100
	for pairs, both := range map[string]bool{"1": false, "32": true} {
		before := l.Ports()
		alike(l, "h1", "h2", "ib_send_bw", "-x", "0", "-n", "30", "-q", pairs)
		after := l.Ports()
		a := after["leaf2:spine1"].TxPackets - before["leaf2:spine1"].TxPackets
		b := after["leaf2:spine2"].TxPackets - before["leaf2:spine2"].TxPackets
		if t.Logf("%s queue pairs: %d and %d packets", pairs, a, b); a+b < 1920 || (min(a, b) > beside) != both {
			t.Errorf("%s queue pairs: %d packets by one way, %d by the other", pairs, a, b)
		}
	}
}

// TestRDMADevices_LookLikeHardware: what programs see of the NICs.
func TestRDMADevices_LookLikeHardware(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "ibv_devices", "ibv_devinfo")
	if out := l.Exec("h1", "ibv_devices"); !regexp.MustCompile(`roce0\s+[0-9a-f]{16}`).MatchString(out) {
		t.Errorf("ibv_devices:\n%s", out)
	}
	out := l.Exec("h2", "ibv_devinfo", "-v")
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
		if got := l.Exec("h2", "cat", file); got != want {
			t.Errorf("%s has %q, not %q", file, got, want)
		}
	}
	if got := l.Exec("h2", "stat", "-c", "%F", "/dev/infiniband/uverbs0", "/dev/null", "/sys/class/net/eth0/"); got != "character special file\ncharacter special file\ndirectory\n" {
		t.Errorf("/dev and /sys have %q", got)
	}
	if _, err := os.Stat("/sys/class/infiniband/roce0"); err == nil {
		t.Error("the machine's own /sys has the NIC of a host")
	}
	// The kernel's own RDMA devices, if any, do not include weft's NIC.
	if out, _, _ := l.Run("exec", "--kernel-rdma", "-l", l.Name, "h1", "--", "ibv_devices"); strings.Contains(out, "roce0") {
		t.Errorf("ibv_devices with --kernel-rdma:\n%s", out)
	}
}

// TestPortTools_ShowThePort: programs that read the port's state from /sys.
func TestPortTools_ShowThePort(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "ibstat", "ibstatus")
	for program, want := range map[string][]string{
		"ibstat":   {"CA 'roce0'", "Node GUID: 0x020000fffe000002", "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"},
		"ibstatus": {"'roce0' port 1 status", "0000:0000:0000:0000:0000:ffff:0a00:0002", "4: ACTIVE", "5: LinkUp", "Ethernet"},
	} {
		out := l.Exec("h2", program)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s does not say %q:\n%s", program, w, out)
			}
		}
	}
}

// TestRDMALibraries_AreNamedWhenTheyAreMissing: without the libraries RDMA programs are refused
// with the fix, and others run.
func TestRDMALibraries_AreNamedWhenTheyAreMissing(t *testing.T) {
	t.Parallel()
	l := testlab.New(t, testlab.Need(t, "ibv_devices"), t.TempDir(), testlab.TwoNICs)
	setenv(l, "WEFT_VERBS", t.TempDir())
	l.Must("up", "-d", l.File)
	_, e, code := l.Run("exec", "-l", l.Name, "h1", "--", "ibv_devices")
	if code == 0 || !strings.Contains(e, "scripts/verbs.sh") || !strings.Contains(e, "--kernel-rdma") {
		t.Errorf("exit code %d: %s", code, e)
	}
	l.Exec("h1", "true")
}

// setenv sets an environment variable of a lab's commands, which tests beside it do not see.
func setenv(l *testlab.Lab, name, value string) {
	l.As = func(c *exec.Cmd) { c.Env = append(os.Environ(), name+"="+value) }
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

// TestVerbs_DoWhatTheirManPagesSay runs weft's own program for what Debian's programs do not test:
// misuse, forks, flags of descriptors, threads, extended verbs.
func TestVerbs_DoWhatTheirManPagesSay(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs)
	program := buildChecks(t)
	list, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	testlab.OnPairs(l, strings.Fields(string(list)), itself, func(l *testlab.Lab, p testlab.Pair, name string) {
		if o, e, code := l.Run("exec", "-l", l.Name, p.At, "--", program, name); code != 0 {
			l.T.Errorf("exit code %d\n%s%s", code, o, e)
		}
	})
}

// TestVerbsDebug_SaysWhyAPostIsRefused: with WEFT_VERBS_DEBUG the libraries say why they refuse a
// posted request, which the lab never sees.
func TestVerbsDebug_SaysWhyAPostIsRefused(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs)
	program := buildChecks(t)
	_, quiet, _ := l.Run("exec", "-l", l.Name, "h1", "--", program, "bad_posts_are_refused")
	_, said, code := l.Run("exec", "-l", l.Name, "h1", "--", "env", "WEFT_VERBS_DEBUG=1", program, "bad_posts_are_refused")
	for _, want := range []string{
		"65 bytes inline: max_inline_data is 64", "num_sge is 4: max_send_sge is 3", "its type does not have opcode 77", "it is not in RTS yet", "it is in RESET",
		"a datagram has no address handle", "is not of 8 bytes",
	} {
		if code != 0 || strings.Contains(quiet, want) || !strings.Contains(said, want) {
			t.Errorf("exit code %d, and not %q:\n%s", code, want, said)
		}
	}
}
