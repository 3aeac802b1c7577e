package carrier

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
)

// With RDMA.PerPair all flows of a traffic from one host to another use one connection, one
// behind the other, as the messages of an application do that keeps its connections. The
// connection is made for the first flow and keeps its queue pairs at both ends until the run
// ends: so rate control and recovery continue from flow to flow, and all flows have the same
// path. If a flow fails, those that have messages behind it on the queue pair fail with it, as
// their work requests are flushed, and the others move to a new connection.

// capOf returns the size of the queues of a traffic's queue pairs.
func (n *NIC) capOf(s *RDMA) qp.Cap {
	if s.PerPair {
		return n.shared
	}
	return n.cap
}

// takePair returns a queue pair for a flow; nil if the NIC can have no more.
func (n *NIC) takePair(now units.Time, s *RDMA) *pair {
	if s.PerPair {
		return n.createPair(n.shared)
	}
	return n.takeIdlePair(now)
}

// sharedSize returns the size of a flow that has arrived on a shared connection, of which the
// given completion is the last. received is what has arrived since the previous flow, which may
// include a part of the next.
func (c *RDMA) sharedSize(p *pair, received units.Bytes, last *cq.Completion) units.Bytes {
	size := p.partial + units.Bytes(last.ByteLen)
	p.partial = 0
	if c.Verb == workload.Write && (received > c.chunkSize() || p.q.Layered() != nil) {
		return received // in several messages, perhaps a layer's, of which only the last completes here
	}
	return size
}

// beginNext makes the next flow of a shared connection the oldest one.
func (n *NIC) beginNext(p *pair) {
	if f := p.flows.head; f != nil {
		_, _, f.again = p.q.Progress()
	}
}

// failBehind marks the flows of a failed queue pair that have posted messages as failed.
func (n *NIC) failBehind(p *pair) {
	n.beginNext(p)
	for f := p.flows.head; f != nil && f.outstanding > 0; f = f.next {
		n.copyCounters(f)
		f.State, f.Failure = records.Failed, cq.WRFlushErr.String()
	}
}

// moveFlows records flows that failed with the one before them, and begins the others on
// another connection.
func (n *NIC) moveFlows(now units.Time, behind list) {
	for f := behind.popFlow(); f != nil; f = behind.popFlow() {
		if f.State == records.Failed {
			n.host.RecordEnd(now, &f.Record, arrivalKey(f.peer.index, n.responderNumber(f), f.number))
			n.reuseRecord(f)
			continue
		}
		f.pair = nil
		n.placeFlow(now, f)
	}
}
