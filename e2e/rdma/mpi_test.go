package rdma

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rdmaSlow is two hosts with NICs whose link is far slower than memory.
const rdmaSlow = `
topology:
  kinds: {host: {nic: roce, private: [/run, /tmp]}}
  nodes: {h1: {kind: host, address: 10.0.0.1/24}, h2: {kind: host, address: 10.0.0.2/24}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 2Gbps, delay: 5us}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 2Gbps, delay: 5us}
`

// linkMBs is the maximum throughput of a 2 Gb/s link, in MB/s.
const linkMBs = 250

// TestRDMAPrograms_NeedNoEnvironment: programs without their environment, such as those
// started by sshd, cron and sudo, find the NIC.
func TestRDMAPrograms_NeedNoEnvironment(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaSlow, "ibv_devinfo", "rping")
	for _, argv := range [][]string{{"env", "-i", "ibv_devinfo"}, {"ibv_devinfo"}, {"env", "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu", "ibv_devinfo"}} {
		if out := l.Exec("h1", argv...); !strings.Contains(out, "hca_id:\troce0") {
			t.Errorf("%v:\n%s", argv, out)
		}
	}
	for _, name := range []string{"WEFT_VERBS_SOCKET", "LD_LIBRARY_PATH"} {
		if _, set := os.LookupEnv(name); !set {
			if out, _, _ := l.Run("exec", "-l", l.Name, "h1", "--", "printenv", name); out != "" {
				t.Errorf("weft exec sets %s to %q", name, out)
			}
		}
	}
	l.RunRDMA([]string{"env", "-i", "rping", "-s", "-C", "5"}, []string{"env", "-i", "rping", "-c", "-a", "10.0.0.1", "-C", "5"})
	// The machine's own libraries are unchanged.
	if out, _ := exec.Command("ibv_devices").CombinedOutput(); strings.Contains(string(out), "roce0") {
		t.Errorf("the machine itself has the NIC:\n%s", out)
	}
}

// TestRDMALibraries_AreInTheLinkerCacheOfTheHost: also those that the system lacks are found there.
func TestRDMALibraries_AreInTheLinkerCacheOfTheHost(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t, "gcc")
	testlab.NeedVerbs(t)
	built, err := filepath.Glob(filepath.Join(filepath.Dir(weft), "verbs", "*.so.*"))
	if err != nil || len(built) == 0 {
		t.Fatal(err, built)
	}
	dir := t.TempDir()
	for _, lib := range built {
		b, err := os.ReadFile(lib)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(lib)), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	library, program := filepath.Join(dir, "libweftprobe.so.1"), filepath.Join(t.TempDir(), "probe")
	for file, text := range map[string]string{"lib.c": "int weft_probe(void) { return 42; }\n", "main.c": "int weft_probe(void);\nint main(void) { return weft_probe(); }\n"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(program), file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, argv := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libweftprobe.so.1", "-o", library, "lib.c"}, {"-o", program, "main.c", library},
	} {
		c := exec.Command("gcc", argv...)
		c.Dir = filepath.Dir(program)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	before, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Skipf("SKIPPED: this system's linker has no cache: %v", err)
	}
	l := testlab.New(t, weft, t.TempDir(), testlab.TwoNICs)
	setenv(l, "WEFT_VERBS", dir)
	l.Must("up", "-d", l.File)
	for _, host := range []string{"h1", "h2"} {
		if _, e, code := l.Run("exec", "-l", l.Name, host, "--", "env", "-i", program); code != 42 {
			t.Errorf("%s: exit code %d, %s", host, code, e)
		}
		if _, e, code := l.Run("exec", "-l", l.Name, "--kernel-rdma", host, "--", "env", "-i", program); code != 127 {
			t.Errorf("%s with --kernel-rdma: exit code %d, %s", host, code, e)
		}
	}
	if after, err := os.ReadFile("/etc/ld.so.cache"); err != nil || string(after) != string(before) {
		t.Errorf("the machine's own cache has changed, %v", err)
	}
}

// TestUCX_ChoosesTheNICByItself: without any setting UCX uses the NIC between hosts, and the
// link can carry what it measures.
func TestUCX_ChoosesTheNICByItself(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaSlow, "ucx_perftest")
	before := l.Ports()["s1:1"].TxBytes
	_, said := l.RunRDMA([]string{"ucx_perftest"}, []string{"ucx_perftest", "10.0.0.1", "-t", "tag_bw", "-s", "1000000", "-n", "50"})
	m := regexp.MustCompile(`Final: +50 .* ([0-9.]+) +[0-9.]+ +[0-9]+ +[0-9]+\n`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("the client says\n%s", said)
	}
	if rate, err := strconv.ParseFloat(m[1], 64); err != nil || rate > linkMBs {
		t.Errorf("%s MB/s over a link of %d", m[1], linkMBs)
	}
	if sent := l.Ports()["s1:1"].TxBytes - before; sent < 50*1000000 {
		t.Errorf("the fabric has carried %v of 50 MB", sent)
	}
}

// mpiRanks is how many ranks TestMPI_UsesRDMAAndSharedMemory has in each of the two hosts.
const mpiRanks = 2

// TestMPI_UsesRDMAAndSharedMemory: Open MPI starts its ranks in both hosts with ssh, as on any
// cluster. They use RDMA between the hosts and shared memory within one.
func TestMPI_UsesRDMAAndSharedMemory(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t, "mpirun", "mpicc", "ssh", "ssh-keygen", "gcc")
	testlab.NeedVerbs(t)
	sshd := "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		t.Skipf("SKIPPED: this test needs sshd: run scripts/test.sh, which installs it")
	}
	dir := sharedDir(t)
	program, key := filepath.Join(dir, "pairs"), filepath.Join(dir, "key")
	for _, argv := range [][]string{
		{"mpicc", "-Wall", "-Wextra", "-Werror", "-O2", "-o", program, "testdata/mpi/pairs.c"},
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	server, client := filepath.Join(dir, "sshd_config"), filepath.Join(dir, "ssh_config")
	for file, text := range map[string]string{
		server: fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n", key, key),
		client: fmt.Sprintf("Host *\n\tIdentityFile %s\n\tIdentitiesOnly yes\n\tStrictHostKeyChecking no\n\tUserKnownHostsFile /dev/null\n\tGlobalKnownHostsFile /dev/null\n\tLogLevel ERROR\n", key),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := testlab.New(t, weft, t.TempDir(), rdmaSlow)
	l.Must("up", "-d", l.File)
	for _, h := range []string{"h1", "h2"} {
		l.Exec(h, "mkdir", "-p", "/run/sshd") // Debian's sshd needs it for privilege separation
		l.StartServer(h, sshd, "-D", "-e", "-f", server)
		l.WaitListening(h, "22")
	}
	if out := l.Exec("h1", "ssh", "-F", client, "h2", "hostname; ibv_devices"); !strings.HasPrefix(out, "h2\n") || !strings.Contains(out, "roce0") {
		t.Fatalf("ssh to h2 says\n%s", out)
	}

	rdma := counts(l, "h1", "h2")
	out, e, code := l.Run("exec", "-l", l.Name, "h1", "--", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(2*mpiRanks),
		"--host", fmt.Sprintf("h1:%d,h2:%d", mpiRanks, mpiRanks), "--mca", "plm_rsh_args", "-F "+client, "--mca", "pml", "ucx", "--mca", "mpi_yield_when_idle", "1",
		"-x", "UCX_LOG_LEVEL=info", program)
	if code != 0 {
		t.Fatalf("mpirun: exit code %d\n%s%s", code, out, e)
	}
	pairs := regexp.MustCompile(`(?m)^pair (\d) (\S+) (\d) (\S+) ([0-9.]+)$`).FindAllStringSubmatch(out, -1)
	between := 0
	for _, p := range pairs {
		rate, err := strconv.ParseFloat(p[5], 64)
		if err != nil {
			t.Fatal(err)
		}
		if p[2] == p[4] {
			continue
		}
		between++
		if rate > linkMBs {
			t.Errorf("%.1f MB/s between hosts, over a link of %d", rate, linkMBs)
		}
	}
	if len(pairs) != 6 || between != 4 {
		t.Errorf("of 6 pairs of ranks, 4 of them between hosts, there are %d and %d:\n%s", len(pairs), between, out)
	}
	// 4 pairs of ranks send 6 messages of 1 MB each from h1 to h2, and some smaller ones.
	if got := rdma("received_payload"); got < 4*6e6 {
		t.Errorf("the NICs have carried %d bytes, want 24 MB and more", got)
	}
	for what, want := range map[string]string{"within a host": `tag\((sysv|posix)/memory`, "between hosts": `tag\((rc|ud)_verbs/roce0:1`} {
		if !regexp.MustCompile(want).MatchString(out + e) {
			t.Errorf("%s UCX does not take %s:\n%s%s", what, want, out, e)
		}
	}
}

// sharedDir returns a directory that hosts see although they have their own /tmp.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "weft-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
