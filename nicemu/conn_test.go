package nicemu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// diary records the events of connections.
type diary struct{ lines []string }

func (d *diary) note(who string, w *world) func(ConnEvent) {
	return func(e ConnEvent) {
		line := fmt.Sprintf("%s %v", who, e.Kind)
		if s := strings.TrimRight(string(e.PrivateData), "\x00"); s != "" {
			line += " " + s
		}
		if e.Reason != 0 {
			line += fmt.Sprintf(" (%v)", e.Reason)
		}
		d.lines = append(d.lines, line)
	}
}

func (d *diary) holds(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprint(d.lines) != fmt.Sprint(want) {
		t.Errorf("it says\n%q, want\n%q", d.lines, want)
	}
}

// TestConnections connects over both IP versions, by RC and UC, with and without lost messages,
// sends in both directions and disconnects from either side.
func TestConnections(t *testing.T) {
	for _, six := range []bool{false, true} {
		for _, kind := range []qp.Type{qp.RC, qp.UC} {
			for _, lose := range []int{0, 1, 2, 3} {
				for _, active := range []bool{false, true} {
					t.Run(fmt.Sprintf("ipv6=%v %v lost=%d active=%v", six, kind, lose, active), func(t *testing.T) {
						connection(t, six, kind, lose, active)
					})
				}
			}
		}
	}
}

func connection(t *testing.T, six bool, kind qp.Type, lose int, activeEnds bool) {
	w := newWorld(t, 2, withDCQCN)
	mads := 0
	w.touch = func(_ int, p *packet.Packet) bool {
		if p.RoCE.BTH.DestQP == qp.GSINumber {
			mads++
			return mads != lose // REQ, REP, RTU
		}
		return true
	}
	a, b := w.host(0), w.host(1)
	x, y := a.qp(kind), b.qp(kind)
	to := netip.AddrPortFrom(v4(1), 7174)
	if six {
		to = netip.AddrPortFrom(v6(1), 7174)
	}
	var book diary
	var server *Conn
	if err := y.Init(memory.RemoteWrite, 0); err != nil {
		t.Fatal(err)
	}
	recv(t, y, 1, b.mr.SGE(0, 100))
	_, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 7174), 0, func(e ConnEvent) {
		book.note("server", w)(e)
		if e.Kind == ConnRequested {
			server = e.Conn
			if err := e.Conn.Accept(y, ConnParam{PrivateData: []byte("welcome"), ResponderResources: 2, InitiatorDepth: 2}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var client *Conn
	client, err = a.Connect(x, to, ConnParam{PrivateData: []byte("hello"), ResponderResources: 4, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}, func(e ConnEvent) {
		book.note("client", w)(e)
		if e.Kind == ConnEstablished {
			recv(t, x, 2, a.mr.SGE(1000, 100))
			copy(a.buf, "question")
			post(t, x, transport.SendWR{ID: 3, Op: transport.Send, SGL: []memory.SGE{a.mr.SGE(0, 8)}})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w.run(30 * units.Second)
	expect(t, "client", a.poll(), "3 IBV_WC_SUCCESS IBV_WC_SEND 0")
	expect(t, "server", b.poll(), "1 IBV_WC_SUCCESS IBV_WC_RECV 8")
	copy(b.buf, "answer")
	post(t, y, transport.SendWR{ID: 4, Op: transport.Send, SGL: []memory.SGE{b.mr.SGE(0, 6)}})
	w.run(40 * units.Second)
	expect(t, "client", a.poll(), "2 IBV_WC_SUCCESS IBV_WC_RECV 6")
	if string(a.buf[1000:1006]) != "answer" {
		t.Error("bytes differ")
	}
	qa, _ := x.Query()
	qb, _ := y.Query()
	if kind == qp.RC && (qa.MaxRdAtomic != 1 || qb.MaxDestRdAtomic != 1 || qb.MaxRdAtomic != 2 || qa.MaxDestRdAtomic != 2) {
		t.Errorf("READs at once: %d and %d, %d and %d", qa.MaxRdAtomic, qb.MaxDestRdAtomic, qb.MaxRdAtomic, qa.MaxDestRdAtomic)
	}
	if qa.AV.FlowLabel == 0 || qa.AV.FlowLabel != qb.AV.FlowLabel {
		t.Errorf("flow labels %#x and %#x", qa.AV.FlowLabel, qb.AV.FlowLabel)
	}
	end := server
	if activeEnds {
		end = client
	}
	if err := end.Disconnect(); err != nil {
		t.Fatal(err)
	}
	w.run(100 * units.Second)
	want := []string{"server requested hello", "client established welcome", "server established"}
	tail := []string{"server disconnected", "client disconnected"}
	if !activeEnds {
		tail = []string{"client disconnected", "server disconnected"}
	}
	if len(book.lines) != 7 || fmt.Sprint(book.lines[:3]) != fmt.Sprint(want) {
		t.Errorf("it says %q", book.lines)
	} else if fmt.Sprint(book.lines[3:5]) != fmt.Sprint(tail) {
		t.Errorf("the end is %q", book.lines[3:])
	}
	if x.State() != qp.Err || y.State() != qp.Err {
		t.Errorf("states are %v and %v", x.State(), y.State())
	}
	if len(a.conns.byID)+len(b.conns.byID)+len(a.conns.byQP)+len(b.conns.byQP) != 0 {
		t.Error("a connection is still known")
	}
}

// TestRefusals: no listener, the program refuses, no answer, no host has the address.
func TestRefusals(t *testing.T) {
	var book diary
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	x := a.qp(qp.RC)
	try := func(port uint16) {
		t.Helper()
		if err := x.Modify(qp.Attr{State: qp.Reset}, qp.MaskState); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Connect(x, netip.AddrPortFrom(v4(1), port), ConnParam{}, book.note("client", w)); err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + 200*units.Second)
	}
	try(1)
	l, err := b.Listen(netip.AddrPortFrom(v4(1), 2), 1, func(e ConnEvent) {
		book.note("server", w)(e)
		if err := e.Conn.Reject([]byte("no")); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Listen(netip.AddrPortFrom(v4(1), 2), 1, nil); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}
	try(2)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	try(2)
	w.touch = func(int, *packet.Packet) bool { return false }
	try(2)
	book.holds(t, "client rejected (invalid service ID)", "server requested", "client rejected no (consumer reject)", "client rejected (invalid service ID)", "client unreachable")
	if _, err := a.Connect(a.qp(qp.RC), netip.MustParseAddrPort("10.0.0.99:5"), ConnParam{}, book.note("nobody", w)); err != nil {
		t.Errorf("an address of nobody: %v", err)
	}
	j := Join{Local: v4(0), Remote: addr("10.0.0.99"), RemoteQPN: 5}
	if err := a.qp(qp.RC).Join(j); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("a peer that nobody is: %v", err)
	}
	j.Local = addr("10.0.0.50")
	if err := a.qp(qp.RC).Join(j); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("an address of somebody else: %v", err)
	}
}

// withIRN gives NICs with an even number, or all, IRN as loss recovery.
func withIRN(all bool) option {
	return func(s *Settings, e *Env) {
		if k, err := transport.Recoveries.Find("irn"); err == nil && (all || (e.Name[3]-'0')%2 == 0) {
			s.Recovery = transport.RecoveryChoice{Name: "irn", Settings: k.Settings("", lineRate)}
		}
	}
}

// TestRefusesOtherRecovery: a NIC with IRN and one without refuse each other's requests to connect,
// with a reason; two with IRN do not. UC has no loss recovery to agree on.
func TestRefusesOtherRecovery(t *testing.T) {
	for _, c := range []struct {
		from, to int
		all      bool
		kind     qp.Type
		want     string
	}{
		{0, 1, false, qp.RC, "rejected (invalid transport service type)"}, {1, 0, false, qp.RC, "rejected (invalid transport service type)"},
		{0, 1, true, qp.RC, "established"}, {1, 3, false, qp.RC, "established"}, {0, 1, false, qp.UC, "established"}, {1, 0, false, qp.UC, "established"},
	} {
		var book diary
		w := newWorld(t, 4, withIRN(c.all))
		a, b := w.host(c.from), w.host(c.to)
		x, y := a.qp(c.kind), b.qp(c.kind)
		if _, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 9), 0, func(e ConnEvent) {
			if e.Kind == ConnRequested {
				if err := e.Conn.Accept(y, ConnParam{}); err != nil {
					t.Fatal(err)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Connect(x, netip.AddrPortFrom(v4(c.to), 9), ConnParam{}, book.note("client", w)); err != nil {
			t.Fatal(err)
		}
		w.run(units.Second)
		book.holds(t, "client "+c.want)
	}
}

// TestNoticesOtherRecovery: if programs have exchanged numbers themselves, the first packet ends
// both queue pairs and is counted, in both directions, for every verb.
func TestNoticesOtherRecovery(t *testing.T) {
	for from := range 2 {
		for _, op := range []transport.Op{transport.Send, transport.Write, transport.Read, transport.FetchAdd} {
			w := newWorld(t, 2, withIRN(false))
			a, b := w.host(from), w.host(1-from)
			x, y := a.qp(qp.RC), b.qp(qp.RC)
			if err := JoinPair(x, y, Join{Access: anyAccess, RdAtomic: 1}); err != nil {
				t.Fatal(err)
			}
			recv(t, y, 1, b.mr.SGE(0, 100))
			b.buf[0] = 77
			post(t, x, transport.SendWR{ID: 3, Op: op, SGL: []memory.SGE{a.mr.SGE(0, 8)}, RKey: b.mr.RKey(), RemoteVA: b.mr.SGE(0, 8).VA})
			w.run(units.Second)
			if c := a.poll(); len(c) != 1 || c[0].Status != cq.RemInvReqErr {
				t.Errorf("%v: completions %+v", op, c)
			}
			p, _ := x.Counters()
			q, _ := y.Counters()
			if x.State() != qp.Err || y.State() != qp.Err || p.RecoveryMismatch != 1 || q.RecoveryMismatch != 1 || b.buf[0] != 77 || a.buf[0] != 0 {
				t.Errorf("%v: %v and %v, %d and %d mismatches", op, x.State(), y.State(), p.RecoveryMismatch, q.RecoveryMismatch)
			}
		}
	}
}

// TestCloseTellsThePeer closes connections without a disconnect.
func TestCloseTellsThePeer(t *testing.T) {
	var book diary
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	y := b.qp(qp.RC)
	if _, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 9), 0, func(e ConnEvent) {
		book.note("server", w)(e)
		if e.Kind == ConnRequested {
			if err := e.Conn.Accept(y, ConnParam{}); err != nil {
				t.Fatal(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	c, err := a.Connect(a.qp(qp.RC), netip.AddrPortFrom(v4(1), 9), ConnParam{}, book.note("client", w))
	if err != nil {
		t.Fatal(err)
	}
	w.run(units.Second)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + 100*units.Second)
	}
	book.holds(t, "server requested", "client established", "server established", "server disconnected", "server timewait-exit")
}

// TestResolve finds a datagram queue pair and one that is refused.
func TestResolve(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	y := b.qp(qp.UD)
	l, err := b.ListenDatagrams(netip.AddrPortFrom(netip.Addr{}, 5), func(q Datagrams) (ResolveAnswer, bool) {
		return ResolveAnswer{QPN: y.Number(), QKey: 0x1234, PrivateData: q.PrivateData[:4]}, q.PrivateData[0] == 'p'
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	ask := func(port uint16, data string) {
		err := a.Resolve(netip.AddrPortFrom(v4(1), port), []byte(data), func(r Resolved) {
			got = append(got, fmt.Sprint(r.Err == nil, r.QPN == y.Number(), r.QKey))
		})
		if err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + 200*units.Second)
	}
	ask(5, "ping")
	ask(5, "xing")
	ask(6, "ping")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ask(5, "ping")
	w.touch = func(int, *packet.Packet) bool { return false }
	ask(5, "ping")
	if want := "[true true 4660 false false 0 false false 0 false false 0 false false 0]"; fmt.Sprint(got) != want {
		t.Errorf("answers are %v, want %v", got, want)
	}
	if len(a.conns.asking) != 0 {
		t.Error("a question is still known")
	}
}

// TestManagementIsGuarded sends datagrams to queue pair 1 that do not belong to connection
// management.
func TestManagementIsGuarded(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	b.Resolve(netip.AddrPortFrom(v4(0), 5), nil, func(Resolved) {}) //nolint:errcheck // it is only to have a packet
	for _, change := range []func(p *packet.Packet){
		func(p *packet.Packet) { p.RoCE.FurtherHeaders().DETH.QKey = 5 },
		func(p *packet.Packet) { p.RoCE.BTH.Opcode = roce.RC.WithOperation(roce.SendOnly) },
		func(p *packet.Packet) { p.RoCE.Payload = p.RoCE.Payload[:100] },
	} {
		p := w.pool.NewRoCE()
		p.RoCE.BTH = roce.BTH{Opcode: roce.UD.WithOperation(roce.SendOnly), DestQP: 1, PKey: 0xffff}
		p.RoCE.FurtherHeaders().DETH = roce.DETH{QKey: roce.ManagementQKey, SourceQP: 1}
		p.RoCE.Payload = append(p.RoCE.Payload[:0], make([]byte, 256)...)
		p.RoCE.Addresses = packet.NewAddresses(v4(1), v4(0))
		change(p)
		a.ReceivePacket(0, p)
	}
	if c, _ := a.Counters(); c.QKeyViolations != 1 || c.NoQP != 1 || a.conns.cm.Counters().Malformed != 1 {
		t.Errorf("%d Q_Key violations, %d of no queue pair, %d malformed", c.QKeyViolations, c.NoQP, a.conns.cm.Counters().Malformed)
	}
}

// TestConnectRefusesWhatCannotBe: impossible requests are refused at once, and leave everything as
// it was.
func TestConnectRefusesWhatCannotBe(t *testing.T) {
	w := newWorld(t, 2)
	a, _ := w.host(0), w.host(1)
	ready := a.qp(qp.RC)
	if err := ready.Join(Join{Local: v4(0), Remote: v4(1), RemoteQPN: 99}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		q     *QP
		to    netip.Addr
		param ConnParam
	}{
		{"a queue pair of datagrams", a.qp(qp.UD), v4(1), ConnParam{}},
		{"one in RTS", ready, v4(1), ConnParam{}},
		{"too much private data", a.qp(qp.RC), v4(1), ConnParam{PrivateData: make([]byte, 57)}},
		{"too many retries", a.qp(qp.RC), v4(1), ConnParam{RetryCount: 8}},
		{"more READs than the device takes", a.qp(qp.RC), v4(1), ConnParam{ResponderResources: 17}},
		{"more READs than the device sends", a.qp(qp.RC), v4(1), ConnParam{InitiatorDepth: 17}},
		{"no peer", a.qp(qp.RC), netip.Addr{}, ConnParam{}},
	} {
		before := c.q.State()
		if _, err := a.Connect(c.q, netip.AddrPortFrom(c.to, 5), c.param, nil); err == nil {
			t.Errorf("%s: no error", c.what)
		}
		if c.q.State() != before || len(a.conns.byID)+len(a.conns.byQP)+a.conns.cm.Len() != 0 {
			t.Errorf("%s: the queue pair is in %v, %d connections are known", c.what, c.q.State(), a.conns.cm.Len())
		}
	}
	x := a.qp(qp.RC)
	if _, err := a.Connect(x, netip.AddrPortFrom(v4(1), 5), ConnParam{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Connect(x, netip.AddrPortFrom(v4(1), 5), ConnParam{}, nil); !errors.Is(err, syscall.EISCONN) {
		t.Errorf("a queue pair that is being connected: %v", err)
	}
}

// TestAcceptRefusesWhatCannotBe does so for Accept; the request can still be accepted.
func TestAcceptRefusesWhatCannotBe(t *testing.T) {
	for _, kind := range []qp.Type{qp.RC, qp.UC} {
		w := newWorld(t, 2)
		a, b := w.host(0), w.host(1)
		other := qp.UC
		if kind == qp.UC {
			other = qp.RC
		}
		var request, late *Conn
		if _, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 5), 0, func(e ConnEvent) {
			if e.Kind == ConnRequested && request == nil {
				request = e.Conn
			} else if e.Kind == ConnRequested {
				late = e.Conn
			}
		}); err != nil {
			t.Fatal(err)
		}
		x := a.qp(kind)
		if _, err := a.Connect(x, netip.AddrPortFrom(v4(1), 5), ConnParam{ResponderResources: 16, InitiatorDepth: 16}, nil); err != nil {
			t.Fatal(err)
		}
		w.run(units.Millisecond)
		posted := b.qp(kind)
		if err := posted.Init(memory.RemoteWrite, 0); err != nil {
			t.Fatal(err)
		}
		recv(t, posted, 1, b.mr.SGE(0, 100))
		used := b.qp(kind)
		if err := used.Join(Join{Local: v4(1), Remote: v4(0), RemoteQPN: 99}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what  string
			q     *QP
			param ConnParam
		}{
			{"a queue pair of datagrams", b.qp(qp.UD), ConnParam{}},
			{"one of another service", b.qp(other), ConnParam{}},
			{"one in RTS", used, ConnParam{}},
			{"too much private data", b.qp(kind), ConnParam{PrivateData: make([]byte, 197)}},
			{"too much private data, in INIT", posted, ConnParam{PrivateData: make([]byte, 197)}},
			{"too many RNR retries", posted, ConnParam{RNRRetryCount: 8}},
			{"more READs than the device sends", posted, ConnParam{InitiatorDepth: 17}},
		} {
			before := c.q.State()
			if err := request.Accept(c.q, c.param); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%v: %s: %v", kind, c.what, err)
			}
			if c.q.State() != before || len(b.conns.byQP) != 0 {
				t.Errorf("%v: %s: the queue pair is in %v", kind, c.what, c.q.State())
			}
		}
		if err := request.Accept(posted, ConnParam{}); err != nil {
			t.Fatal(err)
		}
		if err := request.Accept(b.qp(kind), ConnParam{}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: accepted twice: %v", kind, err)
		}
		w.run(2 * units.Millisecond)
		if x.State() != qp.RTS || posted.State() != qp.RTS {
			t.Errorf("%v: states are %v and %v", kind, x.State(), posted.State())
		}
		// A request whose requester has gone.
		c, err := a.Connect(a.qp(kind), netip.AddrPortFrom(v4(1), 5), ConnParam{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.run(3 * units.Millisecond)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		w.run(4 * units.Millisecond)
		y := b.qp(kind)
		if err := late.Accept(y, ConnParam{}); !errors.Is(err, syscall.EINVAL) || y.State() != qp.Reset || len(b.conns.byQP) != 1 {
			t.Errorf("%v: accepted too late: %v, in %v", kind, err, y.State())
		}
	}
}

// TestConnectAcrossMTUs: a request for a larger path MTU than the NIC's is refused, one for a
// smaller is not, and data flows.
func TestConnectAcrossMTUs(t *testing.T) {
	var book diary
	n := 0
	w := newWorld(t, 2, func(s *Settings, _ *Env) {
		n++
		s.MTU = qp.MTU(n + 2) // 1024 and 2048
	})
	for i := range 2 {
		a, b := w.host(i), w.host(1-i)
		x, y := a.qp(qp.RC), b.qp(qp.RC)
		if _, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 5), 0, func(e ConnEvent) {
			book.note("server", w)(e)
			if e.Kind == ConnRequested {
				if err := e.Conn.Accept(y, ConnParam{}); err != nil {
					t.Error(err)
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Connect(x, netip.AddrPortFrom(v4(1-i), 5), ConnParam{}, func(e ConnEvent) {
			book.note("client", w)(e)
			if e.Kind == ConnEstablished {
				w.write(a, b, x, 5000)
			}
		}); err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + units.Second)
		if i == 0 {
			expect(t, "client", a.poll(), "0 IBV_WC_SUCCESS IBV_WC_RDMA_WRITE 0")
		}
	}
	book.holds(t, "server requested", "client established", "server established", "client rejected (invalid path MTU)")
}

// TestManyConnections makes and ends connections one after another over a fabric that loses a tenth
// of packets: nothing is left of them.
func TestManyConnections(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 500
	}
	w := newWorld(t, 2)
	r := rand.New(rand.NewPCG(1, 2))
	w.touch = func(int, *packet.Packet) bool { return r.IntN(10) > 0 }
	a, b := w.host(0), w.host(1)
	established := 0
	var qps []*QP
	l, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 5), 0, func(e ConnEvent) {
		if e.Kind == ConnRequested {
			y := b.qp(qp.RC)
			qps = append(qps, y)
			if err := e.Conn.Accept(y, ConnParam{}); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var before uint64
	for i := range rounds {
		if i == rounds/2 {
			before = heap()
		}
		x := a.qp(qp.RC)
		qps = append(qps, x)
		var c *Conn
		c, err := a.Connect(x, netip.AddrPortFrom(v4(1), 5), ConnParam{}, func(e ConnEvent) {
			if e.Kind == ConnEstablished {
				established++
				if i%2 == 0 {
					_ = c.Disconnect()
				} else {
					_ = c.Close()
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		w.run(w.engine.Now() + 100*units.Second)
		w.log = w.log[:0]
		for _, q := range qps {
			if err := q.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
		qps = qps[:0]
		for e, ok := a.NextEvent(); ok; e, ok = a.NextEvent() {
			_ = e
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.run(w.engine.Now() + 1000*units.Second)
	if established != rounds {
		t.Errorf("%d of %d were established", established, rounds)
	}
	for _, h := range []*host{a, b} {
		c := &h.conns
		if n := len(c.byID) + len(c.byQP) + len(c.listeners) + len(c.asking) + len(c.answering) + c.cm.Len(); n != 0 || h.agenda.LiveTasks() != 0 || h.inUse[qp.QueuePairs] != 0 {
			t.Errorf("%s: %d things are known, %d due, %d queue pairs", h.Name(), n, h.agenda.LiveTasks(), h.inUse[qp.QueuePairs])
		}
	}
	if after := heap(); !testing.Short() && after > before+1<<20 {
		t.Errorf("%d B more after half of them", after-before)
	}
}

// TestCloseAtAnyTime closes either side's connection, or the listener, after each
// of the messages, with and without loss of the one after it: nothing is left.
func TestCloseAtAnyTime(t *testing.T) {
	for _, who := range []string{"client", "server", "listener", "client's queue pair", "server's queue pair"} {
		for after := range 6 {
			for _, lossy := range []bool{false, true} {
				name := fmt.Sprintf("%s after %d, lossy=%v", who, after, lossy)
				w := newWorld(t, 2)
				mads := 0
				w.touch = func(int, *packet.Packet) bool {
					mads++
					return !lossy || mads != after+1
				}
				a, b := w.host(0), w.host(1)
				x, y := a.qp(qp.RC), b.qp(qp.RC)
				var server *Conn
				l, err := b.Listen(netip.AddrPortFrom(netip.Addr{}, 5), 1, func(e ConnEvent) {
					if e.Kind == ConnRequested {
						server = e.Conn
						if after == 1 && who == "server" {
							return // it does not decide in time
						}
						if err := e.Conn.Accept(y, ConnParam{}); err != nil {
							_ = e.Conn.Reject(nil) // its queue pair is gone
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				client, err := a.Connect(x, netip.AddrPortFrom(v4(1), 5), ConnParam{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; mads < after && i < 1000; i++ {
					w.run(w.engine.Now() + 100*units.Nanosecond)
					if mads == 3 && after > 3 {
						_ = client.Disconnect() // once: it may be ending
					}
				}
				switch who {
				case "client":
					err = client.Close()
				case "server":
					if server != nil {
						err = server.Close()
					}
				case "client's queue pair":
					err = x.Destroy()
				case "server's queue pair":
					err = y.Destroy()
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := l.Close(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				w.run(w.engine.Now() + 1000*units.Second)
				for _, c := range []*Conn{client, server} {
					if c != nil {
						_ = c.Close() // it may be over
					}
				}
				w.run(w.engine.Now() + 1000*units.Second)
				for _, h := range []*host{a, b} {
					c := &h.conns
					if n := len(c.byID) + len(c.byQP) + len(c.listeners) + c.cm.Len(); n != 0 || h.agenda.LiveTasks() != 0 {
						t.Errorf("%s: %s knows %d things, %d are due", name, h.Name(), n, h.agenda.LiveTasks())
					}
				}
				if w.pool.LivePackets() != 0 {
					t.Errorf("%s: %d packets were not given back", name, w.pool.LivePackets())
				}
				if s := client.qp.State(); s != qp.Err && s != qp.Reset {
					t.Errorf("%s: the client's queue pair is in %v", name, s)
				}
			}
		}
	}
}
