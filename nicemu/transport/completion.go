package transport

// Status is how a work request ended. The values are those of ibv_wc_status.
type Status uint8

// The statuses that a queue pair gives (§11.6.2).
const (
	Success        Status = 0
	LocLenErr      Status = 1
	LocQPOpErr     Status = 2
	LocProtErr     Status = 4
	WRFlushErr     Status = 5
	BadRespErr     Status = 7
	RemInvReqErr   Status = 9
	RemAccessErr   Status = 10
	RemOpErr       Status = 11
	RetryExcErr    Status = 12
	RNRRetryExcErr Status = 13
)

var statusNames = [...]string{
	Success: "SUCCESS", LocLenErr: "LOC_LEN_ERR", LocQPOpErr: "LOC_QP_OP_ERR", LocProtErr: "LOC_PROT_ERR",
	WRFlushErr: "WR_FLUSH_ERR", BadRespErr: "BAD_RESP_ERR", RemInvReqErr: "REM_INV_REQ_ERR",
	RemAccessErr: "REM_ACCESS_ERR", RemOpErr: "REM_OP_ERR", RetryExcErr: "RETRY_EXC_ERR",
	RNRRetryExcErr: "RNR_RETRY_EXC_ERR",
}

// String is the name in ibv_wc_status.
func (s Status) String() string { return "IBV_WC_" + statusNames[s] }

// WCOp is what a completion is about. The values are those of ibv_wc_opcode.
type WCOp uint8

// The kinds of completions.
const (
	WCSend        WCOp = 0
	WCWrite       WCOp = 1
	WCRead        WCOp = 2
	WCCompareSwap WCOp = 3
	WCFetchAdd    WCOp = 4
	WCRecv        WCOp = 128
	WCRecvImm     WCOp = 129 // of a WRITE with immediate data
)

// String is the name in ibv_wc_opcode.
func (o WCOp) String() string {
	switch o {
	case WCRecv:
		return "IBV_WC_RECV"
	case WCRecvImm:
		return "IBV_WC_RECV_RDMA_WITH_IMM"
	}
	return [...]string{"IBV_WC_SEND", "IBV_WC_RDMA_WRITE", "IBV_WC_RDMA_READ", "IBV_WC_COMP_SWAP", "IBV_WC_FETCH_ADD"}[o]
}

// wcOf gives the kind of completion of an operation.
func wcOf(o Op) WCOp {
	return [...]WCOp{WCSend, WCSend, WCSend, WCWrite, WCWrite, WCRead, WCCompareSwap, WCFetchAdd}[o]
}

// Completion is a work completion: what ibv_poll_cq gives. If its status is not
// Success, only ID, Op, QP and Status mean something.
type Completion struct {
	ID          uint64
	Status      Status
	Op          WCOp
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
