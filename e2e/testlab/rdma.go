package testlab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/internal/await"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// StartRDMA is Start for programs that use the NICs.
func StartRDMA(t *testing.T, text string, programs ...string) *Lab {
	t.Helper()
	Need(t, append(programs, "gcc")...)
	NeedVerbs(t)
	return Start(t, text, programs...)
}

// NIC returns the NIC of a host that has one.
func (l *Lab) NIC(host string) status.NIC {
	l.T.Helper()
	list := l.NICs(host)
	if len(list) != 1 {
		l.T.Fatalf("%s: %d NICs", host, len(list))
	}
	return list[0]
}

// NICs returns the NICs of a host.
func (l *Lab) NICs(host string) []status.NIC {
	l.T.Helper()
	api := func(ctx context.Context) ([]status.NIC, error) { return l.Client().NICs(ctx, host) }
	return askLab(l, api, "nic", "-l", l.Name, "--json", host)
}

// NICFile reads a file of a host's NIC.
func (l *Lab) NICFile(host, file string) string {
	l.T.Helper()
	return strings.TrimSuffix(l.Exec(host, "cat", "/sys/class/infiniband/roce0/"+file), "\n")
}

// ListensRDMA reports whether a program in a host listens on a port with rdma_cm.
func (l *Lab) ListensRDMA(host, port string) bool {
	l.T.Helper()
	return slices.ContainsFunc(l.NICs(host), func(n status.NIC) bool {
		return slices.ContainsFunc(n.Listeners, func(x status.Listener) bool { return strconv.Itoa(int(x.Port)) == port })
	})
}

// ListensTCP reports whether a program in a host listens on a TCP port.
func (l *Lab) ListensTCP(host, port string) bool {
	l.T.Helper()
	if l.As != nil || l.isMachine(host) { // its network namespace has no name here, or is not its own
		return strings.Contains(l.Exec(host, "ss", "-Hltn", "sport", "=", ":"+port), "LISTEN")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		l.T.Fatal(err)
	}
	return netnslab.IsListening(SocketIn(l, host, func() (string, error) {
		v4, err := os.ReadFile("/proc/thread-self/net/tcp")
		v6, _ := os.ReadFile("/proc/thread-self/net/tcp6") // absent without IPv6
		return string(v4) + string(v6), err
	}), uint16(n))
}

// isMachine reports whether a host is a virtual machine.
func (l *Lab) isMachine(host string) bool {
	l.T.Helper()
	return slices.ContainsFunc(l.Status().Hosts, func(h lab.Host) bool { return h.Name == host && h.VM != nil })
}

// serverPorts are the ports on which programs that serve listen, unless their -p gives another.
var serverPorts = map[string]string{
	"rping": "7174", "ucmatose": "7471", "udaddy": "7174", "rdma_server": "7471", "rdma_xserver": "7471",
	"rstream": "7471", "riostream": "7471", "rcopy": "7427",
	"ucx_perftest": "13337", "fi_pingpong": "47592", "peer": "18600",
}

// serverProgram finds the program in a command, which may begin with env(1), and the port on
// which it listens.
func serverProgram(argv []string) (at int, port string) {
	for i, word := range argv {
		name := filepath.Base(word)
		port, ok := serverPorts[name]
		if perftest := strings.HasPrefix(name, "ib_") || strings.HasPrefix(name, "ibv_"); perftest {
			port, ok = "18515", true
		}
		if !ok {
			continue
		}
		if p := slices.Index(argv[i:], "-p"); p > 0 {
			if _, err := strconv.Atoi(argv[i+p+1]); err == nil { // fi_pingpong gives its provider there
				port = argv[i+p+1]
			}
		}
		return i, port
	}
	return 0, ""
}

// StartServing starts a server, and waits until it listens for connections, with rdma_cm or TCP.
func (l *Lab) StartServing(host string, argv ...string) *Program {
	l.T.Helper()
	s := l.NewProgram(host, argv...)
	s.Serve(l)
	return s
}

// Serve is StartServing for a program that is not started yet.
func (s *Program) Serve(l *Lab) {
	l.T.Helper()
	_, port := serverProgram(s.argv)
	if port == "" {
		l.T.Fatalf("it is not known where %s listens", s.argv[0])
	}
	listens := func() bool { return l.ListensRDMA(s.host, port) || l.ListensTCP(s.host, port) }
	// A server before it has ended, but its listener may still be there.
	l.WaitFor("nothing listens on port "+port+" of "+s.host, func() bool { return !listens() })
	s.Begin(l)
	s.WaitFor(l, "it listens on port "+port, listens)
}

// RunRDMA runs a server in h1 and its client in h2, which both have to succeed, and returns
// what they print.
func (l *Lab) RunRDMA(server, client []string) (served, said string) {
	l.T.Helper()
	return l.RunRDMABetween("h1", "h2", server, client)
}

// RunRDMABetween is like RunRDMA, in other hosts.
func (l *Lab) RunRDMABetween(at, from string, server, client []string) (served, said string) {
	l.T.Helper()
	s := l.StartServing(at, server...)
	if connectsTwice(client) {
		said = l.runThroughGate(at, from, client, s)
	} else if out, code := l.TryRDMA(from, client...); code != 0 {
		l.T.Fatalf("%s: exit code %d\n%s\nserver:\n%s", strings.Join(client, " "), code, Tail(out), Tail(s.KillAndRead()))
	} else {
		said = out
	}
	if err := s.WaitEnd(l.T); err != nil {
		l.T.Fatalf("%s: %v\n%s\nclient:\n%s", strings.Join(server, " "), err, Tail(s.Out.String()), Tail(said))
	}
	return s.Out.String(), said
}

// TryRDMA runs a client once.
func (l *Lab) TryRDMA(host string, argv ...string) (said string, code int) {
	l.T.Helper()
	o, e, code := l.Run(l.rdmaCommand(host, argv)...)
	return o + e, code
}

// rdmaCommand returns the command that runs a program in a host. Before its report, perftest
// measures the frequency of its processor, which fails on a busy machine; with -F it continues.
func (l *Lab) rdmaCommand(host string, argv []string) []string {
	c := []string{"exec", "-l", l.Name, host, "--"}
	if at, _ := serverProgram(argv); strings.HasPrefix(argv[at], "ib_") {
		return append(append(append(c, argv[:at+1]...), "-F"), argv[at+1:]...)
	}
	return append(c, argv...)
}

// Tail returns the end of what a program said: rping -V prints all its data.
func Tail(said string) string {
	const maxLength = 2000 // bytes
	if len(said) <= maxLength {
		return said
	}
	return "... " + said[len(said)-maxLength:]
}

// Program is a program that runs beside the test.
type Program struct {
	*exec.Cmd
	Out  Output // of both its streams
	Done chan struct{}
	Err  error // valid once it has ended

	host string
	argv []string
}

// Output is what a program has printed so far. A program whose output is no terminal may keep
// it for a while; stdbuf(1) makes it print each line at once.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String returns the output.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// StartProgram starts a program, which is killed at the end of the test.
func (l *Lab) StartProgram(host string, argv ...string) *Program {
	l.T.Helper()
	s := l.NewProgram(host, argv...)
	s.Begin(l)
	return s
}

// NewProgram returns a program that is not started yet, so that it can be given an input.
func (l *Lab) NewProgram(host string, argv ...string) *Program {
	s := &Program{Cmd: l.Command(l.rdmaCommand(host, argv)...), Done: make(chan struct{}), host: host, argv: argv}
	s.Stdout, s.Stderr = &s.Out, &s.Out
	return s
}

// Begin starts the program.
func (s *Program) Begin(l *Lab) {
	l.T.Helper()
	if err := s.Start(); err != nil {
		l.T.Fatal(err)
	}
	go func() { s.Err = s.Wait(); close(s.Done) }()
	l.T.Cleanup(func() { _ = s.Process.Kill(); <-s.Done })
}

// Launch starts a command beside the test, which kills it at its end. What the command prints is
// in Out, unless it goes elsewhere already.
func Launch(t *testing.T, c *exec.Cmd) *Program {
	t.Helper()
	s := &Program{Cmd: c, Done: make(chan struct{})}
	if c.Stdout == nil {
		c.Stdout = &s.Out
	}
	if c.Stderr == nil {
		c.Stderr = &s.Out
	}
	s.Begin(&Lab{T: t})
	return s
}

// WaitFor waits for a condition that the program brings about. It fails the test if the program
// ends before.
func (s *Program) WaitFor(l *Lab, what string, is func() bool) {
	l.T.Helper()
	s.Await(l.T, what, is)
}

// Await is WaitFor for a program that needs no lab.
func (s *Program) Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	await.True(t, strings.Join(s.Args, " ")+": "+what, func() bool {
		t.Helper()
		ended := s.Exited() // before the last look at the condition
		if is() {
			return true
		}
		if ended {
			t.Fatalf("%s has ended before %s: %v\n%s", strings.Join(s.Args, " "), what, s.Err, Tail(s.Out.String()))
		}
		return false
	})
}

// Exited reports whether the program has ended.
func (s *Program) Exited() bool {
	select {
	case <-s.Done:
		return true
	default:
		return false
	}
}

// KillAndRead ends a program and returns its output.
func (s *Program) KillAndRead() string {
	_ = s.Process.Kill()
	<-s.Done
	return s.Out.String()
}

// GaveUp matches what programs print for IBV_WC_RETRY_EXC_ERR.
var GaveUp = regexp.MustCompile(`Failed status 12|transport retry counter exceeded`)

// CheckGivesUp waits until a program has ended because its peer does not answer.
func (s *Program) CheckGivesUp(t *testing.T) {
	t.Helper()
	if err := s.WaitEnd(t); err == nil {
		t.Errorf("%v has ended well", s.Args)
	}
	if !GaveUp.MatchString(s.Out.String()) {
		t.Errorf("%v does not say that its retries are used up:\n%s", s.Args, &s.Out)
	}
}
