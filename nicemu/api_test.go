package nicemu

import (
	"bytes"
	"errors"
	"math"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// fails checks that an error is an errno, or another error.
func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// only keeps the error of a call that also returns a value.
func only[T any](_ T, err error) error { return err }

// TestWhatIsGone uses objects after their destruction, and destroys them twice.
func TestWhatIsGone(t *testing.T) {
	w := newWorld(t, 1)
	a := w.host(0)
	pd, err := a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	config := QPConfig{Type: RC, SendCQ: a.cq, RecvCQ: a.cq}
	before := a.inUse
	fails(t, "dealloc", pd.Dealloc(), nil)
	fails(t, "dealloc again", pd.Dealloc(), syscall.EINVAL)
	fails(t, "queue pair without pd", only(pd.CreateQP(config)), syscall.EINVAL)
	fails(t, "srq without pd", only(pd.CreateSRQ(SRQAttr{MaxWR: 1})), syscall.EINVAL)
	fails(t, "ah without pd", only(pd.CreateAHTo(v4(0))), syscall.EINVAL)
	fails(t, "mr without pd", only(pd.Register(make([]byte, 1), 0)), syscall.EINVAL)
	fails(t, "mw without pd", only(pd.AllocMW(MWType1)), syscall.EINVAL)

	c, err := a.CreateCQ(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.pd.CreateSRQ(SRQAttr{MaxWR: 4, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	one := QPConfig{Type: RC, SendCQ: c, RecvCQ: a.cq, SRQ: s}
	q, err := a.pd.CreateQP(one)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "cq in use", c.Destroy(), syscall.EBUSY)
	fails(t, "srq in use", s.Destroy(), syscall.EBUSY)
	fails(t, "destroy", q.Destroy(), nil)
	fails(t, "destroy again", q.Destroy(), syscall.EINVAL)
	fails(t, "modify", q.SetState(StateErr), syscall.EINVAL)
	fails(t, "init", q.Init(0, 0), syscall.EINVAL)
	fails(t, "send", q.PostSend(&SendWR{}), syscall.EINVAL)
	fails(t, "receive", q.PostRecv(&RecvWR{}), syscall.EINVAL)
	fails(t, "connect", only(a.Connect(q, netip.AddrPortFrom(v4(0), 1), ConnParam{}, nil)), syscall.EINVAL)
	if a.QP(q.Number()) != nil {
		t.Error("a queue pair that is destroyed is found")
	}
	fails(t, "srq", s.Destroy(), nil)
	fails(t, "srq again", s.Destroy(), syscall.EINVAL)
	fails(t, "post to srq", s.PostRecv(&RecvWR{}), syscall.EINVAL)
	fails(t, "arm srq", s.Modify(SRQAttr{Limit: 1}, SRQLimit), syscall.EINVAL)
	fails(t, "queue pair with srq", only(a.pd.CreateQP(one)), syscall.EINVAL)
	fails(t, "cq", c.Destroy(), nil)
	fails(t, "cq again", c.Destroy(), syscall.EINVAL)
	fails(t, "poll", only(c.Poll(make([]Completion, 1))), syscall.EINVAL)
	fails(t, "resize", c.Resize(5), syscall.EINVAL)
	one.SRQ = nil
	fails(t, "queue pair with cq", only(a.pd.CreateQP(one)), syscall.EINVAL)
	if a.inUse != before {
		t.Errorf("in use are %v, want %v", a.inUse, before)
	}
}

// TestOfOthers uses objects of another device.
func TestOfOthers(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	s, err := b.pd.CreateSRQ(SRQAttr{MaxWR: 1})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]QPConfig{
		"type": {Type: qp.GSI, SendCQ: a.cq, RecvCQ: a.cq}, "no cq": {Type: RC, SendCQ: a.cq},
		"send cq": {Type: RC, SendCQ: b.cq, RecvCQ: a.cq}, "recv cq": {Type: RC, SendCQ: a.cq, RecvCQ: b.cq},
		"srq": {Type: RC, SendCQ: a.cq, RecvCQ: a.cq, SRQ: s},
	} {
		fails(t, what, only(a.pd.CreateQP(c)), syscall.EINVAL)
	}
	to := netip.AddrPortFrom(v4(1), 1)
	fails(t, "connect another's queue pair", only(a.Connect(b.qp(RC), to, ConnParam{}, nil)), syscall.EINVAL)
	fails(t, "connect a datagram queue pair", only(a.Connect(a.qp(UD), to, ConnParam{}, nil)), syscall.EINVAL)
	none := netip.AddrPortFrom(v4(1), 9)
	fails(t, "listen at another's address", only(a.Listen(none, 0, nil)), syscall.EADDRNOTAVAIL)
	fails(t, "the same for datagrams", only(a.ListenDatagrams(none, nil)), syscall.EADDRNOTAVAIL)
	fails(t, "listen at any", only(a.Listen(netip.MustParseAddrPort("0.0.0.0:9"), 0, nil)), nil)
	fails(t, "listen there again", only(a.Listen(netip.MustParseAddrPort("[::]:9"), 0, nil)), syscall.EADDRINUSE)
	q := a.qp(RC)
	fails(t, "too much private data", only(a.Connect(q, to, ConnParam{PrivateData: make([]byte, 57)}, nil)), syscall.EINVAL)
	fails(t, "connect", only(a.Connect(q, to, ConnParam{}, nil)), nil)
	fails(t, "connect again", only(a.Connect(q, to, ConnParam{}, nil)), syscall.EISCONN)
	fails(t, "join beyond DSCPs", a.qp(RC).Join(Join{Remote: v4(1), DSCP: 64}), syscall.EINVAL)
	fails(t, "join nobody", a.qp(RC).Join(Join{Remote: v4(7)}), syscall.EHOSTUNREACH)
}

// TestLists posts lists with one work request that cannot be taken.
func TestLists(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	x, y := a.qp(RC), b.qp(RC)
	join(t, x, y, qp.MTU1024, false)
	good, bad := RecvWR{ID: 1}, RecvWR{ID: 2, SGL: make([]SGE, 5)}
	if n, err := y.PostRecvList([]RecvWR{good, good, bad, good}); n != 2 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("%d receives were posted, %v", n, err)
	}
	s, err := b.pd.CreateSRQ(SRQAttr{MaxWR: 2, MaxSGE: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.PostRecvList([]RecvWR{good, good, good}); n != 2 || s.Len() != 2 || !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%d receives were posted to the shared queue, %v", n, err)
	}
	if n, err := x.PostSendList([]SendWR{{ID: 1}, {ID: 2}, {ID: 3, Op: OpFetchAdd}, {ID: 4}}); n != 2 || !errors.Is(err, transport.ErrAtomic) {
		t.Errorf("%d sends were posted, %v", n, err)
	}
	w.run(units.Millisecond)
	expect(t, "sends", a.poll(), "1 IBV_WC_SUCCESS IBV_WC_SEND 0", "2 IBV_WC_SUCCESS IBV_WC_SEND 0")
	expect(t, "receives", b.poll(), "1 IBV_WC_SUCCESS IBV_WC_RECV 0", "1 IBV_WC_SUCCESS IBV_WC_RECV 0")
}

// TestQueries queries a device's attributes.
func TestQueries(t *testing.T) {
	w := newWorld(t, 1)
	d := w.ports[0].device
	if p := d.QueryPort(); p != (PortAttr{Active: true, MaxMTU: qp.MTU4096, ActiveMTU: qp.MTU1024, Line: lineRate, GIDs: 2, PKeys: 1}) {
		t.Errorf("the port is %+v", p)
	}
	if g, err := d.QueryGID(1); err != nil || AddressOf(g) != v6(0) {
		t.Errorf("GID 1 is %v, %v", AddressOf(g), err)
	}
	if k, err := d.QueryPKey(0); err != nil || k != 0xffff {
		t.Errorf("P_Key 0 is %#x, %v", k, err)
	}
	for _, i := range []int{-1, 2} {
		fails(t, "GID", only(d.QueryGID(i)), syscall.EINVAL)
		fails(t, "P_Key", only(d.QueryPKey(i)), syscall.EINVAL)
	}
	q := w.host(0).qp(RC)
	if d.QP(q.Number()) != q || d.QP(1) != nil {
		t.Error("queue pairs are not found by their numbers")
	}
}

// TestElementHas32Bits makes elements of lengths that fit and do not.
func TestElementHas32Bits(t *testing.T) {
	w := newWorld(t, 1)
	mr, err := w.host(0).pd.RegisterSize(10*units.GB, LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if s := mr.SGE(units.GB, math.MaxUint32); s.Length != math.MaxUint32 || s.VA != mr.Addr(units.GB) {
		t.Errorf("the element is %+v", s)
	}
	for _, n := range []units.Bytes{-1, math.MaxUint32 + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("an element of %d bytes", n)
				}
			}()
			mr.SGE(0, n)
		}()
	}
	for _, n := range []units.Bytes{-1, -units.GB} {
		fails(t, "size", only(w.host(0).pd.RegisterSize(n, 0)), syscall.EINVAL)
	}
}

// TestReregisteredRegionKnowsItsPD moves a region to another protection domain.
func TestReregisteredRegionKnowsItsPD(t *testing.T) {
	w := newWorld(t, 1)
	a := w.host(0)
	pd, err := a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "nowhere", a.mr.Reregister(memory.ChangePD, nil, memory.Registration{}), syscall.EINVAL)
	if a.mr.PD() != a.pd {
		t.Error("an error has changed the protection domain")
	}
	fails(t, "reregister", a.mr.Reregister(memory.ChangePD, pd, memory.Registration{}), nil)
	if a.mr.PD() != pd || a.pd.Dealloc() != nil {
		t.Error("the region is not of the new protection domain")
	}
}

// TestAnswerToDatagram answers datagrams of both IP versions, to a host and to a group, by their
// headers.
func TestAnswerToDatagram(t *testing.T) {
	for _, to := range []netip.Addr{v4(1), v6(1), addr("239.1.2.3"), addr("ff0e::5")} {
		w := newWorld(t, 2)
		a, b := w.host(0), w.host(1)
		b.settings.DSCP = 26 // answers nevertheless have that of the question
		x, y := a.qp(UD), b.qp(UD)
		for _, q := range []*QP{x, y} {
			fails(t, "join", q.Join(Join{QKey: 1}), nil)
		}
		number := y.Number()
		if to.IsMulticast() {
			number = MulticastQPN
			fails(t, "attach", y.AttachMcast(GID(to)), nil)
		}
		h, err := a.pd.CreateAHTo(to)
		if err != nil {
			t.Fatal(err)
		}
		recv(t, y, 1, b.mr.SGE(0, 100))
		recv(t, x, 2, a.mr.SGE(0, 100))
		post(t, x, SendWR{ID: 3, SGL: []SGE{a.mr.SGE(200, 7)}, Path: h.Path(), DestQP: number, QKey: 1})
		w.run(units.Millisecond)
		got := b.poll()
		expect(t, "question", got, "1 IBV_WC_SUCCESS IBV_WC_RECV 47")
		back, err := b.pd.CreateAHFromWC(&got[0], b.buf)
		if err != nil {
			t.Fatal(err)
		}
		post(t, y, SendWR{ID: 4, SGL: []SGE{b.mr.SGE(40, 7)}, Path: back.Path(), DestQP: got[0].SrcQP, QKey: 1})
		w.run(2 * units.Millisecond)
		if prio := w.log[len(w.log)-1].prio; prio != 0 {
			t.Errorf("the answer left by class %d", prio)
		}
		expect(t, "answer", a.poll(), "3 IBV_WC_SUCCESS IBV_WC_SEND 0", "2 IBV_WC_SUCCESS IBV_WC_RECV 47")

		fails(t, "of no datagram", only(b.pd.CreateAHFromWC(&Completion{Opcode: WCRecv}, b.buf)), syscall.EINVAL)
		fails(t, "of too little", only(b.pd.CreateAHFromWC(&got[0], b.buf[:39])), syscall.EINVAL)
		fails(t, "of no header", only(b.pd.CreateAHFromWC(&got[0], make([]byte, 40))), syscall.EINVAL)
		fails(t, "to 24 bits and more", x.PostSend(&SendWR{Path: h.Path(), DestQP: 1 << 24}), syscall.EINVAL)
	}
}

// TestChannelTellsWhichQueue has two queues of a channel, and destroys one of them
// while its event waits.
func TestChannelTellsWhichQueue(t *testing.T) {
	w := newWorld(t, 1)
	a := w.host(0)
	var channel Channel
	told := 0
	channel.Notify = func() { told++ }
	var queues [2]*CQ
	for i := range queues {
		var err error
		if queues[i], err = a.CreateCQ(4, &channel); err != nil {
			t.Fatal(err)
		}
		queues[i].Arm(false)
	}
	fails(t, "channel in use", channel.Destroy(), syscall.EBUSY)
	for _, q := range queues {
		(*completer)(q).CompleteRequest(Completion{ID: 7}, false)
	}
	if told != 1 || channel.Len() != 2 {
		t.Errorf("told %d times of %d events", told, channel.Len())
	}
	fails(t, "destroy", queues[0].Destroy(), nil)
	if q, ok := channel.Get(); !ok || q != queues[1] {
		t.Errorf("the event is of %p, %v", q, ok)
	}
	if q, ok := channel.Get(); ok || q != nil {
		t.Error("there is an event of a queue that is destroyed")
	}
	fails(t, "not acknowledged", queues[1].Destroy(), syscall.EBUSY)
	fails(t, "acknowledge", queues[1].Ack(1), nil)
	fails(t, "destroy", queues[1].Destroy(), nil)
	fails(t, "channel", channel.Destroy(), nil)
}

// TestResize makes a queue deeper and shallower.
func TestResize(t *testing.T) {
	w := newWorld(t, 1)
	a := w.host(0)
	c, err := a.CreateCQ(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, "deeper than max_cqe", c.Resize(a.Limits().CQE+1), syscall.EINVAL)
	fails(t, "resize", c.Resize(3), nil)
	for range 3 {
		(*completer)(c).CompleteRequest(Completion{}, false)
	}
	fails(t, "below what waits", c.Resize(2), syscall.EINVAL)
	if c.Overrun() || c.Len() != 3 || c.Depth() != 3 {
		t.Errorf("overrun %v, %d of %d", c.Overrun(), c.Len(), c.Depth())
	}
	(*completer)(c).CompleteRequest(Completion{}, false)
	if !c.Overrun() {
		t.Error("no overrun")
	}
	fails(t, "poll", only(c.Poll(make([]Completion, 3))), nil)
	fails(t, "poll after an overrun", only(c.Poll(make([]Completion, 3))), cq.ErrOverrun)
}

// TestProcessesAreTold waits for each event that a process can wait for: until it comes, until the
// timeout, and until it can no longer come.
func TestProcessesAreTold(t *testing.T) {
	const ms = units.Millisecond
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	var channel Channel
	queue, err := a.CreateCQ(1, &channel)
	if err != nil {
		t.Fatal(err)
	}
	l, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 9), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]units.Time{}
	start := func(name string, f func(p *sim.Process)) {
		w.engine.Go(name, func(p *sim.Process) {
			f(p)
			times[name] = p.Now()
		})
	}
	start("channel", func(p *sim.Process) {
		fails(t, "channel", only(channel.Wait(p, 2*ms)), syscall.ETIMEDOUT)
		queue.Arm(false)
		if q, err := channel.Wait(p, units.Never); q != queue || err != nil {
			t.Errorf("the event is of %p, %v", q, err)
		}
		fails(t, "acknowledge", queue.Ack(1), nil)
	})
	start("event", func(p *sim.Process) {
		fails(t, "event", only(a.WaitEvent(p, ms)), syscall.ETIMEDOUT)
		if e, err := a.WaitEvent(p, units.Never); e.Kind != EventCQErr || e.CQ != queue || err != nil {
			t.Errorf("the event is %+v, %v", e, err)
		}
	})
	start("completion", func(p *sim.Process) {
		fails(t, "completion", only(a.cq.WaitOne(p)), cq.WRFlushErr)
	})
	start("queue", func(p *sim.Process) {
		c, err := a.CreateCQ(1, nil)
		if err != nil {
			t.Error(err)
			return
		}
		w.engine.Go("destroyer", func(p *sim.Process) {
			p.SleepUntil(6 * ms)
			fails(t, "destroy", c.Destroy(), nil)
		})
		fails(t, "completion of what is gone", only(c.WaitOne(p)), syscall.EINVAL)
	})
	start("listener", func(p *sim.Process) {
		e, err := l.Next(p)
		if err != nil || e.Kind != ConnRequested {
			t.Errorf("the request is %+v, %v", e, err)
			return
		}
		w.engine.Go("closer", func(p *sim.Process) {
			p.SleepUntil(8 * ms)
			fails(t, "close", l.Close(), nil)
			fails(t, "close again", l.Close(), syscall.EINVAL)
		})
		p.SleepUntil(7 * ms)
		fails(t, "reject", e.Conn.Reject([]byte("no")), nil)
		fails(t, "reject again", e.Conn.Reject(nil), syscall.EINVAL)
		fails(t, "a request refused", only(e.Conn.WaitEstablished(p)), net.ErrClosed)
		e.Conn.WaitDisconnected(p)
		fails(t, "the other request", only(l.Next(p)), nil)
		fails(t, "listener", only(l.Next(p)), net.ErrClosed)
		if p.Now() != 8*ms {
			t.Errorf("the listener was closed at %v", p.Now())
		}
		fails(t, "listener", only(l.Next(p)), net.ErrClosed)
	})
	start("refused", func(p *sim.Process) {
		c, err := a.Connect(a.qp(RC), netip.AddrPortFrom(v4(1), 9), ConnParam{}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = c.WaitEstablished(p)
		fails(t, "refused", err, syscall.ECONNREFUSED)
		if e := (*ConnError)(nil); !errors.As(err, &e) || !bytes.HasPrefix(e.Event.PrivateData, []byte("no\x00")) {
			t.Errorf("the error is %v", err)
		}
	})
	start("closed", func(p *sim.Process) {
		c, err := a.Connect(a.qp(RC), netip.AddrPortFrom(v4(1), 9), ConnParam{}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		w.engine.Go("closer", func(p *sim.Process) {
			p.SleepUntil(9 * ms)
			fails(t, "close", c.Close(), nil)
		})
		fails(t, "closed", only(c.WaitEstablished(p)), net.ErrClosed)
	})
	start("resolve", func(p *sim.Process) {
		fails(t, "resolve", only(a.WaitResolve(p, netip.AddrPortFrom(v4(1), 5), nil)), syscall.ECONNREFUSED)
	})
	w.engine.Go("driver", func(p *sim.Process) {
		p.SleepUntil(3 * ms)
		(*completer)(queue).CompleteRequest(Completion{}, false)
		p.SleepUntil(4 * ms)
		(*completer)(queue).CompleteRequest(Completion{}, false)
		p.SleepUntil(5 * ms)
		q := a.qp(RC)
		fails(t, "init", q.Init(0, 0), nil)
		fails(t, "to ERR", q.SetState(StateErr), nil)
		fails(t, "receive", q.PostRecv(&RecvWR{}), nil)
	})
	w.run(units.Second)
	for name, at := range map[string]units.Time{"channel": 3 * ms, "event": 4 * ms, "completion": 5 * ms, "queue": 6 * ms, "listener": 8 * ms, "closed": 9 * ms} {
		if times[name] != at {
			t.Errorf("%s was told at %v, want %v", name, times[name], at)
		}
	}
	for _, name := range []string{"refused", "resolve"} {
		if times[name] == 0 {
			t.Errorf("%s was never told", name)
		}
	}
	w.engine.StopProcesses()
}

// TestCloseRefusesWhatWaits closes a listener whose requests have not been taken.
func TestCloseRefusesWhatWaits(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	l, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 9), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var book diary
	for range 2 {
		if _, err := a.Connect(a.qp(RC), netip.AddrPortFrom(v4(1), 9), ConnParam{}, book.note("client", w)); err != nil {
			t.Fatal(err)
		}
	}
	w.run(units.Millisecond)
	fails(t, "close", l.Close(), nil)
	w.run(2 * units.Millisecond)
	book.holds(t, "client rejected (consumer reject)", "client rejected (consumer reject)")
	if len(b.conns.byID) != 0 {
		t.Error("a connection is still known")
	}
}

// TestJoinPair joins by the IP version that both have.
func TestJoinPair(t *testing.T) {
	only6 := func(s *Settings, e *Env) { e.Addresses = e.Addresses[1:] }
	w := newWorld(t, 2, only6)
	x, y := w.host(0).qp(RC), w.host(1).qp(RC)
	fails(t, "join", JoinPair(x, y, Join{Access: RemoteWrite}), nil)
	if a, _ := x.Query(); AddressOf(a.AV.DGID) != v6(1) || a.DestQPN != y.Number() || y.State() != StateRTS {
		t.Errorf("joined to %v, queue pair %d, %v", AddressOf(a.AV.DGID), a.DestQPN, y.State())
	}
	x.device.AddAddress(v4(0))
	x.device.RemoveAddress(v6(0))
	fails(t, "no version in common", JoinPair(w.host(0).qp(RC), w.host(1).qp(RC), Join{}), syscall.EADDRNOTAVAIL)
}
