package netnslab

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftlab/weft/sim/units"
)

// helperEnv makes the test binary a helper of a test instead: see helpers.
const helperEnv = "WEFT_NETNSLAB_HELPER"

// helpers are programs that tests run as separate processes.
var helpers = map[string]func(args []string) error{
	"own":   ownLab,
	"exec":  execHelper,
	"start": startLab,
	"peek":  peek,
}

func execHelper(args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	status, err := ExecProgram(args[0], args[1], Program{Argv: args[2:], Dir: dir})
	if err != nil {
		return err
	}
	EndAs(status)
	return nil
}

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(helperEnv)
	if err := helpers[name](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// helper returns the command of a helper. A shell may have started this test in the background,
// with some signals ignored: they have their default actions again.
func helper(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("env", append([]string{"--default-signal", ownPath()}, args...)...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	return cmd
}

// ownPath is the path of this test's binary.
var ownPath = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
})

// needRoot skips a test that makes namespaces if that is not possible.
func needRoot(t testing.TB) {
	t.Helper()
	if err := CheckPrivileges(); err != nil {
		t.Skipf("NOT TESTED, this process may not make labs:\n%v", err)
	}
}

var labs atomic.Int32

// labName returns a unique name for each lab of each test process, and checks at the
// end of the test that nothing of the lab is left.
func labName(t testing.TB) string {
	needRoot(t)
	name := fmt.Sprintf("n%d-%d", os.Getpid(), labs.Add(1))
	t.Cleanup(func() {
		if left := residue(name); len(left) > 0 {
			t.Errorf("left behind: %s", strings.Join(left, ", "))
		}
	})
	return name
}

// residue lists what is left of a lab in the file system.
func residue(lab string) (left []string) {
	for _, pattern := range []string{filepath.Join(netnsDir, "weft-"+lab+"-*"), filepath.Join(etcDir(), "weft-"+lab+"-*"), filepath.Join(stateDir, lab)} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	return left
}

// makeLab creates a lab that is closed when the test ends.
func makeLab(t testing.TB, hosts ...Host) *Lab {
	t.Helper()
	l, err := Create(labName(t), Info{File: "lab.yaml"}, hosts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// hostN returns host number n of a subnet, with one interface eth0.
func hostN(n int, kind DeviceKind, rate units.Rate) Host {
	return Host{
		Name: fmt.Sprintf("h%d", n),
		Interfaces: []Interface{{
			Name: "eth0", Kind: kind, Rate: rate,
			Addresses: []netip.Prefix{
				netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 16),
				netip.MustParsePrefix(fmt.Sprintf("fd00::%x/64", n)),
			},
		}},
	}
}

func hostsN(n int) (hosts []Host) {
	for i := range n {
		hosts = append(hosts, hostN(i+1, TAP, units.Gbps))
	}
	return hosts
}

// startReady starts a shell script in a host and returns, with its output, when it has printed
// "ready".
func startReady(t testing.TB, lab, host, script string) (*exec.Cmd, io.Reader) {
	t.Helper()
	c := helper("exec", lab, host, "sh", "-c", script)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, b); err != nil || string(b) != "ready\n" {
		t.Fatalf("%q, %v", b, err)
	}
	return c, out
}

// inNetwork runs a program of the machine in the network of a host of l and returns what it
// printed. It is much cheaper than inside.
func inNetwork(t testing.TB, l *Lab, host string, argv ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &out, &out
	ended, err := l.Start(host, c)
	if err == nil {
		err = <-ended
	}
	if err != nil {
		t.Fatalf("%v in the network of %s: %v\n%s", argv, host, err, out.String())
	}
	return out.String()
}

// inside runs a program in a host of l and returns what it printed.
func inside(t testing.TB, l *Lab, host string, argv ...string) string {
	t.Helper()
	out, err := helper("exec", append([]string{l.Info().Name, host}, argv...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v in %s: %v\n%s", argv, host, err, out)
	}
	return string(out)
}
