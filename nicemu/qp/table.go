package qp

// rule describes an allowed change of state: by type, the required and the optional attributes,
// apart from MaskState.
type rule struct {
	allowed            bool
	required, optional [typeCount]Mask
}

// Attributes that often go together.
const (
	identity = MaskPKeyIndex | MaskPort | MaskAccessFlags // of RC, UC and XRC
	datagram = MaskPKeyIndex | MaskQKey                   // of UD and GSI
	peer     = MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN
	path     = MaskAltPath | MaskAccessFlags | MaskPathMigState
)

// rules is the state table of §10.3.1 and §11.2.5.2, as in ibv_modify_qp(3) and the kernel
// (qp_state_table of drivers/infiniband/core/ verbs.c).
var rules = func() (t [states][states]rule) {
	running := [typeCount]Mask{
		RC: MaskCurState | path | MaskMinRNRTimer, UC: MaskCurState | path,
		UD: MaskCurState | MaskQKey, GSI: MaskCurState | MaskQKey,
		XRCSend: MaskCurState | path, XRCRecv: MaskCurState | path | MaskMinRNRTimer,
	}
	notify := [typeCount]Mask{
		RC: MaskEnSQDAsyncNotify, UC: MaskEnSQDAsyncNotify, UD: MaskEnSQDAsyncNotify, GSI: MaskEnSQDAsyncNotify,
		XRCSend: MaskEnSQDAsyncNotify, XRCRecv: MaskEnSQDAsyncNotify,
	}
	setup := [typeCount]Mask{RC: identity, UC: identity, XRCSend: identity, XRCRecv: identity, UD: datagram | MaskPort, GSI: datagram}

	for s := range t {
		t[s][Reset].allowed = true
		t[s][Err].allowed = State(s) != Reset
	}
	t[Reset][Init] = rule{allowed: true, required: setup}
	t[Init][Init] = rule{allowed: true, optional: setup}
	t[Init][RTR] = rule{
		allowed:  true,
		required: [typeCount]Mask{RC: peer | MaskMaxDestRdAtomic | MaskMinRNRTimer, UC: peer, XRCSend: peer, XRCRecv: peer | MaskMaxDestRdAtomic | MaskMinRNRTimer},
		optional: [typeCount]Mask{
			RC: MaskAltPath | MaskAccessFlags | MaskPKeyIndex, UC: MaskAltPath | MaskAccessFlags | MaskPKeyIndex,
			UD: datagram, GSI: datagram,
			XRCSend: MaskAltPath | MaskAccessFlags | MaskPKeyIndex, XRCRecv: MaskAltPath | MaskAccessFlags | MaskPKeyIndex,
		},
	}
	t[RTR][RTS] = rule{
		allowed: true,
		required: [typeCount]Mask{
			RC: MaskSQPSN | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxQPRdAtomic,
			UC: MaskSQPSN, UD: MaskSQPSN, GSI: MaskSQPSN,
			XRCSend: MaskSQPSN | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxQPRdAtomic,
			XRCRecv: MaskSQPSN | MaskTimeout,
		},
		optional: running,
	}
	t[RTS][RTS] = rule{allowed: true, optional: running}
	t[RTS][SQD] = rule{allowed: true, optional: notify}
	t[SQD][RTS] = rule{allowed: true, optional: running}
	t[SQD][SQD] = rule{
		allowed: true,
		optional: [typeCount]Mask{
			RC: path | MaskPort | MaskAV | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxQPRdAtomic |
				MaskMaxDestRdAtomic | MaskPKeyIndex | MaskMinRNRTimer,
			UC: path | MaskAV | MaskPKeyIndex, UD: datagram, GSI: datagram,
			XRCSend: path | MaskPort | MaskAV | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxQPRdAtomic | MaskPKeyIndex,
			XRCRecv: path | MaskPort | MaskAV | MaskTimeout | MaskMaxDestRdAtomic | MaskPKeyIndex | MaskMinRNRTimer,
		},
	}
	t[SQE][RTS] = rule{
		allowed: true,
		optional: [typeCount]Mask{
			UC: MaskCurState | MaskAccessFlags, UD: MaskCurState | MaskQKey, GSI: MaskCurState | MaskQKey,
		},
	}
	return t
}()

// TransitionOf reports whether a queue pair of a type may go from one state to another, or change
// attributes within one, and returns the attributes that are required and optional, apart from
// IBV_QP_STATE.
func TransitionOf(t Type, from, to State) (required, optional Mask, allowed bool) {
	if !t.isKnown() || from > Err || to > Err {
		return 0, 0, false
	}
	if t.IsReliable() && from == SQE && to == RTS {
		return 0, 0, false // RC and XRC have no such state
	}
	r := &rules[from][to]
	return r.required[t], r.optional[t], r.allowed
}
