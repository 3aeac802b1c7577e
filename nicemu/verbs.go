package nicemu

import (
	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
)

// The arguments and results of verbs have types of the packages that this one joins. These are the
// names that most programs need, so that they need not know the packages; the rest, such as the
// attributes of QP.Modify, is in packages qp, cq, memory and transport.
type (
	SendWR     = transport.SendWR // ibv_send_wr
	RecvWR     = qp.RecvWR        // ibv_recv_wr
	SGE        = memory.SGE       // ibv_sge
	Completion = cq.Completion    // ibv_wc
	Status     = cq.Status        // ibv_wc_status
	Moderation = cq.Moderation    // ibv_moderate_cq
	Access     = memory.Access    // ibv_access_flags
	Binding    = memory.Binding   // ibv_mw_bind_info
	AV         = qp.AV            // ibv_ah_attr
	QPType     = qp.Type          // ibv_qp_type
	QPCap      = qp.Cap           // ibv_qp_cap
	State      = qp.State         // ibv_qp_state
	SRQAttr    = qp.SRQAttr       // ibv_srq_attr
	MTU        = qp.MTU           // ibv_mtu
	Limits     = qp.Limits        // ibv_device_attr
	EventKind  = qp.Event         // ibv_event_type
)

// Types of queue pairs (ibv_qp_type).
const (
	RC = qp.RC
	UC = qp.UC
	UD = qp.UD

	XRCSend = qp.XRCSend
	XRCRecv = qp.XRCRecv
)

// Operations of work requests (ibv_wr_opcode). All types of queue pairs can SEND, RC and UC can
// WRITE, and RC can do the others that go to a peer.
const (
	OpSend            = transport.Send
	OpSendImm         = transport.SendImm
	OpSendInvalidate  = transport.SendInvalidate
	OpWrite           = transport.Write
	OpWriteImm        = transport.WriteImm
	OpRead            = transport.Read
	OpCompareSwap     = transport.CompareSwap
	OpFetchAdd        = transport.FetchAdd
	OpBindWindow      = transport.BindWindow
	OpLocalInvalidate = transport.LocalInvalidate
)

// Flags of work requests (ibv_send_flags).
const (
	Signaled  = transport.Signaled
	Solicited = transport.Solicited
	Fence     = transport.Fence
)

// Access rights to memory (ibv_access_flags).
const (
	LocalWrite   = memory.LocalWrite
	RemoteWrite  = memory.RemoteWrite
	RemoteRead   = memory.RemoteRead
	RemoteAtomic = memory.RemoteAtomic
	MWBind       = memory.MWBind
	ZeroBased    = memory.ZeroBased
)

// Types of memory windows (ibv_mw_type).
const (
	MWType1 = memory.Type1
	MWType2 = memory.Type2
)

// States of queue pairs (ibv_qp_state).
const (
	StateReset = qp.Reset
	StateInit  = qp.Init
	StateRTR   = qp.RTR
	StateRTS   = qp.RTS
	StateSQD   = qp.SQD
	StateSQE   = qp.SQE
	StateErr   = qp.Err
)

// Values in completions: the statuses that programs need to distinguish (ibv_wc_status), opcodes
// (ibv_wc_opcode), and flags (ibv_wc_flags).
const (
	Success    = cq.Success
	WRFlushErr = cq.WRFlushErr

	WCSend     = cq.Send
	WCWrite    = cq.Write
	WCRead     = cq.Read
	WCCompSwap = cq.CompSwap
	WCFetchAdd = cq.FetchAdd
	WCBindMW   = cq.BindMW
	WCLocalInv = cq.LocalInv
	WCRecv     = cq.Recv
	WCRecvImm  = cq.RecvImm

	WCGRH     = cq.GRH
	WCWithImm = cq.WithImm
	WCWithInv = cq.WithInv
)

// Asynchronous events of NICs (ibv_event_type).
const (
	EventCQErr            = qp.CQErr            // a completion queue has overrun
	EventQPFatal          = qp.QPFatal          // a queue pair cannot complete, because of that
	EventQPReqErr         = qp.QPReqErr         // the peer sent an invalid request
	EventQPAccessErr      = qp.QPAccessErr      // a queue pair cannot complete, due to overrun
	EventCommEst          = qp.CommEst          // the first packet reached a queue pair in RTR
	EventSQDrained        = qp.SQDrained        // a send queue in SQD has drained
	EventPortActive       = qp.PortActive       // the link of the port is up
	EventPortErr          = qp.PortErr          // the link of the port is down
	EventGIDChange        = qp.GIDChange        // the GID table of the port has changed
	EventSRQLimitReached  = qp.SRQLimitReached  // a shared receive queue has fewer requests than its limit
	EventQPLastWQEReached = qp.QPLastWQEReached // a queue pair in ERR takes no more from its shared receive queue
)

// Mask bits for SRQ.Modify (ibv_srq_attr_mask).
const (
	SRQMaxWR = qp.SRQMaxWR
	SRQLimit = qp.SRQLimit
)

// GRHLen is the room that a datagram's receive buffer needs in front of the
// payload, in bytes.
const GRHLen = transport.GRHLen
