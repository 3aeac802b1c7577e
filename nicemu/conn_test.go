package nicemu

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/weftlab/weft/emu/packet"
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/protocols/roce"
)

// diary writes down what connections tell.
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

// TestConnections connects over both versions of IP, by RC and UC, also where
// messages are lost, sends both ways and disconnects from either side.
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

// TestRefusals: nobody listens, the program refuses, nobody answers, nobody has
// the address.
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

// TestCloseTellsThePeer closes connections without saying goodbye first.
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

// TestManagementIsGuarded sends datagrams to queue pair 1 that are none of
// connection management.
func TestManagementIsGuarded(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.host(0), w.host(1)
	b.Resolve(netip.AddrPortFrom(v4(0), 5), nil, func(Resolved) {}) //nolint:errcheck // it is only to have a packet
	for _, change := range []func(p *packet.Packet){
		func(p *packet.Packet) { p.RoCE.DETH.QKey = 5 },
		func(p *packet.Packet) { p.RoCE.BTH.Opcode = roce.RC.With(roce.SendOnly) },
		func(p *packet.Packet) { p.RoCE.Payload = p.RoCE.Payload[:100] },
	} {
		p := w.pool.NewRoCE()
		p.RoCE.BTH = roce.BTH{Opcode: roce.UD.With(roce.SendOnly), DestQP: 1, PKey: 0xffff}
		p.RoCE.DETH = roce.DETH{QKey: roce.ManagementQKey, SourceQP: 1}
		p.RoCE.Payload = append(p.RoCE.Payload[:0], make([]byte, 256)...)
		p.RoCE.From, p.RoCE.To = v4(1), v4(0)
		change(p)
		a.Receive(0, p)
	}
	if c, _ := a.Counters(); c.QKeyViolations != 1 || c.NoQP != 1 || a.conns.cm.Counters().Malformed != 1 {
		t.Errorf("%d Q_Key violations, %d of no queue pair, %d malformed", c.QKeyViolations, c.NoQP, a.conns.cm.Counters().Malformed)
	}
}
