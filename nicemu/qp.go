package nicemu

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/weftlab/weft/nicemu/agenda"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/pace"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/outage"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// QPConfig is the configuration of a new queue pair (ibv_qp_init_attr).
type QPConfig struct {
	Type   QPType // RC, UC, UD or XRCSend; XRCD.CreateQP makes XRCRecv
	SendCQ *CQ    // of the device, as RecvCQ and SRQ; may be RecvCQ
	RecvCQ *CQ    // ignored for XRCSend
	SRQ    *SRQ   // nil if it has a separate receive queue; RC and UD
	// Cap is the size of its queues, which have exactly that size. With an SRQ the values for
	// receives are ignored.
	Cap QPCap
	// SignalAll makes every work request of the send queue complete (sq_sig_all); otherwise those
	// complete that are Signaled, and those that fail.
	SignalAll bool
	// BlockSelfMulticast keeps packets that the queue pair sends to its own group from the queue
	// pair itself (IBV_QP_CREATE_BLOCK_SELF_MCAST_LB); others on the NIC still get them.
	BlockSelfMulticast bool

	// ChunkSize is the amount of a message read from or written to memory at once
	// (transport.Config).
	ChunkSize units.Bytes

	xrcd *XRCD // of XRCRecv
}

// QP is a queue pair (ibv_create_qp(3)).
type QP struct {
	agenda.Task[sleeper]
	device *Device
	verbs  *qp.QP        // states and attributes
	engine *transport.QP // the protocol
	config QPConfig

	// Scheduler state.
	turn      queue.Link[QP] // in the round robin
	prio, ack uint8          // lanes of its data and of its acknowledgements
	static    uint8          // rate of the address vector of the last packet sent (qp.StaticRate)
	urgent    bool           // it has something to acknowledge
	notified  bool           // a CNP for it waits
	active    bool           // as last reported to the control
	echo      bool           // a mark arrived that no acknowledgement has echoed
	broken    bool           // a completion queue has overrun: fail the queue pair
	offer     transport.Offer
	rest      transport.Offer // the request after an acknowledgement offered in another lane
	answer    units.Bytes     // length of the acknowledgement's frame
	frame     units.Bytes     // of the packet that it sends in its turn
	credit    units.Bytes     // in its turn
	route     route           // of RC and UC, from RTR on

	pace             pace.Pace
	limiter          *limiter   // nil without a rate limit
	control          cc.Control // nil while it has none
	notice           cc.Notification
	room             int              // for hops of in-band telemetry, in requests
	requestTelemetry *telemetry.Stack // from the last request with telemetry; Echo until it is sent back
	flow             flowTo           // its name for others, if it has a rate control

	layered Layered // software above it; nil if none
	twins   *twins  // under a layer, if there are any; else nil

	sent, acked units.Bytes // payload, for controls that use it
	counters    QPCounters
	gaps        outage.Log // in the payload received in order, while links were down
}

// QPCounters counts what happened at a queue pair, in addition to transport.Counters.
type QPCounters struct {
	DataPackets, DataBytes uint64 // requests and READ responses, including repeats; bytes of frames
	RxPackets, RxBytes     uint64 // all received
	Marked                 uint64 // packets received with CE
	CNPsSent               uint64
	CNPsHandled            uint64
	LastPayload            units.Time // when payload last arrived in order
}

// CreateQP makes a queue pair in state RESET. ENOMEM: there are max_qp; EINVAL: a parameter is
// beyond the limits, or of another device; EOPNOTSUPP: the device has no XRC.
func (p *PD) CreateQP(c QPConfig) (*QP, error) {
	d := p.device
	if err := d.settings.Limits.CheckRoom(qp.QueuePairs, d.inUse[qp.QueuePairs]); err != nil {
		return nil, err
	}
	if err := c.checkConfig(p); err != nil {
		return nil, err
	}
	if c.Type == qp.XRCSend {
		c.RecvCQ = nil
	}
	q, err := d.newQP(c, p.memory, nil, nil)
	if err == nil && d.layer != nil && c.Type != qp.UD {
		q.layered = d.layer.Over(Raw{q})
	}
	return q, err
}

// newQP makes a queue pair with a checked configuration. If the device has a layer, queue pairs
// that may be under it complete there. visible is the queue pair that gets a twin; nil for a
// program's queue pair.
func (d *Device) newQP(c QPConfig, pd *memory.PD, layered Layered, visible *QP) (*QP, error) {
	number, ok := d.numbers.nextNumber()
	if !ok {
		return nil, fmt.Errorf("%w: all numbers of queue pairs are in use: destroy some first", syscall.ENOMEM)
	}
	q := &QP{device: d, config: c, route: route{ends: packet.Nowhere}, layered: layered}
	owner := number // of windows of type 2
	if visible != nil {
		visible.joinTwin(q)
		owner = visible.Number()
	}
	inner := qp.Config{Type: c.Type, PD: pd, Cap: c.Cap, SignalAll: c.SignalAll}
	t := transport.Config{
		Service: serviceOf(c.Type), Number: number, Events: qpEvents{d},
		MaxSend: c.Cap.MaxSendWR, MaxRecv: c.Cap.MaxRecvWR, MaxSGE: max(c.Cap.MaxSendSGE, c.Cap.MaxRecvSGE), MaxInline: c.Cap.MaxInline,
		SignalAll: c.SignalAll, AckEvery: d.settings.AckEvery, AskEvery: d.settings.AskEvery,
		ChunkSize: c.ChunkSize,
	}
	if c.xrcd != nil {
		inner.XRCD, t.Domain = &c.xrcd.domain, target{c.xrcd, number}.findSRQ
	} else {
		inner.SendCQ, t.SendCQ, t.Memory = c.SendCQ.queue, (*completer)(c.SendCQ), d.memory.View(pd, owner)
	}
	if c.RecvCQ != nil {
		inner.RecvCQ, t.RecvCQ = c.RecvCQ.queue, (*completer)(c.RecvCQ)
	}
	if c.SRQ != nil {
		inner.SRQ, t.Shared = c.SRQ.queue, c.SRQ.queue
		t.ReceiveMemory = d.memory.View(c.SRQ.queue.PD(), owner)
	}
	if r := d.settings.Recovery.Settings; r != nil && c.Type.IsReliable() {
		t.Recovery = r.New
	}
	if d.traits.NeedsAcks {
		t.Feedback = (*feedback)(q)
	}
	if d.layer != nil && c.Type != qp.UD {
		d.underLayer(&t)
	}
	var err error
	if q.verbs, err = qp.New(number, inner, &d.settings.Limits); err != nil {
		q.leaveTwins()
		return nil, err
	}
	if q.engine, err = transport.New(t); err != nil {
		q.leaveTwins()
		_ = q.verbs.Destroy()
		return nil, err
	}
	q.engine.SetDelays(d.settings.Delays.transportDelays())
	if d.onDestroy != nil {
		q.engine.MeasureRTT()
	}
	d.inUse[qp.QueuePairs]++
	d.numbers.addQP(q)
	d.agenda.EnrolTask(&q.Task, q)
	return q, nil
}

// checkConfig checks the configuration of a queue pair of a protection domain.
func (c *QPConfig) checkConfig(p *PD) error {
	if c.Type == qp.GSI {
		return fmt.Errorf("%w: queue pairs of type GSI are reserved for the NIC: use RC, UC or UD", syscall.EINVAL)
	}
	if c.Type == qp.XRCRecv {
		return fmt.Errorf("%w: queue pairs of type XRC_RECV are of an XRC domain, not of a protection domain", syscall.EINVAL)
	}
	if err := p.checkUsable(); err != nil {
		return err
	}
	queues := []*CQ{c.SendCQ, c.RecvCQ}
	if c.Type == qp.XRCSend {
		if err := p.device.checkXRC(); err != nil {
			return err
		}
		queues = queues[:1]
	}
	for _, q := range queues {
		if err := q.checkUsable(p.device); err != nil {
			return err
		}
	}
	return c.SRQ.checkUsable(p.device)
}

func serviceOf(t qp.Type) roce.Service {
	switch t {
	case qp.RC:
		return roce.RC
	case qp.UC:
		return roce.UC
	case qp.XRCSend, qp.XRCRecv:
		return roce.XRC
	}
	return roce.UD
}

// Number is the queue pair's number, 24 bits.
func (q *QP) Number() uint32 { return q.verbs.Number() }

// Device returns the device that the queue pair belongs to.
func (q *QP) Device() *Device { return q.device }

// State returns its state.
func (q *QP) State() qp.State { return q.verbs.State() }

// Query returns all attributes (ibv_query_qp(3)) and the configuration. PSNs are the initial ones.
func (q *QP) Query() (qp.Attr, QPConfig) {
	a, _ := q.verbs.Query()
	return a, q.config
}

// Counters returns its counters, including those of queue pairs that a layer uses instead or beside
// it.
func (q *QP) Counters() (transport.Counters, QPCounters) {
	t, c := q.engine.Counters(), q.counters
	for twin := range q.eachTwin {
		t.AddCounters(twin.engine.Counters())
		c.addCounters(&twin.counters)
	}
	return t, c
}

func (c *QPCounters) addCounters(o *QPCounters) {
	c.DataPackets += o.DataPackets
	c.DataBytes += o.DataBytes
	c.RxPackets += o.RxPackets
	c.RxBytes += o.RxBytes
	c.Marked += o.Marked
	c.CNPsSent += o.CNPsSent
	c.CNPsHandled += o.CNPsHandled
	c.LastPayload = max(c.LastPayload, o.LastPayload)
}

// Gaps returns, for each time that links were down, the longest time without payload received in
// order.
func (q *QP) Gaps() []outage.Gap {
	gaps := q.gaps.Gaps()
	for twin := range q.eachTwin {
		gaps = append(slices.Clip(gaps), twin.gaps.Gaps()...)
	}
	return gaps
}

// Modify changes attributes, and the state if the mask has MaskState (ibv_modify_qp(3)). The
// specification says which attributes a transition needs and may have (qp.TransitionOf); Init and
// Join cover the usual cases. An error changes nothing. EINVAL: the arguments are invalid;
// EHOSTUNREACH: no host has the address of the peer.
func (q *QP) Modify(a qp.Attr, m qp.Mask) error {
	d := q.device
	now := d.Now()
	next := q.route
	if m&qp.MaskAV != 0 {
		remote := a.DestQPN
		if m&qp.MaskDestQPN == 0 {
			old, _ := q.verbs.Query()
			remote = old.DestQPN
		}
		var err error
		if next, err = d.makeRoute(&a.AV, q.Number(), remote); err != nil {
			return err
		}
	}
	if m&qp.MaskPKeyIndex != 0 && a.PKeyIndex != 0 {
		return fmt.Errorf("%w: pkey_index is %d: only index 0 has a P_Key, that of the default partition", syscall.EINVAL, a.PKeyIndex)
	}
	from := q.State()
	if err := q.verbs.Modify(a, m); err != nil {
		return err
	}
	if m&qp.MaskAV != 0 {
		q.withdrawCNP() // it would go to another peer
		q.static = next.static
	}
	q.route = next
	if err := q.syncState(from, m&qp.MaskState != 0); err != nil {
		return err
	}
	d.rescheduleQP(now, q)
	if q.layered != nil && !q.isTwin() && m&qp.MaskState != 0 {
		q.layered.Moved(from, a.State)
	}
	d.armTimer()
	return nil
}

// SetState calls Modify with the state alone, where that needs no attributes: to ERR, RESET, SQD,
// and from SQD or SQE to RTS.
func (q *QP) SetState(to State) error { return q.Modify(qp.Attr{State: to}, qp.MaskState) }

// syncState brings the engine to the state of the attributes.
func (q *QP) syncState(from qp.State, moved bool) error {
	d := q.device
	all, _ := q.verbs.Query()
	attr := q.engineAttr()
	if from >= qp.RTR && from <= qp.SQE && all.State != qp.Reset && all.State != qp.Err {
		if err := q.adjustAttributes(attr); err != nil {
			return err
		}
	}
	if !moved {
		return nil
	}
	switch all.State {
	case qp.Reset:
		q.resetScheduling()
	case qp.RTR:
		if q.control == nil && d.settings.Control.Settings != nil && d.line > 0 && q.config.Type != qp.UD {
			q.control = d.settings.Control.Settings.New(q.newFlow(&all))
			q.flow = flowTo{q.route.ends.To, all.DestQPN}
			if d.flows != nil {
				d.flows[q.flow] = q
			}
			if q.config.Type.IsReliable() && !q.route.loop {
				q.room = d.traits.Telemetry
			}
		}
	}
	return q.engine.Modify(all.State, attr)
}

// engineAttr returns the attributes for the engine.
func (q *QP) engineAttr() transport.Attr {
	all, _ := q.verbs.Query()
	a := transport.Attr{
		Access: q.verbs.RemoteAccess(), QKey: all.QKey,
		DestQP: all.DestQPN, RQPSN: transport.PSN(all.RQPSN), PathMTU: units.Bytes(all.PathMTU.Bytes()),
		MaxDestRdAtomic: all.MaxDestRdAtomic, MinRNRTimer: all.MinRNRTimer,
		SQPSN: transport.PSN(all.SQPSN), Timeout: all.Timeout, RetryCount: all.RetryCnt, RNRRetry: all.RNRRetry, MaxRdAtomic: all.MaxRdAtomic,
	}
	if q.config.Type == qp.UD {
		a.PathMTU = units.Bytes(q.device.settings.MTU.Bytes())
	}
	if q.layered != nil {
		a.RetryCount = q.layered.RetryCount(a.RetryCount)
	}
	return a
}

// newFlow returns the parameters for the queue pair's rate control.
func (q *QP) newFlow(a *qp.Attr) cc.Flow {
	d := q.device
	mtu := units.Bytes(a.PathMTU.Bytes())
	onWire := func(o roce.Opcode, payload units.Bytes) units.Bytes {
		return packet.OnWire(q.route.headersLen() + telemetry.StackSize(d.traits.Telemetry) + units.Bytes(serviceOf(q.config.Type).WithOperation(o).PacketLen(int(payload))))
	}
	f := cc.Flow{Line: d.line, MTU: mtu, Packet: onWire(roce.WriteMiddle, mtu), Rand: d.env.Rand}
	if d.traits.NeedsPath && !q.route.loop && d.env.Trip != nil {
		ack := units.Bytes(0)
		if q.config.Type.IsReliable() {
			ack = onWire(roce.Ack, 0)
		}
		f.Path = d.env.Trip(q.route.ends.To, f.Packet, ack)
	}
	return f
}

// adjustAttributes changes the attributes that may change in the engine's current state. The others come with
// the transition that is about to be made.
func (q *QP) adjustAttributes(a transport.Attr) error {
	next := q.engine.Attr()
	next.Access, next.QKey, next.MinRNRTimer = a.Access, a.QKey, a.MinRNRTimer
	if q.engine.State() == qp.SQD {
		next.Timeout, next.RetryCount, next.RNRRetry = a.Timeout, a.RetryCount, a.RNRRetry
		next.MaxRdAtomic, next.MaxDestRdAtomic = a.MaxRdAtomic, a.MaxDestRdAtomic
	}
	return q.engine.AdjustAttributes(next)
}

// resetScheduling clears the state of scheduler and rate control.
func (q *QP) resetScheduling() {
	d := q.device
	d.memory.UnbindQP(q.Number())
	if q.layered != nil {
		d.layerCQs.send.queue.DiscardQP(q.Number())
		d.layerCQs.recv.queue.DiscardQP(q.Number())
	}
	q.withdrawCNP()
	if d.flows[q.flow] == q {
		delete(d.flows, q.flow)
	}
	q.releaseLimiter()
	q.control, q.pace, q.static, q.notice, q.broken = nil, pace.Pace{}, 0, cc.Notification{}, false
	q.sent, q.acked, q.echo, q.active, q.room, q.requestTelemetry = 0, 0, false, false, 0, nil
}

// withdrawCNP drops the waiting CNP, if there is one.
func (q *QP) withdrawCNP() {
	if !q.notified {
		return
	}
	q.notified = false
	d := q.device
	for prio := range d.lanes {
		d.lanes[prio].cnps.DeleteFunc(q.isAt)
		d.announceNext(uint8(prio))
	}
}

// Destroy destroys the queue pair (ibv_destroy_qp(3)). Posted requests vanish, and so do its
// completions that have not been polled. EBUSY: it is attached to multicast groups; EINVAL: it is
// destroyed already.
func (q *QP) Destroy() error {
	if err := q.verbs.Destroy(); err != nil {
		return err
	}
	d := q.device
	if q.layered != nil && !q.isTwin() {
		q.layered.Destroyed()
	}
	if q.isTwin() {
		q.leaveTwins()
	} else if d.onDestroy != nil {
		d.onDestroy(q)
	}
	if d.retired == nil {
		d.retired = new(transport.Counters)
	}
	d.retired.AddCounters(q.engine.Counters())
	_ = q.engine.Modify(qp.Reset, transport.Attr{})
	q.resetScheduling()
	d.rescheduleQP(d.Now(), q)
	d.agenda.Remove(&q.Task)
	d.numbers.removeQP(q)
	if q.config.xrcd != nil {
		d.xrcSRQs.forgetTarget(q)
	}
	d.inUse[qp.QueuePairs]--
	d.dropEvents(func(e AsyncEvent) bool { return e.QP == q })
	d.armTimer()
	return nil
}

// PostSend adds a work request to the send queue (ibv_post_send(3)). It is copied, with its list;
// the bytes are read when they are sent or retransmitted. ENOMEM: the queue is full; EINVAL: the
// state does not allow it, or the work request is invalid (the errors of package transport). In SQE
// and ERR it is flushed.
func (q *QP) PostSend(wr *SendWR) error {
	if q.layered != nil {
		return q.postLayered(wr)
	}
	q.ringDoorbell()
	err := q.postSend(wr)
	q.startPosted()
	return err
}

// PostSendList adds work requests in order, up to the first one refused, and returns how many were
// added: with an error list[posted] is bad_wr.
func (q *QP) PostSendList(list []SendWR) (posted int, err error) {
	if q.layered != nil {
		return postEach(list, q.postLayered)
	}
	q.ringDoorbell()
	posted, err = postEach(list, q.postSend)
	q.startPosted()
	return posted, err
}

func (q *QP) postSend(wr *SendWR) error {
	if q.config.Type == qp.UD {
		if err := q.checkPath(wr); err != nil {
			return err
		}
	}
	if err := memory.CheckCount(wr.SGL, q.config.Cap.MaxSendSGE); err != nil {
		return err
	}
	return q.engine.PostSend(wr)
}

// PostRecv adds a work request to the receive queue (ibv_post_recv(3)). It is
// copied. ENOMEM: the queue is full; EINVAL: the state is RESET, the list has too
// many elements, or there is a shared receive queue to post to. In ERR it is
// flushed.
func (q *QP) PostRecv(wr *RecvWR) error {
	if q.layered != nil {
		return q.postRecvLayered(wr)
	}
	if err := q.postRecv(wr); err != nil {
		return err
	}
	q.startPosted()
	return nil
}

// PostRecvList adds work requests in order, up to the first one refused, and returns how many were
// added: with an error list[posted] is bad_wr.
func (q *QP) PostRecvList(list []RecvWR) (posted int, err error) {
	if q.layered != nil {
		return postEach(list, q.postRecvLayered)
	}
	posted, err = postEach(list, q.postRecv)
	q.startPosted()
	return posted, err
}

func (q *QP) postRecv(wr *RecvWR) error {
	if err := memory.CheckCount(wr.SGL, q.config.Cap.MaxRecvSGE); err != nil {
		return err
	}
	return q.engine.PostRecv(wr)
}

// startPosted starts the NIC on posted work requests.
func (q *QP) startPosted() {
	q.device.rescheduleQP(q.device.Now(), q)
	q.device.armTimer()
}

// postEach posts a list up to the first work request that is refused.
func postEach[WR any](list []WR, post func(*WR) error) (posted int, err error) {
	for i := range list {
		if err := post(&list[i]); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

// BindMW binds a window of type 1 (ibv_bind_mw(3)): a shorthand for the work request, which
// completes as others do. It returns the window's key from then on; b.Tag is ignored.
func (q *QP) BindMW(id uint64, b Binding, flags transport.Flags) (rkey uint32, err error) {
	b.Tag = uint8(b.Window) + 1
	return b.Key(), q.PostSend(&SendWR{ID: id, Op: transport.BindWindow, Flags: flags, Bind: b})
}

// AttachMcast attaches a UD queue pair to a group, given as GID(address), so that it gets packets
// with its Q_Key (ibv_attach_mcast(3)). ENOMEM: the device, or the group, has as many as its limits
// allow; EINVAL: it is no UD queue pair, or no group.
func (q *QP) AttachMcast(group qp.GID) error { return q.device.groups.Attach(q.verbs, group) }

// DetachMcast undoes AttachMcast (ibv_detach_mcast(3)). EINVAL: it is not attached.
func (q *QP) DetachMcast(group qp.GID) error { return q.device.groups.Detach(q.verbs, group) }

// qpEvents takes the events of queue pairs.
type qpEvents struct{ *Device }

// Event implements transport.Events.
func (d qpEvents) Event(number uint32, e qp.Event) {
	q := d.numbers.findQP(number)
	if q == nil || e == qp.SQDrained && !q.verbs.OnDrained() {
		return
	}
	if q.layered != nil && (q.isTwin() || e == qp.QPLastWQEReached && q.State() != qp.Err) {
		return // hidden from the program
	}
	d.raiseEvent(AsyncEvent{Kind: e, QP: q})
}

// failQP takes a queue pair to the error state, as soon as the current operation on it is over.
func (d *Device) failQP(q *QP) {
	q.broken = true
	d.agenda.WakeAt(&q.Task, d.Now())
	d.armTimer()
}

// doDueWork does the queue pair's work that is due.
func (q *QP) doDueWork(now units.Time) {
	if q.broken {
		q.broken = false
		if s := q.engine.State(); s != qp.Reset {
			_ = q.engine.Modify(qp.Err, transport.Attr{})
			if q.layered != nil {
				q.adoptState(qp.Err)
				q.layered.Moved(qp.RTS, qp.Err)
			}
		}
	}
	if q.engine.NextExpiry() <= now {
		q.engine.DoDueWork(now)
	}
	q.device.rescheduleQP(now, q)
}

// rescheduleQP computes what a queue pair sends next, and when. Every input to it ends here.
func (d *Device) rescheduleQP(now units.Time, q *QP) {
	window := units.Bytes(0)
	if q.control != nil {
		q.runControlTimer(now)
		if q.engine.IsBusy() != q.active {
			q.active = !q.active
			q.control.SetActive(now, q.active)
			if s, ok := q.control.(cc.Sized); ok && q.active {
				s.OnDataQueued(now, q.engine.QueuedBytes())
			}
		}
		d.sendMessages(q)
		window = q.control.Window()
		q.engine.SetWindow(window)
	}
	for q.offer = q.engine.Offer(); q.offer.Kind != transport.Nothing && q.currentRoute() == nil; q.offer = q.engine.Offer() {
		q.engine.FailOffer(cq.LocQPOpErr)
	}
	if s := q.engine.State(); s != q.verbs.State() && q.layered == nil {
		q.adoptState(s)
	}
	prio, ack, urgent, ready := q.prio, q.ack, false, false
	due := q.engine.NextExpiry()
	if q.broken {
		due = now
	}
	switch q.offer.Kind {
	case transport.Nothing:
		if window > 0 && q.engine.IsBusy() { // time may open it
			due = min(due, q.control.NextTimer())
		}
	case transport.Control:
		// What follows is computed when it has been sent, which is before the next turn in this
		// lane.
		prio, ack, urgent, ready = q.route.prio, q.route.ack, true, q.turn.IsLinked()
		q.answer = q.route.headersLen() + q.offer.Bytes + q.telemetryLen(q.offer.Kind)
		if prio != ack {
			// Requests do not wait for an acknowledgement in another lane.
			if q.rest = q.engine.OfferBehind(); q.rest.Kind == transport.Nothing {
				ready = false
			} else {
				ready, due = q.offerIsDue(now, &q.route, q.rest, due)
			}
		}
	default:
		r := q.currentRoute()
		prio, ack = r.prio, r.ack
		ready, due = q.offerIsDue(now, r, q.offer, due)
	}
	if q.control != nil && d.traits.WakeIdle {
		due = min(due, q.control.NextTimer())
	}
	d.agenda.WakeAt(&q.Task, due)
	d.placeQP(q, prio, ack, urgent, ready)
	d.announceNext(prio)
	if ack != prio {
		d.announceNext(ack)
	}
}

// offerIsDue reports whether the data on offer may leave when the port next asks, and when the queue pair
// has work, if that is earlier than due.
func (q *QP) offerIsDue(now units.Time, r *route, o transport.Offer, due units.Time) (bool, units.Time) {
	q.frame = r.headersLen() + o.Bytes + q.telemetryLen(o.Kind)
	at := q.earliestDeparture()
	ready := at <= q.device.earliestPull(now, r.prio)
	if ready {
		q.pace.RecordTurn(now, at, q.turn.IsLinked())
	} else {
		due = min(due, at)
	}
	if q.control != nil {
		due = min(due, q.control.NextTimer())
	}
	return ready, due
}

// earliestPull returns the earliest time at which the port may ask for a packet of a lane. It does not ask
// again before it has sent the current packet.
func (d *Device) earliestPull(now units.Time, prio uint8) units.Time {
	if prio == loopback {
		return now
	}
	return max(now, d.busy)
}

// adoptState moves the attributes to a state that the engine has entered by itself.
func (q *QP) adoptState(s qp.State) {
	switch s {
	case qp.SQE:
		q.verbs.SendFailed()
	case qp.Err:
		q.verbs.MoveToError()
	}
}

// currentRoute returns the route of the packet on offer: the queue pair's, or that of a datagram's address
// handle; nil if it is gone.
func (q *QP) currentRoute() *route {
	if q.config.Type != qp.UD {
		return &q.route
	}
	if h := q.device.handles.findHandle(q.offer.Path); h != nil {
		return &h.route
	}
	return nil
}
