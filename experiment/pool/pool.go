// Package pool runs the jobs of an experiment on the cores of this machine, each in its
// own process: a job that takes too much memory or time, or that crashes, does not affect
// the others.
package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weftlab/weft/experiment"
)

// Pool runs jobs concurrently.
type Pool struct {
	Size int // concurrent processes, at least 1; a job in wall-clock time runs alone
	// Command is the program that runs a job, with its arguments. The process reads the
	// job as JSON from its standard input, writes its tables as a zip archive to its
	// standard output, and its progress as JSON to descriptor 3, one line each.
	Command []string
	Env     []string // replaces this process's environment; nil: the same

	alone sync.RWMutex // write-locked by a job in wall-clock time, read-locked by others
}

// sampleEvery is how often the memory of a job is checked.
const sampleEvery = 100 * time.Millisecond

// Run starts jobs in order as slots become free: first the jobs in virtual time, then
// those in wall-clock time one by one, since anything that runs beside one makes it late.
func (p *Pool) Run(ctx context.Context, jobs []experiment.Job, w experiment.Watcher) error {
	var virtual, wall []int
	for i := range jobs {
		if jobs[i].Clock == experiment.Wall {
			wall = append(wall, i)
		} else {
			virtual = append(virtual, i)
		}
	}
	if err := p.runJobs(ctx, jobs, virtual, p.Size, w); err != nil {
		return err
	}
	return p.runJobs(ctx, jobs, wall, 1, w)
}

// runJobs runs some of the jobs, with size at a time.
func (p *Pool) runJobs(ctx context.Context, jobs []experiment.Job, some []int, size int, w experiment.Watcher) error {
	var told sync.Mutex
	tell := func(f func()) { told.Lock(); defer told.Unlock(); f() }
	next := make(chan int)
	var all sync.WaitGroup
	for range min(size, len(some)) {
		all.Go(func() {
			for i := range next {
				tell(func() { w.Started(i, "") })
				r, ended := p.RunOne(ctx, &jobs[i], func(x experiment.Progress) { tell(func() { w.Progress(i, x) }) })
				if ended {
					tell(func() { w.Ended(i, r) })
				}
			}
		})
	}
feed:
	for _, i := range some {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	all.Wait()
	return ctx.Err()
}

// RunOne runs a job; ended is false if ctx ended it. A job in wall-clock time waits until
// all others have ended, and others wait until it has ended.
func (p *Pool) RunOne(ctx context.Context, j *experiment.Job, progress func(experiment.Progress)) (r experiment.Result, ended bool) {
	if j.Clock == experiment.Wall {
		p.alone.Lock()
		defer p.alone.Unlock()
	} else {
		p.alone.RLock()
		defer p.alone.RUnlock()
	}
	start := time.Now()
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if j.Timeout > 0 {
		stop := time.AfterFunc(j.Timeout, func() { cancel(fmt.Errorf("it took longer than %v", j.Timeout)) })
		defer stop.Stop()
	}
	log := &tail{}
	r.Tables, r.Err = p.runInProcess(run, cancel, j, log, progress)
	if ctx.Err() != nil {
		return r, false
	}
	if cause := context.Cause(run); cause != nil && r.Err != nil {
		r.Err = cause
	}
	r.Log, r.Took = log.String(), time.Since(start)
	return r, true
}

// runInProcess runs a job in a process.
func (p *Pool) runInProcess(ctx context.Context, cancel context.CancelCauseFunc, j *experiment.Job, log *tail, progress func(experiment.Progress)) ([]byte, error) {
	job, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	told, tells, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer told.Close()
	c := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	c.Env = p.Env
	c.Stdin = bytes.NewReader(job)
	var out bytes.Buffer
	c.Stdout, c.Stderr, c.ExtraFiles = &out, log, []*os.File{tells}
	// Ctrl-C in the terminal is for the process that started the pool; and no job outlives
	// it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// Let it clean up first: a lab of real hosts must.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 30 * time.Second
	// The kernel regards the thread that started a process as its parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, tells.Close())
	}
	tells.Close() // the process has its own copy
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		lines := json.NewDecoder(told)
		for {
			var x experiment.Progress
			if lines.Decode(&x) != nil {
				return
			}
			progress(x)
		}
	})
	if j.Memory > 0 {
		watching.Go(func() { watchMemory(c.Process.Pid, j.Memory, done, cancel) })
	}
	err = c.Wait()
	close(done)
	watching.Wait()
	return out.Bytes(), explainExit(err, log)
}

// errorMark is the prefix of weft's error messages, which may have several lines.
const errorMark = "weft: "

// explainExit explains how a process ended: with its panic, its last error message, or its
// last line.
func explainExit(err error, log *tail) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	last := ""
	for line := range strings.Lines(log.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return fmt.Errorf("it crashed: %s", line)
		}
		if line != "" {
			last = line
		}
	}
	if i := strings.LastIndex("\n"+log.String(), "\n"+errorMark); i >= 0 {
		last = strings.TrimSpace(log.String()[i+len(errorMark):])
	}
	if exit.Exited() && last != "" {
		return errors.New(last)
	}
	return fmt.Errorf("its process ended: %w", err)
}
