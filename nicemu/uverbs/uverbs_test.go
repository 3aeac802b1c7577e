package uverbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// A request that a process posts in shared memory is executed, and completes there.
func TestWrite_CompletesInSharedMemory(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	defer c.close()
	k := c.greet()
	for i, n := range []uint32{1, 1024, 5000, 30000} {
		copy(c.memory.Data, bytes.Repeat([]byte{byte(i + 1), 2, 3}, 10000))
		c.write(k.rc, k.mr.Key, base, base+32768, n)
		w.run()
		if s := c.completed(k.cq.Handle); s != 0 {
			t.Fatalf("%d bytes: status %d", n, s)
		}
		if !bytes.Equal(c.memory.Data[:n], c.memory.Data[32768:][:n]) {
			t.Errorf("%d bytes are not right", n)
		}
	}
}

// A requested completion makes one event in its channel.
func TestEvents_AreMadeOncePerRequest(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	defer c.close()
	k := c.greet()
	read := c.fds[3] // doorbell, eventfd, asynchronous events, channel
	if err := unix.SetNonblock(read, true); err != nil {
		t.Fatal(err)
	}
	var b [64]byte
	for range 3 {
		c.completions(k.cq.Handle).mem.wordAt(cqArm).Store(armAny)
		for range 2 {
			c.write(k.rc, k.mr.Key, base, base+100, 1)
		}
		w.run()
		if n, _ := unix.Read(read, b[:]); n != 4 || binary.LittleEndian.Uint32(b[:]) != k.cq.Handle {
			t.Fatalf("the channel has %d bytes: %x", n, b[:max(n, 0)])
		}
		c.completions(k.cq.Handle).mem.wordAt(cqEvent).Store(0)
		c.completed(k.cq.Handle)
	}
}

// A process sees the limits that the NIC takes, and can set them, as many as there
// are.
func TestRateLimit_IsThatOfTheNIC(t *testing.T) {
	w := newWorld(t, func(s *nicemu.Settings) {
		s.RateLimiter = nicemu.RateLimiter{Limiters: 1, Min: 2500, Max: 4 * units.Gbps}
	})
	c := w.connect()
	defer c.close()
	k := c.greet()
	a := must[deviceAnswer](c, opOpen, handleMsg{})
	if a.RateLimitMin != 3 || a.RateLimitMax != 4e6 || a.RateLimitTypes != 1<<qp.RC|1<<qp.UC|1<<qp.UD|1<<qp.XRCSend {
		t.Errorf("limits of %d to %d kb/s for types %x", a.RateLimitMin, a.RateLimitMax, a.RateLimitTypes)
	}
	set := func(q qpAnswer, rate uint32) error {
		return c.ask(opSetRateLimit, rateLimitMsg{QP: q.Handle, Rate: rate, MaxBurst: 5000, TypicalPacket: 1024}).err
	}
	for _, rate := range []uint32{3, 4e6} {
		if err := set(k.rc, rate); err != nil {
			t.Error(err)
		}
	}
	w.device.EachQP(func(q *nicemu.QP) {
		want := qp.RateLimit{}
		if q.Number() == k.rc.QPNum {
			want = qp.RateLimit{Rate: 4 * units.Gbps, MaxBurst: 5000, TypicalPacket: 1024}
		}
		if got := q.RateLimit(); got != want {
			t.Errorf("queue pair %d has the limit %+v, not %+v", q.Number(), got, want)
		}
	})
	for _, rate := range []uint32{2, 4e6 + 1} {
		if err := set(k.rc, rate); errnoOf(err) != syscall.EINVAL {
			t.Errorf("%d kb/s: %v", rate, err)
		}
	}
	if err := set(k.ud, 1000); errnoOf(err) != syscall.ENOSPC {
		t.Errorf("a second limit: %v", err)
	}
}

// An entry has the time at which the NIC made it, though it arrives later, and
// a queue with the epoch has the time of day of the clock's zero.
func TestCompletion_HasTheTimeOfTheNIC(t *testing.T) {
	const late = 30 * units.Microsecond
	w := newWorld(t, func(s *nicemu.Settings) { s.Delays.Completion = late })
	start := time.Unix(1234, 567)
	w.server.Start = func() time.Time { return start }
	c := w.connect()
	defer c.close()
	k := c.greet()
	day := must[cqAnswer](c, opCreateCQ, createCQ{Context: k.context, CQE: 16, Epoch: 1})
	if got := c.completions(day.Handle).mem.doubleAt(cqEpoch).Load(); got != uint64(start.UnixNano()) {
		t.Errorf("the clock was zero at %d", got)
	}
	if got := c.completions(k.cq.Handle).mem.doubleAt(cqEpoch).Load(); got != 0 {
		t.Errorf("a queue that was made without has the time of day %d", got)
	}
	came := units.Time(0)
	c.write(k.rc, k.mr.Key, base, base+32768, 100)
	x := c.completions(k.cq.Handle)
	for came = w.engine.Now(); x.made == 0; came += units.Microsecond {
		w.server.PollInput(w.engine.Now(), 32)
		w.engine.Run(came, 20000)
		w.engine.AdvanceTo(came)
	}
	stamp := units.Time(binary.LittleEndian.Uint64(x.slotOf(0)[56:])) * units.Nanosecond
	if d := came - stamp; d < late || d > late+3*units.Microsecond {
		t.Errorf("the entry of %v came at %v, which is not %v later", stamp, came, late)
	}
	// The lab could not keep up.
	start = start.Add(time.Second)
	ring := c.completions(day.Handle)
	ring.PutEntry(cq.Completion{}, false)
	if got := ring.mem.doubleAt(cqEpoch).Load(); got != uint64(start.UnixNano()) {
		t.Errorf("the clock was zero at %d", got)
	}
}

// Control requests that fail say why.
func TestRequest_ErrorsHaveTheirErrno(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	defer c.close()
	for _, q := range []struct {
		name string
		o    op
		q    any
		want syscall.Errno
	}{
		{"before HELLO", opDevices, nil, syscall.EPROTO},
		{"another version", opHello, helloMsg{Version: 99}, syscall.EPROTONOSUPPORT},
		{"no operation", 4711, nil, syscall.ENOSYS},
	} {
		if a := c.ask(q.o, q.q); errnoOf(a.err) != q.want || a.err == nil {
			t.Errorf("%s: %v, not %v", q.name, a.err, q.want)
		}
	}
	k := c.greet()
	other := w.connect()
	defer other.close()
	theirs := other.greet()
	for _, q := range []struct {
		name string
		o    op
		q    any
		want syscall.Errno
	}{
		{"HELLO again", opHello, helloMsg{Version: abiVersion}, syscall.EPROTO},
		{"a short request", opAllocPD, none{}, syscall.EPROTO},
		{"no device", opOpen, handleMsg{Handle: 5}, syscall.ENODEV},
		{"no context", opAllocPD, handleMsg{Handle: 4711}, syscall.ENOENT},
		{"not a context", opAllocPD, handleMsg{Handle: k.pd}, syscall.ENOENT},
		{"no memory", opRegMR, regMR{PD: k.pd, Addr: 1 << 40, Length: 10}, syscall.EFAULT},
		{"more memory than there is", opRegMR, regMR{PD: k.pd, Addr: base, Length: 1<<64 - base}, syscall.EINVAL},
		{"no entries", opCreateCQ, createCQ{Context: k.context}, syscall.EINVAL},
		{"too many entries", opCreateCQ, createCQ{Context: k.context, CQE: 1 << 31}, syscall.EINVAL},
		{"a domain in use", opDeallocPD, handleMsg{Handle: k.pd}, syscall.EBUSY},
		{"a channel in use", opDestroyChannel, handleMsg{Handle: k.channel}, syscall.EBUSY},
		{"a completion queue in use", opDestroyCQ, handleMsg{Handle: k.cq.Handle}, syscall.EBUSY},
		{"a shared receive queue in use", opDestroySRQ, handleMsg{Handle: k.srq.Handle}, syscall.EBUSY},
		{"too much inline", opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: 2, MaxInline: 1 << 20}, syscall.EINVAL},
		{"no type", opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: 8}, syscall.EOPNOTSUPP},
		{"a state", opModifyQP, qpAttr{QP: k.rc.Handle, Mask: uint32(qp.MaskState), State: 99}, syscall.EINVAL},
		{"a rate limit of no queue pair", opSetRateLimit, rateLimitMsg{QP: k.srq.Handle, Rate: 1000}, syscall.ENOENT},
		{"a rate limit of another's queue pair", opSetRateLimit, rateLimitMsg{QP: 4711, Rate: 1000}, syscall.ENOENT},
		{"a burst without a rate limit", opSetRateLimit, rateLimitMsg{QP: k.rc.Handle, MaxBurst: 5000}, syscall.EINVAL},
		{"not a queue pair", opQueryQP, handleMsg{Handle: k.srq.Handle}, syscall.ENOENT},
		{"not a shared receive queue", opQuerySRQ, handleMsg{Handle: k.rc.Handle}, syscall.ENOENT},
	} {
		if a := c.ask(q.o, q.q); errnoOf(a.err) != q.want || a.err == nil {
			t.Errorf("%s: %v, not %v", q.name, a.err, q.want)
		}
	}
	if theirs.rc.QPNum == k.rc.QPNum {
		t.Error("two processes have a queue pair in common")
	}
}

// A queue pair takes as many inline bytes as its entries have room for, like those of
// NICs, and no more than the device takes.
func TestInline_FillsTheEntry(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	k := c.greet()
	for _, q := range []struct{ sges, inline, want uint32 }{
		{0, 0, 0}, {1, 0, 64}, {4, 0, 64}, {5, 0, 128}, {1, 60, 64}, {1, 65, 128}, {30, 0, 512}, {30, 500, 512}, {1, 512, 512},
	} {
		ask := createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.RC), MaxSendWR: 16, MaxSendSGE: q.sges, MaxInline: q.inline}
		a := must[qpAnswer](c, opCreateQP, ask)
		if a.MaxInline != q.want || a.SendStride < sendLen+a.MaxInline {
			t.Errorf("max_send_sge %d, max_inline_data %d: %d in entries of %d bytes, not %d", q.sges, q.inline, a.MaxInline, a.SendStride, q.want)
		}
		must[none](c, opDestroyQP, handleMsg{Handle: a.Handle})
	}
}

// TestPorts_OfAnEndedProcessAreFree: a program that starts after another has ended gets its port, also
// while the server has not noticed the end. A port of a program that runs stays its own.
func TestPorts_OfAnEndedProcessAreFree(t *testing.T) {
	w := newWorld(t)
	listen := func(c *client) error {
		channel := must[handleMsg](c, opCMCreateChannel, none{}).Handle
		id := must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channel, PortSpace: uint32(spaceTCP)}).Handle
		if err := c.ask(opCMBind, cmAddress{ID: id, Local: endpoint{IP: [16]byte{10: 0xff, 0xff, 10, 0, 0, 1}, Family: unix.AF_INET, Port: 7471}}).err; err != nil {
			return err
		}
		return c.ask(opCMListen, cmListen{ID: id}).err
	}
	first, second, third := w.connect(), w.connect(), w.connect()
	for _, c := range []*client{first, second, third} {
		c.greet()
	}
	if err := listen(first); err != nil {
		t.Fatal(err)
	}
	if err := listen(second); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port of a program that runs: %v", err)
	}
	first.memory.markEnded()
	if err := listen(second); err != nil {
		t.Errorf("the port of a program that has ended: %v", err)
	}
	if err := listen(third); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port of the second program: %v", err)
	}
	first.close()
	w.run()
	if err := listen(third); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port of the second program, later: %v", err)
	}
}

// The objects of a process end with it.
func TestProcess_EndsWithItsObjects(t *testing.T) {
	w := newWorld(t)
	before, files := w.device.InUse(), openFiles(t)
	c := w.connect()
	k := c.greet()
	channel := must[handleMsg](c, opCMCreateChannel, none{}).Handle
	id := must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channel, PortSpace: uint32(spaceTCP)}).Handle
	must[cmAddress](c, opCMListen, cmListen{ID: id})
	must[none](c, opAttachMcast, mcastMsg{QP: k.ud.Handle, GID: [16]byte{10: 0xff, 0xff, 239, 1, 2, 3}})
	c.write(k.rc, k.mr.Key, base, base+100, 1000)
	data := c.memory.Data
	c.close()
	w.run()
	if now := w.device.InUse(); now != before {
		t.Errorf("in use are %+v, not %+v", now, before)
	}
	if data[100] != 0 || len(w.server.qps)+len(w.server.cqs)+len(w.server.srqs)+len(w.server.ports.users)+len(w.server.members) != 0 {
		t.Error("something is left")
	}
	if n := openFiles(t); n != files {
		t.Errorf("%d descriptors are open, not %d", n, files)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// The limits of objects are those of one program: each object of the lab's machine, and each mapping
// of a queue, is shared.
func TestOpen_ReportsWhatOneProgramCanHave(t *testing.T) {
	w := newWorld(t, func(s *nicemu.Settings) { s.Limits.SRQ, s.Limits.PD = 7, 9 })
	w.server.budget = newBudget(cost{memory: 1 << 30, mappings: 1000, descriptors: 1000})
	c := w.connect()
	must[none](c, opHello, helloMsg{Version: abiVersion})
	a := must[deviceAnswer](c, opOpen, handleMsg{})
	if a.MaxQP != 500 || a.MaxCQ != 500 || a.MaxMR != maxObjects || a.MaxMW != maxObjects || a.MaxAH != maxObjects {
		t.Errorf("%d queue pairs, %d completion queues, %d regions, %d windows, %d address handles", a.MaxQP, a.MaxCQ, a.MaxMR, a.MaxMW, a.MaxAH)
	}
	if a.MaxSRQ != 7 || a.MaxPD != 9 {
		t.Errorf("limits of the NIC that are lower: %d shared receive queues, %d domains", a.MaxSRQ, a.MaxPD)
	}
	pd := must[handleMsg](c, opAllocPD, handleMsg{Handle: a.Handle}).Handle
	cq := must[cqAnswer](c, opCreateCQ, createCQ{Context: a.Handle, CQE: 1}).Handle
	made := uint32(1) // the completion queue
	for ; ; made++ {
		if x := c.ask(opCreateQP, createQP{PD: pd, SendCQ: cq, RecvCQ: cq, Type: uint32(qp.RC)}); x.err != nil {
			break
		}
	}
	if made < a.MaxQP-5 || made > a.MaxQP {
		t.Errorf("a program has made %d queues, where %d are possible", made, a.MaxQP)
	}
}

// A port that goes down is an event of each open context, with the number of the port, and the
// port's state.
func TestPort_TellsAllContexts(t *testing.T) {
	w := newWorld(t)
	changes := 0
	w.server.PortChanged = func() { changes++ }
	c := w.connect()
	k := c.greet()
	if a := must[portAnswer](c, opQueryPort, handleMsg{Handle: k.context}); a.Active != 1 {
		t.Error("the port is not active")
	}
	w.device.SetLink(false)
	if a := must[portAnswer](c, opQueryPort, handleMsg{Handle: k.context}); a.Active != 0 || changes != 1 || len(w.server.contexts) != 1 {
		t.Errorf("the port is active: %d; %d changes told; %d contexts", a.Active, changes, len(w.server.contexts))
	}
	w.device.SetLink(true)
	must[none](c, opClose, handleMsg{Handle: k.context})
	if changes != 2 || len(w.server.contexts) != 0 {
		t.Errorf("%d changes told; %d contexts are open", changes, len(w.server.contexts))
	}
}
