package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
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

// TestEnvironmentIsNotNeeded: programs without their environment, such as those
// started by sshd, cron and sudo, find the NIC.
func TestEnvironmentIsNotNeeded(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaSlow, "ibv_devinfo", "rping")
	for _, argv := range [][]string{{"env", "-i", "ibv_devinfo"}, {"ibv_devinfo"}, {"env", "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu", "ibv_devinfo"}} {
		if out := l.exec("h1", argv...); !strings.Contains(out, "hca_id:\troce0") {
			t.Errorf("%v:\n%s", argv, out)
		}
	}
	for _, name := range []string{"WEFT_VERBS_SOCKET", "LD_LIBRARY_PATH"} {
		if _, set := os.LookupEnv(name); !set {
			if out, _, _ := l.run("exec", "-l", l.name, "h1", "--", "printenv", name); out != "" {
				t.Errorf("weft exec sets %s to %q", name, out)
			}
		}
	}
	l.rdma([]string{"env", "-i", "rping", "-s", "-C", "5"}, []string{"env", "-i", "rping", "-c", "-a", "10.0.0.1", "-C", "5"})
	// The machine's own libraries are unchanged.
	if out, _ := exec.Command("ibv_devices").CombinedOutput(); strings.Contains(string(out), "roce0") {
		t.Errorf("the machine itself has the NIC:\n%s", out)
	}
}

// TestLibrariesThatTheSystemLacks: they are found through the linker cache of the host.
func TestLibrariesThatTheSystemLacks(t *testing.T) {
	weft := needReal(t, "gcc")
	needVerbs(t)
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
	t.Setenv("WEFT_VERBS", dir)
	l := newLab(t, weft, t.TempDir(), rdmaPair)
	l.must("up", "-d", l.file)
	for _, host := range []string{"h1", "h2"} {
		if _, e, code := l.run("exec", "-l", l.name, host, "--", "env", "-i", program); code != 42 {
			t.Errorf("%s: exit code %d, %s", host, code, e)
		}
		if _, e, code := l.run("exec", "-l", l.name, "--kernel-rdma", host, "--", "env", "-i", program); code != 127 {
			t.Errorf("%s with --kernel-rdma: exit code %d, %s", host, code, e)
		}
	}
	if after, err := os.ReadFile("/etc/ld.so.cache"); err != nil || string(after) != string(before) {
		t.Errorf("the machine's own cache has changed, %v", err)
	}
}

// TestUCXChoosesByItself: without any setting UCX uses the NIC between hosts, and the
// link can carry what it measures.
func TestUCXChoosesByItself(t *testing.T) {
	t.Parallel()
	l := startRDMA(t, rdmaSlow, "ucx_perftest")
	before := l.ports()["s1:1"].TxBytes
	_, said := l.served("13337", []string{"ucx_perftest"}, []string{"ucx_perftest", "10.0.0.1", "-t", "tag_bw", "-s", "1000000", "-n", "50", "-w", "5"})
	m := regexp.MustCompile(`Final: +50 .* ([0-9.]+) +[0-9.]+ +[0-9]+ +[0-9]+\n`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("the client says\n%s", said)
	}
	if rate, err := strconv.ParseFloat(m[1], 64); err != nil || rate > linkMBs {
		t.Errorf("%s MB/s over a link of %d", m[1], linkMBs)
	}
	if sent := l.ports()["s1:1"].TxBytes - before; sent < 55*1000000 {
		t.Errorf("the fabric has carried %v of 55 MB", sent)
	}
}

// mpiRanks is how many ranks TestMPIOverSSH has in each of the two hosts.
const mpiRanks = 2

// TestMPIOverSSH: Open MPI starts its ranks in both hosts with ssh, as on any
// cluster. They use RDMA between the hosts and shared memory within one.
func TestMPIOverSSH(t *testing.T) {
	t.Parallel()
	weft := needReal(t, "mpirun", "mpicc", "ssh", "ssh-keygen", "gcc")
	needVerbs(t)
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
	l := newLab(t, weft, t.TempDir(), rdmaSlow)
	l.must("up", "-d", l.file)
	for _, h := range []string{"h1", "h2"} {
		l.exec(h, "mkdir", "-p", "/run/sshd") // Debian's sshd needs it for privilege separation
		l.server(h, sshd, "-D", "-e", "-f", server)
		l.listens(h, "22")
	}
	if out := l.exec("h1", "ssh", "-F", client, "h2", "hostname; ibv_devices"); !strings.HasPrefix(out, "h2\n") || !strings.Contains(out, "roce0") {
		t.Fatalf("ssh to h2 says\n%s", out)
	}

	rdma := l.counts("h1", "h2")
	out, e, code := l.run("exec", "-l", l.name, "h1", "--", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", fmt.Sprint(2*mpiRanks),
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
	// 4 pairs of ranks send 21 messages of 1 MB each from h1 to h2, and some smaller ones.
	if got := rdma("received_payload"); got < 4*21e6 {
		t.Errorf("the NICs have carried %d bytes, want 84 MB and more", got)
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

// TestHostsOfAUser: a rootless lab isolates its hosts to the same degree.
func TestHostsOfAUser(t *testing.T) {
	l := userLab(t, pair+"  kinds: {host: {private: /tmp}}\n", "ps", "pkill", "ipcmk")
	l.must("up", "-d", l.file)
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	l.exec("h1", "hostname", "elsewhere")
	if a, b := l.exec("h1", "hostname"), l.exec("h2", "hostname"); a != "elsewhere\n" || b != "h2\n" {
		t.Errorf("the hosts are called %q and %q", a, b)
	}
	if now, err := os.Hostname(); err != nil || now != before {
		t.Errorf("the machine is called %q now, %v", now, err)
	}
	l.exec("h1", "touch", "/dev/shm/a", "/tmp/a")
	l.exec("h1", "ipcmk", "-M", "4096")
	if out := l.exec("h2", "sh", "-c", "ls /dev/shm /tmp; ipcs -m | grep -c ' 4096 ' || true"); out != "/dev/shm:\n\n/tmp:\n0\n" {
		t.Errorf("h2 sees of h1's memory and files\n%s", out)
	}
	one, two := l.server("h1", "sleep", "1000"), l.server("h2", "sleep", "1000")
	for _, h := range []string{"h1", "h2"} {
		for start := time.Now(); !strings.Contains(l.exec(h, "ps", "-eo", "args"), "\nsleep 1000\n"); time.Sleep(20 * time.Millisecond) {
			if time.Since(start) > 30*time.Second {
				t.Fatalf("sleep does not start in %s", h)
			}
		}
	}
	if out := l.exec("h1", "ps", "-eo", "args"); strings.Count(out, "sleep 1000") != 1 || strings.Count(out, "\n") != 4 {
		t.Errorf("h1 has the processes\n%s", out)
	}
	l.exec("h1", "pkill", "sleep")
	_ = one.Wait()
	if out := l.exec("h2", "ps", "-eo", "args"); !strings.Contains(out, "sleep 1000") {
		t.Errorf("pkill in h1 reached h2:\n%s", out)
	}
	l.down()
	_ = two.Wait()
	if left := l.leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
