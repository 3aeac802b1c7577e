package transport

import "github.com/weftlab/weft/nicemu/cq"

// wcOf gives the kind of completion of an operation.
func wcOf(o Op) cq.Opcode {
	return [...]cq.Opcode{cq.Send, cq.Send, cq.Send, cq.Write, cq.Write, cq.Read, cq.CompSwap, cq.FetchAdd}[o]
}

// Completion is a work completion: what ibv_poll_cq gives. If its status is not
// Success, only ID, Op, QP and Status mean something.
type Completion struct {
	ID          uint64
	Status      cq.Status
	Op          cq.Opcode
	QP          uint32
	Length      uint32 // bytes received or brought back; with the GRH of a datagram
	Imm         uint32 // if HasImm; the key that was invalidated if Invalidated
	SourceQP    uint32 // of a datagram
	HasImm      bool
	Invalidated bool
	GRH         bool // 40 bytes stand in front of the datagram
	Solicited   bool
}

// CQ is a completion queue. What happens when it is full is its owner's
// business: an asynchronous event, and its queue pairs to the error state.
type CQ interface {
	Complete(c Completion)
}

// Event is an asynchronous event of a queue pair (§11.6.3).
type Event uint8

// The events, as ibv_event_type names them.
const (
	CommEst          Event = iota // the first packet has come while in RTR
	SQDrained                     // the send queue is drained
	QPReqErr                      // a request from afar was invalid
	QPAccessErr                   // a request from afar had no right to memory
	QPLastWQEReached              // no more is taken from the shared receive queue
)

// String is the name in ibv_event_type.
func (e Event) String() string {
	return "IBV_EVENT_" + [...]string{"COMM_EST", "SQ_DRAINED", "QP_REQ_ERR", "QP_ACCESS_ERR", "QP_LAST_WQE_REACHED"}[e]
}

// Events takes asynchronous events.
type Events interface {
	Event(qp uint32, e Event)
}
