package transport

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/memory"
)

// Op is the operation of a work request of a send queue.
type Op uint8

// The operations. The last two are local: they take no PSN, and nothing is sent.
const (
	Send Op = iota
	SendImm
	SendInvalidate
	Write
	WriteImm
	Read
	CompareSwap
	FetchAdd
	BindWindow
	LocalInvalidate
)

var opNames = [...]string{"send", "send-imm", "send-inv", "write", "write-imm", "read", "cas", "faa", "bind", "local-inv"}

// String returns a short name.
func (o Op) String() string { return opNames[o] }

// isAtomic reports whether an operation is an atomic on 8 bytes.
func (o Op) isAtomic() bool { return o == CompareSwap || o == FetchAdd }

// fetchesData reports whether an operation returns data, and so counts against MaxRdAtomic.
func (o Op) fetchesData() bool { return o >= Read && o <= FetchAdd }

// isWrite reports whether an operation is an RDMA WRITE.
func (o Op) isWrite() bool { return o == Write || o == WriteImm }

// isSend reports whether an operation is a SEND.
func (o Op) isSend() bool { return o <= SendInvalidate }

// isLocal reports whether an operation is local.
func (o Op) isLocal() bool { return o >= BindWindow }

// wcOf returns the completion opcode of an operation.
func wcOf(o Op) cq.Opcode {
	return [...]cq.Opcode{
		cq.Send, cq.Send, cq.Send, cq.Write, cq.Write, cq.Read, cq.CompSwap, cq.FetchAdd, cq.BindMW, cq.LocalInv,
	}[o]
}

// Flags are the flags of a work request.
type Flags uint8

// The flags.
const (
	Signaled  Flags = 1 << iota // make a completion even on success
	Solicited                   // the responder's completion is a solicited event
	Fence                       // wait for all earlier READs and atomics
)

// SendWR is a work request of a send queue. PostSend copies it, with the lists.
type SendWR struct {
	ID    uint64
	Op    Op
	Flags Flags
	Imm   uint32

	// SGL is the source of bytes or, for READ and atomics, the destination. If Inline is not empty,
	// its bytes are sent instead. Local operations ignore both.
	SGL    []memory.SGE
	Inline []byte

	RemoteVA uint64 // of WRITE, READ and atomics
	Compare  uint64 // of CompareSwap
	Swap     uint64 // of CompareSwap; for FetchAdd the addend
	RKey     uint32 // of RemoteVA; for SendInvalidate and LocalInvalidate the key to invalidate

	// Of UD: the destination, as the NIC knows it (an address handle), the queue pair there, and
	// its key. If the highest bit of QKey is set, the queue pair's own key is sent (§10.2.5).
	Path   uint32
	DestQP uint32
	QKey   uint32

	// SRQ is the number of the peer's shared receive queue, 24 bits; XRC. Its protection domain is that
	// of RKey.
	SRQ uint32

	// Bind is the binding for BindWindow, of a window of type 2, or of type 1 as ibv_bind_mw(3)
	// posts it.
	Bind memory.Binding
}

// Reasons to refuse a work request. Each wraps the errno that ibv_post_send(3) and ibv_post_recv(3)
// return: ENOMEM for a full queue, otherwise EINVAL. For a list with too many elements the error is
// memory.CheckCount's.
var (
	ErrQueueFull = fmt.Errorf("%w: the queue is full: wait for completions before posting more", syscall.ENOMEM)
	ErrState     = fmt.Errorf("%w: the queue pair's state does not allow posting: modify it to RTS to send, to INIT at least to receive", syscall.EINVAL)
	ErrOp        = fmt.Errorf("%w: the transport service has no such operation: READ, atomics and SEND with invalidate need RC or XRC; WRITE, bind and local invalidate also UC; an XRC target sends nothing", syscall.EINVAL)
	ErrInline    = fmt.Errorf("%w: there are more inline bytes than the queue pair was made for, or the operation returns bytes, or there is also a list", syscall.EINVAL)
	ErrAtomic    = fmt.Errorf("%w: an atomic operation needs a list of exactly 8 bytes", syscall.EINVAL)
	ErrShared    = fmt.Errorf("%w: the queue pair has no receive queue of its own: post to a shared receive queue", syscall.EINVAL)
)

// sendWQE is a work request in the send queue.
type sendWQE struct {
	SendWR
	length  uint32 // of the message
	packets uint32 // PSNs that it takes; 0 for local operations
	first   PSN
	receive uint32    // for a message that takes a receive request: its number
	answer  PSN       // with IRN: first packet of its response, or of the next one
	fault   cq.Status // found before it could be sent, or during local execution
}
