package netnslab

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
)

// program starts a program in a host that runs until the test ends, and waits until it
// is running.
func program(t *testing.T, l *Lab, host string, argv ...string) *exec.Cmd {
	t.Helper()
	c := helper("exec", append([]string{l.Info().Name, host}, argv...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	await.True(t, argv[0]+" in "+host, func() bool {
		return slices.Contains(slices.Collect(maps.Values(commandsIn(t, l, host))), strings.Join(argv, " "))
	})
	return c
}

func TestHost_HasItsOwnName(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	before, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const commands = "hostname; uname -n; cat /etc/hostname /proc/sys/kernel/hostname; hostname -i | tr ' ' '\\n' | tail -n 1"
	if got, want := inside(t, l, "h1", "sh", "-c", commands), "h1\nh1\nh1\nh1\n10.0.0.1\n"; got != want {
		t.Errorf("%s says %q, want %q", commands, got, want)
	}
	inside(t, l, "h1", "hostname", "elsewhere")
	if got := inside(t, l, "h1", "hostname"); got != "elsewhere\n" {
		t.Errorf("h1 has forgotten its new name: %q", got)
	}
	if got := inside(t, l, "h2", "hostname"); got != "h2\n" {
		t.Errorf("h2 is called %q", got)
	}
	if now, err := os.Hostname(); err != nil || now != before {
		t.Errorf("the machine is called %q now, %v, and was %q", now, err, before)
	}
}

// These are the files by which programs tell machines apart, and resolv.conf.
func TestHost_HasItsOwnFiles(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	var files []string
	of := map[string][]string{} // the content of the files, by owner
	for _, f := range []string{"/proc/sys/kernel/random/boot_id", "/etc/machine-id"} {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Logf("the machine has no %s", f)
			continue
		}
		files, of["machine"] = append(files, f), append(of["machine"], strings.TrimSuffix(string(b), "\n"))
	}
	for _, h := range []string{"h1", "h2"} {
		text := inside(t, l, h, append([]string{"cat"}, files...)...)
		if again := inside(t, l, h, append([]string{"cat"}, files...)...); again != text {
			t.Errorf("%s has first %q, then %q", h, text, again)
		}
		of[h] = strings.Fields(text)
	}
	for i, f := range files {
		own := of["h1"][i]
		if !regexp.MustCompile(`^[0-9a-f-]{32,36}$`).MatchString(own) || own == of["h2"][i] || own == of["machine"][i] {
			t.Errorf("%s: %q", f, of)
		}
	}
	// An unknown name fails at once, because nobody else is asked for it: the host itself
	// refuses all questions.
	out, err := helper("exec", l.Info().Name, "h1", "getent", "hosts", "nobody.example").CombinedOutput()
	if err == nil {
		t.Errorf("nobody.example is %s", out)
	}
	f := strings.Fields(inNetwork(t, l, "h1", "grep", "Udp: [0-9]", "/proc/net/snmp"))
	if refused, sent := f[2], f[4]; refused != sent {
		t.Errorf("to look up a name %s datagrams were sent, and %s refused", sent, refused)
	}
}

// The user's files in /etc/netns take precedence over ours.
func TestHost_PrefersUsersFilesInEtc(t *testing.T) {
	t.Parallel()
	name := labName(t)
	dir := filepath.Join(etcDir(), NamespaceName(name, "h1"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver 10.0.0.9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := Create(name, Info{}, hostsN(2))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := inside(t, l, "h1", "cat", "/etc/resolv.conf"); got != "nameserver 10.0.0.9\n" {
		t.Errorf("resolv.conf of h1: %q", got)
	}
	if got := inside(t, l, "h2", "cat", "/etc/resolv.conf"); strings.Contains(got, "\nnameserver") {
		t.Errorf("resolv.conf of h2: %q", got)
	}
}

// Neither POSIX nor System V shared memory is shared with other hosts.
func TestHost_HasItsOwnMemory(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	mark := fmt.Sprintf("/dev/shm/weft-test-%d", os.Getpid())
	inside(t, l, "h1", "touch", mark)
	if got := inside(t, l, "h1", "sh", "-c", "ls /dev/shm; stat -c %a /dev/shm"); got != filepath.Base(mark)+"\n1777\n" {
		t.Errorf("/dev/shm of h1 has %q", got)
	}
	if got := inside(t, l, "h2", "ls", "/dev/shm"); got != "" {
		t.Errorf("/dev/shm of h2 has %q", got)
	}
	if _, err := os.Stat(mark); err == nil {
		os.Remove(mark)
		t.Error("the machine has it too")
	}
	made := inside(t, l, "h1", "ipcmk", "-M", "4096")
	_, id, _ := strings.Cut(strings.TrimSpace(made), ": ")
	if got := inside(t, l, "h1", "ipcs", "-m"); !regexp.MustCompile(`(?m)^0x\S+ +` + regexp.QuoteMeta(id) + ` +`).MatchString(got) {
		t.Errorf("%s in h1:\n%s", made, got)
	}
	if got := inside(t, l, "h2", "ipcs", "-m"); strings.Contains(got, " 4096 ") {
		t.Errorf("in h2:\n%s", got)
	}
}

// ps and pkill see and reach no others, and PID 1 cannot be killed from inside.
func TestHost_HasItsOwnProcesses(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	one, two := program(t, l, "h1", "sleep", "1001"), program(t, l, "h2", "sleep", "1001")
	out := inside(t, l, "h1", "ps", "-eo", "pid,args")
	if n := strings.Count(out, "\n"); n != 4 || strings.Count(out, "sleep 1001") != 1 || !regexp.MustCompile(`(?m)^ +1 weft-init$`).MatchString(out) {
		t.Errorf("ps in h1 shows %d lines:\n%s", n, out)
	}
	inside(t, l, "h1", "sh", "-c", "kill -9 1; kill -TERM 1; kill -HUP 1; true")
	inside(t, l, "h1", "pkill", "-KILL", "sleep")
	if err := one.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("sleep of h1 ended with %v", err)
	}
	if out := inside(t, l, "h2", "ps", "-eo", "args"); !strings.Contains(out, "sleep 1001") {
		t.Errorf("pkill in h1 reached h2:\n%s", out)
	}
	// Orphans are reaped.
	inside(t, l, "h1", "sh", "-c", "for i in 1 2 3; do (sleep 0.05 &) ; done")
	await.True(t, "the end of the orphans", func() bool {
		return strings.Count(inside(t, l, "h1", "ps", "-eo", "args"), "\n") == 3
	})
	_ = two.Process.Kill()
}

// peek reads a byte of the memory of process args[0] at address args[1].
func peek(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	at, err := strconv.ParseUint(args[1], 0, 64)
	if err != nil {
		return err
	}
	var b [1]byte
	local := []unix.Iovec{{Base: &b[0], Len: 1}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: 1}}, 0)
	if err == nil {
		fmt.Println(n)
	}
	return err
}

// process_vm_readv reaches only processes of the same host, except from the machine.
func TestHost_CannotReadTheMemoryOfOthers(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	program(t, l, "h1", "sleep", "1002")
	pidInside := strings.TrimSpace(inside(t, l, "h1", "pgrep", "-x", "sleep"))
	maps, _, _ := strings.Cut(inside(t, l, "h1", "cat", "/proc/"+pidInside+"/maps"), "-")
	at := "0x" + maps
	peekFrom := func(host, pid string) string {
		c := helper("exec", l.Info().Name, host, "env", helperEnv+"=peek", ownPath(), pid, at)
		out, _ := c.CombinedOutput()
		return strings.TrimSpace(string(out))
	}
	pidOutside := ""
	for pid := range commandsIn(t, l, "h1") { // sleep is the only one
		pidOutside = strconv.Itoa(pid)
	}
	own := exec.Command(ownPath(), pidOutside, at)
	own.Env = append(os.Environ(), helperEnv+"=peek")
	if out, err := own.CombinedOutput(); err != nil || string(out) != "1\n" {
		t.Errorf("from the machine: %v, %s", err, out)
	}
	if got := peekFrom("h1", pidInside); got != "1" {
		t.Errorf("in its own host: %s", got)
	}
	if got := peekFrom("h2", pidOutside); got != syscall.ESRCH.Error() {
		t.Errorf("from another host: %s", got)
	}
}

// Private directories are empty, and disappear with the host.
func TestHost_HasPrivateDirectories(t *testing.T) {
	t.Parallel()
	hosts := hostsN(2)
	hosts[0].Private = []string{"/tmp", "/run"}
	l := makeLab(t, hosts...)
	mark := fmt.Sprintf("/tmp/weft-test-%d", os.Getpid())
	if got := inside(t, l, "h1", "sh", "-c", "ls -A /tmp /run; stat -c %a /tmp; touch "+mark+" /run/lock; ip netns"); got != "/run:\nnetns\n\n/tmp:\n1777\n"+NamespaceName(l.Info().Name, "h1")+"\n" {
		t.Errorf("h1 says %q", got)
	}
	if got := inside(t, l, "h1", "ls", "/tmp"); got != filepath.Base(mark)+"\n" {
		t.Errorf("/tmp of h1 has %q", got)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the machine sees it")
	}
	for _, dir := range []string{"/no/such/directory", "relative", "/dev/shm", "/"} {
		if _, err := Create(labName(t), Info{}, []Host{{Name: "x", Private: []string{dir}}}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("a private %s: %v", dir, err)
		}
	}
}

// Even of those that have left its network, their session or their parent.
func TestClose_EndsAllProcesses(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(1)...)
	mark := fmt.Sprintf("%d.5", 100000+os.Getpid())
	inside(t, l, "h1", "sh", "-c", "(setsid unshare --net sleep "+mark+" >/dev/null 2>&1 &) ; (setsid sleep "+mark+" >/dev/null 2>&1 &)")
	running := func() (n int) {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range lines {
			if b, _ := os.ReadFile(f); bytes.HasPrefix(b, []byte("sleep\x00"+mark)) {
				n++
			}
		}
		return n
	}
	await.True(t, "two processes", func() bool { return running() == 2 })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := running(); n != 0 {
		t.Errorf("%d processes outlive their host", n)
	}
}

// Entering a killed host fails with an error that says so.
func TestExec_SaysThatAHostWasKilled(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	sleep := program(t, l, "h1", "sleep", "1003")
	stop, ended, over := make(chan struct{}), make(chan string, 2), make(chan error)
	go func() { over <- l.WatchHosts(stop, func(host string) { ended <- host }) }()
	h, _ := l.Info().Host("h1")
	if err := syscall.Kill(h.Init, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := sleep.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("its program ended with %v", err)
	}
	if _, err := ExecProgram(l.Info().Name, "h1", Program{Argv: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "host h1 has ended") {
		t.Errorf("Exec: %v", err)
	}
	if host := <-ended; host != "h1" {
		t.Errorf("%s is said to have ended", host)
	}
	inside(t, l, "h2", "true")
	close(stop)
	if err := <-over; err != nil || len(ended) > 0 {
		t.Errorf("Watch: %v, and %d more hosts", err, len(ended))
	}
}

// weft inside a host cannot enter another.
func TestHosts_CannotEnterEachOther(t *testing.T) {
	t.Parallel()
	l := makeLab(t, hostsN(2)...)
	out, err := helper("exec", l.Info().Name, "h1", "env", helperEnv+"=exec", ownPath(), l.Info().Name, "h2", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "inside a host") {
		t.Errorf("%v, %s", err, out)
	}
}

// Even if the lab is never removed.
func TestInits_EndWithTheirOwner(t *testing.T) {
	t.Parallel()
	name := labName(t)
	owner := startOwner(t, name, "a", "b")
	info, err := FindLab(name)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, owner)
	for _, h := range info.Hosts {
		await.True(t, "the end of "+h.Name, func() bool {
			f, err := os.Open(fmt.Sprintf("/proc/%d/stat", h.Init))
			if errors.Is(err, os.ErrNotExist) {
				return true
			}
			defer f.Close()
			line, _ := bufio.NewReader(f).ReadString('\n')
			return strings.Contains(line, ") Z ") || !strings.Contains(line, "(cat)") && !strings.Contains(line, "(exe)")
		})
	}
	if err := SweepLab(name); err != nil {
		t.Error(err)
	}
}
