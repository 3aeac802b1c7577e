package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/weftlab/weft/emu/plan"
)

// Start is a program to start in a running lab.
type Start struct {
	Host    string
	Program plan.Program // Line is not used
	Dilated bool         // it sees the lab's clock; not in virtual machines
	// Stdout gets the program's standard output. Programs.Output gets that too, and
	// standard error. May be nil.
	Stdout io.Writer
}

// Process is a program started by Start.
type Process struct{ p *program }

// Start starts a program in a host, waits until it is ready, and returns while it runs. It
// is called during Run, after RunPrograms. The program ends with the lab at the latest.
func (l *Lab) Start(ctx context.Context, s Start) (*Process, error) {
	i := slices.IndexFunc(l.plan.Nodes, func(n plan.Node) bool { return n.Name == s.Host })
	if i < 0 || !isReal(&l.plan.Nodes[i]) {
		return nil, fmt.Errorf("there is no host %q that runs programs", s.Host)
	}
	p := l.newProgram(s.Host, &s.Program)
	p.dilated, p.out = s.Dilated, s.Stdout
	if err := p.startProgram(l.plan.Nodes[i].VM != nil); err != nil {
		return nil, err
	}
	return &Process{p}, p.awaitReady(ctx)
}

// Over returns a channel that is closed when the program has ended.
func (p *Process) Over() <-chan struct{} { return p.p.over }

// OutputEnded returns a channel that is closed when the program's output has ended: the
// program and what it left in the background have ended.
func (p *Process) OutputEnded() <-chan struct{} { return p.p.quiet }

// Ended returns how a program has ended: its exit code, -1 if it has none, and a
// readable description.
func (p *Process) Ended() (code int, how string) { return p.p.end.code, p.p.end.reason }

// ExplainEnd returns an error about the program with the end of its output.
func (p *Process) ExplainEnd(what string) error { return p.p.explainEnd(what) }

// Signal sends the program a signal; signals that a terminal sends go to its whole
// process group. It does nothing if the program has ended.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case p.p.signals <- s:
	case <-p.p.over:
	}
}
