package nicemu

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// poll takes completions and checks them against the requests.
func (m *model) poll() {
	h := m.anyHost("host")
	for _, c := range h.cqs {
		m.pollAll(h, c)
	}
}

func (m *model) pollAll(h *station, c *CQ) {
	batch := make([]cq.Completion, 7)
	for {
		n, err := c.Poll(batch)
		if err != nil && !c.Overrun() {
			m.Fatal(err)
		}
		for i := range n {
			m.completed(h, &batch[i])
		}
		if n < len(batch) {
			return
		}
	}
}

func (m *model) completed(h *station, c *cq.Completion) {
	r := m.work[c.ID]
	switch {
	case r == nil:
		m.Fatalf("a completion of nothing: %+v", c)
	case r.done || r.gone:
		m.Fatalf("work request %d completes again, or was discarded: %+v", r.id, c)
	case r.of != nil && (r.of.at != h || r.of.Number() != c.QP):
		m.Fatalf("work request %d of queue pair %d completes for queue pair %d", r.id, r.of.Number(), c.QP)
	}
	r.done, r.ok = true, c.Status == cq.Success
	if !slices.Contains(legal(r), c.Status) {
		m.Fatalf("work request %d (%v, receive %v) ends with %v", r.id, r.op, r.recv, c.Status)
	}
	switch {
	case !r.ok:
	case r.recv:
		m.received(h, r, c)
	default:
		m.sent(h, r, c)
	}
}

// legal returns the statuses that a work request may end with.
func legal(r *request) []cq.Status {
	if r.recv {
		return []cq.Status{cq.Success, cq.WRFlushErr, cq.LocLenErr, cq.LocProtErr, cq.RemInvReqErr, cq.LocAccessErr, cq.LocQPOpErr, cq.MWBindErr}
	}
	list := []cq.Status{cq.Success, cq.WRFlushErr, cq.LocQPOpErr}
	switch {
	case r.op == transport.BindWindow || r.op == transport.LocalInvalidate:
		list = append(list, cq.MWBindErr, cq.LocProtErr)
	case r.of.config.Type == qp.RC:
		list = append(list, cq.RetryExcErr, cq.RNRRetryExcErr, cq.RemInvReqErr, cq.RemAccessErr, cq.RemOpErr)
	}
	return list
}

// sent checks a send request that has succeeded.
func (m *model) sent(h *station, r *request, c *cq.Completion) {
	if r.of.config.Type != qp.RC {
		return
	}
	switch r.op {
	case transport.Write, transport.WriteImm:
		if r.bytes != nil && !bytes.Equal(r.to.buf[r.remote:r.remote+r.n], r.bytes) {
			m.Fatalf("what WRITE %d has written is not what it was", r.id)
		}
	case transport.Read:
		if units.Bytes(c.ByteLen) != r.n || !bytes.Equal(h.buf[r.place:r.place+r.n], r.bytes) {
			m.Fatalf("what READ %d of %d bytes has read is not what is there", r.id, r.n)
		}
	case transport.FetchAdd:
		r.to.old = append(r.to.old, bytes.Clone(h.buf[r.place:r.place+8]))
	case transport.CompareSwap:
		if binary.LittleEndian.Uint64(h.buf[r.place:]) != 0 {
			m.Fatal("what was never changed is not 0")
		}
	}
}

// received checks a receive request that has succeeded.
func (m *model) received(h *station, r *request, c *cq.Completion) {
	if c.Opcode == cq.RecvImm {
		return
	}
	q := h.QP(c.QP)
	if q == nil {
		m.Fatalf("a completion of queue pair %d, which is destroyed", c.QP)
	}
	at, n := r.place, units.Bytes(c.ByteLen)
	if q.config.Type == qp.UD {
		at, n = at+transport.GRHLen, n-transport.GRHLen
	}
	if n < 8 {
		return // it does not name its message
	}
	id := binary.LittleEndian.Uint64(h.buf[at:])
	if id == 0 {
		return // only its size was modelled
	}
	s := m.work[id]
	if s == nil || s.op > transport.SendInvalidate || s.n != n || !bytes.Equal(h.buf[at:at+n], s.bytes) {
		m.Fatalf("the %d bytes that came by receive %d, over %v, say that they are %d, which was never sent or is another", n, r.id, q.config.Type, id)
	}
	s.arrived++
	if q.config.Type != qp.RC {
		return
	}
	for _, p := range m.all {
		if p.QP == q {
			if id <= p.seen {
				m.Fatalf("SEND %d came behind SEND %d", id, p.seen)
			}
			p.seen = id
		}
	}
}

// end lets everything finish: then nothing may be left.
func (m *model) end() {
	for _, c := range m.w.ports {
		c.paused = [8]bool{}
		if !c.busy {
			c.start(m.w.engine.Now())
		}
	}
	m.w.run(m.w.engine.Now() + 10*units.Second)
	m.sound()
	for _, p := range m.all {
		if !p.gone && p.State() != qp.Reset {
			m.must(p.SetState(qp.Err))
		}
	}
	m.w.run(m.w.engine.Now() + 10*units.Second)
	m.sound()
	for _, h := range m.hosts {
		for _, c := range h.cqs {
			m.pollAll(h, c)
		}
	}
	m.accounts()
	for _, l := range m.conns {
		if !l.closed {
			l.closed = true
			m.must(l.conn.Close())
		}
	}
	m.w.run(m.w.engine.Now() + 1000*units.Second)
	m.sound()
	if n := m.w.pool.LivePackets(); n != 0 {
		m.Fatalf("%d packets were not given back", n)
	}
	for _, p := range m.all {
		if !p.gone {
			m.finish(p)
		}
	}
	for _, h := range m.hosts {
		m.clear(h)
	}
}

// accounts: every work request has had its completion.
func (m *model) accounts() {
	for _, r := range m.work {
		switch {
		case r.done || r.gone:
		case r.of == nil: // it waits in the shared queue, or was discarded with a queue pair
		case r.of.lost():
		case r.recv && r.of.State() != qp.Reset, !r.recv && r.wanted:
			m.Fatalf("work request %d (%v, receive %v) of queue pair %d in %v has never completed", r.id, r.op, r.recv, r.of.Number(), r.of.State())
		}
		if p := r.of; p != nil && p.config.Type == qp.RC && r.op <= transport.SendInvalidate && !r.recv && r.n >= 8 && r.bytes != nil {
			if r.arrived > 1 || r.ok && r.arrived == 0 && p.peer != nil && !p.peer.reset && !p.peer.gone && !p.peer.lost() && r.op <= transport.SendInvalidate && !m.untold(r) {
				m.Fatalf("SEND %d has arrived %d times", r.id, r.arrived)
			}
		}
	}
	for _, h := range m.hosts {
		if waiting := h.srq.Len(); !h.reset && !h.cqs[0].Overrun() && !h.cqs[1].Overrun() {
			left := 0
			for _, r := range m.work {
				if r.recv && r.of == nil && r.to == h && !r.done {
					left++
				}
			}
			if left != waiting {
				m.Fatalf("%d requests wait in a shared receive queue, and %d have not completed", waiting, left)
			}
		}
		m.counted(h)
	}
}

// untold reports whether a SEND may have arrived without success for the receiver: the key that it
// was to invalidate could not be.
func (m *model) untold(r *request) bool { return r.op == transport.SendInvalidate }

// counted checks that the results of FETCH ADDs differ, and that the counter has grown by at least
// as many as have succeeded, and at most as many as there were.
func (m *model) counted(h *station) {
	seen := map[string]bool{}
	for _, b := range h.old {
		if seen[string(b)] {
			m.Fatalf("two FETCH ADDs have brought % x", b)
		}
		seen[string(b)] = true
	}
	tried := 0
	for _, r := range m.work {
		if r.op == transport.FetchAdd && !r.recv && r.to == h {
			tried++
		}
	}
	if n := int(binary.LittleEndian.Uint64(h.buf)); n < len(h.old) || n > tried {
		m.Fatalf("the counter is at %d: %d FETCH ADDs have succeeded, %d were posted", n, len(h.old), tried)
	}
}

// clear destroys a host's objects. Nothing may be in use any more.
func (m *model) clear(h *station) {
	for _, x := range h.handles {
		m.must(x.Destroy())
	}
	for q, ok := h.channel.Get(); ok; q, ok = h.channel.Get() {
		m.must(q.Ack(1))
	}
	m.must(h.srq.Destroy())
	for _, c := range h.cqs {
		m.must(c.Destroy())
	}
	m.must(h.channel.Destroy())
	m.must(h.mr.Deregister())
	m.must(h.size.Deregister())
	m.must(h.pd.Dealloc())
	c := &h.conns
	if n := len(c.byID) + len(c.byQP) + len(c.asking) + c.cm.Len(); n != 0 {
		m.Fatalf("%s still knows %d connections (%d, %d)", h.Name(), n, len(c.byID), len(c.byQP))
	}
	if h.inUse != [4]int{} || h.agenda.LiveTasks() != 0 || h.armed != units.Never {
		m.Fatalf("%s: in use are %v, %d tasks have something due, at %v", h.Name(), h.inUse, h.agenda.LiveTasks(), h.armed)
	}
	if e, ok := h.NextEvent(); ok && (e.QP != nil || e.CQ != nil || e.SRQ != nil) {
		m.Fatalf("there is an event of what is gone: %+v", e)
	}
}
