package agent

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/internal/await"
)

// guest is an agent in this process, reached through a Link.
type guest struct {
	t    *testing.T
	link *Link
}

func newGuest(t *testing.T) *guest {
	t.Helper()
	ours, its := net.Pipe()
	g := &guest{t, NewLink(ours)}
	served := make(chan struct{})
	go func() { defer close(served); _ = Serve(its) }()
	t.Cleanup(func() { g.link.Close(); its.Close(); <-g.link.Over(); <-served })
	await.Receive(t, "the agent answers", g.link.Ready())
	return g
}

// run runs a program in the guest.
func (g *guest) run(c Command) (Result, error) {
	ours, its := net.Pipe()
	go g.link.RelaySession(its)
	return Run(ours, c)
}

// output runs a program and returns its output.
func (g *guest) output(in string, argv ...string) (stdout, stderr string, r Result) {
	g.t.Helper()
	var o, e bytes.Buffer
	r, err := g.run(Command{Argv: argv, Stdin: strings.NewReader(in), Stdout: &o, Stderr: &e})
	if err != nil {
		g.t.Fatal(err)
	}
	return o.String(), e.String(), r
}

func TestRun_ReturnsOutputAndExitCode(t *testing.T) {
	g := newGuest(t)
	hold := filepath.Join(t.TempDir(), "hold") // a program that reads it runs until the test ends
	t.Cleanup(func() {
		if f, err := os.OpenFile(hold, os.O_WRONLY, 0); err == nil {
			f.Close()
		}
	})
	for _, c := range []struct {
		argv   []string
		in     string
		out    string
		err    string
		code   int
		reason string
	}{
		{argv: []string{"true"}},
		{argv: []string{"sh", "-c", "echo out; echo err >&2; exit 42"}, out: "out\n", err: "err\n", code: 42},
		{argv: []string{"cat"}, in: "a\x00b", out: "a\x00b"},
		{argv: []string{"sh", "-c", "kill -KILL $$"}, code: 128 + 9},
		{argv: []string{"no-such-program"}, code: 127, reason: "not found"},
		{argv: []string{"/no/such/program"}, code: 127, reason: "no such file"},
		{argv: []string{"/"}, code: 126, reason: "/"},
		// A program's children may hold its output open; the agent does not wait for them.
		{argv: []string{"sh", "-c", "mkfifo " + hold + "; cat " + hold + " & echo $0 done", "it"}, out: "it done\n"},
	} {
		o, e, r := g.output(c.in, c.argv...)
		if o != c.out || e != c.err || r.Code != c.code || c.reason == "" != (r.Error == "") || !strings.Contains(r.Error, c.reason) {
			t.Errorf("%q: %q, %q, %+v", c.argv, o, e, r)
		}
	}
	var o bytes.Buffer
	if r, err := g.run(Command{Argv: []string{"sh", "-c", "pwd; echo $A"}, Dir: "/usr", Env: []string{"A=b c"}, Stdout: &o}); err != nil || r.Code != 0 || o.String() != "/usr\nb c\n" {
		t.Errorf("%q, %+v, %v", o.String(), r, err)
	}
	if r, err := g.run(Command{Argv: []string{"true"}, Dir: "/no/such"}); err != nil || r.Code != 127 {
		t.Errorf("a directory that is not there: %+v, %v", r, err)
	}
}

// A program with a terminal sees one with the current size of its
// user's terminal.
func TestTerminal_HasTheSizeOfTheUsers(t *testing.T) {
	g := newGuest(t)
	resize := make(chan Terminal)
	in, keys := io.Pipe()
	screen, out := io.Pipe()
	done := make(chan Result, 1)
	go func() {
		r, err := g.run(Command{
			Argv: []string{"sh", "-c", `test -t 0 && test -t 2 && stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done`},
			TTY:  &Terminal{30, 100}, Stdin: in, Stdout: out, Resize: resize,
		})
		if err != nil {
			t.Error(err)
		}
		out.Close()
		done <- r
	}()
	said := ""
	until := func(word string) {
		t.Helper()
		b := make([]byte, 100)
		for !strings.Contains(said, word) {
			n, err := screen.Read(b)
			said += string(b[:n])
			if err != nil {
				t.Fatalf("%v after %q", err, said)
			}
		}
	}
	until("ready\r\n")
	if !strings.HasPrefix(said, "30 100\r\n") {
		t.Errorf("it says %q", said)
	}
	resize <- Terminal{40, 132}
	until("40 132")
	if r := <-done; r.Code != 5 {
		t.Errorf("%+v", r)
	}
	keys.Close()
}

// Programs with a lot of input and output do not affect one another,
// even if one reader is stuck.
func TestRun_ManyProgramsDoNotAffectEachOther(t *testing.T) {
	g := newGuest(t)
	stuck, release := io.Pipe()
	defer stuck.Close()
	waits := make(chan error, 1)
	go func() {
		_, err := g.run(Command{Argv: []string{"head", "-c", "10000000", "/dev/zero"}, Stdout: release})
		waits <- err
	}()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			data := make([]byte, 1_000_000+n)
			for i := range data {
				data[i] = byte(rand.Uint32())
			}
			var o bytes.Buffer
			r, err := g.run(Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(data), Stdout: &o})
			if err != nil || r.Code != 0 || sha256.Sum256(o.Bytes()) != sha256.Sum256(data) {
				t.Errorf("%d: %+v, %v, %d bytes of %d", n, r, err, o.Len(), len(data))
			}
		})
	}
	all.Wait()
	if n, err := io.Copy(io.Discard, io.LimitReader(stuck, 10_000_000)); n != 10_000_000 || err != nil {
		t.Errorf("the one that was stuck got %d bytes, %v", n, err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
}

// TestOutput_IsReadAfterTheDeadline: what a program has written before its end is read, also if the
// reader gets no processor until the wait for more is over.
func TestOutput_IsReadAfterTheDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("the end"); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	o, b := &output{File: r}, make([]byte, 100)
	if n, err := o.Read(b); string(b[:n]) != "the end" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	if n, err := o.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with the program's children holding it open: %q, %v", b[:n], err)
	}
}

// A signal reaches the program and its children; when a client goes
// away, its program ends.
func TestSignals_ReachTheProgram(t *testing.T) {
	g := newGuest(t)
	signals := make(chan syscall.Signal)
	screen, out := io.Pipe()
	done := make(chan Result, 1)
	go func() {
		r, err := g.run(Command{Argv: []string{"sh", "-c", "trap 'exit 7' TERM; sleep 1000 & trap 'kill $!' EXIT; echo ready; wait"}, Stdout: out, Signals: signals})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	if _, err := io.ReadFull(screen, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	if r := <-done; r.Code != 7 {
		t.Errorf("%+v", r)
	}

	ours, its := net.Pipe()
	go g.link.RelaySession(its)
	name := fmt.Sprintf("abandoned-%d-%d", os.Getpid(), time.Now().UnixNano())
	b, _ := json.Marshal(request{Argv: []string{"sh", "-c", "echo begun; sleep 1000", name}})
	if err := writeFrame(ours, frame{kind: open, payload: b}); err != nil {
		t.Fatal(err)
	}
	if f, err := readFrame(ours); err != nil || f.kind != data {
		t.Fatalf("%+v, %v", f, err)
	}
	ours.Close()
	await.True(t, "a program ends with whoever asked for it", func() bool {
		o, _, _ := g.output("", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
		return !strings.Contains(o, name)
	})
}

// A guest that restarts at any point in a frame is found again, and the
// programs that ran in it end.
func TestLink_FindsARestartedGuest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rest := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "rest of a frame")
		ours, its := net.Pipe()
		l := NewLink(ours)
		first := make(chan struct{})
		in := bufio.NewReader(its)
		go func() { // an agent that answers, begins a frame and ends
			defer close(first)
			s := &server{stream: its, in: in}
			if err := s.answerGreeting(); err != nil {
				t.Error(err)
			}
			for f := (frame{}); f.kind != data; {
				if b, err := in.Peek(1); err == nil && b[0] == mark[0] {
					_, _ = in.Discard(greetingLen)
					continue
				}
				var err error
				if f, err = readFrame(in); err != nil || f.kind != open && f.kind != data {
					t.Errorf("%+v, %v", f, err)
					return
				}
			}
		}()
		<-l.Ready()
		client, relay := net.Pipe()
		go l.RelaySession(relay)
		lost := make(chan error, 1)
		go func() {
			_, err := Run(client, Command{Argv: []string{"true"}})
			lost <- err
		}()
		<-first
		l.RestartLink()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_, _ = its.Write(rest)
			_ = Serve(struct {
				io.Reader
				io.Writer
			}{in, its})
		}()
		if err := <-lost; !errors.Is(err, ErrLost) {
			t.Errorf("the program of the first guest ended with %v", err)
		}
		<-l.Ready()
		l.Close()
		its.Close()
		<-l.Over()
		<-served
	})
}

// The error for an agent of another version names the fix.
func TestLink_RefusesAnotherVersion(t *testing.T) {
	ours, its := net.Pipe()
	l := NewLink(ours)
	go func() {
		b := make([]byte, greetingLen)
		_, _ = io.ReadFull(its, b)
		b[len(mark)] = 9
		_, _ = its.Write(b)
	}()
	<-l.Over()
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "version 9") || !strings.Contains(err.Error(), "scripts/vm-image.sh") {
		t.Errorf("%v", err)
	}
	client, relay := net.Pipe()
	go l.RelaySession(relay)
	if r, err := Run(client, Command{Argv: []string{"true"}}); err != nil || r.Code != 126 || !strings.Contains(r.Error, "does not answer") {
		t.Errorf("%+v, %v", r, err)
	}
}
