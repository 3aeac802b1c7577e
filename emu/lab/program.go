package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/vm/agent"
)

// Programs is what a lab needs to run the commands that its file gives hosts (exec),
// and those of Start.
type Programs struct {
	// Enter returns a command that becomes a program inside a host of the lab, as
	// weft exec does. A dilated program sees the lab's clock. Enter is not used for
	// virtual machines.
	Enter func(host string, argv []string, dilated bool) *exec.Cmd
	// Output is called with each line of output of a host's programs. Calls may be concurrent.
	Output func(host, line string)
}

// RunPrograms makes Run start the file's commands. It is called before Run. Without it
// a lab whose file has commands does not come up.
func (l *Lab) RunPrograms(p Programs) { l.programs = p }

// program is a command that runs in a host, from the file or from Start.
type program struct {
	lab     *Lab
	host    string
	spec    *plan.Program
	dilated bool
	output  *lines
	out     io.Writer           // also gets its standard output; may be nil
	signals chan syscall.Signal // to send to it
	quiet   chan struct{}       // closed when its output has ended
	over    chan struct{}       // closed when it has ended
	end     ending              // valid once over is closed
}

// ending is how a program ended.
type ending struct {
	code   int    // exit code, -1 if it has none
	reason string // such as "exit code 1"
	lost   bool   // ended with its virtual machine, which is reported separately
}

// readyEvery is the interval at which a host is asked whether a program is ready.
const (
	readyEvery      = 50 * time.Millisecond
	readyEveryGuest = 250 * time.Millisecond
)

// startPrograms starts the commands of all hosts, those of one host one after the
// other, and returns when all commands with a ready condition are ready. Started
// commands keep running; any error ends the lab and the commands with it.
func (l *Lab) startPrograms(ctx context.Context, warn func(error)) error {
	var hosts errgroup.Group
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range l.plan.Nodes {
		n := &l.plan.Nodes[i]
		if len(n.Exec) == 0 {
			continue
		}
		hosts.Go(func() error {
			for k := range n.Exec {
				if err := l.startProgram(ctx, n, &n.Exec[k], warn); err != nil {
					cancel() // do not wait for the others
					return err
				}
			}
			return nil
		})
	}
	return hosts.Wait()
}

// startProgram starts a command and waits until it is ready.
func (l *Lab) startProgram(ctx context.Context, n *plan.Node, s *plan.Program, warn func(error)) error {
	fail := func(err error) error { return fmt.Errorf("%s:%d: %s: %w", l.plan.File, s.Line, n.Name, err) }
	p := l.newProgram(n.Name, s)
	if err := p.startProgram(n.VM != nil); err != nil {
		return fail(err)
	}
	if err := p.awaitReady(ctx); err != nil {
		return fail(err)
	}
	if s.Ready.Waits() {
		l.recordEvent(status.ProgramReady, n.Name, p.shortCommand())
	}
	if !s.Ready.Exit {
		go p.reportEarlyEnd(warn)
	}
	return nil
}

func (l *Lab) newProgram(host string, s *plan.Program) *program {
	p := &program{lab: l, host: host, spec: s, signals: make(chan syscall.Signal), quiet: make(chan struct{}), over: make(chan struct{})}
	p.output = &lines{say: func(line string) {
		if l.programs.Output != nil {
			l.programs.Output(host, line)
		}
	}}
	if s.Ready.Output != "" {
		p.output.await = regexp.MustCompile(s.Ready.Output)
	}
	return p
}

// startProgram starts the program.
func (p *program) startProgram(inGuest bool) error {
	start := p.startInHost
	if inGuest {
		start = p.startInGuest
	}
	if err := start(); err != nil {
		return fmt.Errorf("start %q: %w", p.shortCommand(), err)
	}
	return nil
}

// longestName limits the length of a command in messages.
const longestName = 60

// shortCommand returns the command, shortened for messages.
func (p *program) shortCommand() string {
	text, rest, several := strings.Cut(p.spec.Text, "\n")
	if runes := []rune(text); len(runes) > longestName {
		return string(runes[:longestName]) + "..."
	}
	if several && strings.TrimSpace(rest) != "" {
		return text + "..."
	}
	return text
}

// startInHost starts the program in a host's namespace.
func (p *program) startInHost() error {
	if p.lab.programs.Enter == nil {
		return errors.New("no way to start programs in hosts: see lab.RunPrograms")
	}
	// Files, not only writers: what a program leaves in the background may write more
	// output after the program itself has ended.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	out, outW := r, w
	if p.out != nil {
		if out, outW, err = os.Pipe(); err != nil {
			return errors.Join(err, r.Close(), w.Close())
		}
	}
	c := p.lab.programs.Enter(p.host, p.spec.Argv, p.dilated)
	c.Env = append(os.Environ(), p.spec.Env...)
	c.Dir = filepath.Dir(p.lab.plan.File) // the base of the file's other paths too
	c.Stdout, c.Stderr = outW, w
	// In its own process group: a terminal's Ctrl-C is for the lab, which ends the program.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Keep this thread until the program ends: the signal is sent when the
		// thread that started the program ends (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		err := c.Start()
		w.Close()
		outW.Close()
		started <- err
		if err == nil {
			p.recordEnd(endingOf(c.Wait(), c.ProcessState))
		}
	}()
	if err := <-started; err != nil {
		r.Close()
		out.Close()
		return err
	}
	go func() {
		for {
			select {
			case s := <-p.signals:
				_ = c.Process.Signal(s) // no error if it has ended
			case <-p.over:
				return
			}
		}
	}()
	var copies sync.WaitGroup
	listen := func(from *os.File, to io.Writer) {
		_, _ = io.Copy(to, from)
		from.Close()
	}
	copies.Go(func() { listen(r, p.output) })
	if p.out != nil {
		copies.Go(func() { listen(out, io.MultiWriter(p.out, p.output)) })
	}
	go func() {
		copies.Wait()
		p.output.flushLine()
		close(p.quiet)
	}()
	return nil
}

func endingOf(err error, s *os.ProcessState) ending {
	if s == nil {
		return ending{-1, err.Error(), false}
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return ending{-1, fmt.Sprintf("signal %v", w.Signal()), false}
	}
	return ending{s.ExitCode(), fmt.Sprintf("exit code %d", s.ExitCode()), false}
}

func (p *program) recordEnd(e ending) {
	p.end = e
	close(p.over)
}

// startInGuest starts the program in a virtual machine through its agent.
func (p *program) startInGuest() error {
	g := p.lab.guestNamed(p.host)
	select {
	case <-g.machine.Link().Ready():
	case <-g.machine.Over():
		return errors.New("the virtual machine has ended")
	case <-time.After(p.spec.Ready.Within):
		return errors.New("weft's agent does not answer in the virtual machine, so no program can be run there from outside (your own image must run the agent, see docs/lab/vm.md)")
	}
	out := io.Writer(p.output)
	if p.out != nil {
		out = io.MultiWriter(p.out, p.output)
	}
	go func() {
		r, err := agent.Run(g.openSession(), agent.Command{Argv: p.spec.Argv, Env: p.spec.Env, Stdout: out, Stderr: p.output, Signals: p.signals})
		p.output.flushLine()
		close(p.quiet)
		switch {
		case err != nil:
			p.recordEnd(ending{-1, err.Error(), true})
		case r.Error != "":
			p.recordEnd(ending{r.Code, r.Error, false})
		default:
			p.recordEnd(ending{r.Code, fmt.Sprintf("exit code %d", r.Code), false})
		}
	}()
	return nil
}

// openSession is a stream to the agent of a guest, for one program.
func (g *guest) openSession() io.ReadWriteCloser {
	ours, its := net.Pipe()
	go g.machine.Link().RelaySession(its)
	return ours
}

// awaitReady waits until the program is ready. The error says why it is not ready.
func (p *program) awaitReady(ctx context.Context) error {
	r := &p.spec.Ready
	if !r.Waits() {
		return nil
	}
	every := readyEvery
	if p.lab.guestNamed(p.host) != nil {
		every = readyEveryGuest
	}
	limit := time.NewTimer(r.Within)
	defer limit.Stop()
	asking, cancel := context.WithTimeout(ctx, r.Within) // an emulated guest may take seconds to answer
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	over, quiet := p.over, p.quiet
	for {
		if ok, err := p.isReady(asking); ok || err != nil && asking.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("ended while %q came up: %w", p.shortCommand(), context.Cause(ctx))
		case <-limit.C:
			return p.explainEnd(fmt.Sprintf("is not ready within %v: %s", r.Within, p.unmetCondition()))
		case <-over:
			if p.end.code != 0 {
				p.drainOutput()
				return p.explainEnd("ended before it was ready: " + p.end.reason)
			}
			over = nil // what it left in the background may still become ready
		case <-quiet:
			if ok, _ := p.isReady(asking); r.Output != "" && !ok {
				return p.explainEnd("closed its output and is not ready: " + p.unmetCondition())
			}
			quiet = nil
		case <-p.output.matchedSignal():
		case <-tick.C:
		}
	}
}

// drainOutput waits for the last output of a program that has ended, unless something
// in the background keeps the output open.
func (p *program) drainOutput() {
	select {
	case <-p.quiet:
	case <-time.After(200 * time.Millisecond):
	}
}

// unmetCondition describes the ready condition that has not been met.
func (p *program) unmetCondition() string {
	switch r := &p.spec.Ready; {
	case r.Port != 0:
		return fmt.Sprintf("nothing listens on TCP port %d", r.Port)
	case r.Output != "":
		return fmt.Sprintf("no line of its output matches %q", r.Output)
	case r.File != "":
		return fmt.Sprintf("there is no file %s", r.File)
	}
	return "it has not ended"
}

// explainEnd returns an error about the program with the end of its output.
func (p *program) explainEnd(what string) error {
	text := fmt.Sprintf("the command %q %s", p.shortCommand(), what)
	if tail := p.output.lastLines(); tail == "" {
		text += "; it printed nothing"
	} else {
		text += "; its output:\n" + tail
	}
	return errors.New(text)
}

// isReady reports whether the ready condition of the file is met.
func (p *program) isReady(ctx context.Context) (bool, error) {
	switch r := &p.spec.Ready; {
	case r.Port != 0:
		text, err := p.socketListing(ctx)
		return err == nil && netnslab.IsListening(text, r.Port), err
	case r.Output != "":
		return p.output.hasMatched(), nil
	case r.File != "":
		return p.seesFile(ctx, r.File)
	}
	select {
	case <-p.over:
		return p.end.code == 0, nil
	default:
		return false, nil
	}
}

// socketListing returns the host kernel's list of TCP sockets.
func (p *program) socketListing(ctx context.Context) (string, error) {
	if g := p.lab.guestNamed(p.host); g != nil {
		_, text, err := g.runInGuest(ctx, "cat", "/proc/net/tcp", "/proc/net/tcp6")
		return text, err
	}
	return p.lab.hosts.TCPSockets(p.host)
}

// seesFile reports whether programs of the host see a file.
func (p *program) seesFile(ctx context.Context, file string) (bool, error) {
	if g := p.lab.guestNamed(p.host); g != nil {
		code, _, err := g.runInGuest(ctx, "test", "-e", file)
		return code == 0, err
	}
	c := p.lab.programs.Enter(p.host, []string{"test", "-e", file}, false)
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

// runInGuest runs a short program in a guest, unless ctx ends before that.
func (g *guest) runInGuest(ctx context.Context, argv ...string) (code int, text string, err error) {
	return askAgent(ctx, g.openSession(), argv...)
}

// askAgent is ask over a stream to the guest's agent, which it closes.
func askAgent(ctx context.Context, stream io.ReadWriteCloser, argv ...string) (code int, text string, err error) {
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	var b bytes.Buffer
	r, err := agent.Run(stream, agent.Command{Argv: argv, Stdout: &b})
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("the guest's agent has not answered: %w", context.Cause(ctx))
	case err == nil && r.Error != "":
		err = errors.New(r.Error)
	}
	return r.Code, b.String(), err
}

// reportEarlyEnd reports if the program ends before the lab does.
func (p *program) reportEarlyEnd(warn func(error)) {
	select {
	case <-p.lab.stopped:
		return
	case <-p.over:
	}
	p.drainOutput()
	select {
	case <-p.lab.stopped: // the program ended because the lab did
		return
	default:
	}
	if p.end.lost {
		return
	}
	p.lab.recordEvent(status.ProgramEnded, p.host, p.shortCommand()+": "+p.end.reason)
	if p.end.code != 0 {
		warn(fmt.Errorf("%s: the command %q has ended: %s", p.host, p.shortCommand(), p.end.reason))
	} else {
		p.output.say(fmt.Sprintf("the command %q has ended: %s", p.shortCommand(), p.end.reason))
	}
}
