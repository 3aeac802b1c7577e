package carrier

import (
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/pattern"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// findPair returns the queue pair for a request of a connection whose number has none at the
// moment: when no flow is under way on it, and for READs always, since nothing tells a
// responder that those are over. A packet that the connection has not seen begins a flow,
// even if another should have arrived before it. One that it has seen is late, or its
// acknowledgement was lost: it is answered and changes nothing.
func (n *NIC) findPair(now units.Time, s nicemu.UnmatchedPacket) *nicemu.QP {
	traffic, from, ok := n.table.parseNumber(s.Number)
	if op := s.Opcode.Operation(); !ok || op >= roce.ReadFirst && op <= roce.AtomicAck || op == roce.Nack {
		return nil
	}
	i, known := n.taker[s.Number]
	if !known {
		me, mine := n.table.by[s.To]
		if !mine {
			return nil
		}
		i = int32(len(n.taken))
		n.taken = append(n.taken, taken{number: s.Number, me: me})
		n.taker[s.Number] = i
	}
	t, settings := &n.taken[i], n.table.traffics[traffic]
	if settings.Verb == workload.Read && s.Opcode.Service() == roce.IRN {
		return n.findAnswering(now, i, t, from, &settings, s)
	}
	if settings.Verb == workload.Read {
		return n.findRead(now, i, t, from, &settings, s)
	}
	if s.Opcode.Operation() == roce.ReadAck {
		return nil
	}
	if isBefore(s.PSN, t.expected) {
		if t.pair == nil && !n.restorePair(now, i, from, &settings, t.expected, s) {
			return nil
		}
		return t.pair.q
	}
	if !n.restorePair(now, i, from, &settings, t.expected, s) {
		return nil
	}
	n.unlistPair(t.pair)
	n.device.AddAlias(s.Number, t.pair.q)
	return t.pair.q
}

// findRead is find for READs, of which a flow may have several: those of another flow
// have another source port. A response is repeated from the content of the request, as
// the specification says, by any queue pair.
func (n *NIC) findRead(now units.Time, i int32, t *taken, from int32, settings *RDMA, s nicemu.UnmatchedPacket) *nicemu.QP {
	at := t.expected
	if t.pair != nil {
		if _, at = t.pair.q.PSNs(); isBefore(t.expected, at) {
			t.expected = at
		}
	}
	seen, label := isBefore(s.PSN, t.expected), labelOf(s.SrcPort)
	switch {
	case !seen && label != t.label: // a flow begins
		t.first, at = t.expected, t.expected
	case !seen && t.pair != nil && at == t.expected:
		return t.pair.q
	case !seen: // after a repeated response
		at = t.expected
	case t.pair != nil && (!isBefore(s.PSN, at) || t.pair.q.HoldsResponse(s.PSN)):
		return t.pair.q
	case label != t.label || isBefore(s.PSN, t.first):
		return nil // the flow is over, and no response is awaited
	default: // repeat the response, from where the request asks
		at = s.PSN
	}
	if !n.restorePair(now, i, from, settings, at, s) {
		return nil
	}
	return t.pair.q
}

// findAnswering is findRead with IRN, where the responder itself retransmits responses
// until they are acknowledged: a flow keeps its queue pair as long as there is
// something to acknowledge.
func (n *NIC) findAnswering(now units.Time, i int32, t *taken, from int32, settings *RDMA, s nicemu.UnmatchedPacket) *nicemu.QP {
	label, ack := labelOf(s.SrcPort), s.Opcode.Operation() == roce.ReadAck
	if label == t.label {
		switch {
		case t.pair != nil:
			return t.pair.q
		case ack || isBefore(s.PSN, t.next) || !n.restorePair(now, i, from, settings, t.next, s):
			return nil
		}
		return t.pair.q
	}
	if t.pair != nil {
		_, t.expected = t.pair.q.PSNs()
	}
	if ack || isBefore(s.PSN, t.expected) || !n.restorePair(now, i, from, settings, t.expected, s) {
		return nil
	}
	return t.pair.q
}

// restorePair joins a queue pair, with the given expected PSN, to a connection: the one
// that the connection has, or another of the pool. It returns false if there is none.
func (n *NIC) restorePair(now units.Time, i, from int32, settings *RDMA, expected uint32, s nicemu.UnmatchedPacket) bool {
	t := &n.taken[i]
	p := t.pair
	if p == nil {
		if p = n.takePair(now, settings); p == nil {
			n.counters.Dropped++
			return false
		}
		if isBefore(s.PSN, t.expected) {
			n.counters.Returned++
		}
	} else {
		n.unlistPair(p)
		p.generation++
	}
	label := labelOf(s.SrcPort)
	j := nicemu.Join{
		Local: s.To, Remote: s.From, RemoteQPN: s.Number&^responderRole&^n.table.peerBits() | uint32(t.me)<<n.table.slotBits,
		RemotePSN: expected, MTU: settings.MTU, DSCP: settings.DSCP, ClassSet: true, FlowLabel: uint32(label),
		Access: memory.RemoteWrite | memory.RemoteRead,
	}
	if settings.Verb == workload.Read {
		j.RdAtomic = uint8(n.table.reads)
	}
	if m := &n.table.members[from]; s.From != m.addressOf(settings.IPv6) || n.joinPair(p, j) != nil {
		t.pair = nil
		n.releasePair(p)
		return false
	}
	p.taken, t.pair, t.label = i, p, label
	_, p.base, _ = p.q.Progress()
	if settings.Verb != workload.Read {
		n.postReceives(p, n.capOf(settings).MaxRecvWR, settings)
	}
	n.appendIdlePair(now, p)
	return true
}

// peerBits returns the mask of the peer's bits in a number.
func (t *Table) peerBits() uint32 { return (1<<t.hostBits - 1) << t.slotBits }

// postReceives posts receive requests, which SENDs and WRITEs with immediate data consume.
func (n *NIC) postReceives(p *pair, count int, settings *RDMA) {
	n.list[0] = n.mr.SGE(0, settings.chunkSize())
	for i := range n.receives {
		n.receives[i] = nicemu.RecvWR{ID: p.workID(), SGL: n.list[:]}
	}
	for ; count > 0; count -= len(n.receives) {
		_, _ = p.q.PostRecvList(n.receives[:min(count, len(n.receives))]) // a queue pair that has failed meanwhile needs none
	}
}

// handleReceived handles a message that has arrived completely.
func (n *NIC) handleReceived(now units.Time, p *pair, c *cq.Completion) {
	t := &n.taken[p.taken]
	traffic, from, _ := n.table.parseNumber(t.number)
	settings := n.table.traffics[traffic]
	if c.Flags&cq.WithImm == 0 { // more messages of the flow follow
		p.partial += units.Bytes(c.ByteLen)
		n.postReceives(p, 1, &settings)
		return
	}
	_, came, _ := p.q.Progress()
	size := units.Bytes(came - p.base)
	if settings.PerPair {
		size = settings.sharedSize(p, size, c)
	}
	f := pattern.Flow{Tag: c.Imm, From: n.table.members[from].Node, To: n.host.Node, Size: size}
	p.base += uint64(size)
	t.flows++
	if settings.PerPair {
		n.postReceives(p, 1, &settings)
	} else {
		_, t.expected = p.q.PSNs()
		n.device.AddAlias(t.number, nil)
		n.appendIdlePair(now, p)
	}
	n.flowArrived(now, traffic, f, arrivalKey(t.me, t.number, t.flows), c)
}

// appendIdlePair appends a queue pair to the list of those that other connections may take.
func (n *NIC) appendIdlePair(now units.Time, p *pair) {
	n.unlistPair(p)
	p.since = now
	n.settled.Push(&p.settled, p)
}

// unlistPair removes it from the list.
func (n *NIC) unlistPair(p *pair) { n.settled.Remove(&p.settled) }

// evictPair takes a queue pair from its connection.
func (n *NIC) evictPair(p *pair) {
	n.unlistPair(p)
	t := &n.taken[p.taken]
	if _, at := p.q.PSNs(); isBefore(t.expected, at) {
		t.expected = at
	}
	t.next = p.q.ExpectedPSN()
	t.pair, p.taken = nil, -1
	p.generation++
}
