package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/experiment"
	"github.com/weftlab/weft/experiment/output"
	"github.com/weftlab/weft/experiment/table"
	"github.com/weftlab/weft/sim/units"
)

// programGroup runs the programs of a run.
type programGroup struct {
	lab      *lab.Lab
	dilation int
	programs []experiment.Program
	env      []string // of all programs

	begun   units.Time // emulated time when the lab came up
	members []*member  // programs that have been started
	err     error      // why the run does not count
}

// member is a program that has been started.
type member struct {
	*experiment.Program
	process   *lab.Process
	out       *buffer
	toldToEnd chan struct{} // closed when it has been told to end
}

// maxOutput is how much a program may write to its standard output.
const maxOutput = 256 << 20

// buffer keeps the output of a program.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	full bool
}

// Write never fails, so that a program with too much output can continue.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full = b.full || b.text.Len()+len(p) > maxOutput; !b.full {
		b.text.Write(p)
	}
	return len(p), nil
}

// readAll returns the output so far.
func (b *buffer) readAll() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full {
		return nil, fmt.Errorf("it printed more than %v", units.Bytes(maxOutput))
	}
	return bytes.Clone(b.text.Bytes()), nil
}

// runPrograms starts the programs at their times, waits until all that are not servers have ended,
// and stops the servers. It ends when the first program fails.
func (c *programGroup) runPrograms(ctx context.Context) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	if c.begun, c.err = labTime(c.lab); c.err != nil {
		return
	}
	order := make([]*experiment.Program, len(c.programs))
	for i := range c.programs {
		order[i] = &c.programs[i]
	}
	slices.SortStableFunc(order, func(a, b *experiment.Program) int { return int(max(min(a.At-b.At, 1), -1)) })
	for _, p := range order {
		m, err := c.startProgram(ctx, p)
		if err != nil {
			fail(err)
			break
		}
		c.members = append(c.members, m)
		if p.Server {
			go m.watchServer(ctx, fail)
			continue
		}
		all.Go(func() {
			if err := c.awaitEnd(ctx, m); err != nil {
				fail(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() == nil {
		for _, m := range c.members {
			if m.Server {
				m.stopServer()
			}
		}
		for _, m := range c.members {
			m.awaitOutput()
		}
	}
	c.err = context.Cause(ctx)
}

// startProgram starts a program at its time and waits until it is ready.
func (c *programGroup) startProgram(ctx context.Context, p *experiment.Program) (*member, error) {
	if err := c.sleepUntil(ctx, p.At); err != nil {
		return nil, err
	}
	m := &member{Program: p, out: &buffer{}, toldToEnd: make(chan struct{})}
	var err error
	m.process, err = c.lab.Start(ctx, lab.Start{
		Host: p.Host, Dilated: p.Dilated, Stdout: m.out,
		Program: plan.Program{Text: p.Command, Argv: []string{"/bin/sh", "-c", p.Command}, Env: c.env, Ready: p.Ready},
	})
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	return m, nil
}

// sleepUntil waits until the given emulated time after the lab came up.
func (c *programGroup) sleepUntil(ctx context.Context, until units.Time) error {
	for {
		now, err := labTime(c.lab)
		if err != nil {
			return err
		}
		left := until - (now - c.begun)
		if left <= 0 {
			return nil
		}
		// Emulated time may stand still meanwhile, so check it again.
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(max(time.Duration(left/units.Nanosecond)*time.Duration(max(c.dilation, 1)), time.Microsecond)):
		}
	}
}

// awaitEnd waits until a program ends.
func (c *programGroup) awaitEnd(ctx context.Context, m *member) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	now, err := labTime(c.lab)
	if err != nil {
		return err
	}
	late := make(chan error, 1)
	go func() { late <- c.sleepUntil(limited, now-c.begun+m.Limit) }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-late:
		if err == nil {
			err = m.errorWithOutput(fmt.Sprintf("has not ended within its limit of %v", m.Limit))
		}
		return err
	case <-m.process.Over():
	}
	if code, how := m.process.Ended(); code != 0 {
		m.awaitOutput()
		return m.errorWithOutput("has failed: " + how)
	}
	return nil
}

// watchServer watches a server: if it fails before it is told to end, the run fails.
func (m *member) watchServer(ctx context.Context, fail context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-m.toldToEnd:
		return
	case <-m.process.Over():
	}
	select {
	case <-m.toldToEnd:
		return
	default:
	}
	if code, how := m.process.Ended(); code != 0 {
		m.awaitOutput()
		fail(m.errorWithOutput("has failed: " + how))
	}
}

// errorWithOutput returns an error of the program with the end of its output.
func (m *member) errorWithOutput(what string) error {
	return fmt.Errorf("program %s: %w", m.Name, m.process.ExplainEnd(what))
}

// How long a program may take to end after each signal, and to finish its output.
const (
	endTimeout   = 5 * time.Second
	quietTimeout = 2 * time.Second
)

// stopServer stops a server: first as Ctrl-C does, upon which most print their summary, then with
// SIGTERM. What is left after that ends with the lab.
func (m *member) stopServer() {
	close(m.toldToEnd)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		m.process.Signal(s)
		select {
		case <-m.process.Over():
			return
		case <-time.After(endTimeout):
		}
	}
}

// awaitOutput waits for the end of a program's output, which its background processes may keep
// open.
func (m *member) awaitOutput() {
	select {
	case <-m.process.OutputEnded():
	case <-time.After(quietTimeout):
	}
}

// readOutput converts the output of the programs to tables.
func (c *programGroup) readOutput(tables table.Bundle) error {
	var errs []error
	for _, m := range c.members {
		text, err := m.out.readAll()
		var read table.Bundle
		if err == nil {
			read, err = output.Read(m.Program, text)
		}
		if err == nil {
			err = output.Add(tables, read)
		}
		if err != nil {
			errs = append(errs, m.errorWithOutput(fmt.Sprintf("has no output that can be read as %s: %v", m.Read.Format, err)))
		}
	}
	return errors.Join(errs...)
}
