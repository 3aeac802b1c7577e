package qp

import (
	"fmt"
	"strings"
)

// Type is a queue pair's type. The values are those of ibv_qp_type, for GSI that of the kernel's
// ib_qp_type.
type Type uint8

// The types.
const (
	GSI     Type = 1 // queue pair 1, of the connection manager; otherwise as UD
	RC      Type = 2
	UC      Type = 3
	UD      Type = 4
	XRCSend Type = 9  // the initiator of an extended reliable connection
	XRCRecv Type = 10 // its target

	typeCount = int(XRCRecv) + 1
)

var typeNames = [typeCount]string{GSI: "GSI", RC: "RC", UC: "UC", UD: "UD", XRCSend: "XRC_SEND", XRCRecv: "XRC_RECV"}

// String returns the name.
func (t Type) String() string {
	if !t.isKnown() {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return typeNames[t]
}

func (t Type) isKnown() bool { return int(t) < typeCount && typeNames[t] != "" }

// isConnected reports whether a queue pair of the type has one peer.
func (t Type) isConnected() bool { return t == UC || t.IsReliable() }

// IsReliable reports whether the packets of the type are acknowledged, and sent again if they are
// lost: RC, and both ends of XRC.
func (t Type) IsReliable() bool { return t == RC || t.IsXRC() }

// IsXRC reports whether the type is an end of an extended reliable connection.
func (t Type) IsXRC() bool { return t == XRCSend || t == XRCRecv }

// State is a queue pair's state (§10.3.1). The values are those of
// ibv_qp_state.
type State uint8

// The states.
const (
	Reset State = iota
	Init        // receives may be posted
	RTR         // ready to receive
	RTS         // ready to send
	SQD         // the send queue drains: no new message begins
	SQE         // a send request has failed (not RC)
	Err         // everything is flushed

	states = int(Err) + 1
)

// String returns the name in ibv_qp_state without its prefix.
func (s State) String() string {
	if s > Err {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}[s]
}

// MaySend reports whether send requests may be posted in this state; in SQE and ERR they are
// flushed.
func (s State) MaySend() bool { return s >= RTS && s <= Err }

// MayReceive reports whether receive requests may be posted in this state.
func (s State) MayReceive() bool { return s >= Init && s <= Err }

// MTU is a path MTU. The values are those of ibv_mtu.
type MTU uint8

// The path MTUs.
const (
	MTU256 MTU = 1 + iota
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes returns the largest payload of a packet, in bytes.
func (m MTU) Bytes() int { return 128 << m }

// MigState is the state of path migration. The values are those of
// ibv_mig_state.
type MigState uint8

// Migrated is the only one without alternate paths.
const Migrated MigState = 0

// Mask says which attributes a Modify changes. The values are those of ibv_qp_attr_mask.
type Mask uint32

// The attributes.
const (
	MaskState Mask = 1 << iota
	MaskCurState
	MaskEnSQDAsyncNotify
	MaskAccessFlags
	MaskPKeyIndex
	MaskPort
	MaskQKey
	MaskAV
	MaskPathMTU
	MaskTimeout
	MaskRetryCnt
	MaskRNRRetry
	MaskRQPSN
	MaskMaxQPRdAtomic
	MaskAltPath
	MaskMinRNRTimer
	MaskSQPSN
	MaskMaxDestRdAtomic
	MaskPathMigState
	MaskCap
	MaskDestQPN
)

// MaskRateLimit is the rate of a raw packet queue pair.
const MaskRateLimit Mask = 1 << 25

var maskNames = [...]string{
	"STATE", "CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU",
	"TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER", "SQ_PSN",
	"MAX_DEST_RD_ATOMIC", "PATH_MIG_STATE", "CAP", "DEST_QPN", 25: "RATE_LIMIT",
}

// String returns the names in ibv_qp_attr_mask.
func (m Mask) String() string {
	if m == 0 {
		return "0"
	}
	var names []string
	for i := range 32 {
		switch {
		case m>>i&1 == 0:
		case i < len(maskNames) && maskNames[i] != "":
			names = append(names, "IBV_QP_"+maskNames[i])
		default:
			names = append(names, fmt.Sprintf("%#x", uint32(1)<<i))
		}
	}
	return strings.Join(names, "|")
}
