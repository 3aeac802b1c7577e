package cq

import (
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// Status is the result of a work request. The values are those of ibv_wc_status.
type Status uint8

// The statuses (§11.6.2). Statuses of services that are not implemented (RD, tag matching) are
// included so that all names are defined.
const (
	Success Status = iota
	LocLenErr
	LocQPOpErr
	LocEECOpErr
	LocProtErr
	WRFlushErr
	MWBindErr
	BadRespErr
	LocAccessErr
	RemInvReqErr
	RemAccessErr
	RemOpErr
	RetryExcErr
	RNRRetryExcErr
	LocRDDViolErr
	RemInvRDReqErr
	RemAbortErr
	InvEECNErr
	InvEECStateErr
	FatalErr
	RespTimeoutErr
	GeneralErr
	TMErr
	TMRndvIncomplete
)

var statusNames = [...]string{
	"SUCCESS", "LOC_LEN_ERR", "LOC_QP_OP_ERR", "LOC_EEC_OP_ERR", "LOC_PROT_ERR", "WR_FLUSH_ERR",
	"MW_BIND_ERR", "BAD_RESP_ERR", "LOC_ACCESS_ERR", "REM_INV_REQ_ERR", "REM_ACCESS_ERR", "REM_OP_ERR",
	"RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR", "REM_INV_RD_REQ_ERR", "REM_ABORT_ERR",
	"INV_EECN_ERR", "INV_EEC_STATE_ERR", "FATAL_ERR", "RESP_TIMEOUT_ERR", "GENERAL_ERR", "TM_ERR",
	"TM_RNDV_INCOMPLETE",
}

// String returns the name in ibv_wc_status.
func (s Status) String() string {
	if int(s) >= len(statusNames) {
		return fmt.Sprintf("Status(%d)", uint8(s))
	}
	return "IBV_WC_" + statusNames[s]
}

// VendorErr returns the vendor's code of a status that ConnectX NICs give (vendor_err_synd of an
// error CQE; NVIDIA does not document it), for a receive request or another; 0 for success. Those of
// RETRY_EXC_ERR, RNR_RETRY_EXC_ERR, REM_*, LOC_PROT_ERR and WR_FLUSH_ERR are from reports of users
// (openucx/ucx#6871, openucx/ucx#5472, NVIDIA/nccl#214 and #1405, charmplusplus/charm#2532,
// ofiwg/libfabric#4283, spdk/spdk#961). Other statuses have 0x60 plus their number, which is ours:
// programs only print it, and a 0 would say that all is well.
func (s Status) VendorErr(receive bool) uint32 {
	switch s {
	case Success:
		return 0
	case LocProtErr:
		if receive {
			return 0x52
		}
		return 0x51
	case WRFlushErr:
		return 0xf9
	case RetryExcErr:
		return 0x81
	case RNRRetryExcErr:
		return 0x87
	case RemAccessErr:
		return 0x88
	case RemOpErr:
		return 0x89
	case RemInvReqErr:
		return 0x8a
	}
	return 0x60 + uint32(s)
}

// Opcode is the operation of a completion. The values are those of ibv_wc_opcode.
type Opcode uint8

// The opcodes.
const (
	Send     Opcode = 0
	Write    Opcode = 1
	Read     Opcode = 2
	CompSwap Opcode = 3
	FetchAdd Opcode = 4
	BindMW   Opcode = 5
	LocalInv Opcode = 6
	Recv     Opcode = 128
	RecvImm  Opcode = 129 // of an RDMA WRITE with immediate data
)

// String returns the name in ibv_wc_opcode.
func (o Opcode) String() string {
	switch {
	case o == Recv:
		return "IBV_WC_RECV"
	case o == RecvImm:
		return "IBV_WC_RECV_RDMA_WITH_IMM"
	case o > LocalInv:
		return fmt.Sprintf("Opcode(%d)", uint8(o))
	}
	return "IBV_WC_" + [...]string{"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV"}[o]
}

// Flags say which fields of a completion are valid. The values are those of ibv_wc_flags.
type Flags uint8

// The flags.
const (
	GRH     Flags = 1 << 0 // 40 bytes precede the datagram (UD)
	WithImm Flags = 1 << 1 // Imm is immediate data
	WithInv Flags = 1 << 3 // Imm is the remote key that was invalidated
)

// RoCEv2 has an IP header instead of a GRH, and the completion of a datagram reports its version
// (annex A17.4.5.1). With RoCE there is no service level, so ConnectX NICs report it in that field,
// where UCX reads it.
const (
	HeaderIPv6 = 0x9
	HeaderIPv4 = 0xa
)

// Completion is an entry of a completion queue, with the fields of ibv_wc that are not 0 with RoCE. If
// its status is not Success, only ID, Status, QP and VendorErr mean something
// (ibv_poll_cq(3)).
type Completion struct {
	ID        uint64     // the work request's
	Timestamp units.Time // the NIC's clock when it made the entry (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP): its emulated time
	ByteLen   uint32     // bytes received or brought back; with the GRH of a datagram
	Imm       uint32     // as a number; ibv_wc has immediate data in network byte order
	QP        uint32     // the local queue pair's number
	SrcQP     uint32     // of a datagram, or of a message to an XRC target
	SRQ       uint32     // number of the shared receive queue of a message to an XRC target; else 0
	VendorErr uint32     // details of an error: Status.VendorErr
	PKeyIndex uint16     // of the GSI queue pair
	Status    Status
	Opcode    Opcode
	Flags     Flags
	SL        uint8 // of a datagram HeaderIPv4 or HeaderIPv6; else, or if its header is not modelled, 0
}

// Error returns the name. It makes a status an error, so that errors.Is can find it in
// Completion.Err.
func (s Status) Error() string { return s.String() }

// Err returns nil if the status is Success. Otherwise the error wraps the status and names the work
// request and queue pair.
func (c *Completion) Err() error {
	if c.Status == Success {
		return nil
	}
	return fmt.Errorf("%w: work request %d of queue pair %d", c.Status, c.ID, c.QP)
}
