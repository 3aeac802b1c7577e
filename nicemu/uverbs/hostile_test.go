package uverbs

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
)

// Another thread writes to all memory that a process shares, without a
// pause, while the server reads it: it reads nothing twice, so no other process is affected.
func TestRings_ChangedWhileReadHarmNobody(t *testing.T) {
	w, v, c, k := attacked(t)
	// Separate mappings, as another process has them: the doorbell page and the memory handed over
	// with queues (channels and asynchronous events are in between).
	var shared [][]byte
	for _, fd := range c.fds {
		var s unix.Stat_t
		if unix.Fstat(fd, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Size == 0 {
			continue
		}
		m, err := unix.Mmap(fd, 0, int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(m) }()
		shared = append(shared, m)
	}
	if len(shared) != 6 {
		t.Fatalf("%d things are shared, not 6", len(shared))
	}
	var stop atomic.Bool
	var writes atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for !stop.Load() {
			m := shared[r.IntN(len(shared))]
			at := r.IntN(len(m)/8) * 8
			if r.IntN(3) == 0 {
				at = r.IntN(4) * 64 // the indices
			}
			value := r.Uint64()
			if r.IntN(2) == 0 {
				value &= 0x1f0000001f
			}
			binary.NativeEndian.PutUint64(m[at:], value)
			writes.Add(1)
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	for n := 0; n < 300 || writes.Load() < 200_000; n++ {
		for i := range c.queues {
			c.recordWork(i)
		}
		c.server.deferSession(c.session)
		w.server.PollInput(w.engine.Now(), 32)
		if n%10 == 0 {
			w.run()
			w.sound()
			// It is in the error state by now, and soon again.
			must[handleMsg](c, opModifyQP, qpAttr{QP: k.rc.Handle, Mask: uint32(qp.MaskState), State: uint32(qp.Reset)})
			for _, a := range c.joining(k.rc, k.rc.QPNum) {
				c.ask(opModifyQP, a)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	c.close()
	v.unharmed(t)
}

// The memory that a process shares cannot be made shorter than the server's mapping,
// which would end the lab with SIGBUS, and holes in it read as zeros.
func TestSharedMemory_CannotBeTruncated(t *testing.T) {
	w, v, c, k := attacked(t)
	c.write(k.rc, k.mr.Key, base, base+0x1000, 100)
	n := 0
	for _, fd := range c.fds {
		var s unix.Stat_t
		if unix.Fstat(fd, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || s.Size == 0 {
			continue
		}
		n++
		for _, size := range []int64{0, s.Size - 1, s.Size + 1} {
			if err := unix.Ftruncate(fd, size); err != unix.EPERM {
				t.Errorf("ftruncate from %d to %d bytes: %v", s.Size, size, err)
			}
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != unix.EPERM {
			t.Errorf("one more seal: %v", err)
		}
		if err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, s.Size); err != nil {
			t.Errorf("a hole: %v", err)
		}
	}
	if n != 6 {
		t.Fatalf("%d things are shared, not 6", n)
	}
	w.shake(c)
	v.unharmed(t)
}

// Handles mean nothing in another process, and keys nothing in
// another protection domain.
func TestHandles_MeanNothingToOthers(t *testing.T) {
	w, v, c, k := attacked(t)
	for range 40 { // so that its own handles differ from the victim's
		must[handleMsg](c, opAllocPD, handleMsg{Handle: k.context})
	}
	own := map[uint32]bool{}
	for h := range c.objects {
		own[h] = true
	}
	for h := range v.objects {
		for o := range requests {
			if own[h] || o == opOpen || o == opHello || o == opDevices {
				continue
			}
			body := make([]byte, bodySizes[o])
			for i := 0; i+4 <= len(body); i += 4 {
				binary.LittleEndian.PutUint32(body[i:], h)
			}
			if a := c.answer(o, body); a.err == nil && o != opCMCreateChannel {
				t.Errorf("request %d with another's handle %d has succeeded", o, h)
			}
		}
	}
	// WRITEs and READs with the victim's keys, local and remote.
	for _, x := range []struct {
		op           uint32
		local, other uint32
		want         cq.Status
	}{
		{0, v.mr.Key, k.mr.Key, cq.LocProtErr},
		{0, k.mr.Key, v.mr.Key, cq.RemAccessErr},
		{4, k.mr.Key, v.mr.Key, cq.RemAccessErr},
	} {
		for _, q := range []qpAnswer{k.rc, k.srqRC} {
			c.modify(q, qpAttr{State: uint32(qp.Reset)}, qp.MaskState)
		}
		c.join(k.rc, k.srqRC.QPNum)
		c.join(k.srqRC, k.rc.QPNum)
		c.write(k.rc, x.local, base, base+0x1000, 100)
		q := c.queues[k.rc.Number]
		b := q.sends.slots[int((q.mem.wordAt(sendIndex).Load()-1)&q.sends.mask)*q.sends.stride:]
		binary.LittleEndian.PutUint32(b, x.op)
		binary.LittleEndian.PutUint32(b[16:], x.other)
		w.run()
		if s := c.completed(k.cq.Handle); cq.Status(s) != x.want {
			t.Errorf("operation %d with keys %#x and %#x: %v, not %v", x.op, x.local, x.other, cq.Status(s), x.want)
		}
	}
	w.sound()
	v.unharmed(t)
}

// nonsense fills every entry of a send ring with nonsense, and posts them all.
func (c *client) nonsense(q qpAnswer) {
	k := c.queues[q.Number]
	for i := range k.sends.slots {
		k.sends.slots[i] = 0xff
	}
	k.mem.wordAt(sendIndex).Store(k.mem.wordAt(sendIndex).Load() + k.sends.mask + 1)
	c.ring(q.Number)
}

// The rest of a context that was closed, or of a channel, does not write to a
// file that has since reused its descriptor.
func TestPipe_IsNotWrittenAfterItsRelease(t *testing.T) {
	w, v, c, k := attacked(t)
	context := must[deviceAnswer](c, opOpen, handleMsg{}).Handle
	fd := c.objects[context].it.(*opened).fd
	pd := must[handleMsg](c, opAllocPD, handleMsg{Handle: context}).Handle
	must[none](c, opClose, handleMsg{Handle: context})
	q := must[qpAnswer](c, opCreateQP, createQP{PD: pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.RC), MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	if err := unix.Dup3(pipe[1], fd, unix.O_CLOEXEC); err != nil { // free until now
		t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.Close(pipe[1])
	c.join(q, q.QPNum)
	c.nonsense(q)
	w.run()
	var b [64]byte
	if n, err := unix.Read(pipe[0], b[:]); err != unix.EAGAIN {
		t.Errorf("another's descriptor was written to: % x", b[:max(n, 0)])
	}
	w.sound()
	v.unharmed(t)
}

// A listener that moves to another channel takes along its pending requests;
// in whatever order the IDs are destroyed, every channel counts its IDs correctly.
func TestListener_MigratesWithItsRequests(t *testing.T) {
	w, v, c, _ := attacked(t)
	channels := [2]uint32{}
	for i := range channels {
		channels[i] = must[handleMsg](c, opCMCreateChannel, none{}).Handle
	}
	id := func() uint32 {
		return must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channels[0], PortSpace: uint32(spaceTCP)}).Handle
	}
	here := endpoint{IP: [16]byte{10: 0xff, 0xff, 10, 0, 0, 1}, Port: 7174, Family: unix.AF_INET}
	listener := id()
	must[cmAddress](c, opCMBind, cmAddress{ID: listener, Local: here})
	must[cmAddress](c, opCMListen, cmListen{ID: listener})
	active := id()
	must[cmAddress](c, opCMResolveAddr, cmResolve{ID: active, Remote: here})
	must[none](c, opCMResolveRoute, handleMsg{Handle: active})
	must[none](c, opCMConnect, cmConnect{ID: active, Param: cmParam{QPNum: 5}})
	w.run()
	var passive uint32
	for _, e := range c.objects[channels[0]].it.(*cmChannel).events {
		if e.new != nil {
			passive = e.new.handle
		}
	}
	if passive == 0 {
		t.Fatal("there is no request to connect")
	}
	must[none](c, opCMMigrate, cmCreateID{ID: listener, Channel: channels[1]})
	w.sound()
	must[none](c, opCMDestroyID, handleMsg{Handle: passive})
	w.sound()
	must[none](c, opCMDestroyID, handleMsg{Handle: listener})
	w.sound()
	if a := c.ask(opCMDestroyChannel, handleMsg{Handle: channels[0]}); errnoOf(a.err) != syscall.EBUSY {
		t.Errorf("a channel that has an ID is destroyed: %v", a.err)
	}
	v.unharmed(t)
}

// However much a process has posted, a turn takes a limited amount of it, the others
// have their turns, and the rest follows.
func TestTurn_TakesALimitedAmountOfWork(t *testing.T) {
	w, v, c, k := attacked(t)
	const depth, pairs = 4096, 8
	var all []qpAnswer
	for range pairs {
		all = append(all, must[qpAnswer](c, opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.RC), MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}))
	}
	// In RESET every request is refused, which costs the most: a completion and an event.
	for _, q := range all {
		c.nonsense(q)
	}
	v.write(v.rc, v.mr.Key, base, base+0x8000, 3000)
	maxTaken, total, done := 0, 0, -1
	for n := 0; n < 10*depth && total < pairs*depth+1; n++ {
		taken := w.server.PollInput(w.engine.Now(), 32)
		maxTaken, total = max(maxTaken, taken), total+taken
		w.engine.AdvanceTo(w.engine.Now() + 10*1000) // less than the victim's next deadline
		if v.queues[v.rc.Number].sends.taken == 1 && done < 0 {
			done = n
		}
	}
	if total != pairs*depth+1 {
		t.Errorf("%d entries are taken, not %d", total, pairs*depth+1)
	}
	if limit := perPoll + 2*perTurn; maxTaken > limit {
		t.Errorf("a turn has taken %d entries, not %d at most", maxTaken, limit)
	}
	if done < 0 || done > 2 {
		t.Errorf("the victim's entry was taken in turn %d", done)
	}
	w.run()
	if s := v.completed(v.cq.Handle); s != 0 {
		t.Errorf("the victim's WRITE: status %d", s)
	}

	// A request about a queue waits for the queue's entries, a little at a time.
	w.turns = 0
	c.nonsense(all[0])
	must[handleMsg](c, opModifyQP, qpAttr{QP: all[0].Handle, Mask: uint32(qp.MaskState), State: uint32(qp.Reset)})
	if want := depth / perTurn; w.turns < want {
		t.Errorf("the request took %d turns, not %d", w.turns, want)
	}
	for range 1000 {
		must[handleMsg](c, opAllocPD, handleMsg{Handle: k.context})
	}
	turns, do := 0, w.server.do
	w.server.do = func(f func()) error { turns++; return do(f) }
	c.close()
	if turns < 1000/32 {
		t.Errorf("at the end the engine was held %d times for 1000 objects", turns)
	}
	w.server.do = do
	w.sound()
}

// However many programs ask at once, a turn answers a limited number of requests,
// and the rest follows.
func TestTurn_AnswersALimitedNumberOfRequests(t *testing.T) {
	w := newWorld(t)
	const programs = 40
	all := make([]*client, programs)
	for i := range all {
		all[i] = w.connect()
		defer all[i].close()
		must[none](all[i], opHello, helloMsg{Version: abiVersion})
		all[i].request = message(opDevices, nil)
		w.server.deferSession(all[i].session)
	}
	left := programs
	for turn := 0; left > 0; turn++ {
		before := left
		w.server.PollInput(w.engine.Now(), 32)
		left = 0
		for _, c := range all {
			if c.request != nil {
				left++
			}
		}
		if answered := before - left; answered != min(before, perPoll/perRequest) {
			t.Fatalf("turn %d has answered %d of %d requests, not %d", turn, answered, before, perPoll/perRequest)
		}
	}
}

// A process that rings all the time, that has a full eventfd, or that makes it block,
// breaks its own bell and no other.
func TestBell_OfAHostileProcessBreaksNoOther(t *testing.T) {
	w, v, c, k := attacked(t)
	if err := unix.SetNonblock(c.bell, false); err != nil {
		t.Fatal(err)
	}
	full := [8]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if _, err := unix.Write(c.bell, full[:]); err != nil {
		t.Fatal(err)
	}
	for i := range anyWords { // every possible number, and none is a queue's
		c.shared.doubleAt(anyOffset + 8*i).Store(^uint64(0))
	}
	for i := range maxQueues / 64 {
		c.shared.doubleAt(dirtyOffset + 8*i).Store(^uint64(0))
	}
	w.run()
	c.modify(k.rc, qpAttr{State: uint32(qp.Reset)}, qp.MaskState)
	w.sound()
	v.unharmed(t)
}

// If a process takes no completion and no event, its own queue overruns, and no
// other.
func TestQueue_NeverPolledOverrunsAlone(t *testing.T) {
	w, v, c, k := attacked(t)
	for i := range 200 { // of a queue of 127
		c.write(k.rc, k.mr.Key, base, base+0x1000, 1)
		if i%8 == 7 {
			w.run()
		}
	}
	w.run()
	if a := must[qpAttr](c, opQueryQP, handleMsg{Handle: k.rc.Handle}); qp.State(a.State) != qp.Err {
		t.Errorf("the queue pair is in %v", qp.State(a.State))
	}
	for range 20000 { // more asynchronous events than their pipe holds
		c.queues[k.ud.Number].failQueue()
	}
	w.sound()
	v.unharmed(t)
}

// A process that makes as many objects as it can is refused before the others are left
// with nothing; when it ends everything is given back.
func TestBudget_LeavesRoomForOthers(t *testing.T) {
	w := newWorld(t)
	have := cost{memory: 1 << 20, mappings: 60, descriptors: 30}
	w.server.budget = newBudget(have)
	v := w.victim()
	kept := v.held
	makers := map[string]func(*client, kit) answer{
		"completion queues": func(c *client, k kit) answer { return c.ask(opCreateCQ, createCQ{Context: k.context, CQE: 1}) },
		"queue pairs": func(c *client, k kit) answer {
			return c.ask(opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.UD), MaxSendWR: 1, MaxSendSGE: 1})
		},
		"a large queue pair": func(c *client, k kit) answer {
			return c.ask(opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, RecvCQ: k.cq.Handle, Type: uint32(qp.UD), MaxSendWR: 32768, MaxSendSGE: 30})
		},
		"shared receive queues": func(c *client, k kit) answer { return c.ask(opCreateSRQ, createSRQ{PD: k.pd, MaxWR: 1, MaxSGE: 1}) },
		"contexts":              func(c *client, _ kit) answer { return c.ask(opOpen, handleMsg{}) },
		"channels":              func(c *client, k kit) answer { return c.ask(opCreateChannel, handleMsg{Handle: k.context}) },
		"event channels":        func(c *client, _ kit) answer { return c.ask(opCMCreateChannel, none{}) },
		"domains":               func(c *client, k kit) answer { return c.ask(opAllocPD, handleMsg{Handle: k.context}) },
		"regions": func(c *client, k kit) answer {
			return c.ask(opRegMR, regMR{PD: k.pd, Addr: base, Length: 1, IOVA: base})
		},
		"windows":         func(c *client, k kit) answer { return c.ask(opAllocMW, allocMW{PD: k.pd, Type: 1}) },
		"address handles": func(c *client, k kit) answer { return c.ask(opCreateAH, createAH{PD: k.pd, AH: c.vector()}) },
	}
	for name, more := range makers {
		t.Run(name, func(t *testing.T) {
			c := w.connect()
			k := c.greet()
			var a answer
			for n := 0; a.err == nil; n++ {
				if a = more(c, k); n > 10000 {
					t.Fatal("there is no end to it")
				}
			}
			if errnoOf(a.err) != syscall.ENOMEM {
				t.Errorf("it ends with %v", a.err)
			}
			w.sound()
			for other := range makers {
				if other == "a large queue pair" {
					continue
				}
				if a := makers[other](v.client, v.kit); a.err != nil {
					t.Errorf("the victim gets no %s: %v", other, a.err)
				}
			}
			v.unharmed(t)
			c.close()
			// The victim's objects must not count for the next one.
			v.close()
			if left := w.left(); left != have {
				t.Errorf("left are %+v, not %+v", left, have)
			}
			v = w.victim()
			if v.held != kept {
				t.Errorf("the victim holds %+v, not %+v", v.held, kept)
			}
		})
	}
	v.close()
}

// left returns the rest of the budget.
func (w *world) left() cost {
	b := w.server.budget
	return cost{b.memory.left.Load(), b.mappings.left.Load(), b.descriptors.left.Load()}
}

// Events that a process does not take are limited, and so are its ports.
func TestEvents_UntakenAreLimited(t *testing.T) {
	w := newWorld(t)
	w.server.budget = newBudget(cost{memory: 1 << 20, mappings: 60, descriptors: 30})
	v := w.victim()
	defer v.close()
	c := w.connect()
	defer c.close()
	channel := func(c *client) uint32 { return must[handleMsg](c, opCMCreateChannel, none{}).Handle }
	bind := func(c *client, channel uint32) error {
		id := must[handleMsg](c, opCMCreateID, cmCreateID{Channel: channel, PortSpace: uint32(spaceTCP)}).Handle
		return c.ask(opCMBind, cmAddress{ID: id, Local: endpoint{IP: [16]byte{10: 0xff, 0xff, 10, 0, 0, 1}, Family: unix.AF_INET}}).err
	}
	c.greet()
	events := channel(c)
	if err := bind(c, events); err != nil {
		t.Fatal(err)
	}
	id := c.handle
	for range 10000 { // an address of another version of IP is not resolved, again and again
		must[cmAddress](c, opCMResolveAddr, cmResolve{ID: id, Remote: endpoint{IP: [16]byte{0: 0xfd, 15: 9}, Port: 7, Family: unix.AF_INET6}})
	}
	if n := len(c.objects[events].it.(*cmChannel).events); n == 0 || n*eventBytes > 1<<19 {
		t.Errorf("%d events wait", n)
	}
	w.sound()
	must[none](c, opCMDestroyID, handleMsg{Handle: id})
	w.sound()

	w.server.ports.left.left.Store(100)
	var err error
	n := 0
	for ; err == nil; n++ {
		err = bind(c, events)
	}
	if errnoOf(err) != syscall.EADDRNOTAVAIL || n > 52 {
		t.Errorf("after %d ports: %v", n, err)
	}
	if err := bind(v.client, channel(v.client)); err != nil {
		t.Errorf("the victim gets no port: %v", err)
	}
	v.unharmed(t)
}

// The process writes how many entries wait, and they are copied: only up to a
// limit.
func TestResize_CopiesNoMoreThanThereIs(t *testing.T) {
	w, v, c, k := attacked(t)
	big := must[cqAnswer](c, opCreateCQ, createCQ{Context: k.context, CQE: 1 << 20})
	c.completions(big.Handle).mem.wordAt(cqTaken).Store(^uint32(0) - 500_000)
	if a := c.ask(opResizeCQ, createCQ{CQ: big.Handle, CQE: 1 << 20}); errnoOf(a.err) != syscall.EBUSY {
		t.Errorf("resizing: %v", a.err)
	}
	c.completions(big.Handle).mem.wordAt(cqTaken).Store(0)
	must[cqAnswer](c, opResizeCQ, createCQ{CQ: big.Handle, CQE: 100})
	w.sound()
	v.unharmed(t)
}
