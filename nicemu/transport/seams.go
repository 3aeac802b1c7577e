package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// Memory is the memory of a host as a queue pair may see it: a memory.View. Each
// method makes the checks of its access (§9.7.4.1.5, §10.6). Where only lengths
// are modelled, Load and Gather give dst as it was, and Store and Scatter get no
// data.
type Memory interface {
	// Check tells whether the span may be accessed.
	Check(s memory.Span) memory.Fault
	// Place tells where the span's bytes are, whatever key leads there.
	Place(s memory.Span) (memory.Place, memory.Fault)
	// Load appends the span's bytes to dst.
	Load(s memory.Span, dst []byte) ([]byte, memory.Fault)
	// Store writes data, which is as long as the span.
	Store(s memory.Span, data []byte) memory.Fault
	// Gather appends n bytes of a list, from offset on, to dst.
	Gather(list []memory.SGE, offset, n uint32, dst []byte) ([]byte, memory.Fault)
	// Scatter writes n bytes to a list from offset on.
	Scatter(list []memory.SGE, offset, n uint32, data []byte) memory.Fault
	// CompareSwap puts swap into the 8 bytes of the span if they are compare, and
	// gives what was there before.
	CompareSwap(s memory.Span, compare, swap uint64) (old uint64, f memory.Fault)
	// FetchAdd adds to the 8 bytes of the span, and gives what was there before.
	FetchAdd(s memory.Span, add uint64) (old uint64, f memory.Fault)
	// Bind binds a memory window, and gives its new key.
	Bind(b memory.Binding) (key uint32, f memory.Fault)
	// Invalidate ends what a remote key grants.
	Invalidate(key uint32) memory.Fault
}

// CQ takes completions: a completion queue. What happens when it is full is its
// owner's business: an asynchronous event, and its queue pairs to the error
// state. Complete is called while the queue pair handles an input, so it must
// not call the queue pair's methods.
type CQ interface {
	// Complete adds a completion. solicited is the Solicited Event bit of the
	// message that a receive completes.
	Complete(c cq.Completion, solicited bool)
}

// Receives is where a queue pair takes receive requests from instead of its own
// queue: a qp.SRQ.
type Receives interface {
	// Take moves the oldest request to wr, into whose SGL it copies; false if
	// there is none.
	Take(wr *qp.RecvWR) bool
}

// Events takes asynchronous events (§11.6.3): CommEst, SQDrained, QPReqErr,
// QPAccessErr and QPLastWQEReached. As with CQ, it must not call back.
type Events interface {
	Event(number uint32, e qp.Event)
}

// Feedback is told what a congestion control has to know.
type Feedback interface {
	// Sent is called for each packet with payload, or request for some, that
	// Next gives.
	Sent(now units.Time, s Sent)
	// Acked is called when the oldest outstanding PSN moves up.
	Acked(now units.Time, a Acked)
	// Lost is called when packets are taken for lost and will be sent again.
	Lost(now units.Time, l Lost)
}

// Sent is a packet that was sent.
type Sent struct {
	PSN      PSN
	Payload  units.Bytes
	Again    bool // it had been sent before
	Response bool // it is of a READ response, which nobody acknowledges
}

// Acked is what an acknowledgement or another response says.
type Acked struct {
	PSN     PSN         // acknowledged up to here
	Packets uint32      // PSNs newly acknowledged
	Payload units.Bytes // of SENDs and WRITEs newly acknowledged
	Flying  units.Bytes // of those that are sent and not acknowledged now
	// RTT is the time since PSN was sent, or the READ it belongs to; 0 if there is
	// no sample, because it was sent twice.
	RTT    units.Time
	Marked bool // a mark came back, in the packet or in a NACK since the last time
	// Packet is what says so. It is lent.
	Packet *roce.Packet
}

// Lost is what a requester takes for lost.
type Lost struct {
	Payload units.Bytes // of SENDs and WRITEs
	Timeout bool        // the ACK timer has expired; otherwise the peer asked
}
