package nicemu

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/weftlab/weft/nicemu/agenda"
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

// AttachMcast attaches a UD queue pair to a group, given as GID(address), so that it gets packets
// with its Q_Key (ibv_attach_mcast(3)). ENOMEM: the device, or the group, has as many as its limits
// allow; EINVAL: it is no UD queue pair, or no group.
func (q *QP) AttachMcast(group qp.GID) error { return q.device.groups.Attach(q.verbs, group) }

// DetachMcast undoes AttachMcast (ibv_detach_mcast(3)). EINVAL: it is not attached.
func (q *QP) DetachMcast(group qp.GID) error { return q.device.groups.Detach(q.verbs, group) }
