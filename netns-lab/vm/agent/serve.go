package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Serve runs programs for the Link at the other end of the stream, until reading
// from it fails.
func Serve(stream io.ReadWriter) error {
	s := &server{stream: stream, in: bufio.NewReader(stream), sessions: map[uint32]*served{}}
	defer s.endPrograms()
	for {
		err := s.answerGreeting()
		if err == nil {
			err = s.readFrames()
		}
		if !errors.Is(err, errFrame) {
			return err
		}
	}
}

type server struct {
	stream io.Writer
	in     *bufio.Reader
	number uint64 // of the last greeting
	writes sync.Mutex

	mu       sync.Mutex
	sessions map[uint32]*served
}

// answerGreeting waits for a greeting and answers it. Programs of an earlier Link end.
func (s *server) answerGreeting() error {
	for {
		b, err := s.in.Peek(greetingLen)
		if err != nil {
			return err
		}
		if string(b[:len(mark)]) == mark {
			break
		}
		if _, err := s.in.Discard(1); err != nil {
			return err
		}
	}
	b := make([]byte, greetingLen)
	if _, err := io.ReadFull(s.in, b); err != nil {
		return err
	}
	if number := binary.BigEndian.Uint64(b[len(mark)+1:]); number != s.number {
		s.endPrograms()
		s.number = number
	}
	s.writes.Lock()
	defer s.writes.Unlock()
	_, err := s.stream.Write(makeGreeting(s.number))
	return err
}

func (s *server) sendFrame(f frame) error {
	s.writes.Lock()
	defer s.writes.Unlock()
	return writeFrame(s.stream, f)
}

// endPrograms ends all programs: the client that asked for them is gone.
func (s *server) endPrograms() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, p := range s.sessions {
		p.abandonProgram()
		delete(s.sessions, n)
	}
}

func (s *server) readFrames() error {
	for {
		b, err := s.in.Peek(1)
		if err != nil {
			return err
		}
		if b[0] == mark[0] {
			return errFrame // it is a greeting
		}
		f, err := readFrame(s.in)
		if err != nil {
			return err
		}
		if f.kind == open {
			s.startProgram(f)
			continue
		}
		s.mu.Lock()
		p := s.sessions[f.session]
		if f.kind == leave {
			delete(s.sessions, f.session)
		}
		s.mu.Unlock()
		if p != nil {
			p.handleFrame(f)
		}
	}
}

// served is a running program.
type served struct {
	number uint32
	send   func(frame) error
	input  *queue
	credit [stderr + 1]*credit // of output
	tty    *os.File            // nil without a terminal

	mu      sync.Mutex
	process *os.Process
	ended   bool
}

// startProgram starts a program.
func (s *server) startProgram(f frame) {
	var q request
	if err := json.Unmarshal(f.payload, &q); err != nil || len(q.Argv) == 0 {
		_ = s.sendFrame(finishedFrame(f.session, Result{126, "the request for a program is damaged"}))
		return
	}
	p := &served{number: f.session, send: s.sendFrame, input: newQueue(window), credit: [stderr + 1]*credit{stdout: newCredit(), stderr: newCredit()}}
	path, err := lookPath(q)
	if err != nil {
		_ = s.sendFrame(finishedFrame(f.session, resultOf(err)))
		return
	}
	c := &exec.Cmd{Path: path, Args: q.Argv, Env: append(os.Environ(), q.Env...), Dir: q.Dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	var wait func()
	if q.TTY != nil {
		wait, err = p.startTTY(c, *q.TTY)
	} else {
		wait, err = p.startPiped(c)
	}
	if err != nil {
		_ = s.sendFrame(finishedFrame(f.session, resultOf(err)))
		return
	}
	p.process = c.Process
	s.mu.Lock()
	s.sessions[p.number] = p
	s.mu.Unlock()
	go func() {
		err := c.Wait()
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		wait()
		p.abandonProgram()
		s.mu.Lock()
		if s.sessions[p.number] == p {
			delete(s.sessions, p.number)
		}
		s.mu.Unlock()
		_ = s.sendFrame(finishedFrame(p.number, resultOf(err)))
	}()
}

// lookPath finds a program as a shell in q.Dir would.
func lookPath(q request) (string, error) {
	if q.Dir != "" {
		if _, err := os.Stat(q.Dir); err != nil {
			return "", err
		}
	}
	return exec.LookPath(q.Argv[0])
}

// lingering is how long to wait for more output after a program's end: its children
// may hold the output open for ever.
const lingering = 300 * time.Millisecond

// output is the output of a program.
type output struct {
	*os.File
	ended atomic.Bool
}

// Read reads available output; after the program's end it waits at most lingering for more.
func (o *output) Read(b []byte) (int, error) {
	if o.ended.Load() {
		_ = o.SetReadDeadline(time.Now().Add(lingering))
	}
	n, err := o.File.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	// The deadline may have passed before the read began, on a busy machine: then what is there
	// has not been looked at.
	raw, rawErr := o.SyscallConn()
	if rawErr != nil {
		return n, err
	}
	_ = raw.Control(func(fd uintptr) {
		if have, readErr := syscall.Read(int(fd), b); have > 0 && readErr == nil {
			n, err = have, nil
		}
	})
	return n, err
}

// endOutput is called when the program has ended.
func (o *output) endOutput() {
	o.ended.Store(true)
	_ = o.SetReadDeadline(time.Now().Add(lingering)) // for the pending read
}

// startPiped starts a program with pipes. wait waits for the end of its output.
func (p *served) startPiped(c *exec.Cmd) (wait func(), err error) {
	in, inEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	files := []*os.File{in}
	var out [stderr + 1]*output
	for n := stdout; n <= stderr; n++ {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		out[n], files = &output{File: r}, append(files, w)
	}
	c.Stdin, c.Stdout, c.Stderr = files[0], files[1], files[2]
	err = c.Start()
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		inEnd.Close()
		out[stdout].Close()
		out[stderr].Close()
		return nil, err
	}
	go func() {
		p.input.drainTo(inEnd, p.number, stdin, p.send)
		inEnd.Close()
	}()
	var pumps sync.WaitGroup
	for n := stdout; n <= stderr; n++ {
		pumps.Go(func() { pumpStream(out[n], p.number, byte(n), p.credit[n], p.send) })
	}
	return func() {
		out[stdout].endOutput()
		out[stderr].endOutput()
		pumps.Wait()
		for _, r := range out[stdout:] {
			r.Close()
		}
	}, nil
}

// startTTY starts a program with its own terminal.
func (p *served) startTTY(c *exec.Cmd, size Terminal) (wait func(), err error) {
	master, slave, err := openTerminal()
	if err != nil {
		return nil, err
	}
	p.tty = master
	_ = setSize(master, size)
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr.Setctty = true
	err = c.Start()
	slave.Close()
	if err != nil {
		master.Close()
		return nil, err
	}
	go p.input.drainTo(master, p.number, stdin, p.send)
	out := &output{File: master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		pumpStream(out, p.number, stdout, p.credit[stdout], p.send)
	}()
	return func() {
		out.endOutput()
		<-done
		master.Close()
	}, nil
}

// handleFrame handles the frames of the session.
func (p *served) handleFrame(f frame) {
	switch f.kind {
	case data:
		if n, b, ok := f.splitStream(); ok && n == stdin {
			p.input.putBytes(b) // a client that exceeds its credit loses the rest
		}
	case more:
		if n, b, ok := f.splitStream(); ok && n != stdin {
			p.credit[n].grantBytes(b)
		}
	case resize:
		if p.tty != nil && len(f.payload) == 4 {
			_ = setSize(p.tty, Terminal{binary.BigEndian.Uint16(f.payload), binary.BigEndian.Uint16(f.payload[2:])})
		}
	case signal:
		if len(f.payload) == 1 {
			p.killGroup(syscall.Signal(f.payload[0]))
		}
	case leave:
		p.abandonProgram()
	}
}

// killGroup sends a signal to the program's process group.
func (p *served) killGroup(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended { // otherwise the PID may have been reused
		_ = syscall.Kill(-p.process.Pid, s)
	}
}

// abandonProgram ends the program, for which no client waits, and its streams.
func (p *served) abandonProgram() {
	p.killGroup(syscall.SIGHUP)
	p.killGroup(syscall.SIGTERM)
	p.input.putBytes(nil)
	p.credit[stdout].closeCredit()
	p.credit[stderr].closeCredit()
}

func finishedFrame(session uint32, r Result) frame {
	b, _ := json.Marshal(r)
	return frame{finish, session, b}
}

// resultOf returns how a program ended, or why it did not start.
func resultOf(err error) Result {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return Result{}
	case errors.As(err, &exit):
		if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			return Result{Code: 128 + int(w.Signal())}
		}
		return Result{Code: exit.ExitCode()}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return Result{127, err.Error()}
	}
	return Result{126, err.Error()}
}
