package nicemu

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim/units"
)

// room takes n bytes of a host's region, each for one work request only, so that their contents
// identify what was received.
func (h *station) room(n units.Bytes) (at units.Bytes, ok bool) {
	at = h.free
	if at+n > regionLen {
		return 0, false
	}
	h.free += n
	return at, true
}

// lost reports whether completions may have been lost.
func (p *pair) lost() bool { return p.config.SendCQ.Overrun() || p.config.RecvCQ.Overrun() }

// sgl returns some bytes of a host's region as one element or two.
func (m *model) sgl(h *station, at, n units.Bytes) []memory.SGE {
	if cut := m.rand.Int64N(int64(n) + 1); m.rand.IntN(2) == 0 {
		return []memory.SGE{h.mr.SGE(at, units.Bytes(cut)), h.mr.SGE(at+units.Bytes(cut), n-units.Bytes(cut))}
	}
	return []memory.SGE{h.mr.SGE(at, n)}
}

// pattern returns the bytes of a work request: its ID, and bytes derived from it.
func pattern(id uint64, n units.Bytes) []byte {
	b := binary.LittleEndian.AppendUint64(nil, id)
	for i := len(b); i < int(n); i++ {
		b = append(b, byte(id*31+uint64(i)*7))
	}
	return b[:n]
}

// hostOf finds the host that has an address.
func (m *model) hostOf(a netip.Addr) *station {
	for _, h := range m.hosts {
		if slices.Contains(h.Addresses(), a) {
			return h
		}
	}
	return nil
}

// send posts a work request of any kind to any queue pair.
func (m *model) send() {
	if p, ok := m.living(nil); ok {
		if wr, r := m.compose(p); wr != nil {
			m.posted(p, r, p.PostSend(wr))
		}
	}
}

// list posts several work requests at once.
func (m *model) list() {
	p, ok := m.living(nil)
	if !ok {
		return
	}
	var list []SendWR
	var requests []*request
	for range m.index("list", 21) {
		if wr, r := m.compose(p); wr != nil {
			list, requests = append(list, *wr), append(requests, r)
		}
	}
	n, err := p.PostSendList(list)
	if (err == nil) != (n == len(list)) {
		m.Fatalf("%d of %d were posted: %v", n, len(list), err)
	}
	for i, r := range requests {
		switch {
		case i < n:
			m.posted(p, r, nil)
		case i == n:
			m.posted(p, r, err)
		}
	}
}

// posted records a work request, unless it was refused for a good reason.
func (m *model) posted(p *pair, r *request, err error) {
	switch {
	case err == nil:
		m.work[r.id] = r
	case errors.Is(err, transport.ErrQueueFull):
	case errors.Is(err, transport.ErrState) && p.State() < qp.RTS:
	case errors.Is(err, syscall.EINVAL) && p.config.Type == qp.UD && len(p.at.handles) == 0:
	default:
		m.Fatalf("queue pair %d in %v: %v", p.Number(), p.State(), err)
	}
}

// compose makes a work request.
func (m *model) compose(p *pair) (*SendWR, *request) {
	ops := map[qp.Type][]transport.Op{
		qp.RC: {transport.Send, transport.SendImm, transport.Send, transport.SendInvalidate, transport.Write, transport.Write, transport.WriteImm, transport.Read, transport.Read, transport.FetchAdd, transport.CompareSwap, transport.BindWindow, transport.LocalInvalidate},
		qp.UC: {transport.Send, transport.SendImm, transport.Write, transport.WriteImm, transport.BindWindow, transport.LocalInvalidate},
		qp.UD: {transport.Send, transport.SendImm},
	}
	attr, _ := p.Query()
	h := p.at
	m.next++
	r := &request{id: m.next, of: p, op: rapid.SampledFrom(ops[p.config.Type]).Draw(m.T, "operation")}
	wr := &SendWR{ID: r.id, Op: r.op, Flags: transport.Flags(m.index("flags", 8))}
	r.wanted = wr.Flags&transport.Signaled != 0 || p.config.SignalAll
	r.n = units.Bytes(m.index("length", 3001))
	if p.config.Type == qp.UD {
		r.n = min(r.n, 1024)
		to, ok := some(m, "address handle", h.handles)
		if !ok {
			return nil, nil
		}
		wr.Path, wr.QKey, wr.DestQP = to.Path(), modelQKey, MulticastQPN
		if AddressOf(to.AV().DGID) != AddressOf(modelGroup) {
			r.to = m.hostOf(AddressOf(to.AV().DGID))
			wr.DestQP = uint32(rapid.IntRange(17, 40).Draw(m.T, "destination"))
		}
	} else if r.to = m.hostOf(AddressOf(attr.AV.DGID)); r.to == nil {
		return nil, nil // it is not joined
	}
	switch {
	case r.op == transport.BindWindow:
		if p.key != 0 && m.index("bound", 10) > 0 {
			return nil, nil
		}
		at, ok := h.room(r.n + 1)
		if !ok {
			return nil, nil
		}
		p.key, p.bound = 0, at
		wr.Bind = p.window.Binding(h.mr, at, r.n+1, memory.RemoteWrite|memory.RemoteRead)
		p.key = wr.Bind.Key()
		return wr, r
	case r.op == transport.LocalInvalidate:
		if p.key == 0 && m.index("nothing bound", 10) > 0 {
			return nil, nil
		}
		wr.RKey = p.key
		return wr, r
	case r.op == transport.FetchAdd || r.op == transport.CompareSwap:
		r.n = 8
		wr.RemoteVA, wr.RKey, wr.Swap, wr.Compare = r.to.mr.Addr(counterAt), r.to.mr.RKey(), 1, 1<<60
		if r.op == transport.CompareSwap {
			wr.RemoteVA = r.to.mr.Addr(8) // never 1<<60, so it stays 0
		}
	case r.op == transport.SendInvalidate:
		if p.peer == nil || p.peer.key == 0 {
			return nil, nil
		}
		wr.RKey = p.peer.key
	}
	var ok bool
	if r.place, ok = h.room(r.n); !ok {
		return nil, nil
	}
	wr.SGL = m.sgl(h, r.place, r.n)
	switch {
	case r.op == transport.Read:
		if r.remote, ok = r.to.room(r.n); !ok {
			return nil, nil
		}
		r.bytes = pattern(r.id, r.n)
		copy(r.to.buf[r.remote:], r.bytes)
		wr.RemoteVA, wr.RKey = r.to.mr.Addr(r.remote), r.to.mr.RKey()
	case r.op == transport.FetchAdd, r.op == transport.CompareSwap:
	default:
		r.bytes = pattern(r.id, r.n)
		copy(h.buf[r.place:], r.bytes)
		if kind := m.index("payload", 10); kind == 0 && p.config.Type != qp.UC {
			// With UC it might arrive where another message had begun.

			r.bytes, wr.SGL = nil, []memory.SGE{h.size.SGE(0, r.n)}
		} else if kind == 1 && r.n > 0 && r.n <= 64 {
			wr.Inline, wr.SGL = r.bytes, nil
		}
	}
	if r.op == transport.Write || r.op == transport.WriteImm {
		if r.remote, ok = r.to.room(r.n); !ok {
			return nil, nil
		}
		wr.RemoteVA, wr.RKey = r.to.mr.Addr(r.remote), r.to.mr.RKey()
		switch m.index("to where", 30) {
		case 0:
			wr.RKey ^= 1 // an unused key
		case 1, 2, 3:
			if p.peer != nil && p.peer.key != 0 {
				// Whatever the window is now, it may be refused.
				r.remote, wr.RemoteVA, wr.RKey = p.peer.bound, r.to.mr.Addr(p.peer.bound), p.peer.key
				r.n = min(r.n, 1)
				r.bytes, wr.SGL, wr.Inline = nil, []memory.SGE{h.size.SGE(0, r.n)}, nil
			}
		}
	}
	return wr, r
}

// receive posts a receive request.
func (m *model) receive() {
	if p, ok := m.living(nil); ok {
		m.receiveOn(p)
	}
}

func (m *model) receiveOn(p *pair) {
	wr, r := m.receiver(p.at)
	if wr == nil {
		return
	}
	if p.config.SRQ != nil {
		if err := p.PostRecv(wr); !errors.Is(err, transport.ErrShared) {
			m.Fatalf("a receive is posted beside the shared queue: %v", err)
		}
		m.must(p.config.SRQ.PostRecv(wr))
		m.work[r.id] = r
		return
	}
	r.of = p
	switch err := p.PostRecv(wr); {
	case err == nil:
		m.work[r.id] = r
	case errors.Is(err, transport.ErrQueueFull):
	case errors.Is(err, transport.ErrState) && p.State() == qp.Reset:
	default:
		m.Fatal(err)
	}
}

func (m *model) receiveShared() {
	h := m.anyHost("host")
	if wr, r := m.receiver(h); wr != nil {
		m.must(h.srq.PostRecv(wr))
		m.work[r.id] = r
	}
	limit := m.index("limit", 6)
	m.must(h.srq.Modify(SRQAttr{Limit: limit}, SRQLimit))
}

func (m *model) receiver(h *station) (*RecvWR, *request) {
	m.next++
	r := &request{id: m.next, recv: true, wanted: true, to: h, n: rapid.SampledFrom([]units.Bytes{3100, 3100, 3100, 3100, 3100, 3100, 3100, 3100, 3100, 500}).Draw(m.T, "room")}
	var ok bool
	if r.place, ok = h.room(r.n); !ok {
		return nil, nil
	}
	return &RecvWR{ID: r.id, SGL: m.sgl(h, r.place, r.n)}, r
}
