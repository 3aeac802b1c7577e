package transport

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
)

// Memory is the memory of a host as a queue pair may see it: a memory.View. Each method checks its
// access (§9.7.4.1.5, §10.6). Where only lengths are modelled, Load and GatherBytes return dst
// unchanged, and Store and ScatterBytes get no data.
type Memory interface {
	// CheckSpan checks whether the span may be accessed.
	CheckSpan(s memory.Span) memory.Fault
	// PlaceOf returns the location of the span's bytes, whatever key leads there.
	PlaceOf(s memory.Span) (memory.Place, memory.Fault)
	// LoadSpan appends the span's bytes to dst.
	LoadSpan(s memory.Span, dst []byte) ([]byte, memory.Fault)
	// StoreSpan writes data, which is as long as the span.
	StoreSpan(s memory.Span, data []byte) memory.Fault
	// GatherBytes appends n bytes of a list, from offset on, to dst.
	GatherBytes(list []memory.SGE, offset, n uint32, dst []byte) ([]byte, memory.Fault)
	// ScatterBytes writes n bytes to a list from offset on.
	ScatterBytes(list []memory.SGE, offset, n uint32, data []byte) memory.Fault
	// CompareSwap writes swap to the 8 bytes of the span if they equal compare, and returns the old
	// value.
	CompareSwap(s memory.Span, compare, swap uint64) (old uint64, f memory.Fault)
	// FetchAdd adds to the 8 bytes of the span, and returns the old value.
	FetchAdd(s memory.Span, add uint64) (old uint64, f memory.Fault)
	// BindWindow binds a memory window, and returns its new key.
	BindWindow(b memory.Binding) (key uint32, f memory.Fault)
	// InvalidateKey revokes a remote key.
	InvalidateKey(key uint32) memory.Fault
}

// CQ takes completions: a completion queue. Its owner handles a full queue: with an asynchronous
// event, and the error state for its queue pairs. Complete is called while the queue pair handles
// an input, so it must not call the queue pair's methods.
type CQ interface {
	// CompleteRequest adds a completion. solicited is the Solicited Event bit of the
	// message that a receive completes.
	CompleteRequest(c cq.Completion, solicited bool)
}

// Receives is the source of a queue pair's receive requests instead of its own queue: a qp.SRQ.
type Receives interface {
	// TakeRequest moves the oldest request to wr and copies the list into its SGL; false if there is none.
	TakeRequest(wr *qp.RecvWR) bool
}

// Domain is an XRC domain: the requests to an XRC target name shared receive queues in it (annex
// A14). For a number it returns where these requests go: always the same for one queue, nil if the
// domain has no queue with this number. It is called for each request.
type Domain func(number uint32) *Destination

// Destination is where the requests to an XRC target go that name one shared receive queue.
type Destination struct {
	Number   uint32 // of the shared receive queue
	Memory   Memory // a memory.View of its protection domain, with the target's number
	Receives Receives
	CQ       CQ // of its receive requests
}

// Events takes asynchronous events (§11.6.3): CommEst, SQDrained, QPReqErr,
// QPAccessErr and QPLastWQEReached. As with CQ, it must not call back.
type Events interface {
	Event(number uint32, e qp.Event)
}

// Feedback gets the inputs of a congestion control.
type Feedback interface {
	// OnSent is called for each packet that Next makes and that has payload, or requests some.
	OnSent(now units.Time, s Sent)
	// OnAcked is called when the oldest outstanding PSN moves up.
	OnAcked(now units.Time, a Acked)
	// OnLost is called when packets are considered lost and will be sent again.
	OnLost(now units.Time, l Lost)
}

// Sent is a packet that was sent.
type Sent struct {
	PSN      PSN
	Payload  units.Bytes
	Again    bool // it had been sent before
	Response bool // part of a READ response, which is not acknowledged
}

// Acked describes an acknowledgement or another response.
type Acked struct {
	PSN      PSN         // acknowledged up to here
	Packets  uint32      // PSNs newly acknowledged
	Payload  units.Bytes // of SENDs and WRITEs newly acknowledged
	InFlight units.Bytes // of those still sent and not acknowledged
	// RTT is the time since PSN, or the READ it belongs to, was sent; 0 if there is no sample,
	// because it was sent twice.
	RTT    units.Time
	Marked bool // a mark was echoed, in the packet or in a NACK since the last time
	// Packet is the acknowledging packet, valid only during the call.
	Packet *roce.Packet
}

// Lost describes data that a requester considers lost.
type Lost struct {
	Payload units.Bytes // of SENDs and WRITEs
	Timeout bool        // the ACK timer has expired; otherwise the peer asked
}
