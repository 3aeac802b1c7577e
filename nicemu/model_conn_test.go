package nicemu

import (
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/nicemu/qp"
)

// link is one side of a connection, and the events it got.
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

// asked handles events of a listener: requests and later events of connections.
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
	p := m.newPair(l.at, []qp.Type{qp.RC, qp.RC, qp.UC}[m.rand.IntN(3)])
	switch err := l.conn.Accept(p.QP, ConnParam{ResponderResources: 2, InitiatorDepth: 2, RNRRetryCount: 2}); {
	case err == nil:
		l.pair = p
	case !l.over() && p.msgTransport() == l.conn.attributes.Transport || p.State() != qp.Reset:
		m.Fatalf("a request is not accepted, and the queue pair is in %v: %v", p.State(), err)
	}
}

// over reports whether a request that was not answered is gone.
func (l *link) over() bool { return l.closed || l.last == ConnUnreachable || l.last == ConnRejected }

// told checks that events of a connection come in a possible order.
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

// part ends a connection or answers a waiting request.
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
