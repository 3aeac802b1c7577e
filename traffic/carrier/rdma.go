package carrier

import (
	"fmt"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/queue"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// depth is the most messages of a flow that a queue pair has posted at a time, so that
// the link stays busy between messages; for READs it is the most outstanding ones.
const depth = 4

// sharedDepth is the same for a connection that flows share (RDMA.PerPair): many short flows may
// be under way on it. It is the default of perftest's --tx-depth.
const sharedDepth = 128

// linger is how long a queue pair that has received a flow stays with its connection
// after the flow, if no other needs one: late packets are then cheapest to handle. It
// makes no other difference.
const linger = 100 * units.Microsecond

// NIC carries the flows of all RDMA traffics of a host, on the host's NIC. It has a pool
// of queue pairs: a flow takes one at each end, resets both and connects them again, so
// that its rate control knows nothing of earlier flows, as if the queue pair were new; the
// UDP source port is the flow's own. When the flow is over, the queue pairs return to the
// pool. With RDMA.PerPair a connection keeps its queue pairs instead (shared.go).
//
// At the receiver the NIC asks for a queue pair when the first packet of a flow
// arrives (nicemu.Finder), since no host may touch another. Table defines what
// a connection is.
//
// Half of the queue pairs that a NIC may have (max_qp) are for flows that it sends or
// requests, so that two hosts cannot keep each other from receiving. When these are in
// use, flows wait in the order of their births; if there is none for an incoming flow, its
// packets are dropped, and the sender retransmits them as long as its retries last.
type NIC struct {
	host   *Host
	table  *Table
	device *nicemu.Device
	pd     *nicemu.PD
	cq     *nicemu.CQ // completions of sends
	recvs  *nicemu.CQ // completions of receives; separate, without delay, if the NIC has delays
	mr     *nicemu.MR
	events nicemu.Channel
	cap    qp.Cap // of queue pairs of the pool
	shared qp.Cap // of those of connections that flows share

	pool    []*pair          // all that were created
	idle    []*pair          // of these, the ones without a connection; the last one is used next
	settled queue.List[pair] // those that have received a flow and are kept for late packets; oldest first

	peers   map[uint32]*peer // by number of the first connection, as requester
	waiting list             // flows that have a connection and no queue pair
	begun   int              // flows that have one
	refused list             // flows that cannot be carried at all
	free    *flow            // records that are used again
	taken   []taken          // connections as responder
	taker   map[uint32]int32 // of them, by number
	told    arrivals         // not yet reported to agents

	counters NICCounters
	batch    [32]cq.Completion
	sge      [1]memory.SGE
	wr       transport.SendWR
	receives [2]nicemu.RecvWR
	list     [1]memory.SGE // of receives
}

// NICCounters are the counters of a NIC.
type NICCounters struct {
	QueuePairs  int    // created so far, for both roles: the most that were in use at a time
	Connections int    // used by flows so far, as requester
	WaitedQP    uint64 // flows that waited for a queue pair
	WaitedSlot  uint64 // flows that waited for a connection to their peer
	Dropped     uint64 // packets of flows for which there was no queue pair
	Retired     uint64 // connections no longer used, because a flow on them has failed
	Returned    uint64 // times that a late packet found its queue pair reassigned, and got another
}

// pair is a queue pair of the pool.
type pair struct {
	q          *nicemu.QP
	index      uint32
	generation uint32 // of its use: completions of other generations are ignored

	flows       list   // that it sends, or requests: one, except on a shared connection
	posting     *flow  // the first of them with messages that are not posted; nil if there is none
	outstanding int    // messages
	offset      uint64 // payload of these and earlier flows, added to the queue pair's count before them
	taken       int32  // connection whose flows it receives; -1 if none
	base        uint64
	partial     units.Bytes // messages of the flow that arrives on a shared connection

	settled queue.Link[pair]
	since   units.Time // it is settled
}

// workID returns the ID of its work requests.
func (p *pair) workID() uint64 { return uint64(p.generation)<<32 | uint64(p.index) }

// flow is a flow that was started here and has not ended.
type flow struct {
	records.Record
	next *flow
	peer *peer
	conn *connection
	pair *pair

	number      uint16 // on its connection
	posted      units.Bytes
	outstanding int // messages
	whole       bool
	acked       uint64 // the queue pair's count before the flow
	came        uint64
	again       uint64
}

// peer is a host to which flows of a traffic go.
type peer struct {
	me      int32 // this host, among the members
	index   int32 // the peer, likewise
	made    int32 // connections
	free    *connection
	shared  *connection // that all flows use, with RDMA.PerPair
	waiting list
}

// connection is a connection to a peer, as requester.
type connection struct {
	next  *connection
	slot  int32
	psn   uint32 // of its next packet
	flows uint16 // so far, modulo
	label uint16 // of the last one's source port
	pair  *pair  // of a shared connection; nil until it has one
}

// taken is a connection as responder.
type taken struct {
	pair     *pair // that it has now; nil if none
	number   uint32
	me       int32  // the member that receives
	expected uint32 // PSN of its next packet, unless the pair has a later one
	next     uint32 // for READs with IRN: PSN of the next packet of the latest flow, while it has no pair
	first    uint32 // of the latest flow
	label    uint16 // of its source port
	flows    uint16 // received so far, modulo
}

// NewNIC makes the carrier of a host's flows over RDMA on one of its NICs, which has the
// given numbers among the members. It fails if the NIC has no
// room for the objects needed from the start: a protection domain, a region, a
// completion queue.
func NewNIC(h *Host, t *Table, d *nicemu.Device, members ...int32) (*NIC, error) {
	l := d.Limits()
	n := &NIC{
		host: h, table: t, device: d, peers: map[uint32]*peer{}, taker: map[uint32]int32{},
		cap:    qp.Cap{MaxSendWR: min(depth, l.QPWR), MaxRecvWR: min(len(NIC{}.receives), l.QPWR), MaxSendSGE: 1, MaxRecvSGE: 1},
		shared: qp.Cap{MaxSendWR: min(sharedDepth, l.QPWR), MaxRecvWR: min(sharedDepth, l.QPWR), MaxSendSGE: 1, MaxRecvSGE: 1},
	}
	n.events.Notify = func() { h.WakeAt(h.engine.Now()) }
	err := d.ReserveNumbers(firstNumber, n.findPair)
	if err == nil {
		n.pd, err = d.AllocPD()
	}
	if err == nil {
		n.mr, err = n.pd.RegisterSize(maxMessage, memory.LocalWrite|memory.RemoteWrite|memory.RemoteRead)
	}
	if err == nil {
		n.cq, err = d.CreateCQ(min(l.CQE, 1<<16), &n.events)
	}
	n.recvs, n.told.latency = n.cq, d.Latency()
	if err == nil && n.told.latency != (cq.Latency{}) {
		n.recvs, err = d.CreateCQ(min(l.CQE, 1<<16), &n.events)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: RDMA flows: %w", d.Name(), err)
	}
	n.cq.Arm(false)
	if n.recvs != n.cq {
		n.recvs.SetLatency(cq.Latency{})
		n.recvs.Arm(false)
	}
	t.reads = min(t.reads, l.QPRdAtom, l.QPInitRdAtom)
	for _, i := range members {
		m := &t.members[i]
		m.va, m.rkey = n.mr.Addr(0), n.mr.RKey()
	}
	return n, nil
}

// Counters returns the counters of the NIC's flows.
func (n *NIC) Counters() NICCounters {
	c := n.counters
	c.QueuePairs = len(n.pool)
	return c
}

// Start implements Carrier.
func (n *NIC) Start(now units.Time, r *records.Record) {
	f := n.free
	if f == nil {
		f = new(flow)
	} else {
		n.free = f.next
	}
	*f = flow{Record: *r}
	starter, other := f.From, f.To
	settings := n.table.traffics[int(f.Traffic)]
	if settings.Verb == workload.Read {
		starter, other = f.To, f.From
	}
	if int(starter) != n.host.Node {
		n.refuseFlow(now, f, "started by the wrong host: READs start at the host that gets the data, all else at the host that has it")
		return
	}
	me, to, failure := n.table.pair(int(starter), int(other), settings.IPv6)
	if failure != "" {
		n.refuseFlow(now, f, failure)
		return
	}
	f.peer = n.peerFor(int(f.Traffic), me, to)
	n.placeFlow(now, f)
}

// placeFlow begins a flow, or lets it wait for what it needs.
func (n *NIC) placeFlow(now units.Time, f *flow) {
	f.conn = n.takeConnection(f)
	if f.conn == nil {
		n.counters.WaitedSlot++
		f.peer.waiting.pushFlow(f)
		return
	}
	if n.waiting.head != nil && f.conn.pair == nil || !n.beginFlow(now, f) {
		n.counters.WaitedQP++
		n.waiting.pushFlow(f)
	}
}

// refuseFlow makes a flow that cannot be carried fail when the host next works.
func (n *NIC) refuseFlow(now units.Time, f *flow, why string) {
	f.Failure = why
	n.refused.pushFlow(f)
	n.host.WakeAt(now)
}

// peerFor returns a peer in a traffic. To one peer all flows of a traffic come from the same
// member.
func (n *NIC) peerFor(traffic int, me, to int32) *peer {
	key := n.table.pairNumber(0, traffic, to, 0)
	p := n.peers[key]
	if p == nil {
		p = &peer{me: me, index: to}
		n.peers[key] = p
	}
	return p
}

// takeConnection returns a connection for a flow: a free one, or the one that it shares; nil if
// there is none.
func (n *NIC) takeConnection(f *flow) *connection {
	p, perPair := f.peer, n.table.traffics[int(f.Traffic)].PerPair
	c := p.free
	switch {
	case perPair && p.shared != nil:
		return p.shared
	case c != nil:
		p.free = c.next
	case int(p.made) < n.table.FlowSlots():
		c = &connection{slot: p.made}
		p.made++
		n.counters.Connections++
	}
	if perPair {
		p.shared = c
	}
	return c
}

// beginFlow takes a queue pair for a flow, or the one of its connection, and posts its first
// messages; it returns false if there is no queue pair.
func (n *NIC) beginFlow(now units.Time, f *flow) bool {
	s := n.table.traffics[int(f.Traffic)]
	if s.PerPair {
		if f.conn = n.takeConnection(f); f.conn == nil { // the one it waited for has failed
			f.peer.waiting.pushFlow(f)
			return true
		}
	}
	p := f.conn.pair
	if p == nil {
		if n.begun >= max(1, n.device.Limits().QP/2) {
			return false
		}
		if p = n.takePair(now, &s); p == nil {
			return false
		}
		n.begun++
		f.SrcPort, f.Started = portOf(n.relabel(f, &s)), now
		if err := n.openConnection(p, f, &s); err != nil {
			n.begun--
			n.releasePair(p)
			n.retireConnection(f)
			n.refuseFlow(now, f, err.Error())
			return true
		}
	}
	n.appendFlow(now, p, f, &s)
	return true
}

// relabel gives a flow's connection the label of its next source port: a new one for each flow,
// or one for all flows that share the connection.
func (n *NIC) relabel(f *flow, s *RDMA) uint16 {
	c, id := f.conn, f.ID
	if s.PerPair {
		id = uint64(f.peer.me)<<numberBits | uint64(n.requesterNumber(f)&(1<<numberBits-1))
	}
	// With the same port as the previous flow the two could not be distinguished (find).
	label := 1 + uint16(mixBits(id)%maxLabel)
	if label == c.label {
		label = 1 + label%maxLabel
	}
	c.label = label
	return label
}

// requesterNumber and responderNumber return the numbers of the queue pairs of a flow's connection.
func (n *NIC) requesterNumber(f *flow) uint32 {
	return n.table.pairNumber(0, int(f.Traffic), f.peer.index, f.conn.slot)
}

func (n *NIC) responderNumber(f *flow) uint32 {
	return n.table.pairNumber(responderRole, int(f.Traffic), f.peer.me, f.conn.slot)
}

// openConnection connects a queue pair for a flow, and others that share its connection.
func (n *NIC) openConnection(p *pair, f *flow, s *RDMA) error {
	t := n.table
	j := nicemu.Join{
		Local: t.members[f.peer.me].addressOf(s.IPv6), Remote: t.members[f.peer.index].addressOf(s.IPv6), RemoteQPN: n.responderNumber(f),
		PSN: f.conn.psn, MTU: s.MTU, DSCP: s.DSCP, ClassSet: true, FlowLabel: uint32(f.conn.label),
	}
	if s.Verb == workload.Read {
		j.RdAtomic = uint8(t.reads)
	}
	if err := n.joinPair(p, j); err != nil {
		return err
	}
	if s.PerPair {
		f.conn.pair = p
	}
	p.offset, _, _ = p.q.Progress()
	n.device.AddAlias(n.requesterNumber(f), p.q)
	return nil
}

// appendFlow puts a flow behind those of a queue pair, and posts its first messages if there is
// room for them.
func (n *NIC) appendFlow(now units.Time, p *pair, f *flow, s *RDMA) {
	f.conn.flows++
	f.number, f.SrcPort, f.pair = f.conn.flows, portOf(f.conn.label), p
	_, f.came, f.again = p.q.Progress()
	f.acked = p.offset
	p.offset += uint64(f.Size)
	p.flows.pushFlow(f)
	if p.posting == nil {
		p.posting = f
		n.postMessages(now, p, s)
	}
}

// joinPair connects a queue pair of the pool for a new flow.
func (n *NIC) joinPair(p *pair, j nicemu.Join) error {
	if p.q.State() != qp.Reset {
		if err := p.q.SetState(qp.Reset); err != nil {
			return err
		}
	}
	return p.q.Join(j)
}

// UDP source ports of flows are derived from flow labels as in Linux (nicemu), from
// which they take 14 bits.
const maxLabel = 1<<14 - 1

func portOf(label uint16) uint16     { return 0xc000 | label }
func labelOf(port uint16) uint16     { return port & maxLabel }
func isBefore(psn, than uint32) bool { return (psn-than)&(1<<24-1) >= 1<<23 }

// mixBits turns an ID into bits that look random: the first number of SplitMix64 with this seed.
func mixBits(id uint64) uint64 { return sim.MixBits(id + 0x9e3779b97f4a7c15) }

// postMessages posts messages of a queue pair's flows, in their order, while there is room for them.
func (n *NIC) postMessages(now units.Time, p *pair, s *RDMA) {
	for f := p.posting; f != nil && p.outstanding < n.capOf(s).MaxSendWR; {
		if f.outstanding == 0 && f.posted == 0 {
			f.Started = now
		}
		to := &n.table.members[f.peer.index]
		size := min(s.chunkSize(), f.Size-f.posted)
		f.posted += size
		f.whole = f.posted == f.Size
		n.sge[0] = n.mr.SGE(0, size)
		n.wr = transport.SendWR{ID: p.workID(), Op: opOf(s.Verb, f.whole), SGL: n.sge[:], RemoteVA: to.va, RKey: to.rkey, Imm: f.Tag}
		if p.q.PostSend(&n.wr) != nil {
			f.whole, p.posting = true, nil // the queue pair has failed: its completions say why
			return
		}
		f.outstanding++
		p.outstanding++
		if f.whole {
			f = f.next
			p.posting = f
		}
	}
}

// opOf returns the operation of a message, which may be the last of its flow.
func opOf(v workload.Verb, last bool) transport.Op {
	switch {
	case v == workload.Read:
		return transport.Read
	case v == workload.Send && last:
		return transport.SendImm
	case v == workload.Send:
		return transport.Send
	case last:
		return transport.WriteImm
	}
	return transport.Write
}

// DoWork implements Carrier: it handles completions.
func (n *NIC) DoWork(now units.Time) {
	for f := n.refused.popFlow(); f != nil; f = n.refused.popFlow() {
		f.State = records.Failed
		n.host.RecordEnd(now, &f.Record, 0)
		n.reuseRecord(f)
	}
	for q, ok := n.events.Get(); ok; q, ok = n.events.Get() {
		_ = q.Ack(1) // it was just taken
	}
	n.cq.Arm(false)
	if n.recvs != n.cq {
		n.recvs.Arm(false)
		n.pollQueue(now, n.recvs)
	}
	n.pollQueue(now, n.cq)
	n.reportFlows(now)
}

// pollQueue takes the completions from a queue.
func (n *NIC) pollQueue(now units.Time, q *nicemu.CQ) {
	for {
		k, err := q.Poll(n.batch[:])
		for i := range k {
			n.handleCompletion(now, &n.batch[i])
		}
		if k < len(n.batch) || err != nil {
			return
		}
	}
}

// handleCompletion handles a completion.
func (n *NIC) handleCompletion(now units.Time, c *cq.Completion) {
	p := n.pool[uint32(c.ID)]
	switch {
	case uint32(c.ID>>32) != p.generation: // of an earlier use
	case p.flows.head != nil:
		n.handleSent(now, p, c)
	case c.Status == cq.Success && p.taken >= 0:
		n.handleReceived(now, p, c)
	}
}

// handleSent handles a message that has completed or failed: one of the oldest flow of its queue
// pair, since completions come in order.
func (n *NIC) handleSent(now units.Time, p *pair, c *cq.Completion) {
	f := p.flows.head
	f.outstanding--
	p.outstanding--
	if c.Status != cq.Success {
		f.State, f.Failure = records.Failed, c.Status.String()
		n.endFlow(now, f)
		return
	}
	if p.posting != nil {
		s := n.table.traffics[int(f.Traffic)]
		n.postMessages(now, p, &s)
	}
	if f.whole && f.outstanding == 0 {
		n.endFlow(now, f)
	}
}

// endFlow ends the oldest flow of a queue pair, releases its resources, and lets flows begin that
// wait for them.
func (n *NIC) endFlow(now units.Time, f *flow) {
	t, c, p, traffic := n.table, f.conn, f.pair, int(f.Traffic)
	n.copyCounters(f)
	reads := t.traffics[traffic].Verb == workload.Read
	key := arrivalKey(f.peer.index, n.responderNumber(f), f.number)
	if reads {
		key, f.Arrived = 0, now
	}
	p.flows.popFlow()
	if c.pair != nil && f.State != records.Failed {
		n.beginNext(p)
		n.host.RecordEnd(now, &f.Record, key)
		n.reuseRecord(f)
		return
	}
	n.device.AddAlias(n.requesterNumber(f), nil)
	behind := p.flows
	if f.State == records.Failed {
		// It is not known how much the peer has received, and so which PSN it expects.
		n.failBehind(p)
		n.retireConnection(f)
		if reads {
			f.Arrived = units.Never
		}
	} else {
		c.psn, _ = p.q.PSNs()
		c.next, f.peer.free = f.peer.free, c
	}
	n.begun--
	n.releasePair(p)
	n.beginWaiting(now, f.peer)
	if reads && f.State == records.Done {
		n.host.FlowArrived(now, traffic, flowOf(&f.Record), 0)
	}
	n.host.RecordEnd(now, &f.Record, key)
	n.reuseRecord(f)
	n.moveFlows(now, behind)
}

// retireConnection gives up a flow's connection.
func (n *NIC) retireConnection(f *flow) {
	f.peer.shared, f.conn = nil, nil
	n.counters.Retired++
}

// beginWaiting lets a flow that waits for a connection to a peer begin, and those that wait
// for queue pairs.
func (n *NIC) beginWaiting(now units.Time, to *peer) {
	if f := to.waiting.head; f != nil {
		if f.conn = n.takeConnection(f); f.conn != nil {
			n.waiting.pushFlow(to.waiting.popFlow())
		}
	}
	for f := n.waiting.popFlow(); f != nil; f = n.waiting.popFlow() {
		if !n.beginFlow(now, f) {
			n.waiting.returnFlow(f)
			return
		}
	}
}

// copyCounters copies the queue pair's counters of a flow into its record. Of flows that share a
// connection, the oldest has all that is retransmitted meanwhile.
func (n *NIC) copyCounters(f *flow) {
	acked, came, again := f.pair.q.Progress()
	f.Acked = units.Bytes(min(max(acked, f.acked)-f.acked, uint64(f.Size)))
	if f == f.pair.flows.head {
		f.Retransmitted = again - f.again
	}
	if n.table.traffics[int(f.Traffic)].Verb == workload.Read {
		f.Acked = units.Bytes(came - f.came)
	}
}

// reuseRecord keeps the record of a finished flow for reuse.
func (n *NIC) reuseRecord(f *flow) {
	*f = flow{next: n.free}
	n.free = f
}

// UnderWay implements Carrier.
func (n *NIC) UnderWay(f func(*records.Record)) {
	for _, p := range n.pool {
		for x := p.flows.head; x != nil; x = x.next {
			n.copyCounters(x)
			f(&x.Record)
		}
	}
	n.waiting.eachRecord(f)
	n.refused.eachRecord(f)
	for _, p := range n.peers { // in any order: the caller sorts
		p.waiting.eachRecord(f)
	}
}

// takeIdlePair returns a queue pair without a connection; nil if the NIC can have no more.
func (n *NIC) takeIdlePair(now units.Time) *pair {
	if k := len(n.idle); k > 0 {
		p := n.idle[k-1]
		n.idle = n.idle[:k-1]
		return p
	}
	if p := n.settled.First(); p != nil && now-p.since >= linger && p.q.IsQuiet() {
		n.evictPair(p)
		return p
	}
	if p := n.createPair(n.cap); p != nil {
		return p
	}
	for p := range n.settled.All() {
		if p.q.IsQuiet() {
			n.evictPair(p)
			return p
		}
	}
	return nil
}

// createPair creates a queue pair; it returns nil if the NIC cannot have more.
func (n *NIC) createPair(c qp.Cap) *pair {
	q, err := n.pd.CreateQP(nicemu.QPConfig{Type: qp.RC, SendCQ: n.cq, RecvCQ: n.recvs, SignalAll: true, Cap: c})
	if err != nil {
		return nil
	}
	p := &pair{q: q, index: uint32(len(n.pool)), taken: -1}
	n.pool = append(n.pool, p)
	return p
}

// releasePair returns a queue pair to the pool.
func (n *NIC) releasePair(p *pair) {
	p.generation++
	p.flows, p.posting, p.outstanding, p.taken, p.partial = list{}, nil, 0, -1, 0
	n.idle = append(n.idle, p)
}

// list is a queue of waiting flows.
type list struct{ head, tail *flow }

func (l *list) pushFlow(f *flow) {
	f.next = nil
	if l.head == nil {
		l.head = f
	} else {
		l.tail.next = f
	}
	l.tail = f
}

func (l *list) popFlow() *flow {
	f := l.head
	if f != nil {
		l.head = f.next
		f.next = nil
	}
	return f
}

// returnFlow puts a flow back to the front.
func (l *list) returnFlow(f *flow) {
	if f.next = l.head; l.head == nil {
		l.tail = f
	}
	l.head = f
}

func (l *list) eachRecord(f func(*records.Record)) {
	for x := l.head; x != nil; x = x.next {
		f(&x.Record)
	}
}

var _ sim.Handler = (*Host)(nil)
