package nicemu

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
)

// model is random programs on NICs, with their expected results.
type model struct {
	*rapid.T
	w     *world
	rand  *rand.Rand // for events while the world runs
	hosts []*station
	all   []*pair // in order of creation
	work  map[uint64]*request
	next  uint64 // ID of a work request, and epoch of a connection
	conns []*link
}

// station is a host of the model.
type station struct {
	*host
	index   int
	free    units.Bytes // of the region, from here on
	size    *MR         // only its size is modelled
	cqs     []*CQ
	channel Channel
	srq     *SRQ
	handles []*AH
	old     [][]byte // results of FETCH ADDs
	reset   bool     // a queue pair with srq was reset or destroyed
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
	reset  bool // it was reset, so its requests vanished
	window *MW
	key    uint32 // of the window's last binding
	bound  units.Bytes
	seen   uint64 // the last SEND received, of RC
	peer   *pair  // nil if joined by a connection manager, and for UD
	group  bool
}

// request is a work request of the model.
type request struct {
	id      uint64
	of      *pair // nil for those of a shared receive queue
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
	bytes   []byte // nil if only the size is modelled
	arrived int    // of a SEND
}

// TestModel runs random programs on two or three NICs whose packets are lost, duplicated and
// reordered, and checks their results and the state of the NICs.
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
	if rapid.Bool().Draw(t, "ACKs in a class of their own") {
		options = append(options, withAckClass)
	}
	if rapid.Bool().Draw(t, "delays") {
		delay := rapid.SampledFrom([]units.Time{0, 300 * units.Nanosecond, 2 * units.Microsecond, 40 * units.Microsecond})
		d := Delays{delay.Draw(t, "doorbell"), delay.Draw(t, "dma"), delay.Draw(t, "completion")}
		options = append(options, func(s *Settings, _ *Env) { s.Delays = d })
	}
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

// run runs a program from its start to the destruction of all its objects.
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

// join joins two queue pairs. PSNs of one connection are far from those of others, so that late
// packets of an old one are recognized.
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
	_, _, allowed := qp.TransitionOf(p.config.Type, from, to)
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

// discard records that a queue pair's requests have vanished.
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

// rejoin joins again two queue pairs that were both reset.
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

// pause pauses a class of a port, or resumes it.
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

// arm requests an event and takes the waiting ones.
func (m *model) arm() {
	h := m.anyHost("host")
	for q, ok := h.channel.Get(); ok; q, ok = h.channel.Get() {
		m.must(q.Ack(1))
	}
	c, _ := some(m, "queue", h.cqs)
	m.must(c.Moderate(cq.Moderation{Count: uint16(m.rand.IntN(4)), Period: 10 * units.Microsecond}))
	c.Arm(rapid.Bool().Draw(m.T, "solicited"))
	for e, ok := h.NextEvent(); ok; e, ok = h.NextEvent() {
		if e.QP != nil && h.QP(e.QP.Number()) != e.QP {
			m.Fatalf("%v of a queue pair that is destroyed", e.Kind)
		}
	}
}
