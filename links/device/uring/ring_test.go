package uring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// log records the calls of a handler.
type log struct{ lines []string }

func (l *log) OnCompletion(number uint32, result int, buffer uint16, more bool) {
	l.lines = append(l.lines, fmt.Sprintf("%d: %d in %d, more %v", number, result, buffer, more))
}

func (l *log) take() []string {
	lines := l.lines
	l.lines = nil
	return lines
}

// newRing makes a ring on the test's thread, or skips the test if the kernel does
// not allow it. The thread, which ends with the test, does not get the signals by which
// Go's runtime stops goroutines: they would end a wait early.
func newRing(t *testing.T, n, files int) *Ring {
	t.Helper()
	runtime.LockOSThread()
	var stops unix.Sigset_t
	stops.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &stops, nil); err != nil {
		t.Fatal(err)
	}
	r, err := New(n, files)
	if IsUnavailable(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func socketpair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func check(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A read continues until the buffers are used up, and again when
// there are new ones; an empty buffer may be replaced.
func TestReadMultishot_ReadsWhileThereAreBuffers(t *testing.T) {
	near, far := socketpair(t)
	r := newRing(t, 8, 1)
	defer r.Close()
	var l log
	h := r.RegisterHandler(&l)
	file, err := r.Open(near)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.NewBuffers(7, 2)
	if err != nil {
		t.Fatal(err)
	}
	memory := [3][]byte{make([]byte, 10), make([]byte, 10), make([]byte, 20)}
	b.PutBuffer(0, memory[0])
	b.PutBuffer(1, memory[1])
	b.PublishBuffers()
	r.ReadMultishot(h, file, b)
	r.SubmitAndWait(0)
	check(t, "nothing is there", l.take())
	for _, s := range []string{"first", "a long second", "third"} {
		if _, err := unix.Write(far, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	b.ReplaceBuffer(1, memory[2])
	r.SubmitAndWait(int64(time.Second))
	check(t, "two buffers", l.take(), "0: 5 in 0, more true", "0: 13 in 1, more true", fmt.Sprintf("0: %d in 0, more false", -int(unix.ENOBUFS)))
	if !bytes.HasPrefix(memory[0], []byte("first")) || !bytes.HasPrefix(memory[2], []byte("a long second")) {
		t.Errorf("read %q and %q", memory[0], memory[2])
	}
	b.PutBuffer(1, memory[1])
	b.PublishBuffers()
	r.ReadMultishot(h, file, b)
	r.SubmitAndWait(0)
	if got := l.take(); len(got) == 0 || got[0] != "0: 5 in 1, more true" || !bytes.HasPrefix(memory[1], []byte("third")) {
		t.Errorf("another buffer: %q, read %q", got, memory[1])
	}
}

// When SubmitQueued returns, writes have been done in order, and AfterSubmit's
// functions are called once.
func TestWrite_IsDoneInOrderBySubmit(t *testing.T) {
	near, far := socketpair(t)
	full, _ := socketpair(t)
	for { // until it is full
		if err := unix.Sendto(full, make([]byte, 1000), unix.MSG_DONTWAIT, nil); err != nil {
			break
		}
	}
	r := newRing(t, 4, 2)
	defer r.Close()
	var l log
	h := r.RegisterHandler(&l)
	var files [2]int
	for i, fd := range []int{near, full} {
		var err error
		if files[i], err = r.Open(fd); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Open(near); err == nil {
		t.Error("a third file was opened")
	}
	after := 0
	r.AfterSubmit(func() {
		if after++; len(l.lines) != 3 {
			t.Errorf("at the end is known %q", l.lines)
		}
	})
	data := make([]byte, 9)
	for i := range data {
		data[i] = byte(i)
	}
	for i := range 3 {
		r.Write(h, files[i&1], uint32(i), data[i:i+1])
	}
	if r.SubmitQueued(); r.QueuedRequests() != 0 || after != 1 {
		t.Errorf("%d queued, called %d times", r.QueuedRequests(), after)
	}
	check(t, "one fails", l.take(), "0: 1 in 0, more false", "2: 1 in 0, more false", fmt.Sprintf("1: %d in 0, more false", -int(unix.EAGAIN)))
	// More than the ring has room for.
	for i := range data {
		r.Write(h, files[0], uint32(i), data[i:i+1])
	}
	r.SubmitQueued()
	var got []byte
	for range 11 {
		var b [2]byte
		if _, _, err := unix.Recvfrom(far, b[:], unix.MSG_DONTWAIT); err != nil {
			t.Fatal(err)
		}
		got = append(got, b[0])
	}
	if want := []byte{0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(got, want) || after != 1 {
		t.Errorf("written %v, want %v", got, want)
	}
	if n := len(l.take()); n != 9 {
		t.Errorf("told of %d writes", n)
	}
}

// Enter waits for the given time, or until there is something to report.
func TestEnter_WaitsForTimeOrEvents(t *testing.T) {
	near, far := socketpair(t)
	r := newRing(t, 4, 0)
	defer r.Close()
	var l log
	r.PollMultishot(r.RegisterHandler(&l), near)
	began := time.Now()
	r.SubmitAndWait(int64(20 * time.Millisecond))
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("waited %v", took)
	}
	check(t, "nothing", l.take())
	thread := unix.Gettid()
	go func() {
		for !isAsleep(thread) {
			runtime.Gosched()
		}
		_, _ = unix.Write(far, []byte("x"))
	}()
	r.SubmitAndWait(int64(time.Hour))
	check(t, "something", l.take(), fmt.Sprintf("0: %d in 0, more true", unix.POLLIN))
}

// isAsleep reports whether a thread waits for something (proc_pid_stat(5)).
func isAsleep(thread int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", thread))
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(state, []byte("S"))
}

// The file is no longer in use when Close returns.
func TestClose_EndsReads(t *testing.T) {
	var p [2]int
	if err := unix.Pipe(p[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	r := newRing(t, 4, 1)
	var l log
	file, err := r.Open(p[0])
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.NewBuffers(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	b.PutBuffer(0, make([]byte, 1))
	b.PublishBuffers()
	r.ReadMultishot(r.RegisterHandler(&l), file, b)
	r.SubmitAndWait(0)
	r.Close()
	b.Close()
	check(t, "the read", l.take(), fmt.Sprintf("0: %d in 0, more false", -int(unix.ECANCELED)))
	unix.Close(p[0])
	if _, err := unix.Write(p[1], []byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("somebody still reads: %v", err)
	}
}
