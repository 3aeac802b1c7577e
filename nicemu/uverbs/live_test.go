package uverbs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

// live is a server on its socket, with whatever processes connect to it.
type live struct {
	*world
	path    string
	engine  sync.Mutex
	stop    atomic.Bool // polling
	polling sync.WaitGroup
	warned  atomic.Bool
	ended   chan struct{}
	once    sync.Once
}

func newLive(t *testing.T, b *budget) *live {
	l := &live{world: newWorld(t), path: filepath.Join(t.TempDir(), "socket"), ended: make(chan struct{})}
	l.server.do = func(f func()) error {
		l.engine.Lock()
		defer l.engine.Unlock()
		f()
		return nil
	}
	if b != nil {
		l.server.budget = b
	}
	if err := l.server.Listen(l.path); err != nil {
		t.Fatal(err)
	}
	go func() {
		l.server.Serve(func(err error) {
			t.Log(err)
			l.warned.Store(true)
		})
		close(l.ended)
	}()
	l.polling.Go(l.poll)
	t.Cleanup(l.end)
	return l
}

// poll polls the server as an engine's thread does.
func (l *live) poll() {
	for !l.stop.Load() {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(l.server.FD()), Events: unix.POLLIN}}, 10)
		l.engine.Lock()
		l.server.PollInput(0, 32)
		l.engine.Unlock()
	}
}

// end ends the server; the world then does not do so again.
func (l *live) end() {
	l.once.Do(func() {
		l.stop.Store(true)
		l.polling.Wait()
		l.server.Close()
		<-l.ended
		l.server.listener = nil
		l.server.kick, l.server.epoll = -1, -1
	})
}

// sessions waits until n programs are connected.
func (l *live) sessions(n int) {
	l.t.Helper()
	await.True(l.t, fmt.Sprintf("%d sessions", n), func() bool {
		l.server.mu.Lock()
		defer l.server.mu.Unlock()
		return l.server.admitted == n
	})
}

// dial is a program's end of a connection.
func (l *live) dial() *net.UnixConn {
	l.t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: l.path, Net: "unixpacket"})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

func message(o op, q any) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(o))
	if q == nil {
		return b
	}
	b, err := binary.Append(b, binary.LittleEndian, q)
	if err != nil {
		panic(err)
	}
	return b
}

// call sends a request and returns the answer.
func call(c *net.UnixConn, o op, q any) ([]byte, error) {
	if _, err := c.Write(message(o, q)); err != nil {
		return nil, err
	}
	b, oob := make([]byte, maxMessage), make([]byte, 256)
	n, nob, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil || n < headLen {
		return nil, fmt.Errorf("answer of %d bytes: %w", n, err)
	}
	if m, err := unix.ParseSocketControlMessage(oob[:nob]); err == nil {
		for i := range m {
			fds, _ := unix.ParseUnixRights(&m[i])
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}
	if e := binary.LittleEndian.Uint32(b); e != 0 {
		return nil, fmt.Errorf("%w: %s", syscall.Errno(e), b[headLen:n])
	}
	return b[headLen:n], nil
}

// hello makes a session and opens the NIC.
func (l *live) hello() *net.UnixConn {
	l.t.Helper()
	c := l.dial()
	if _, err := call(c, opHello, helloMsg{Version: abiVersion}); err != nil {
		l.t.Fatal(err)
	}
	if _, err := call(c, opOpen, handleMsg{}); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// served checks that a session is answered.
func (l *live) served(c *net.UnixConn) {
	l.t.Helper()
	if _, err := call(c, opQueryPort, handleMsg{Handle: 1}); err != nil {
		l.t.Errorf("the victim: %v", err)
	}
}

// A program that sends requests without end and reads no answer ends only its own
// session.
func TestSession_EndsIfAnswersAreNeverRead(t *testing.T) {
	l := newLive(t, nil)
	v, c := l.hello(), l.hello()
	if err := c.SetWriteDeadline(time.Now().Add(await.Limit)); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = c.Write(message(opDevices, nil))
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("request %d: %v", n, err)
	}
	l.sessions(1)
	l.served(v)
}

// Requests of many programs at once are all answered, each to who asked.
func TestRequests_OfManyProgramsAreAnswered(t *testing.T) {
	l := newLive(t, nil)
	var wg sync.WaitGroup
	for i := range 40 { // more than epoll reports at once
		c := l.hello()
		wg.Go(func() {
			for range i + 1 {
				if _, err := call(c, opAllocPD, handleMsg{Handle: 1}); err != nil {
					t.Error(err)
					return
				}
			}
			b, err := call(c, opAllocPD, handleMsg{Handle: 1})
			if err != nil || int(binary.LittleEndian.Uint32(b)) != i+3 {
				t.Errorf("program %d has the domain % x: %v", i, b, err)
			}
		})
	}
	wg.Wait()
}

// A request is answered a turn after the work that was posted before it has
// been taken.
func TestRequest_IsAnsweredAfterEarlierWork(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	defer c.close()
	k := c.greet()
	w.run()
	c.write(k.rc, k.mr.Key, base, base+0x1000, 1)
	if _, err := c.peer.Write(message(opQueryQP, handleMsg{Handle: k.rc.Handle})); err != nil {
		t.Fatal(err)
	}
	w.server.PollInput(w.engine.Now(), 32)
	if c.request == nil || c.session.queues[k.rc.Number].sends.taken != 1 {
		t.Error("the request has been answered, or the work not taken")
	}
	w.server.PollInput(w.engine.Now(), 32)
	b := make([]byte, maxMessage)
	if n, err := c.peer.Read(b); err != nil || n <= headLen || binary.LittleEndian.Uint32(b) != 0 {
		t.Errorf("an answer of %d bytes: %v", n, err)
	}
}

// A request that modifies a queue waits until all of the queue's work has
// been taken, and others have turns meanwhile.
func TestRequest_WaitsForAllWorkOfItsQueue(t *testing.T) {
	const depth = 4096
	w, v, c, k := attacked(t)
	q := must[qpAnswer](c, opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.RC), MaxSendWR: depth, MaxSendSGE: 1})
	w.run()
	c.nonsense(q)
	reset := qpAttr{QP: q.Handle, Mask: uint32(qp.MaskState), State: uint32(qp.Reset)}
	if _, err := c.peer.Write(message(opModifyQP, reset)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.peer.Write(message(opQueryQP, handleMsg{Handle: v.rc.Handle})); err != nil {
		t.Fatal(err)
	}
	turns, first := 0, -1
	for b := make([]byte, maxMessage); ; turns++ {
		w.server.PollInput(w.engine.Now(), 32)
		if n, _, err := unix.Recvfrom(v.socketOf(), b, unix.MSG_DONTWAIT); err == nil && n > 0 {
			first = turns
		}
		if n, _, err := unix.Recvfrom(c.socketOf(), b, unix.MSG_DONTWAIT); err == nil && n > 0 {
			break
		}
		if turns > 1000 {
			t.Fatal("there is no answer")
		}
	}
	if minTurns := depth / (perSession + 3*perTurn); turns < minTurns || first < 0 || first > 1 {
		t.Errorf("the request took %d turns, the other's %d", turns, first)
	}
	w.sound()
	v.unharmed(t)
}

// Descriptors sent with a request, which needs none, are closed.
func TestDescriptors_OfRequestsAreClosed(t *testing.T) {
	l := newLive(t, nil)
	v, c := l.hello(), l.hello()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	many := make([]int, 250) // of the 253 that fit a message
	for i := range many {
		many[i] = pipe[1]
	}
	for range 20 {
		if _, _, err := c.WriteMsgUnix(message(opDevices, nil), unix.UnixRights(many...), nil); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, maxMessage)
		if n, err := c.Read(b); err != nil || n < headLen || binary.LittleEndian.Uint32(b) != 0 {
			t.Fatalf("%d bytes, %v: % x", n, err, b[:max(n, 0)])
		}
	}
	unix.Close(pipe[1])
	// No process has the write end any more.
	if n, err := unix.Read(pipe[0], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the pipe: %d, %v", n, err)
	}
	l.served(v)
}

// An invalid request ends its session.
func TestRequest_InvalidEndsItsSession(t *testing.T) {
	l := newLive(t, nil)
	v := l.hello()
	for _, b := range [][]byte{{1}, make([]byte, headLen-1), make([]byte, maxMessage+1)} {
		c := l.hello()
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 10)); err == nil {
			t.Errorf("%d bytes are answered with %d", len(b), n)
		}
	}
	l.sessions(1)
	l.served(v)
}

// When there are as many programs as the host's share of descriptors allows, more
// are refused and the existing ones are served; when some have ended others are accepted.
func TestSessions_AreLimitedByDescriptors(t *testing.T) {
	have := cost{memory: 1 << 30, mappings: 1000, descriptors: 20 * ofSession.descriptors}
	l := newLive(t, newBudget(have))
	v := l.hello()
	var all []*net.UnixConn
	for {
		c := l.dial()
		if _, err := call(c, opHello, helloMsg{Version: abiVersion}); err != nil {
			break
		}
		all = append(all, c)
		if len(all) > 20 {
			t.Fatal("there is no end to it")
		}
	}
	if len(all) < 5 {
		t.Errorf("%d programs have been served", len(all))
	}
	l.served(v)
	for _, c := range all {
		c.Close()
	}
	l.sessions(1)
	l.served(l.hello())
	v.Close()
	l.end()
	if left := l.left(); left != have {
		t.Errorf("left are %+v, not %+v", left, have)
	}
}

// Connections that could not be accepted, for lack of descriptors, do not end the
// server.
func TestServe_GoesOnAfterFailedAccepts(t *testing.T) {
	l := newLive(t, nil)
	l.hello()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	low := limit
	low.Cur = uint64(c) // no descriptor is available now
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(c, &unix.SockaddrUnix{Name: l.path})
	await.True(t, "a connection that cannot be accepted", l.warned.Load)
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); e != nil {
		t.Fatal(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.served(l.hello())
}

// remote is another process: this test's own binary, controlled by its input.
type remote struct {
	*exec.Cmd
	in   *bufio.Writer
	out  *bufio.Reader
	addr uint64   // of the secret
	conn *os.File // its end of its connection, which the test has too
}

const (
	secret    = "what is in this process and no other"
	childFlag = "WEFT_UVERBS_CHILD"
)

// TestMain makes the binary a child if a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv(childFlag) != "" {
		child()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child connects to descriptor 3 of the test, prints where its secret is, and waits.
func child() {
	where := []byte(secret)
	addr := uint64(uintptr(unsafe.Pointer(&where[0])))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: os.Getenv(childFlag)})
	}
	if err != nil {
		fmt.Println("error", err)
		return
	}
	// The test has that end of the connection too, as a forked child would have.
	if err := unix.Sendmsg(3, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println(addr)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		switch {
		case err != nil || line == "exit\n":
			return
		case line == "exec\n":
			fmt.Println("now") // and nothing more is read
			fmt.Println(unix.Exec("/bin/cat", []string{"cat"}, nil))
			return
		default:
			fmt.Printf("%s %s", where, line)
		}
	}
}

func startRemote(t *testing.T, path string) *remote {
	t.Helper()
	r := &remote{Cmd: exec.Command("/proc/self/exe")}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "")
	r.ExtraFiles = []*os.File{theirs}
	r.Env = append(os.Environ(), childFlag+"="+path)
	in, err1 := r.StdinPipe()
	out, err2 := r.StdoutPipe()
	if err := errors.Join(err1, err2, r.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill(); _ = r.Wait() })
	r.in, r.out = bufio.NewWriter(in), bufio.NewReader(out)
	oob := make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	unix.Close(pair[0])
	m, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(m) != 1 {
		t.Fatalf("%d control messages: %v", len(m), err)
	}
	fds, err := unix.ParseUnixRights(&m[0])
	if err != nil {
		t.Fatal(err)
	}
	r.conn = os.NewFile(uintptr(fds[0]), "")
	t.Cleanup(func() { r.conn.Close() })
	line, err := r.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if r.addr, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
		t.Fatal(line)
	}
	return r
}

// say makes the process run a command, and returns its answer, which is "" at its end.
func (r *remote) say(what string) string {
	_, _ = r.in.WriteString(what + "\n")
	_ = r.in.Flush()
	line, _ := r.out.ReadString('\n')
	return line
}

// peer accepts the connection of a process started by startRemote.
func peer(t *testing.T, l *net.UnixListener) (*process, func()) {
	t.Helper()
	c, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	p, err := peerOf(int(f.Fd()))
	if err != nil {
		t.Skipf("SKIPPED: the memory of another process cannot be reached here: %v", err)
	}
	return p, func() { p.closeProcess(); f.Close(); c.Close() }
}

// A process's memory is accessible as long as it is the process that connected,
// and no longer, even if another process has its end of the socket.
func TestProcess_IsReachedOnlyWhileItIsTheOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	load := func(p *process, addr uint64) (string, bool) {
		b, f := p.LoadBytes(nil, addr, uint32(len(secret)))
		return string(b), f == memory.OK
	}

	t.Run("stopped", func(t *testing.T) {
		r := startRemote(t, path)
		p, done := peer(t, l)
		defer done()
		if err := r.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if b, ok := load(p, r.addr); !ok || b != secret {
			t.Errorf("a stopped process has %q", b)
		}
		if p.StoreBytes(r.addr, []byte("WHAT")) != memory.OK {
			t.Error("a stopped process cannot be written to")
		}
		if err := r.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if s := r.say("hello"); !strings.HasPrefix(s, "WHAT is in this") {
			t.Errorf("it has %q", s)
		}
		if _, ok := load(p, 0); ok {
			t.Error("there is something at address 0")
		}
		if p.StoreBytes(uint64(^uintptr(0)-100), []byte("kernel")) == memory.OK || !p.isConnected() {
			t.Error("there is something at the end")
		}
	})
	t.Run("another program", func(t *testing.T) {
		r := startRemote(t, path)
		p, done := peer(t, l)
		defer done()
		if b, ok := load(p, r.addr); !ok || b != secret {
			t.Fatalf("it has %q", b)
		}
		if s := r.say("exec"); s != "now\n" {
			t.Fatalf("it says %q", s)
		}
		if s := r.say("meow"); s != "meow\n" {
			t.Fatalf("cat says %q", s)
		}
		if p.isConnected() || p.hasMapped(r.addr, 1) || p.StoreBytes(r.addr, []byte("x")) == memory.OK {
			t.Error("the memory of the program that came after it can be reached")
		}
	})
	t.Run("ended", func(t *testing.T) {
		r := startRemote(t, path)
		p, done := peer(t, l)
		defer done()
		r.say("exit")
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		// If permitted, give the process ID to another process.
		last := []byte(strconv.Itoa(r.Process.Pid - 1))
		if os.WriteFile("/proc/sys/kernel/ns_last_pid", last, 0) == nil {
			other := startRemote(t, path)
			q, done := peer(t, l)
			defer done()
			t.Logf("processes %d and %d", r.Process.Pid, other.Process.Pid)
			if b, ok := load(q, other.addr); !ok || b != secret {
				t.Errorf("the other has %q", b)
			}
			if b, ok := load(p, other.addr); ok {
				t.Errorf("the first, which has ended, has %q", b)
			}
		}
		if p.isConnected() || p.StoreBytes(r.addr, []byte("x")) == memory.OK {
			t.Error("a process that has ended can be reached")
		}
	})
}

// NIC accesses to a process's memory while that is unmapped, is read-only or lies
// beyond all addresses.
func TestMemory_ThatIsNotMappedIsRefused(t *testing.T) {
	w := newWorld(t)
	v := w.victim()
	defer v.close()
	c := w.connect()
	defer c.close()
	p, err := peerOf(c.socket)
	if err != nil {
		t.Skipf("SKIPPED: the memory of another process cannot be reached here: %v", err)
	}
	c.session.memory = p
	must[none](c, opHello, helloMsg{Version: abiVersion})
	context := must[deviceAnswer](c, opOpen, handleMsg{}).Handle
	pd := must[handleMsg](c, opAllocPD, handleMsg{Handle: context}).Handle
	m, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(uintptr(unsafe.Pointer(&m[0])))
	copy(m, bytes.Repeat([]byte("abc"), 10000))
	for _, r := range []struct {
		addr, length uint64
		want         syscall.Errno
	}{
		{at, 1 << 16, 0},
		{0, 100, syscall.EFAULT},
		{at, 1 << 40, syscall.EFAULT},
		{at, ^uint64(0), syscall.EFAULT},
		{^uint64(0) - 10, 100, syscall.EFAULT},
		{^uint64(0), ^uint64(0), syscall.EFAULT},
	} {
		a := c.ask(opRegMR, regMR{PD: pd, Access: uint32(memory.LocalWrite), Addr: r.addr, Length: r.length, IOVA: r.addr})
		if a.err == nil != (r.want == 0) || a.err != nil && errnoOf(a.err) != r.want && errnoOf(a.err) != syscall.EINVAL {
			t.Errorf("%#x bytes at %#x: %v", r.length, r.addr, a.err)
		}
	}
	if b, f := p.LoadBytes(nil, at, 6); f != memory.OK || string(b) != "abcabc" {
		t.Errorf("%q", b)
	}
	if err := unix.Mprotect(m, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if p.StoreBytes(at, []byte("x")) == memory.OK {
		t.Error("read-only memory is written to")
	}
	if err := unix.Munmap(m); err != nil {
		t.Fatal(err)
	}
	if _, f := p.LoadBytes(nil, at, 6); f == memory.OK || !p.isConnected() {
		t.Error("memory that is unmapped is read")
	}
	w.sound()
	v.unharmed(t)
}
