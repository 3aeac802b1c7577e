package testlab

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/emu/fabric"
)

// KillAndRead ends a program and returns its output.
func (s *Program) KillAndRead() string {
	_ = s.Process.Kill()
	<-s.Done
	return s.Out.String()
}

// RunWithServer runs a server in h1 and, as soon as it listens on a TCP port, its client in
// h2, until both succeed, and returns what they print.
func (l *Lab) RunWithServer(port string, server, client []string) (served, said string) {
	l.T.Helper()
	s := l.StartProgram("h1", server...)
	l.WaitListening("h1", port)
	out, e, code := l.Run(append([]string{"exec", "-l", l.Name, "h2", "--"}, client...)...)
	said = out + e
	if err := s.WaitEnd(l.T); err != nil || code != 0 {
		l.T.Fatalf("%s: exit code %d\n%s\nserver: %v\n%s", strings.Join(client, " "), code, said, err, s.Out.String())
	}
	return s.Out.String(), said
}

// NIC returns the NIC of a host.
func (l *Lab) NIC(host string) fabric.NICStatus {
	l.T.Helper()
	var list []fabric.NICStatus
	if err := json.Unmarshal([]byte(l.Must("nic", "-l", l.Name, "--json", host)), &list); err != nil || len(list) != 1 {
		l.T.Fatalf("%s: %v, %d NICs", host, err, len(list))
	}
	return list[0]
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

// NICFile reads a file of a host's NIC.
func (l *Lab) NICFile(host, file string) string {
	l.T.Helper()
	return strings.TrimSuffix(l.Exec(host, "cat", "/sys/class/infiniband/roce0/"+file), "\n")
}

// StartRDMA is startLab for programs that use the NICs.
func StartRDMA(t *testing.T, text string, programs ...string) *Lab {
	t.Helper()
	Need(t, append(programs, "gcc")...)
	NeedVerbs(t)
	return Start(t, text, programs...)
}

// Program is a program that runs beside the test.
type Program struct {
	*exec.Cmd
	Out  bytes.Buffer // valid once it has ended
	Done chan struct{}
	Err  error // valid once it has ended
}

// rdmaCommand returns the command that runs a program in a host. Before its report,
// perftest measures the frequency of its processor, which fails on a busy machine;
// with -F it continues.
func (l *Lab) rdmaCommand(host string, argv []string) []string {
	c := []string{"exec", "-l", l.Name, host, "--", argv[0]}
	if strings.HasPrefix(argv[0], "ib_") {
		c = append(c, "-F")
	}
	return append(c, argv[1:]...)
}

// StartProgram starts a program, such as a server for a client.
func (l *Lab) StartProgram(host string, argv ...string) *Program {
	l.T.Helper()
	s := &Program{Cmd: l.Command(l.rdmaCommand(host, argv)...), Done: make(chan struct{})}
	s.Stdout, s.Stderr = &s.Out, &s.Out
	if err := s.Start(); err != nil {
		l.T.Fatal(err)
	}
	go func() { s.Err = s.Wait(); close(s.Done) }()
	l.T.Cleanup(func() { _ = s.Process.Kill(); <-s.Done })
	return s
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

// RunRDMA runs a server in h1 and its client in h2 until both succeed, and returns
// what they print.
func (l *Lab) RunRDMA(server, client []string) (served, said string) {
	l.T.Helper()
	return l.RunRDMABetween("h1", "h2", server, client)
}

// RunRDMABetween is like rdma, in other hosts. A client that finds no listening server
// is tried again with a fresh server, because some servers count clients that were
// refused in part.
func (l *Lab) RunRDMABetween(at, from string, server, client []string) (served, said string) {
	l.T.Helper()
	for try := 0; ; try++ {
		s := l.StartProgram(at, server...)
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
		said, code := l.TryRDMA(from, client...)
		if code != 0 {
			_ = s.Process.Kill()
			<-s.Done
			if try < 20 && TooEarly.MatchString(said) {
				continue
			}
			l.T.Fatalf("%s: exit code %d\n%s\nserver:\n%s", strings.Join(client, " "), code, Tail(said), Tail(s.Out.String()))
		}
		if err := s.WaitEnd(l.T); err != nil {
			l.T.Fatalf("%s: %v\n%s\nclient:\n%s", strings.Join(server, " "), err, Tail(s.Out.String()), Tail(said))
		}
		return s.Out.String(), said
	}
}

// Tail returns the end of what a program said: rping -V prints all its data.
func Tail(said string) string {
	const most = 2000 // bytes
	if len(said) <= most {
		return said
	}
	return "... " + said[len(said)-most:]
}

// TooEarly matches what clients print if no server listens yet.
var TooEarly = regexp.MustCompile(`RDMA_CM_EVENT_REJECTED|RDMA_CM_EVENT_UNREACHABLE|Connection refused|Unexpected CM event|Couldn't connect to`)

// TryRDMA runs a client once.
func (l *Lab) TryRDMA(host string, argv ...string) (said string, code int) {
	l.T.Helper()
	o, e, code := l.Run(l.rdmaCommand(host, argv)...)
	return o + e, code
}
