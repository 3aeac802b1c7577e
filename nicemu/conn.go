package nicemu

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/cmnic"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// ConnParam is what one side of a connection requests or agrees to (rdma_conn_param).
type ConnParam struct {
	PrivateData []byte // Connect up to 56 bytes, Accept up to 196; zero-padded at the peer
	// READs and atomics that the queue pair takes at once, and that it would send at once. The two
	// sides settle on the lesser value.
	ResponderResources, InitiatorDepth uint8
	RetryCount                         uint8 // 0 to 7; Connect
	RNRRetryCount                      uint8 // of the peer's queue pair, 0 to 6, or 7 for no limit
}

// ConnKind is the kind of a connection event.
type ConnKind uint8

// The kinds; the rdma_cm event is in brackets.
const (
	ConnRequested    ConnKind = iota // a peer wants to connect: Accept or Reject [CONNECT_REQUEST]
	ConnEstablished                  // the queue pair can be used [ESTABLISHED]
	ConnRejected                     // the peer has refused; see Reason [REJECTED]
	ConnUnreachable                  // no answer came [UNREACHABLE]
	ConnFailed                       // the queue pair could not be brought to RTS; see Err [CONNECT_ERROR]
	ConnDisconnected                 // by either side; the queue pair is in ERR [DISCONNECTED]
	ConnTimeWaitExit                 // its queue pair may be connected again [TIMEWAIT_EXIT]
)

var connKinds = [...]string{"requested", "established", "rejected", "unreachable", "failed", "disconnected", "timewait-exit"}

// String returns the name.
func (k ConnKind) String() string { return connKinds[k] }

// ConnEvent is an event of a connection.
type ConnEvent struct {
	Kind        ConnKind
	Conn        *Conn
	Param       ConnParam  // of ConnRequested: what the peer requests
	PrivateData []byte     // padded to the message's full length
	Reason      msg.Reason // of ConnRejected
	Err         error      // of ConnFailed
}

// Conn is a connection of a queue pair, or one being made (rdma_cm(7)). It brings its queue pair
// from RESET or INIT to RTS, and to ERR when it ends.
//
// A program learns of its events through the function that it gave to Connect or Listen, which may
// use the NIC, or waits for them as a process (Established, WaitDisconnected).
type Conn struct {
	device        *Device
	id            msg.CommID
	qp            *QP // of the passive side once accepted
	local, remote netip.AddrPort
	attributes    cmnic.Attributes
	notify        func(ConnEvent)
	last          ConnEvent // the latest event
	closed        bool      // by the program
	changed       sim.Cond
}

// Listener accepts connections (rdma_listen(3)).
type Listener struct {
	device *Device
	id     cmnic.ListenID
	notify func(ConnEvent)

	requests []ConnEvent // not taken yet, without notify
	closed   bool
	came     sim.Cond
}

// connections is the connection manager of a NIC and its packets, which are datagrams of queue pair
// 1.
type connections struct {
	agenda.Task[sleeper]
	device    *Device
	cm        *cmnic.CM
	byID      map[msg.CommID]*Conn
	byQP      map[*QP]*Conn
	listeners map[cmnic.ListenID]*Listener
	asking    map[msg.CommID]func(Resolved)
	answering map[cmnic.ListenID]func(Datagrams) (ResolveAnswer, bool)
	owners    map[msg.CommID]func(*cmnic.Event)
	owned     map[cmnic.ListenID]func(*cmnic.Event)
	psn       uint32
	port      uint16 // last port assigned
	busy      bool   // events are being handed out
}

// firstPort is the first port assigned to connections that name none: the first of Linux's
// ip_local_port_range.
const firstPort = 32768

func (c *connections) startManager(d *Device) (err error) {
	c.device = d
	c.byID, c.byQP = map[msg.CommID]*Conn{}, map[*QP]*Conn{}
	c.listeners = map[cmnic.ListenID]*Listener{}
	c.asking, c.answering = map[msg.CommID]func(Resolved){}, map[cmnic.ListenID]func(Datagrams) (ResolveAnswer, bool){}
	c.owners, c.owned = map[msg.CommID]func(*cmnic.Event){}, map[cmnic.ListenID]func(*cmnic.Event){}
	c.port = firstPort
	d.agenda.EnrolTask(&c.Task, c)
	config := cmnic.DefaultConfig(d.GUID())
	config.IRN = recoveryService(d.settings.Recovery) == roce.IRN
	c.cm, err = cmnic.New(config)
	return err
}

// Listen calls notify for every request to connect to an address and port, and for later events of
// the connections (rdma_listen(3)). The zero Addr, 0.0.0.0 and :: mean any address. notify may use
// the NIC; if it is nil, processes take requests with Next. At most backlog requests may wait to be
// accepted; 0 means no limit. EADDRINUSE: the address is in use; EADDRNOTAVAIL: it is no address of
// the device.
func (d *Device) Listen(at netip.AddrPort, backlog int, notify func(ConnEvent)) (*Listener, error) {
	at, err := d.checkListenAddr(at)
	if err != nil {
		return nil, err
	}
	id, err := d.conns.cm.Listen(cmnic.Listen{Service: msg.IPService(wire.ProtoTCP, at.Port()), Address: at.Addr(), Backlog: backlog})
	if err != nil {
		return nil, cmError(err)
	}
	l := &Listener{device: d, id: id, notify: notify}
	d.conns.listeners[id] = l
	return l, nil
}

// checkListenAddr checks a listening address against the device's addresses; the zero Addr means any.
func (d *Device) checkListenAddr(at netip.AddrPort) (netip.AddrPort, error) {
	if !at.Addr().IsValid() || at.Addr().IsUnspecified() {
		return netip.AddrPortFrom(netip.Addr{}, at.Port()), nil
	}
	_, err := d.GIDIndex(at.Addr())
	return at, err
}

// Close stops listening. Requests that Next has not returned are rejected; others can still be
// accepted. EINVAL: it is closed already.
func (l *Listener) Close() error {
	c := &l.device.conns
	if err := c.cm.StopListening(l.id); err != nil {
		return cmError(err)
	}
	delete(c.listeners, l.id)
	delete(c.answering, l.id)
	l.closed = true
	for _, e := range l.requests {
		_ = e.Conn.Reject(nil) // it may be over already
	}
	l.requests = nil
	l.came.Broadcast()
	return nil
}

// Connect connects a queue pair, which is in RESET or INIT, to the listener at an address and port
// (rdma_connect(3)). notify is called with ConnEstablished, ConnRejected, ConnUnreachable or
// ConnFailed, and later ConnDisconnected. It may be nil: processes wait with WaitEstablished. An error
// changes nothing.
//
// EINVAL: the queue pair is of type UD, of another device or in another state, or a parameter is
// out of range; EISCONN: it has a connection; EADDRNOTAVAIL: the device has no address of the IP
// version.
func (d *Device) Connect(q *QP, to netip.AddrPort, p ConnParam, notify func(ConnEvent)) (*Conn, error) {
	if err := q.mayConnect(d, p); err != nil {
		return nil, err
	}
	local, err := d.sourceFor(to.Addr())
	if err != nil {
		return nil, err
	}
	before := q.State()
	if err := q.init(p); err != nil {
		return nil, err
	}
	c := &Conn{device: d, qp: q, local: netip.AddrPortFrom(local, d.conns.nextPort()), remote: to, notify: notify}
	c.id, err = d.conns.cm.Connect(d.Now(), cmnic.Connect{
		Service: msg.IPService(wire.ProtoTCP, to.Port()), Local: c.local, Peer: to.Addr(), Transport: q.msgTransport(), QP: q.managerView(),
		PathMTU: msg.MTU(d.settings.MTU), PKey: 0xffff, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
		ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		TrafficClass: d.settings.DSCP << 2, HopLimit: defaultTTL, PrivateData: p.PrivateData,
	})
	if err != nil {
		q.undoInit(before)
		return nil, cmError(err)
	}
	d.conns.byID[c.id], d.conns.byQP[q] = c, c
	d.conns.flushManager()
	return c, nil
}

func (c *connections) nextPort() uint16 {
	if c.port++; c.port < firstPort {
		c.port = firstPort
	}
	return c.port
}

// init brings a queue pair to INIT, if it is not there, with the access rights that rdma_cm gives
// (cm_init_qp_init_attr of Linux).
func (q *QP) init(p ConnParam) error {
	if q.State() == qp.Init {
		return nil
	}
	access := memory.RemoteWrite
	if p.ResponderResources > 0 && q.config.Type == qp.RC {
		access |= memory.RemoteRead
		if !q.device.settings.Limits.NoAtomics {
			access |= memory.RemoteAtomic
		}
	}
	return q.Init(access, 0)
}

// mayConnect returns the reason why a device cannot connect a queue pair with these parameters, if
// there is one.
func (q *QP) mayConnect(d *Device, p ConnParam) error {
	l := &q.device.settings.Limits
	switch s := q.State(); {
	case q.device != d:
		return fmt.Errorf("%w: queue pair %d is of device %s, not of %s", syscall.EINVAL, q.Number(), q.device.Name(), d.Name())
	case q.config.Type != qp.RC && q.config.Type != qp.UC:
		return fmt.Errorf("%w: queue pair %d is of type %v: only RC and UC can be connected", syscall.EINVAL, q.Number(), q.config.Type)
	case d.conns.byQP[q] != nil:
		return fmt.Errorf("%w: queue pair %d has a connection: wait for its end (ConnTimeWaitExit), or Close it", syscall.EISCONN, q.Number())
	case s != qp.Reset && s != qp.Init:
		return fmt.Errorf("%w: queue pair %d is in %v: to be connected it has to be in RESET or INIT", syscall.EINVAL, q.Number(), s)
	case int(p.ResponderResources) > l.QPRdAtom || int(p.InitiatorDepth) > l.QPInitRdAtom:
		return fmt.Errorf("%w: responder resources %d and initiator depth %d: %s has up to %d (max_qp_rd_atom) and %d (max_qp_init_rd_atom)",
			syscall.EINVAL, p.ResponderResources, p.InitiatorDepth, q.device.Name(), l.QPRdAtom, l.QPInitRdAtom)
	}
	return nil
}

// undoInit undoes init.
func (q *QP) undoInit(before qp.State) {
	if before == qp.Reset {
		_ = q.Modify(qp.Attr{State: qp.Reset}, qp.MaskState) // allowed from any state
	}
}

func (q *QP) msgTransport() msg.Transport {
	if q.config.Type == qp.UC {
		return msg.TransportUC
	}
	return msg.TransportRC
}

// managerView returns what the connection manager needs to know about a queue pair.
func (q *QP) managerView() cmnic.QP {
	return cmnic.QP{Number: q.Number(), StartPSN: q.Number() * 0x9e3779b1 >> 8, SRQ: q.config.SRQ != nil}
}

// bringToRTS brings a queue pair from INIT to RTS.
func (q *QP) bringToRTS(a *cmnic.Attributes) error {
	index, err := q.device.GIDIndex(a.Local)
	if err != nil {
		return err
	}
	attr := qp.Attr{
		State: qp.RTR, PathMTU: qp.MTU(a.PathMTU), DestQPN: a.PeerQPN, RQPSN: a.RQPSN,
		MaxDestRdAtomic: a.MaxDestRDAtomic, MinRNRTimer: q.device.settings.MinRNR,
		AV: qp.AV{Global: true, Port: 1, DGID: GID(a.Peer), SGIDIndex: index, FlowLabel: a.FlowLabel, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass, ClassSet: true},
	}
	mask := qp.MaskState | qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	if q.config.Type == qp.RC {
		mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	if err := q.Modify(attr, mask); err != nil {
		return err
	}
	attr = qp.Attr{
		State: qp.RTS, SQPSN: a.SQPSN, Timeout: uint8(a.ACKTimeout), RetryCnt: a.RetryCount, RNRRetry: a.RNRRetryCount, MaxRdAtomic: a.MaxRDAtomic,
	}
	mask = qp.MaskState | qp.MaskSQPSN
	if q.config.Type == qp.RC {
		mask |= qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxQPRdAtomic
	}
	return q.Modify(attr, mask)
}

// QP returns the connection's queue pair; nil before a request is accepted.
func (c *Conn) QP() *QP { return c.qp }

// Local returns the local end.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Remote returns the remote end.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Accept accepts a request with a queue pair in RESET or INIT (rdma_accept(3)). The peer may send
// as soon as it knows, so receives should be posted before, in INIT. ConnEstablished or
// ConnUnreachable follows. Errors are those of Connect, and EHOSTUNREACH; an error changes nothing.
func (c *Conn) Accept(q *QP, p ConnParam) error {
	if c.qp != nil {
		return fmt.Errorf("%w: the request of %v is accepted already", syscall.EINVAL, c.remote)
	}
	if err := q.mayConnect(c.device, p); err != nil {
		return err
	}
	accept := cmnic.Accept{QP: q.managerView(), ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, RNRRetryCount: p.RNRRetryCount, PrivateData: p.PrivateData}
	a, err := c.device.conns.cm.CheckAccept(c.id, accept)
	switch {
	case err != nil:
		return cmError(err)
	case q.msgTransport() != a.Transport:
		return fmt.Errorf("%w: queue pair %d is of type %v, and the request is for another transport service", syscall.EINVAL, q.Number(), q.config.Type)
	}
	before := q.State()
	if err := q.init(p); err != nil {
		return err
	}
	// The peer sends as soon as it has the REP.
	if err := q.bringToRTS(&a); err != nil {
		q.undoInit(before)
		return err
	}
	_, _ = c.device.conns.cm.Accept(c.device.Now(), c.id, accept) // cannot fail after CheckAccept
	c.qp = q
	c.device.conns.byQP[q] = c
	c.device.conns.flushManager()
	return nil
}

// Reject refuses a request (rdma_reject(3)) and ends the Conn. Private data has up to 148 bytes.
// EINVAL: it has more, or the request can no longer be refused.
func (c *Conn) Reject(privateData []byte) error {
	if err := c.device.conns.cm.Reject(c.device.Now(), c.id, cmnic.Reject{PrivateData: privateData}); err != nil {
		return cmError(err)
	}
	c.endConnection()
	c.device.conns.flushManager()
	return nil
}

// endConnection ends a connection on the program's request, without an event.
func (c *Conn) endConnection() {
	c.closed = true
	c.device.conns.removeConn(c)
	c.changed.Broadcast()
}

// Disconnect ends an established connection (rdma_disconnect(3)): its queue pair goes to ERR.
// ConnDisconnected follows on both sides. EINVAL: there is no connection, or no longer one.
func (c *Conn) Disconnect() error {
	if c.qp != nil {
		c.qp.moveToError()
	}
	err := c.device.conns.cm.Disconnect(c.device.Now(), c.id, nil)
	c.device.conns.flushManager()
	return cmError(err)
}

// Close ends a connection in any state, without further events (rdma_destroy_id(3)). The queue
// pair, if any, goes to ERR.
func (c *Conn) Close() error {
	if c.qp != nil {
		c.qp.moveToError()
	}
	c.endConnection()
	err := c.device.conns.cm.Destroy(c.device.Now(), c.id)
	c.device.conns.flushManager()
	if errors.Is(err, cmnic.ErrUnknown) {
		return nil // it was over
	}
	return cmError(err)
}

// moveToError takes a queue pair to ERR.
func (q *QP) moveToError() {
	if s := q.State(); s != qp.Reset && s != qp.Err {
		_ = q.SetState(qp.Err) // allowed from any other state
	}
}

func (c *connections) removeConn(x *Conn) {
	delete(c.byID, x.id)
	if c.byQP[x.qp] == x {
		delete(c.byQP, x.qp)
	}
}

// doDueWork does the connection manager's work that is due.
func (c *connections) doDueWork(now units.Time) {
	c.cm.DoDueWork(now)
	c.flushManager()
}

// flushManager sends the connection manager's packets and delivers its events until there are no more.
func (c *connections) flushManager() {
	if c.busy {
		return // the caller that delivers events goes on with their results
	}
	c.busy = true
	for {
		sends, events := c.cm.TakeOutput()
		if len(sends)+len(events) == 0 {
			break
		}
		for i := range sends {
			c.sendMessage(&sends[i])
		}
		for i := range events {
			c.handleEvent(&events[i])
		}
	}
	c.busy = false
	c.device.agenda.WakeAt(&c.Task, c.cm.NextWork())
	c.device.armTimer()
}

// handleEvent acts on an event and tells the program.
func (c *connections) handleEvent(e *cmnic.Event) {
	if tell := c.ownerOf(e); tell != nil {
		tell(e)
		return
	}
	switch e.Kind {
	case cmnic.ResolveRequested:
		c.passQuestion(e)
		return
	case cmnic.Resolved:
		c.handleResolved(e)
		return
	case cmnic.Requested:
		c.handleRequest(e)
		return
	}
	if e.Kind == cmnic.Unreachable && c.asking[e.ID] != nil {
		c.handleResolved(e)
		return
	}
	x := c.byID[e.ID]
	if x == nil {
		return
	}
	out := ConnEvent{Conn: x, PrivateData: e.PrivateData, Reason: e.Reason}
	switch e.Kind {
	case cmnic.Replied:
		out.Kind = ConnEstablished
		if err := c.confirmReply(x, e); err != nil {
			out.Kind, out.Err = ConnFailed, err
		}
	case cmnic.Connected:
		out.Kind = ConnEstablished
	case cmnic.Rejected, cmnic.Unreachable:
		out.Kind = ConnRejected
		if e.Kind == cmnic.Unreachable {
			out.Kind = ConnUnreachable
		}
		if x.qp != nil {
			x.qp.moveToError()
		}
		c.removeConn(x)
	case cmnic.DisconnectRequested:
		out.Kind = ConnDisconnected
		x.qp.moveToError()
		_ = c.cm.Disconnect(c.device.Now(), x.id, nil) // it asks for just that
	case cmnic.Disconnected:
		out.Kind = ConnDisconnected
		x.qp.moveToError()
	case cmnic.TimeWaitExit:
		out.Kind = ConnTimeWaitExit
		c.removeConn(x)
	}
	x.recordEvent(out)
}

// confirmReply brings the queue pair of the active side to RTS and reports it.
func (c *connections) confirmReply(x *Conn, e *cmnic.Event) error {
	if err := x.qp.bringToRTS(&e.Attributes); err != nil {
		x.qp.moveToError()
		c.removeConn(x)
		_ = c.cm.Reject(c.device.Now(), x.id, cmnic.Reject{}) // a REP can be refused
		return err
	}
	return c.cm.Confirm(x.id, nil)
}

func (c *connections) handleRequest(e *cmnic.Event) {
	l := c.listeners[e.Listener]
	if l == nil {
		_ = c.cm.Reject(c.device.Now(), e.ID, cmnic.Reject{}) // the listener is gone
		return
	}
	if maxMTU := msg.MTU(c.device.settings.MTU); e.Attributes.PathMTU > maxMTU {
		_ = c.cm.Reject(c.device.Now(), e.ID, cmnic.Reject{Reason: msg.ReasonInvalidMTU})
		return
	}
	x := &Conn{device: c.device, id: e.ID, local: e.Destination, remote: e.Source, attributes: e.Attributes, notify: l.notify}
	c.byID[x.id] = x
	a := &e.Attributes
	l.recordEvent(ConnEvent{Kind: ConnRequested, Conn: x, PrivateData: e.PrivateData, Param: ConnParam{
		ResponderResources: a.MaxDestRDAtomic, InitiatorDepth: a.MaxRDAtomic, RetryCount: a.RetryCount, RNRRetryCount: a.RNRRetryCount,
	}})
}

// cmError maps an error of the connection manager to the errno that rdma_cm returns.
func cmError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cmnic.ErrInUse):
		return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err)
	}
	return fmt.Errorf("%w: %w", syscall.EINVAL, err)
}
