package uverbs

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// world is a NIC in loopback, and its server. Everything is on one goroutine.
type world struct {
	t      testing.TB
	engine sim.Engine
	device *nicemu.Device
	server *Server

	clients map[*client]bool // that have not ended
	turns   int              // of requests
	light   bool             // processes have no sockets, and share memory of the heap: fast
}

// nowhere is the port of a NIC that only talks to itself.
type nowhere struct{}

func (nowhere) AnnouncePacket(units.Time, uint8, units.Bytes) {}

type fire struct{ w *world }

func (f fire) Fire(now units.Time) { f.w.device.Fire(now) }

func newWorld(t testing.TB, set ...func(*nicemu.Settings)) *world {
	w := &world{t: t, clients: map[*client]bool{}}
	var priorities [64]uint8
	s := nicemu.Settings{
		MTU: qp.MTU1024, AskEvery: 16, Timeout: 8, RetryCount: 1, RNRRetry: 1, Limits: qp.ConnectX5(),
	}
	for _, f := range set {
		f(&s)
	}
	d, err := nicemu.New(s, nicemu.Env{
		Name: "h1:eth0", MAC: 0x020000000001, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Line: 10 * units.Gbps,
		Priority: &priorities, Pool: packet.NewPools(1)[0], Now: w.engine.Now, Timer: w.engine.NewTimer(fire{w}), Port: nowhere{},
		Path: func(_, _ netip.Addr) (nicemu.Path, bool) { return nicemu.Path{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.device = d
	w.server, err = New([]Device{{d, "eth0"}}, func(f func()) error { f(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.server.Close()
		w.engine.StopProcesses()
	})
	return w
}

// newLightWorld makes a world for many short runs.
func newLightWorld(t testing.TB) *world {
	w := newWorld(t)
	w.light = true
	w.server.share = func(_ string, size int) (shm, int, error) { return shm{make([]byte, size)}, -1, nil }
	return w
}

// run runs the engine and the server for a while of emulated time.
func (w *world) run() {
	for end := w.engine.Now() + 20*units.Millisecond; w.engine.Now() < end; {
		taken := w.server.PollInput(w.engine.Now(), 32)
		limit := w.engine.Now() + units.Millisecond
		w.engine.Run(limit, 20000)
		if taken == 0 && len(w.server.behind) == 0 {
			limit = min(max(limit, w.engine.Next()), end) // nothing happens before
		}
		w.engine.AdvanceTo(limit)
	}
}

// slice is a process's memory in the test.
type slice struct{ memory.Bytes }

func (s *slice) hasMapped(addr, n uint64) bool {
	_, f := s.LoadBytes(nil, addr, 1)
	return f == memory.OK && n > 0
}

func (s *slice) isConnected() bool { return s.Data != nil }

func (s *slice) openFile(fd int) (int, error) {
	return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
}

func (s *slice) markEnded() { s.Data = nil }

func (s *slice) closeProcess() {}

// base is the start of the memory of the tests' processes.
const base = 0x10000

// client is a process: its session, without a goroutine, and its objects.
type client struct {
	*session
	w      *world
	peer   *net.UnixConn
	memory *slice
	bell   int
	shared shm // its doorbell page
	fds    []int
	closed bool
}

func (w *world) connect() *client {
	w.t.Helper()
	c := &client{w: w, memory: &slice{memory.Bytes{Base: base, Data: make([]byte, 1<<16)}}, bell: -1}
	if w.light {
		socket, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // silent
		if err != nil {
			w.t.Fatal(err)
		}
		c.session = makeSession(w.server, socket, c.memory)
	} else {
		c.dial()
	}
	if err := c.watchSocket(); err != nil {
		w.t.Fatal(err)
	}
	w.clients[c] = true
	return c
}

// dial gives the process a socket.
func (c *client) dial() {
	t := c.w.t
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		end, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = end.(*net.UnixConn)
	}
	if c.session, err = newSession(c.w.server, ends[0]); err != nil {
		t.Fatal(err)
	}
	c.session.memory.closeProcess()
	c.session.memory, c.peer = c.memory, ends[1]
}

// socketOf returns the descriptor of the process's end.
func (c *client) socketOf() (n int) {
	raw, err := c.peer.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n = int(fd) })
	}
	if err != nil {
		c.w.t.Fatal(err)
	}
	return n
}

// answer handles a request, in as many turns as it takes.
func (c *client) answer(o op, body []byte) answer {
	for {
		c.w.turns++
		if a, again := c.session.answerRequest(o, body); !again {
			return a
		}
	}
}

// close ends the process.
func (c *client) close() {
	if c.closed {
		return // its descriptors are reused by now
	}
	c.closed = true
	delete(c.w.clients, c)
	c.destroyObjects()
	if c.peer != nil {
		c.peer.Close()
	}
	for _, fd := range c.fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if !c.w.light {
		c.shared.closeMemory()
	}
}

// completions finds a completion queue.
func (c *client) completions(handle uint32) *completions { return c.objects[handle].it.(*completions) }

// ask sends a request.
func (c *client) ask(o op, q any) answer {
	var b bytes.Buffer
	if q != nil {
		if err := binary.Write(&b, binary.LittleEndian, q); err != nil {
			c.w.t.Fatal(err)
		}
	}
	a := c.answer(o, b.Bytes())
	c.fds = append(c.fds, a.fds...)
	return a
}

// must sends a request that has to succeed.
func must[A any](c *client, o op, q any) (out A) {
	c.w.t.Helper()
	a := c.ask(o, q)
	if a.err != nil {
		c.w.t.Fatalf("request %d: %v", o, a.err)
	}
	if a.body != nil {
		out = a.body.(A)
	}
	return out
}

// kit is the set of objects that a process makes first.
type kit struct {
	context, pd, channel uint32
	mr                   mrAnswer
	cq                   cqAnswer
	srq                  srqAnswer
	rc, ud, srqRC        qpAnswer
	ah                   uint32
}

// greet makes a session and a kit: a queue pair of RC that is connected to itself, one of UD, one
// with a shared receive queue.
func (c *client) greet() (k kit) {
	must[none](c, opHello, helloMsg{Version: abiVersion})
	c.bell = c.fds[1]
	var err error
	if c.w.light {
		c.shared = c.doorbell
	} else if c.shared.bytes, err = unix.Mmap(c.fds[0], 0, doorbellBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		c.w.t.Fatal(err)
	}
	k.context = must[deviceAnswer](c, opOpen, handleMsg{}).Handle
	k.pd = must[handleMsg](c, opAllocPD, handleMsg{Handle: k.context}).Handle
	k.channel = must[handleMsg](c, opCreateChannel, handleMsg{Handle: k.context}).Handle
	k.mr = must[mrAnswer](c, opRegMR, regMR{PD: k.pd, Access: 0x1f, Addr: base, Length: 1 << 16, IOVA: base})
	k.cq = must[cqAnswer](c, opCreateCQ, createCQ{Context: k.context, CQE: 64, Channel: k.channel})
	k.srq = must[srqAnswer](c, opCreateSRQ, createSRQ{PD: k.pd, MaxWR: 16, MaxSGE: 2})
	ask := createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.RC), MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64}
	k.rc = must[qpAnswer](c, opCreateQP, ask)
	ask.SRQ = k.srq.Handle
	k.srqRC = must[qpAnswer](c, opCreateQP, ask)
	ask.SRQ, ask.Type = 0, uint32(qp.UD)
	k.ud = must[qpAnswer](c, opCreateQP, ask)
	k.ah = must[handleMsg](c, opCreateAH, createAH{PD: k.pd, AH: c.vector()}).Handle
	c.join(k.rc, k.rc.QPNum)
	c.join(k.srqRC, k.srqRC.QPNum)
	c.modify(k.ud, qpAttr{State: uint32(qp.Init), Port: 1, QKey: 7}, qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskQKey)
	c.modify(k.ud, qpAttr{State: uint32(qp.RTR)}, qp.MaskState)
	c.modify(k.ud, qpAttr{State: uint32(qp.RTS)}, qp.MaskState|qp.MaskSQPSN)
	return k
}

func (c *client) vector() ahAttr {
	return ahAttr{DGID: nicemu.GID(netip.MustParseAddr("10.0.0.1")), IsGlobal: 1, Port: 1}
}

func (c *client) modify(q qpAnswer, a qpAttr, m qp.Mask) {
	c.w.t.Helper()
	a.QP, a.Mask = q.Handle, uint32(m)
	must[handleMsg](c, opModifyQP, a)
}

// join connects a queue pair.
func (c *client) join(q qpAnswer, to uint32) {
	c.w.t.Helper()
	for _, a := range c.joining(q, to) {
		must[handleMsg](c, opModifyQP, a)
	}
}

// joining returns the steps from RESET to RTS.
func (c *client) joining(q qpAnswer, to uint32) []qpAttr {
	return []qpAttr{{
		State: uint32(qp.Init), Port: 1, Access: 0xe,
		QP: q.Handle, Mask: uint32(qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccessFlags),
	}, {
		State: uint32(qp.RTR), PathMTU: uint32(qp.MTU1024), DestQPN: to, AH: c.vector(), MaxDestRdAtomic: 4, MinRNRTimer: 1,
		QP: q.Handle, Mask: uint32(qp.MaskState | qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN | qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer),
	}, {
		State: uint32(qp.RTS), Timeout: 8, RetryCnt: 1, RNRRetry: 1, MaxRdAtomic: 4,
		QP: q.Handle, Mask: uint32(qp.MaskState | qp.MaskSQPSN | qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxQPRdAtomic),
	}}
}

// write writes an RDMA WRITE of n bytes to itself into the queue pair's ring, as the library does,
// and rings.
func (c *client) write(q qpAnswer, key uint32, from, to uint64, n uint32) {
	k := c.queues[q.Number]
	index := k.mem.wordAt(sendIndex).Load()
	copy(k.sends.slots[int(index&k.sends.mask)*k.sends.stride:], c.entry(key, from, to, n))
	k.mem.wordAt(sendIndex).Store(index + 1)
	c.ring(q.Number)
}

// entry returns the entry of the WRITE.
func (c *client) entry(key uint32, from, to uint64, n uint32) []byte {
	b := make([]byte, sendLen+sgeLen)
	binary.LittleEndian.PutUint32(b[4:], flagSignaled)
	binary.LittleEndian.PutUint64(b[8:], to)
	binary.LittleEndian.PutUint32(b[16:], key)
	binary.LittleEndian.PutUint32(b[52:], 1)
	binary.LittleEndian.PutUint64(b[sendLen:], from)
	binary.LittleEndian.PutUint32(b[sendLen+8:], n)
	binary.LittleEndian.PutUint32(b[sendLen+12:], key)
	return b
}

func (c *client) ring(number uint32) {
	d := c.shared.doubleAt(dirtyOffset + 8*int(number/64))
	d.Store(d.Load() | 1<<(number%64))
	a := c.shared.doubleAt(anyOffset + 8*int(number/64/64))
	a.Store(a.Load() | 1<<(number/64%64))
	if c.shared.wordAt(0).Swap(0) != 0 {
		one := [8]byte{1}
		_, _ = unix.Write(c.bell, one[:])
	}
}

// completed takes the waiting completions and returns the status of the last one; -1 if there is
// none.
func (c *client) completed(handle uint32) (status int) {
	k := c.completions(handle)
	status = -1
	for taken := k.mem.wordAt(cqTaken).Load(); taken != k.mem.wordAt(cqMade).Load(); taken++ {
		status = int(binary.LittleEndian.Uint32(k.slotOf(taken)[8:]))
		k.mem.wordAt(cqTaken).Store(taken + 1)
	}
	return status
}
