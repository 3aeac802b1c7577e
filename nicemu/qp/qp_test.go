package qp

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"pgregory.net/rapid"
)

// env is the set of objects of a device.
type env struct {
	limits Limits
	pd     *memory.PD
	table  *memory.Table
	cq     *cq.CQ
	xrcd   XRCD
}

func newEnv(t testing.TB) *env {
	t.Helper()
	e := &env{limits: ConnectX5()}
	e.table = memory.New(e.limits.Memory())
	var err error
	if e.pd, err = e.table.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = cq.New(16, e.limits.CQE, nil, nil); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) config(ty Type) Config {
	if ty == XRCRecv {
		return Config{Type: ty, XRCD: &e.xrcd}
	}
	return Config{Type: ty, PD: e.pd, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: Cap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64}}
}

func number(ty Type) uint32 {
	if ty == GSI {
		return GSINumber
	}
	return 17
}

// newQP makes a queue pair of an environment, or of a new one.
func newQP(t testing.TB, ty Type, e *env) *QP {
	t.Helper()
	if e == nil {
		e = newEnv(t)
	}
	q, err := New(number(ty), e.config(ty), &e.limits)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

var goodAV = AV{DGID: GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}, Global: true, Port: 1, HopLimit: 64}

// goodAttr returns attributes that each transition takes.
func goodAttr(ty Type) Attr {
	a := Attr{
		Access: uint32(memory.RemoteWrite), Port: 1, QKey: 0x11111111, AV: goodAV, PathMTU: MTU1024, DestQPN: 18,
		RQPSN: 1<<24 - 1, SQPSN: 7, MaxDestRdAtomic: 16, MinRNRTimer: 31, Timeout: 14, RetryCnt: 7, RNRRetry: 7,
		MaxRdAtomic: 16,
	}
	if ty == GSI {
		a.QKey = gsiQKey
	}
	return a
}

// Each attribute has a range; an attribute out of range is named, and nothing changes.
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		ty    Type
		bit   Mask
		set   func(a *Attr)
		error string // "" if it is allowed
	}{
		{RC, MaskTimeout, func(a *Attr) { a.Timeout = 31 }, ""},
		{RC, MaskTimeout, func(a *Attr) { a.Timeout = 32 }, "timeout is 32: it can be 0 to 31"},
		{RC, MaskRetryCnt, func(a *Attr) { a.RetryCnt = 8 }, "retry_cnt is 8: it can be 0 to 7"},
		{RC, MaskRNRRetry, func(a *Attr) { a.RNRRetry = 8 }, "rnr_retry is 8: it can be 0 to 7"},
		{RC, MaskMinRNRTimer, func(a *Attr) { a.MinRNRTimer = 32 }, "min_rnr_timer is 32: it can be 0 to 31"},
		{RC, MaskPathMTU, func(a *Attr) { a.PathMTU = 0 }, "path_mtu is 0: it can be 1 to 3"},
		{RC, MaskPathMTU, func(a *Attr) { a.PathMTU = MTU2048 }, "path_mtu is 4"},
		{RC, MaskMaxQPRdAtomic, func(a *Attr) { a.MaxRdAtomic = 17 }, "max_rd_atomic is 17: it can be 0 to 16"},
		{RC, MaskMaxDestRdAtomic, func(a *Attr) { a.MaxDestRdAtomic = 17 }, "max_dest_rd_atomic is 17"},
		{RC, MaskPKeyIndex, func(a *Attr) { a.PKeyIndex = 1 }, "pkey_index is 1: it can be 0 to 0"},
		{RC, MaskPort, func(a *Attr) { a.Port = 2 }, "port_num is 2: it can be 1 to 1"},
		{RC, MaskPort, func(a *Attr) { a.Port = 0 }, "port_num is 0"},
		{RC, MaskRQPSN, func(a *Attr) { a.RQPSN = 1 << 24 }, "rq_psn is 16777216: it can be 0 to 16777215"},
		{RC, MaskSQPSN, func(a *Attr) { a.SQPSN = 1 << 24 }, "sq_psn is 16777216"},
		{RC, MaskDestQPN, func(a *Attr) { a.DestQPN = 1 << 24 }, "dest_qp_num is 16777216"},
		{RC, MaskPathMigState, func(a *Attr) { a.MigState = 2 }, "path_mig_state is 2"},
		{RC, MaskAccessFlags, func(a *Attr) { a.Access = 0x1f }, ""},
		{RC, MaskAccessFlags, func(a *Attr) { a.Access = 1 << 8 }, "qp_access_flags is 0x100"},
		{UC, MaskAccessFlags, func(a *Attr) { a.Access = uint32(memory.RemoteRead) }, "UC has neither"},
		{UC, MaskAccessFlags, func(a *Attr) { a.Access = uint32(memory.RemoteWrite | memory.LocalWrite) }, ""},
		{UD, MaskQKey, func(a *Attr) { a.QKey = 1<<32 - 1 }, ""},
		{GSI, MaskQKey, func(a *Attr) { a.QKey = 1 }, "qkey is 0x1"},
		{RC, MaskAV, func(a *Attr) { a.AV.Global = false }, "is_global"},
		{RC, MaskAV, func(a *Attr) { a.AV.DGID = GID{} }, "dgid is ::"},
		{RC, MaskAV, func(a *Attr) { a.AV.DGID[0] = 0xff }, "multicast"},
		{RC, MaskAV, func(a *Attr) { a.AV.Port = 2 }, "ah_attr.port_num is 2"},
		{RC, MaskAV, func(a *Attr) { a.AV.FlowLabel = 1 << 20 }, "ah_attr.grh.flow_label is 1048576"},
		{RC, MaskAV, func(a *Attr) { a.AV.SL = 8 }, "ah_attr.sl is 8: it can be 0 to 7"},
		{RC, MaskAV, func(a *Attr) { a.AV.StaticRate = 25 }, "ah_attr.static_rate is 25"},
	} {
		done := false
		for from := Reset; from <= SQD && !done; from++ { // where the attribute may be changed
			for to := from; to <= min(from+1, SQD); to++ {
				required, optional, ok := TransitionOf(c.ty, from, to)
				if !ok || (required|optional)&c.bit == 0 {
					continue
				}
				q := newQP(t, c.ty, nil)
				a := goodAttr(c.ty)
				q.attr = a
				q.attr.State = from
				before := q.attr
				a.State = to
				c.set(&a)
				err := q.Modify(a, required|c.bit|MaskState)
				switch {
				case c.error == "" && err != nil:
					t.Errorf("%v: %v", c.bit, err)
				case c.error != "" && (!errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.error)):
					t.Errorf("%v: %v, want %q", c.bit, err, c.error)
				case c.error != "" && q.attr != before:
					t.Errorf("%v: an error changed attributes", c.bit)
				}
				done = true
			}
		}
		if !done {
			t.Errorf("%v was not tried", c.bit)
		}
	}
	e := newEnv(t)
	e.limits.NoAtomics = true
	a := Attr{Access: uint32(memory.RemoteAtomic)}
	if err := a.checkAttributes(RC, MaskAccessFlags, &e.limits); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("atomics of a device that has none: %v", err)
	}
}

// TestLife walks through the states, and checks the queries.
func TestLife(t *testing.T) {
	e := newEnv(t)
	q := newQP(t, RC, e)
	a := goodAttr(RC)
	step := func(to State, m Mask) {
		t.Helper()
		a.State = to
		if err := q.Modify(a, m|MaskState); err != nil {
			t.Fatal(err)
		}
		got, c := q.Query()
		if got.State != to || got.CurState != to || got.Cap != c.Cap {
			t.Errorf("query says %+v", got)
		}
	}
	step(Init, identity)
	step(RTR, peer|MaskMaxDestRdAtomic|MaskMinRNRTimer)
	step(RTS, MaskSQPSN|MaskTimeout|MaskRetryCnt|MaskRNRRetry|MaskMaxQPRdAtomic)
	want := a
	want.CurState, want.QKey, want.Cap = RTS, 0, e.config(RC).Cap // RC has no Q_Key
	if got, _ := q.Query(); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if q.RemoteAccess() != memory.RemoteWrite {
		t.Errorf("access is %v", q.RemoteAccess())
	}
	a.CurState = SQD
	if err := q.Modify(a, MaskCurState); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("wrong current state: %v", err)
	}
	if q.OnDrained() {
		t.Error("drained in RTS")
	}
	a.EnSQDAsyncNotify = true
	step(SQD, MaskEnSQDAsyncNotify)
	if got, _ := q.Query(); !got.SQDraining {
		t.Error("does not drain")
	}
	a.Timeout = 3
	if err := q.Modify(a, MaskTimeout); err == nil || !strings.Contains(err.Error(), "SQ_DRAINED") {
		t.Errorf("changed while it drains: %v", err)
	}
	if !q.OnDrained() || q.OnDrained() {
		t.Error("one event was to come")
	}
	step(SQD, MaskTimeout)
	step(RTS, 0)
	step(SQD, 0)
	if q.OnDrained() {
		t.Error("an event that nobody asked for")
	}
	q.SendFailed()
	if q.State() != Err {
		t.Errorf("RC is in %v", q.State())
	}
	e.cq.Push(0, cq.Completion{QP: 17}, false)
	step(Reset, 0)
	if got, _ := q.Query(); got != (Attr{Cap: want.Cap}) || e.cq.Len() != 0 {
		t.Errorf("after reset: %+v, %d completions", got, e.cq.Len())
	}
	q.MoveToError()
	if q.State() != Reset {
		t.Error("went from RESET to ERR")
	}
}

func TestSendErrorOfDatagrams(t *testing.T) {
	for _, ty := range []Type{UC, UD, GSI} {
		q := newQP(t, ty, nil)
		q.SendFailed()
		if q.State() != Reset {
			t.Errorf("%v is in %v", ty, q.State())
		}
		q.attr.State = RTS
		q.SendFailed()
		if q.State() != SQE {
			t.Errorf("%v is in %v", ty, q.State())
		}
		if err := q.Modify(Attr{State: RTS}, MaskState); err != nil {
			t.Error(err)
		}
		q.MoveToError()
		if q.State() != Err {
			t.Errorf("%v is in %v", ty, q.State())
		}
	}
}

func TestPosting(t *testing.T) {
	var send, receive []State
	for s := Reset; s <= Err+1; s++ {
		if s.MaySend() {
			send = append(send, s)
		}
		if s.MayReceive() {
			receive = append(receive, s)
		}
	}
	if diff := cmp.Diff([]State{RTS, SQD, SQE, Err}, send); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]State{Init, RTR, RTS, SQD, SQE, Err}, receive); diff != "" {
		t.Error(diff)
	}
}

func TestCreate(t *testing.T) {
	e := newEnv(t)
	srq, err := NewSRQ(e.pd, SRQAttr{MaxWR: 4, MaxSGE: 1}, &e.limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		number uint32
		ty     Type
		set    func(c *Config)
		errno  syscall.Errno
		text   string
	}{
		{2, 8, func(*Config) {}, syscall.EOPNOTSUPP, "qp_type is 8"},
		{2, XRCRecv, func(c *Config) { c.XRCD = nil }, syscall.EINVAL, "XRC domain"},
		{1, XRCRecv, func(*Config) {}, syscall.EINVAL, "number of the queue pair is 1"},
		{2, XRCSend, func(c *Config) { c.SendCQ = nil }, syscall.EINVAL, "protection domain, send_cq"},
		{2, XRCSend, func(c *Config) { c.SRQ = srq }, syscall.EINVAL, "type XRC_SEND"},
		{2, RC, func(c *Config) { c.PD = nil }, syscall.EINVAL, "protection domain"},
		{2, GSI, func(*Config) {}, syscall.EINVAL, "number 1"},
		{1, UD, func(*Config) {}, syscall.EINVAL, "number of the queue pair is 1: it can be 2 to 16777214"},
		{MaxNumber + 1, RC, func(*Config) {}, syscall.EINVAL, "16777215"},
		{2, UC, func(c *Config) { c.SRQ = srq }, syscall.EINVAL, "type UC"},
		{2, RC, func(c *Config) { c.Cap.MaxSendWR = 32769 }, syscall.EINVAL, "max_send_wr is 32769: it can be 0 to 32768"},
		{2, RC, func(c *Config) { c.Cap.MaxRecvWR = -1 }, syscall.EINVAL, "max_recv_wr is -1"},
		{2, RC, func(c *Config) { c.Cap.MaxSendSGE = 31 }, syscall.EINVAL, "max_send_sge is 31"},
		{2, RC, func(c *Config) { c.Cap.MaxRecvSGE = 31 }, syscall.EINVAL, "max_recv_sge is 31"},
		{2, RC, func(c *Config) { c.Cap.MaxInline = 513 }, syscall.EINVAL, "max_inline_data is 513"},
	} {
		cfg := e.config(c.ty)
		c.set(&cfg)
		if _, err := New(c.number, cfg, &e.limits); !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v %q", err, c.errno, c.text)
		}
	}
	cfg := e.config(RC)
	cfg.SRQ = srq
	cfg.Cap.MaxRecvWR = 1 << 30 // ignored
	q, err := New(5, cfg, &e.limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, got := q.Query(); got.Cap.MaxRecvWR != 0 || got.Cap.MaxRecvSGE != 0 {
		t.Errorf("receives with a shared queue: %+v", got.Cap)
	}
	for name, err := range map[string]error{"srq": srq.Destroy(), "cq": e.cq.Destroy(), "pd": e.table.DeallocPD(e.pd)} {
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s in use: %v", name, err)
		}
	}
	if err := errors.Join(q.Destroy(), srq.Destroy(), e.cq.Destroy(), e.table.DeallocPD(e.pd)); err != nil {
		t.Error(err)
	}
	if q.Destroy() == nil || srq.Destroy() == nil || q.Modify(Attr{}, 0) == nil {
		t.Error("destroyed things live")
	}
}

// TestXRC_HasItsParts: an initiator has no receives, a target nothing but its domain, and a shared
// receive queue of the domain holds it and its completion queue.
func TestXRC_HasItsParts(t *testing.T) {
	e := newEnv(t)
	for name, make := range map[string]func() (*SRQ, error){
		"no domain":         func() (*SRQ, error) { return NewXRCSRQ(5, e.pd, nil, e.cq, SRQAttr{MaxWR: 4}, &e.limits, nil) },
		"no queue":          func() (*SRQ, error) { return NewXRCSRQ(5, e.pd, &e.xrcd, nil, SRQAttr{MaxWR: 4}, &e.limits, nil) },
		"no number":         func() (*SRQ, error) { return NewXRCSRQ(0, e.pd, &e.xrcd, e.cq, SRQAttr{MaxWR: 4}, &e.limits, nil) },
		"too high a number": func() (*SRQ, error) { return NewXRCSRQ(1<<24, e.pd, &e.xrcd, e.cq, SRQAttr{MaxWR: 4}, &e.limits, nil) },
		"no protection":     func() (*SRQ, error) { return NewXRCSRQ(5, nil, &e.xrcd, e.cq, SRQAttr{MaxWR: 4}, &e.limits, nil) },
	} {
		if _, err := make(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	srq, err := NewXRCSRQ(5, e.pd, &e.xrcd, e.cq, SRQAttr{MaxWR: 4, MaxSGE: 1}, &e.limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	sends := newQP(t, XRCSend, e)
	receives, err := New(18, e.config(XRCRecv), &e.limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, c := sends.Query(); c.RecvCQ != nil || c.Cap.MaxRecvWR != 0 || c.Cap.MaxRecvSGE != 0 || c.Cap.MaxSendWR != 8 {
		t.Errorf("an initiator has %+v", c)
	}
	if _, c := receives.Query(); c.PD != nil || c.Cap != (Cap{}) || receives.PD() != nil {
		t.Errorf("a target has %+v", c)
	}
	if srq.Number() != 5 || srq.XRCD() != &e.xrcd || e.xrcd.Users() != 2 {
		t.Errorf("number %d, domain %p with %d users", srq.Number(), srq.XRCD(), e.xrcd.Users())
	}
	e.cq.Push(0, cq.Completion{QP: 18, SRQ: 5, Opcode: cq.Recv}, false)
	if err := receives.Destroy(); err != nil || e.cq.Len() != 1 {
		t.Errorf("%v: the entries of a destroyed target are %d", err, e.cq.Len())
	}
	for name, err := range map[string]error{"domain": e.xrcd.Close(), "cq": e.cq.Destroy()} {
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s in use: %v", name, err)
		}
	}
	if err := srq.Destroy(); err != nil || e.cq.Len() != 0 || srq.XRCD() != nil {
		t.Errorf("%v: the entries of a destroyed shared receive queue are %d", err, e.cq.Len())
	}
	if err := errors.Join(e.xrcd.Close(), sends.Destroy(), e.cq.Destroy(), e.table.DeallocPD(e.pd)); err != nil {
		t.Error(err)
	}
	if err := e.xrcd.Close(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("closed twice: %v", err)
	}
}

func TestAddressHandles(t *testing.T) {
	e := newEnv(t)
	other, _ := e.table.AllocPD()
	h, err := NewAH(e.pd, goodAV, &e.limits)
	if err != nil {
		t.Fatal(err)
	}
	group := goodAV
	group.DGID = GID{0: 0xff, 1: 0x0e}
	if err := h.Modify(group, &e.limits); err != nil || h.AV() != group {
		t.Errorf("datagrams to a group: %v", err)
	}
	bad := goodAV
	bad.SL = 9
	if err := h.Modify(bad, &e.limits); err == nil || h.AV() != group {
		t.Errorf("%v", err)
	}
	if _, err := NewAH(nil, goodAV, &e.limits); err == nil {
		t.Error("no protection domain")
	}
	if _, err := NewAH(e.pd, bad, &e.limits); err == nil {
		t.Error("a bad vector")
	}
	foreign, _ := NewAH(other, goodAV, &e.limits)
	if ud := newQP(t, UD, e); !ud.MayReach(h) || ud.MayReach(foreign) || newQP(t, RC, e).MayReach(h) {
		t.Error("who reaches whom")
	}
	if err := e.table.DeallocPD(other); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	if err := errors.Join(h.Destroy(), foreign.Destroy(), e.table.DeallocPD(other)); err != nil || h.Destroy() == nil {
		t.Error(err)
	}
}

func TestMulticast(t *testing.T) {
	e := newEnv(t)
	e.limits.McastGroups, e.limits.McastQPAttach, e.limits.McastQPAttachTotal = 2, 2, 3
	g := NewGroups(&e.limits)
	var qps []*QP
	for i := range 4 {
		q, err := New(uint32(10+i), e.config(UD), &e.limits)
		if err != nil {
			t.Fatal(err)
		}
		qps = append(qps, q)
	}
	gid := func(i byte) GID { return GID{0: 0xff, 15: i} }
	rc := newQP(t, RC, e)
	for i, c := range []struct {
		err  error
		want syscall.Errno
	}{
		{g.Attach(rc, gid(1)), syscall.EINVAL},
		{g.Attach(qps[0], GID{0: 0xfe}), syscall.EINVAL},
		{g.Detach(qps[0], gid(1)), syscall.EINVAL},
		{g.Attach(qps[0], gid(1)), 0},
		{g.Attach(qps[0], gid(1)), 0},
		{g.Attach(qps[1], gid(1)), 0},
		{g.Attach(qps[2], gid(1)), syscall.ENOMEM}, // of a group
		{g.Attach(qps[2], gid(2)), 0},
		{g.Attach(qps[3], gid(3)), syscall.ENOMEM}, // groups
		{g.Attach(qps[3], gid(2)), syscall.ENOMEM}, // in all
		{qps[0].Destroy(), syscall.EBUSY},
	} {
		if c.want == 0 && c.err != nil || c.want != 0 && !errors.Is(c.err, c.want) {
			t.Errorf("step %d: %v, want %v", i, c.err, c.want)
		}
	}
	if m := g.Members(gid(1)); len(m) != 2 || m[0] != qps[0] || m[1] != qps[1] {
		t.Errorf("members are %v", m)
	}
	if err := errors.Join(g.Detach(qps[0], gid(1)), g.Detach(qps[1], gid(1)), qps[0].Destroy(), g.Attach(qps[3], gid(3))); err != nil {
		t.Error(err)
	}
	if len(g.Members(gid(1))) != 0 || g.Attach(qps[0], gid(1)) == nil {
		t.Error("the group is not empty")
	}
}

// limitLog counts limit events.
type limitLog int

func (l *limitLog) LimitReached(*SRQ) { *l++ }

// A shared receive queue is a slice with a low-water mark.
func TestSRQIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ConnectX5()
		l.SRQResize, l.SRQWR = true, 12
		table := memory.New(l.Memory())
		pd, _ := table.AllocPD()
		var events limitLog
		attr := SRQAttr{MaxWR: rapid.IntRange(1, 12).Draw(t, "wr"), MaxSGE: rapid.IntRange(0, 3).Draw(t, "sge")}
		s, err := NewSRQ(pd, attr, &l, &events)
		if err != nil {
			t.Fatal(err)
		}
		var want []RecvWR
		wantEvents := limitLog(0)
		id := uint64(0)
		var wr RecvWR
		t.Repeat(map[string]func(*rapid.T){
			"post": func(t *rapid.T) {
				id++
				list := make([]memory.SGE, rapid.IntRange(0, 4).Draw(t, "n"))
				for i := range list {
					list[i].VA = id*10 + uint64(i)
				}
				err := s.PostReceive(id, list)
				switch {
				case len(list) > attr.MaxSGE:
					if !errors.Is(err, syscall.EINVAL) {
						t.Fatal(err)
					}
				case len(want) == attr.MaxWR:
					if !errors.Is(err, syscall.ENOMEM) {
						t.Fatal(err)
					}
				case err != nil:
					t.Fatal(err)
				default:
					want = append(want, RecvWR{id, list})
				}
			},
			"take": func(t *rapid.T) {
				if got := s.TakeRequest(&wr); got != (len(want) > 0) {
					t.Fatalf("took %v", got)
				} else if !got {
					return
				}
				if wr.ID != want[0].ID || !equal(wr.SGL, want[0].SGL) {
					t.Fatalf("took %v, want %v", wr, want[0])
				}
				if want = want[1:]; len(want) < attr.Limit {
					attr.Limit = 0
					wantEvents++
				}
			},
			"modify": func(t *rapid.T) {
				m := SRQMask(rapid.IntRange(0, 4).Draw(t, "mask"))
				a := SRQAttr{MaxWR: rapid.IntRange(0, 13).Draw(t, "size"), Limit: rapid.IntRange(0, 13).Draw(t, "limit")}
				next := attr
				ok := m < 4
				if m&SRQMaxWR != 0 {
					next.MaxWR = a.MaxWR
					ok = ok && a.MaxWR >= 1 && a.MaxWR >= len(want) && a.MaxWR <= 12
				}
				if m&SRQLimit != 0 {
					next.Limit = a.Limit
				}
				ok = ok && next.Limit <= next.MaxWR
				if err := s.Modify(a, m); ok != (err == nil) {
					t.Fatalf("%+v %d: %v", a, m, err)
				}
				if ok {
					attr = next
				}
			},
			"": func(t *rapid.T) {
				if s.Len() != len(want) || s.Query() != attr || events != wantEvents {
					t.Fatalf("%d requests, %+v, %d events; want %d, %+v, %d", s.Len(), s.Query(), events, len(want), attr, wantEvents)
				}
			},
		})
	})
}

func equal(a, b []memory.SGE) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestSRQLimits(t *testing.T) {
	e := newEnv(t)
	for _, a := range []SRQAttr{{MaxWR: 0}, {MaxWR: 32768}, {MaxWR: 1, MaxSGE: 32}} {
		if _, err := NewSRQ(e.pd, a, &e.limits, nil); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if _, err := NewSRQ(nil, SRQAttr{MaxWR: 1}, &e.limits, nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	s, _ := NewSRQ(e.pd, SRQAttr{MaxWR: 1}, &e.limits, nil)
	if err := s.Modify(SRQAttr{MaxWR: 2}, SRQMaxWR); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("resized: %v", err)
	}
}

func TestLimits(t *testing.T) {
	l := ConnectX5()
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		set  func(l *Limits)
		text string
	}{
		{func(l *Limits) { l.QPRdAtom = 256 }, "max_qp_rd_atom is 256: it can be 0 to 255"},
		{func(l *Limits) { l.Ports = 0 }, "phys_port_cnt is 0"},
		{func(l *Limits) { l.ActiveMTU = 6 }, "active_mtu is 6: it can be 1 to 5"},
		{func(l *Limits) { l.MRSize = 0 }, "max_mr_size"},
	} {
		bad := ConnectX5()
		c.set(&bad)
		if err := bad.Check(); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %q", err, c.text)
		}
	}
	l.AH = 3
	if err := l.CheckRoom(AddressHandles, 2); err != nil {
		t.Error(err)
	}
	if err := l.CheckRoom(AddressHandles, 3); !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "max_ah") {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{UD.String(), "UD"}, {XRCSend.String(), "XRC_SEND"}, {XRCRecv.String(), "XRC_RECV"}, {Type(8).String(), "Type(8)"}, {State(7).String(), "State(7)"},
		{(MaskState | MaskDestQPN | MaskRateLimit | 1<<30).String(), "IBV_QP_STATE|IBV_QP_DEST_QPN|IBV_QP_RATE_LIMIT|0x40000000"},
		{Mask(0).String(), "0"}, {SRQLimitReached.String(), "IBV_EVENT_SRQ_LIMIT_REACHED"},
		{GIDChange.String(), "IBV_EVENT_GID_CHANGE"}, {Event(19).String(), "Event(19)"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if MaskDestQPN != 1<<20 || GIDChange != 18 || MTU4096.Bytes() != 4096 || MTU256.Bytes() != 256 {
		t.Error("not the values of verbs.h")
	}
}

func TestSmall(t *testing.T) {
	for name, c := range map[string]struct{ is, maxSize uintptr }{
		"queue pair": {unsafe.Sizeof(QP{}), 256}, "shared receive queue": {unsafe.Sizeof(SRQ{}), 144}, "address handle": {unsafe.Sizeof(AH{}), 40},
	} {
		if c.is > c.maxSize {
			t.Errorf("a %s has %d bytes", name, c.is)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	post := postTake(t)
	if n := testing.AllocsPerRun(100, post); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func postTake(t testing.TB) func() {
	e := newEnv(t)
	s, err := NewSRQ(e.pd, SRQAttr{MaxWR: 64, MaxSGE: 3}, &e.limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]memory.SGE, 2)
	var wr RecvWR
	step := func() {
		for range 8 {
			_ = s.PostReceive(1, list)
		}
		for s.TakeRequest(&wr) {
		}
	}
	step()
	return step
}

// BenchmarkPostTake passes 8 requests through a shared receive queue.
func BenchmarkPostTake(b *testing.B) {
	step := postTake(b)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
