package nicemu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/cc"
)

// model is random programs on NICs, and what they must have seen.
type model struct {
	*rapid.T
	w     *world
	rand  *rand.Rand // of what happens while the world runs
	hosts []*station
	all   []*pair // in the order of their making
	work  map[uint64]*request
	next  uint64 // ID of a work request, and epoch of a connection
	conns []*link
}

// station is a host of the model.
type station struct {
	*host
	index   int
	free    units.Bytes // of the region, from here on
	size    *MR         // of which only the size is modelled
	cqs     []*CQ
	channel Channel
	srq     *SRQ
	handles []*AH
	old     [][]byte // what FETCH ADDs have brought
	reset   bool     // a queue pair of srq was reset or destroyed
}

const (
	counterAt = 0 // in each host's region
	poolAt    = 64
	regionLen = 1 << 19
	modelQKey = 0x1234
)

var modelGroup = GID(addr("239.9.9.9"))

// pair is a queue pair of the model.
type pair struct {
	*QP
	at     *station
	gone   bool
	reset  bool // it was, so what it had vanished
	window *MW
	key    uint32 // of what the window was bound to last
	bound  units.Bytes
	seen   uint64 // the last SEND that was received, of RC
	peer   *pair  // 0 where a connection manager has joined it, or of UD
	group  bool
}

// request is a work request of the model.
type request struct {
	id      uint64
	of      *pair // nil of those of a shared receive queue
	op      transport.Op
	recv    bool
	wanted  bool // it makes a completion if it succeeds
	done    bool
	gone    bool // discarded
	ok      bool
	n       units.Bytes
	place   units.Bytes // in the region of its host
	remote  units.Bytes // in that of the peer
	to      *station
	bytes   []byte // nil where the size alone is modelled
	arrived int    // of a SEND
}

// TestModel runs random programs on two or three NICs whose packets are lost,
// duplicated and reordered, and looks at all that they get and all that NICs keep.
func TestModel(t *testing.T) { rapid.Check(t, func(t *rapid.T) { newModel(t).run() }) }

func newModel(t *rapid.T) *model {
	m := &model{T: t, work: map[uint64]*request{}}
	m.rand = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	var options []option
	switch rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "control") {
	case 1:
		options = append(options, withDCQCN)
	case 2:
		options = append(options, withControl(func(line units.Rate) cc.Control { return &fixed{rate: line / 4, window: 3000} }))
	}
	every := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "ack every")
	options = append(options, func(s *Settings, _ *Env) { s.RNRRetry, s.RetryCount, s.Timeout, s.AckEvery = 5, 6, 7, every })
	n := rapid.IntRange(2, 3).Draw(t, "hosts")
	m.w = newWorld(t, n, options...)
	some := func(what string) int { return rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "percent "+what) }
	loss, marks, again, late := some("lost"), some("marked"), some("twice"), some("late")
	percent := func(n int) bool { return m.rand.IntN(100) < n }
	m.w.scatter = func(p *packet.Packet) (copies []units.Time) {
		if percent(marks) {
			p.MarkCE()
		}
		for n := 1; n > 0; n-- {
			if percent(again) && len(copies) < 3 {
				n++
			}
			switch {
			case percent(loss):
			case percent(late):
				copies = append(copies, units.Time(m.rand.IntN(20))*units.Microsecond)
			default:
				copies = append(copies, 0)
			}
		}
		return copies
	}
	// Shallow queues overrun.
	depth := rapid.SampledFrom([]int{1 << 14, 1 << 14, 1 << 14, 12}).Draw(t, "depth of queues")
	for i := range n {
		m.hosts = append(m.hosts, m.station(i, depth))
	}
	return m
}

func (m *model) station(i, depth int) *station {
	h := &station{index: i, free: poolAt}
	h.host = &host{Device: m.w.ports[i].device, t: m, buf: make([]byte, regionLen)}
	var err error
	h.pd, err = h.AllocPD()
	m.must(err)
	h.mr, err = h.pd.Register(h.buf, anyAccess)
	m.must(err)
	h.size, err = h.pd.RegisterSize(10000, anyAccess)
	m.must(err)
	for range 2 {
		c, err := h.CreateCQ(depth, &h.channel)
		m.must(err)
		h.cqs = append(h.cqs, c)
	}
	h.srq, err = h.pd.CreateSRQ(SRQAttr{MaxWR: 1000, MaxSGE: 2})
	m.must(err)
	_, err = h.Listen(netip.AddrPortFrom(netip.Addr{}, 1), 0, func(e ConnEvent) { m.asked(h, e) })
	m.must(err)
	return h
}

func (m *model) must(err error) {
	if err != nil {
		m.Helper()
		m.Fatal(err)
	}
}

// run is a program from its beginning to the end of all that it has made.
func (m *model) run() {
	actions := map[string]func(){
		"pair": m.makePair, "datagrams": m.makeDatagrams, "send": m.send, "list": m.list, "receive": m.receive, "shared receive": m.receiveShared,
		"pass": m.pass, "poll": m.poll, "move": m.move, "destroy": m.destroy, "rejoin": m.rejoin, "pause": m.pause, "handle": m.handle,
		"attach": m.attach, "connect": m.connect, "part": m.part, "line": m.line, "arm": m.arm,
	}
	// Some are done more often.
	names := []string{"send", "send", "send", "send", "list", "receive", "receive", "receive", "shared receive", "pass", "pass", "pass", "pass"}
	names = append(names, slices.Sorted(maps.Keys(actions))...)
	m.makePair()
	for range rapid.SampledFrom([]int{5, 20, 60, 200}).Draw(m.T, "steps") {
		actions[rapid.SampledFrom(names).Draw(m.T, "action")]()
		m.sound()
	}
	m.end()
}

func (m *model) sound() {
	m.Helper()
	for _, h := range m.hosts {
		h.sound(m)
	}
}

// some draws an element; false if there is none.
func some[E any](m *model, what string, list []E) (e E, ok bool) {
	if len(list) == 0 {
		return e, false
	}
	return list[m.index(what, len(list))], true
}

func (m *model) anyHost(what string) *station {
	return m.hosts[m.index(what, len(m.hosts))]
}

// index draws a number below n. (rapid.IntRange prefers small ones.)
func (m *model) index(what string, n int) int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return rapid.SampledFrom(all).Draw(m.T, what)
}

// living draws a queue pair that is not destroyed, and for which f holds.
func (m *model) living(f func(*pair) bool) (*pair, bool) {
	var list []*pair
	for _, p := range m.all {
		if !p.gone && (f == nil || f(p)) {
			list = append(list, p)
		}
	}
	return some(m, "queue pair", list)
}

func (m *model) newPair(h *station, kind qp.Type) *pair {
	c := QPConfig{Type: kind, SendCQ: h.cqs[0], RecvCQ: h.cqs[m.rand.IntN(2)], Cap: QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64}}
	if kind != qp.UC && m.rand.IntN(3) == 0 {
		c.SRQ = h.srq
	}
	c.SignalAll = m.rand.IntN(2) == 0
	q, err := h.pd.CreateQP(c)
	m.must(err)
	w, err := h.pd.AllocMW(memory.Type2)
	m.must(err)
	p := &pair{QP: q, at: h, window: w}
	m.all = append(m.all, p)
	return p
}

func (m *model) makePair() {
	kind := rapid.SampledFrom([]qp.Type{qp.RC, qp.RC, qp.RC, qp.UC}).Draw(m.T, "type")
	x, y := m.newPair(m.anyHost("one host"), kind), m.newPair(m.anyHost("other host"), kind)
	x.peer, y.peer = y, x
	m.join(x, y)
	for range m.index("receives", 10) {
		m.receiveOn(x)
		m.receiveOn(y)
	}
}

// join joins two queue pairs. PSNs of one connection are far from those of others, so
// that late packets of an old one are taken for what they are.
func (m *model) join(x, y *pair) {
	m.next++
	epoch := uint32(m.next) * 100_003
	j := Join{MTU: rapid.SampledFrom([]qp.MTU{qp.MTU256, qp.MTU1024}).Draw(m.T, "mtu"), RdAtomic: rapid.SampledFrom([]uint8{0, 1, 2, 4, 4, 4}).Draw(m.T, "rd_atomic"), Access: memory.RemoteWrite}
	if x.config.Type == qp.RC {
		j.Access |= memory.RemoteRead | memory.RemoteAtomic
	}
	if rapid.Bool().Draw(m.T, "class") {
		j.DSCP = 26
	}
	j.PSN, j.RemotePSN = epoch&0xffffff, (epoch+50_000)&0xffffff
	j.Remote, j.RemoteQPN = y.at.Addresses()[0], y.Number()
	m.must(x.Join(j))
	j.PSN, j.RemotePSN = j.RemotePSN, j.PSN
	j.Remote, j.RemoteQPN = x.at.Addresses()[0], x.Number()
	m.must(y.Join(j))
}

func (m *model) makeDatagrams() {
	p := m.newPair(m.anyHost("host"), qp.UD)
	m.must(p.Join(Join{QKey: modelQKey}))
}

// room takes n bytes of a host's region, each for one work request only, so that what
// is in them says what has come.
func (h *station) room(n units.Bytes) (at units.Bytes, ok bool) {
	at = h.free
	if at+n > regionLen {
		return 0, false
	}
	h.free += n
	return at, true
}

// lost tells whether completions may have been.
func (p *pair) lost() bool { return p.config.SendCQ.Overrun() || p.config.RecvCQ.Overrun() }

// list is some bytes of a host's region as one element or two.
func (m *model) sgl(h *station, at, n units.Bytes) []memory.SGE {
	if cut := m.rand.Int64N(int64(n) + 1); m.rand.IntN(2) == 0 {
		return []memory.SGE{h.mr.SGE(at, units.Bytes(cut)), h.mr.SGE(at+units.Bytes(cut), n-units.Bytes(cut))}
	}
	return []memory.SGE{h.mr.SGE(at, n)}
}

// pattern is the bytes of a work request: its ID, and what follows from that.
func pattern(id uint64, n units.Bytes) []byte {
	b := binary.LittleEndian.AppendUint64(nil, id)
	for i := len(b); i < int(n); i++ {
		b = append(b, byte(id*31+uint64(i)*7))
	}
	return b[:n]
}

// station finds the host that has an address.
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

// list posts several at once.
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

// posted notes a work request, unless it was not taken for a good reason.
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
		return nil, nil // it is not joined to anybody
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
			// With UC it might come to where another message had begun.

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
			wr.RKey ^= 1 // nobody's
		case 1, 2, 3:
			if p.peer != nil && p.peer.key != 0 {
				// Whatever the window is now: it may be refused.
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

// pass lets time pass.
func (m *model) pass() {
	n := rapid.SampledFrom([]units.Time{1, 3, 10, 40, 500, 5000}).Draw(m.T, "microseconds")
	m.w.run(m.w.engine.Now() + n*units.Microsecond)
}

// move changes the state of a queue pair.
func (m *model) move() {
	p, ok := m.living(nil)
	if !ok {
		return
	}
	from := p.State()
	to := rapid.SampledFrom([]qp.State{qp.SQD, qp.RTS, qp.SQD, qp.RTS, qp.RTS, qp.RTS, qp.Err, qp.Reset}).Draw(m.T, "state")
	a, mask := qp.Attr{State: to}, qp.MaskState
	if to == qp.SQD {
		a.EnSQDAsyncNotify = true
		mask |= qp.MaskEnSQDAsyncNotify
	}
	_, _, allowed := qp.Transition(p.config.Type, from, to)
	if to == qp.SQD && from == qp.SQD {
		mask = qp.MaskState
	}
	err := p.Modify(a, mask)
	if allowed && from != qp.RTR && err != nil { // from RTR to RTS needs attributes
		m.Fatalf("queue pair %d from %v to %v: %v", p.Number(), from, to, err)
	}
	if err == nil && to == qp.Reset {
		m.discard(p)
	}
}

// discard notes that what a queue pair had has vanished.
func (m *model) discard(p *pair) {
	p.reset = true
	p.key = 0
	if p.config.SRQ != nil {
		p.at.reset = true
	}
	for _, r := range m.work {
		if r.of == p && !r.done {
			r.gone = true
		}
	}
}

func (m *model) destroy() {
	if p, ok := m.living(nil); ok && rapid.Bool().Draw(m.T, "really") {
		m.finish(p)
	}
}

func (m *model) finish(p *pair) {
	if p.group {
		if err := p.Destroy(); !errors.Is(err, syscall.EBUSY) {
			m.Fatalf("a queue pair of a group is destroyed: %v", err)
		}
		m.must(p.DetachMcast(modelGroup))
	}
	m.must(p.Destroy())
	m.discard(p)
	p.gone = true
	m.must(p.window.Dealloc())
}

// rejoin joins two queue pairs anew that were both reset.
func (m *model) rejoin() {
	fresh := func(p *pair) bool { return !p.gone && p.State() == qp.Reset }
	p, ok := m.living(func(p *pair) bool { return fresh(p) && (p.config.Type == qp.UD || p.peer != nil && fresh(p.peer)) })
	switch {
	case !ok:
	case p.config.Type == qp.UD:
		m.must(p.Join(Join{QKey: modelQKey}))
	default:
		m.join(p, p.peer)
	}
}

// pause has a class of a port stand still, or go on.
func (m *model) pause() {
	c, _ := some(m, "port", m.w.ports)
	prio := rapid.SampledFrom([]int{0, 3, 6}).Draw(m.T, "class")
	c.paused[prio] = !c.paused[prio]
	if !c.busy {
		c.start(m.w.engine.Now())
	}
}

// handle makes an address handle or ends one.
func (m *model) handle() {
	h := m.anyHost("host")
	if i := len(h.handles) - 1; i >= 0 && m.index("end it", 4) == 0 {
		m.must(h.handles[i].Destroy())
		h.handles = h.handles[:i]
		return
	}
	to := AddressOf(modelGroup)
	if rapid.Bool().Draw(m.T, "to one") {
		to = m.anyHost("to").Addresses()[m.rand.IntN(2)]
	}
	x, err := h.pd.CreateAHTo(to)
	m.must(err)
	h.handles = append(h.handles, x)
}

func (m *model) attach() {
	p, ok := m.living(func(p *pair) bool { return p.config.Type == qp.UD })
	switch {
	case !ok:
	case p.group:
		m.must(p.DetachMcast(modelGroup))
		p.group = false
	default:
		m.must(p.AttachMcast(modelGroup))
		p.group = true
	}
}

// line changes the rate of a port.
func (m *model) line() {
	c, _ := some(m, "port", m.w.ports)
	c.rate = rapid.SampledFrom([]units.Rate{lineRate, units.Gbps, 40 * units.Gbps}).Draw(m.T, "rate")
	c.device.SetLine(m.w.engine.Now(), c.rate)
}

// arm asks for an event and takes those that there are.
func (m *model) arm() {
	h := m.anyHost("host")
	for q, ok := h.channel.Get(); ok; q, ok = h.channel.Get() {
		m.must(q.Ack(1))
	}
	c, _ := some(m, "queue", h.cqs)
	m.must(c.Moderate(cq.Moderation{Count: uint16(m.rand.IntN(4)), Period: 10 * units.Microsecond}))
	c.Arm(rapid.Bool().Draw(m.T, "solicited"))
	for e, ok := h.NextEvent(); ok; e, ok = h.NextEvent() {
		if e.QP != nil && h.FindQP(e.QP.Number()) != e.QP {
			m.Fatalf("%v of a queue pair that is destroyed", e.Kind)
		}
	}
}

// link is one side of a connection, and what it was told.
type link struct {
	conn   *Conn
	at     *station
	pair   *pair
	last   ConnKind
	closed bool
}

func (m *model) connect() {
	h, to := m.anyHost("client"), m.anyHost("server")
	if h == to && m.rand.IntN(4) > 0 {
		return
	}
	p := m.newPair(h, rapid.SampledFrom([]qp.Type{qp.RC, qp.UC}).Draw(m.T, "type"))
	l := &link{at: h, pair: p}
	var err error
	l.conn, err = h.Connect(p.QP, netip.AddrPortFrom(to.Addresses()[m.rand.IntN(2)], 1), ConnParam{ResponderResources: 2, InitiatorDepth: 2, RetryCount: 3, RNRRetryCount: 2}, func(e ConnEvent) { m.told(l, e) })
	m.must(err)
	m.conns = append(m.conns, l)
}

// asked is what a listener is told, of requests and of what becomes of them.
func (m *model) asked(h *station, e ConnEvent) {
	if e.Kind != ConnRequested {
		for _, l := range m.conns {
			if l.conn == e.Conn {
				m.told(l, e)
				return
			}
		}
		m.Fatalf("%v of a connection that nobody knows", e.Kind)
	}
	l := &link{at: h, conn: e.Conn}
	m.conns = append(m.conns, l)
	if m.rand.IntN(5) > 0 {
		m.answer(l)
	}
}

// answer accepts a request or refuses it.
func (m *model) answer(l *link) {
	if m.rand.IntN(4) == 0 {
		l.closed = true
		m.must(l.conn.Reject(nil))
		return
	}
	l.pair = m.newPair(l.at, []qp.Type{qp.RC, qp.RC, qp.UC}[m.rand.IntN(3)])
	if err := l.conn.Accept(l.pair.QP, ConnParam{ResponderResources: 2, InitiatorDepth: 2, RNRRetryCount: 2}); err != nil && !l.over() {
		m.Fatal(err)
	}
}

// over tells whether a request that was not answered is no more.
func (l *link) over() bool { return l.closed || l.last == ConnUnreachable || l.last == ConnRejected }

// told holds what becomes of a connection to the order in which it can.
func (m *model) told(l *link, e ConnEvent) {
	before := map[ConnKind][]ConnKind{
		ConnEstablished: {ConnRequested}, ConnRejected: {ConnRequested}, ConnUnreachable: {ConnRequested}, ConnFailed: {ConnRequested},
		ConnDisconnected: {ConnEstablished, ConnRequested}, ConnTimeWaitExit: {ConnDisconnected},
	}
	if l.closed || !slices.Contains(before[e.Kind], l.last) {
		m.Fatalf("%s was told %v after %v (closed %v)", l.at.Name(), e.Kind, l.last, l.closed)
	}
	l.last = e.Kind
}

// part ends a connection or answers a request that waits.
func (m *model) part() {
	l, ok := some(m, "connection", m.conns)
	switch {
	case !ok || l.closed:
	case l.pair == nil && !l.over() && rapid.Bool().Draw(m.T, "answer"):
		m.answer(l)
	case l.last == ConnEstablished && rapid.Bool().Draw(m.T, "disconnect"):
		_ = l.conn.Disconnect() // it may have been before
	case m.index("close", 4) == 0:
		l.closed = true
		m.must(l.conn.Close())
	}
}

// poll takes completions and holds them to what was asked for.
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
	if !slices.Contains(m.legal(r, h, c), c.Status) {
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

// legal is how a work request may end.
func (m *model) legal(r *request, h *station, c *cq.Completion) []cq.Status {
	if r.recv {
		return []cq.Status{cq.Success, cq.WRFlushErr, cq.LocLenErr, cq.LocProtErr, cq.RemInvReqErr, cq.RemAccessErr, cq.LocQPOpErr, cq.MWBindErr}
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

// sent is a work request of a send queue that has succeeded.
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

// received is a receive request that has succeeded.
func (m *model) received(h *station, r *request, c *cq.Completion) {
	if c.Opcode == cq.RecvImm {
		return
	}
	q := h.FindQP(c.QP)
	if q == nil {
		m.Fatalf("a completion of queue pair %d, which is destroyed", c.QP)
	}
	at, n := r.place, units.Bytes(c.ByteLen)
	if q.config.Type == qp.UD {
		at, n = at+transport.GRHLen, n-transport.GRHLen
	}
	if n < 8 {
		return // it does not say of whom it is
	}
	id := binary.LittleEndian.Uint64(h.buf[at:])
	if id == 0 {
		return // its size alone was modelled
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

// end lets everything come to its end: then nothing may be left.
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
	if n := m.w.pool.Live(); n != 0 {
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

// untold tells whether a SEND may have come without success for who receives it: the
// key that it was to invalidate could not be.
func (m *model) untold(r *request) bool { return r.op == transport.SendInvalidate }

// counted: what FETCH ADDs have brought differs, and the counter has gone on by at
// least as many as have succeeded, and at most as many as there were.
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

// clear ends what a host has. Nothing may be in use any more.
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
	if h.inUse != [4]int{} || h.agenda.live != 0 || h.armed != units.Never {
		m.Fatalf("%s: in use are %v, %d tasks have something due, at %v", h.Name(), h.inUse, h.agenda.live, h.armed)
	}
	if e, ok := h.NextEvent(); ok && (e.QP != nil || e.CQ != nil || e.SRQ != nil) {
		m.Fatalf("there is an event of what is gone: %+v", e)
	}
}
