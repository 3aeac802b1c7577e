package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/weftlab/weft/internal/await"
)

// hear reads a guest's next frame, after repeated greetings.
func hear(r *bufio.Reader) (frame, error) {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return frame{}, err
		}
		if b[0] != mark[0] {
			return readFrame(r)
		}
		if _, err := r.Discard(greetingLen); err != nil {
			return frame{}, err
		}
	}
}

// FuzzGuest makes a guest send arbitrary bytes while a program is run in it, after the
// greeting or in its place: the client gets an answer, and the link is ready for the
// next program or has ended.
func FuzzGuest(f *testing.F) {
	frames := func(all ...frame) []byte {
		var b bytes.Buffer
		for _, f := range all {
			_ = writeFrame(&b, f)
		}
		return b.Bytes()
	}
	result, _ := json.Marshal(Result{Code: 3})
	f.Add(true, frames(dataFrame(1, stdout, []byte("out")), dataFrame(1, stderr, []byte("err")), moreFrame(1, stdin, 5), dataFrame(1, stdout, nil), frame{finish, 1, result}))
	f.Add(true, frames(moreFrame(1, stdin, -1), dataFrame(1, stdin, []byte("in")), dataFrame(1, 9, nil), frame{finish, 1, []byte("{")}))
	f.Add(true, append(frames(frame{finish, 1, result}), makeGreeting(7)...))
	f.Add(true, append(makeGreeting(1), frames(frame{leave, 1, nil}, frame{open, 1, nil}, frame{data, 2, make([]byte, maxPayload)})...))
	f.Add(true, []byte{byte(data), 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
	f.Add(false, append([]byte(mark), version+1, 0, 0, 0, 0, 0, 0, 0, 0))
	f.Add(false, makeGreeting(1)[:5])
	f.Fuzz(func(t *testing.T, greets bool, says []byte) {
		ours, its := net.Pipe()
		l := NewLink(ours)
		go func() {
			defer its.Close()
			if greets {
				b := make([]byte, greetingLen)
				if _, err := io.ReadFull(its, b); err != nil {
					return
				}
				if _, err := its.Write(b); err != nil {
					return
				}
				r := bufio.NewReader(its)
				if _, err := hear(r); err != nil { // the program
					return
				}
				go func() { _, _ = io.Copy(io.Discard, r) }()
			} else {
				go func() { _, _ = io.Copy(io.Discard, its) }()
			}
			_, _ = its.Write(says)
		}()
		if greets {
			<-l.Ready()
		}
		mine, relayed := net.Pipe()
		over := make(chan struct{})
		go func() { defer close(over); l.RelaySession(relayed) }()
		var out bytes.Buffer
		r, err := Run(mine, Command{Argv: []string{"true"}, Stdin: bytes.NewReader(make([]byte, 100)), Stdout: &out})
		if err == nil && !greets && r.Code != 126 {
			t.Errorf("without a guest: %+v", r)
		}
		if out.Len() > len(says) {
			t.Errorf("%d bytes of output of %d", out.Len(), len(says))
		}
		<-l.Over()
		<-over
	})
}

// TestGuestWithoutBounds: if a guest exceeds its credit and the client takes
// nothing, that session ends; others continue.
func TestGuestWithoutBounds(t *testing.T) {
	ours, its := net.Pipe()
	l := NewLink(ours)
	t.Cleanup(func() { its.Close(); <-l.Over() })
	b := make([]byte, greetingLen)
	if _, err := io.ReadFull(its, b); err != nil {
		t.Fatal(err)
	}
	if _, err := its.Write(b); err != nil {
		t.Fatal(err)
	}
	<-l.Ready()
	opened := make(chan frame, 10)
	left := make(chan uint32, 10)
	go func() {
		r := bufio.NewReader(its)
		for {
			f, err := hear(r)
			switch {
			case err != nil:
				return
			case f.kind == open:
				opened <- f
			case f.kind == leave:
				left <- f.session
			}
		}
	}()
	// One client only requests a program; another reads.
	requester, relayed := net.Pipe()
	defer requester.Close()
	go l.RelaySession(relayed)
	if err := writeFrame(requester, frame{kind: open, payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	first := <-opened
	mine, relayed2 := net.Pipe()
	go l.RelaySession(relayed2)
	type ended struct {
		r   Result
		err error
	}
	end := make(chan ended, 1)
	var out bytes.Buffer
	go func() {
		r, err := Run(mine, Command{Argv: []string{"true"}, Stdout: &out})
		end <- ended{r, err}
	}()
	second := <-opened
	flood := dataFrame(first.session, stdout, make([]byte, maxPayload))
	for sent := 0; sent < 2*maxBuffered; sent += maxPayload {
		if err := writeFrame(its, flood); err != nil {
			t.Fatal(err)
		}
	}
	if n := await.Receive(t, "the end of the session", left); n != first.session {
		t.Errorf("session %d has ended, not %d", n, first.session)
	}
	for _, f := range []frame{dataFrame(second.session, stdout, []byte("fine")), {finish, second.session, []byte(`{"code":5}`)}} {
		if err := writeFrame(its, f); err != nil {
			t.Fatal(err)
		}
	}
	if e := <-end; e.err != nil || e.r.Code != 5 || out.String() != "fine" {
		t.Errorf("the other session: %+v, %q", e, out.String())
	}
}

// The client detects it too, if the link does not. Time is virtual.
func TestRun_RefusesAGuestThatSendsMoreThanItsWindow(t *testing.T) { synctest.Test(t, checkWindow) }

func checkWindow(t *testing.T) {
	mine, far := net.Pipe()
	go func() {
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		for range 2 * window / maxPayload {
			if writeFrame(far, dataFrame(0, stdout, make([]byte, maxPayload))) != nil {
				return
			}
		}
	}()
	block, writer := io.Pipe()
	defer writer.Close()
	go func() { // takes the first part, and the rest when nothing else happens any more
		_, _ = block.Read(make([]byte, 1))
		synctest.Wait()
		_, _ = io.Copy(io.Discard, block)
	}()
	if _, err := Run(mine, Command{Argv: []string{"true"}, Stdout: writer}); !errors.Is(err, errFrame) {
		t.Errorf("a guest that sends more than it may: %v", err)
	}
}
