package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/weftlab/weft/emu/plan"
)

// Start is a program that is started in a running lab.
type Start struct {
	Host    string
	Program plan.Program // Line is not used
	Dilated bool         // it sees the lab's clock; not in virtual machines
	// Stdout gets what the program says on standard output, beside Programs.Output,
	// which is told of that and of standard error. May be nil.
	Stdout io.Writer
}

// Process is a program that Start has started.
type Process struct{ p *program }

// Start starts a program in a host, waits until it is ready, and returns while it runs. It
// is called while Run runs, after RunPrograms. The program ends with the lab at the latest.
func (l *Lab) Start(ctx context.Context, s Start) (*Process, error) {
	i := slices.IndexFunc(l.plan.Nodes, func(n plan.Node) bool { return n.Name == s.Host })
	if i < 0 || !isReal(&l.plan.Nodes[i]) {
		return nil, fmt.Errorf("there is no host %q that runs programs", s.Host)
	}
	p := l.newProgram(s.Host, &s.Program)
	p.dilated, p.out = s.Dilated, s.Stdout
	if err := p.start(l.plan.Nodes[i].VM != nil); err != nil {
		return nil, err
	}
	return &Process{p}, p.await(ctx)
}

// Over is closed when the program has ended.
func (p *Process) Over() <-chan struct{} { return p.p.over }

// Quiet is closed when nobody can say anything more on the program's output: it and what
// it has left in the background have ended.
func (p *Process) Quiet() <-chan struct{} { return p.p.quiet }

// Ended says how a program has ended that is over: its exit code, -1 if it has none, and
// that for people.
func (p *Process) Ended() (code int, how string) { return p.p.end.code, p.p.end.reason }

// Explain gives an error of the program with its last words.
func (p *Process) Explain(what string) error { return p.p.explain(what) }

// Signal sends the program a signal, those that a terminal sends to its whole process
// group; nothing happens to one that is over.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case p.p.signals <- s:
	case <-p.p.over:
	}
}
