package uverbs

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
)

// fileOf returns the descriptor of a new file.
func fileOf(t *testing.T) (path string, fd int32) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "domain")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, int32(f.Fd())
}

// openDomain opens an XRC domain.
func (c *client) openDomain(context uint32, fd int32, flags uint32) uint32 {
	c.w.t.Helper()
	return must[handleMsg](c, opOpenXRCD, openXRCDMsg{Context: context, FD: fd, Flags: flags}).Handle
}

// TestXRCD_IsSharedByAFile: processes that open the same file have one domain; flags and errors are
// those of the kernel.
func TestXRCD_IsSharedByAFile(t *testing.T) {
	w := newWorld(t)
	a, b := w.connect(), w.connect()
	ka, kb := a.greet(), b.greet()
	path, fd := fileOf(t)
	_, another := fileOf(t)
	ask := func(c *client, context uint32, fd int32, flags uint32) error {
		return c.ask(opOpenXRCD, openXRCDMsg{Context: context, FD: fd, Flags: flags}).err
	}
	refuses := func(what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	refuses("no domain yet", ask(a, ka.context, fd, 0), syscall.EAGAIN)
	refuses("no such descriptor", ask(a, ka.context, 1<<20, flagCreate), syscall.EBADF)
	refuses("no context", ask(a, 0, fd, flagCreate), syscall.ENOENT)
	first := a.openDomain(ka.context, fd, flagCreate|flagExclusive)
	refuses("there is one", ask(b, kb.context, fd, flagCreate|flagExclusive), syscall.EINVAL)
	second := b.openDomain(kb.context, fd, 0)
	// The file's name does not matter, and its inode is held.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	third := b.openDomain(kb.context, fd, flagCreate)
	apart := b.openDomain(kb.context, another, flagCreate)
	alone := b.openDomain(kb.context, -1, flagCreate)
	domainOf := func(c *client, handle uint32) *sharedXRCD { return c.objects[handle].it.(*openXRCD).sharedXRCD }
	if x := domainOf(a, first); x != domainOf(b, second) || x != domainOf(b, third) || x == domainOf(b, apart) || x == domainOf(b, alone) || len(x.handles) != 3 {
		t.Errorf("the first domain has %d handles", len(x.handles))
	}
	must[none](b, opCloseXRCD, handleMsg{Handle: third})
	refuses("closed twice", b.ask(opCloseXRCD, handleMsg{Handle: third}).err, syscall.ENOENT)
	a.close()
	b.openDomain(kb.context, fd, 0)
	// A process that has ended holds no domain, even before its session has ended.
	b.memory.markEnded()
	c := w.connect()
	kc := c.greet()
	refuses("its processes have ended", ask(c, kc.context, fd, 0), syscall.EAGAIN)
	next := c.openDomain(kc.context, fd, flagCreate|flagExclusive)
	b.close()
	if w.server.xrcds[domainOf(c, next).file] != domainOf(c, next) {
		t.Error("the end of the old domain has taken the new one along")
	}
	c.close()
	if len(w.server.xrcds) != 0 || len(w.server.targets) != 0 {
		t.Errorf("%d domains and %d queue pairs are left", len(w.server.xrcds), len(w.server.targets))
	}
}

// xrcSend posts a SEND of no bytes for a shared receive queue.
func (c *client) xrcSend(q qpAnswer, srq uint32) {
	b := make([]byte, sendLen)
	binary.LittleEndian.PutUint32(b, 2) // IBV_WR_SEND
	binary.LittleEndian.PutUint32(b[4:], flagSignaled)
	binary.LittleEndian.PutUint32(b[60:], srq)
	k := c.queues[q.Number]
	index := k.mem.wordAt(sendIndex).Load()
	copy(k.sends.slots[int(index&k.sends.mask)*k.sends.stride:], b)
	k.mem.wordAt(sendIndex).Store(index + 1)
	c.ring(q.Number)
	c.w.run()
}

// receiveShared posts a receive request of no bytes to a shared receive queue.
func (c *client) receiveShared(s srqAnswer, cookie uint32) {
	k := c.queues[s.Number]
	index := k.mem.wordAt(recvIndex).Load()
	slot := k.recvs.slots[int(index&k.recvs.mask)*k.recvs.stride:]
	clear(slot[:recvLen])
	binary.LittleEndian.PutUint32(slot, cookie)
	k.mem.wordAt(recvIndex).Store(index + 1)
	c.ring(s.Number)
	c.w.run()
}

// lastEntry returns the newest entry of a completion queue, and how many there have been.
func (c *client) lastEntry(handle uint32) (status cq.Status, cookie, qpNum, srqNum, made uint32) {
	k := c.completions(handle)
	b := k.slotOf(k.made - 1)
	le := binary.LittleEndian
	return cq.Status(le.Uint32(b[8:])), le.Uint32(b), le.Uint32(b[28:]), le.Uint32(b[52:]), k.made
}

// TestXRCRecv_OutlivesItsMaker: a queue pair of type XRC_RECV goes on while any process has it open,
// and its messages reach the shared receive queues of all processes.
func TestXRCRecv_OutlivesItsMaker(t *testing.T) {
	w := newWorld(t)
	maker, opener, sender := w.connect(), w.connect(), w.connect()
	km, ko, ks := maker.greet(), opener.greet(), sender.greet()
	_, fd := fileOf(t)
	dm, do := maker.openDomain(km.context, fd, flagCreate), opener.openDomain(ko.context, fd, 0)
	target := must[qpAnswer](maker, opCreateQP, createQP{Type: uint32(qp.XRCRecv), XRCD: dm})
	srqM := must[srqAnswer](maker, opCreateSRQ, createSRQ{PD: km.pd, MaxWR: 4, MaxSGE: 1, XRCD: dm, CQ: km.cq.Handle})
	srqO := must[srqAnswer](opener, opCreateSRQ, createSRQ{PD: ko.pd, MaxWR: 4, MaxSGE: 1, XRCD: do, CQ: ko.cq.Handle})
	for what, q := range map[string]openQPMsg{
		"another number": {XRCD: do, QPNum: target.QPNum + 1, Type: uint32(qp.XRCRecv)}, "another type": {XRCD: do, QPNum: target.QPNum, Type: uint32(qp.RC)},
	} {
		if err := opener.ask(opOpenQP, q).err; !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", what, err)
		}
	}
	opened := must[qpAnswer](opener, opOpenQP, openQPMsg{XRCD: do, QPNum: target.QPNum, Type: uint32(qp.XRCRecv)})
	initiator := must[qpAnswer](sender, opCreateQP, createQP{PD: ks.pd, SendCQ: ks.cq.Handle, Type: uint32(qp.XRCSend), MaxSendWR: 8, MaxSendSGE: 1})
	sender.join(initiator, target.QPNum)
	opener.join(opened, initiator.QPNum) // any handle may modify it
	if err := opener.ask(opCloseXRCD, handleMsg{Handle: do}).err; !errors.Is(err, syscall.EBUSY) {
		t.Errorf("the domain is closed while in use: %v", err)
	}

	maker.receiveShared(srqM, 5)
	opener.receiveShared(srqO, 6)
	opener.receiveShared(srqO, 7)
	sender.xrcSend(initiator, srqM.SRQNum)
	if s, cookie, number, srq, _ := maker.lastEntry(km.cq.Handle); s != cq.Success || cookie != 5 || number != target.QPNum || srq != srqM.SRQNum {
		t.Errorf("the maker has got %v, cookie %d, queue pair %d, shared receive queue %d", s, cookie, number, srq)
	}
	sender.xrcSend(initiator, srqO.SRQNum)
	maker.close()
	sender.xrcSend(initiator, srqO.SRQNum)
	if s, cookie, number, _, made := opener.lastEntry(ko.cq.Handle); s != cq.Success || cookie != 7 || number != target.QPNum || made != 2 {
		t.Errorf("after the end of the maker: %v, cookie %d, queue pair %d, %d entries", s, cookie, number, made)
	}
	// The maker's shared receive queue has ended with it.
	sender.xrcSend(initiator, srqM.SRQNum)
	if s, _, _, _, _ := sender.lastEntry(ks.cq.Handle); s != cq.RemInvReqErr {
		t.Errorf("a SEND to the queue of a process that has ended: %v", s)
	}
	if s := must[qpAttr](opener, opQueryQP, handleMsg{Handle: opened.Handle}).State; s != uint32(qp.Err) {
		t.Errorf("the queue pair is in state %d", s)
	}
	must[none](opener, opDestroyQP, handleMsg{Handle: opened.Handle})
	if len(w.server.targets) != 0 || w.server.devices[0].QP(target.QPNum) != nil {
		t.Error("the queue pair lives without handles")
	}
	if err := opener.ask(opOpenQP, openQPMsg{XRCD: do, QPNum: target.QPNum, Type: uint32(qp.XRCRecv)}).err; !errors.Is(err, syscall.EINVAL) {
		t.Errorf("it is opened again: %v", err)
	}
	must[none](opener, opDestroySRQ, handleMsg{Handle: srqO.Handle})
	must[none](opener, opCloseXRCD, handleMsg{Handle: do})
}

// TestXRCRecv_IgnoresWhatIsOfTheOtherEnd: programs set all attributes of RC at both ends, and
// perftest relies on it.
func TestXRCRecv_IgnoresWhatIsOfTheOtherEnd(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	k := c.greet()
	x := c.openDomain(k.context, -1, flagCreate)
	target := must[qpAnswer](c, opCreateQP, createQP{Type: uint32(qp.XRCRecv), XRCD: x})
	initiator := must[qpAnswer](c, opCreateQP, createQP{PD: k.pd, SendCQ: k.cq.Handle, Type: uint32(qp.XRCSend), MaxSendWR: 8, MaxSendSGE: 1})
	c.join(initiator, target.QPNum) // with the attributes of RC
	c.join(target, initiator.QPNum)
	for what, q := range map[string]createQP{
		"a target without a domain":      {Type: uint32(qp.XRCRecv)},
		"an initiator without its parts": {Type: uint32(qp.XRCSend)},
	} {
		if err := c.ask(opCreateQP, q).err; !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, q := range map[string]createSRQ{
		"no such domain": {PD: k.pd, MaxWR: 4, XRCD: 999, CQ: k.cq.Handle}, "no completion queue": {PD: k.pd, MaxWR: 4, XRCD: x},
	} {
		if err := c.ask(opCreateSRQ, q).err; !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
