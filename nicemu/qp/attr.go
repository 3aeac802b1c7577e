package qp

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/memory"
)

// Attr are the attributes of a queue pair (ibv_qp_attr). Those of alternate paths and rate limits,
// which are not implemented, are left out.
type Attr struct {
	State    State // the new state
	CurState State // the current state, as the program knows it

	Access    uint32 // ibv_access_flags: what the peer may do; RC and UC
	PKeyIndex uint16
	Port      uint8  // from 1
	QKey      uint32 // UD

	AV              AV     // RC and UC
	PathMTU         MTU    // RC and UC
	DestQPN         uint32 // 24 bits; RC and UC
	RQPSN           uint32 // 24 bits: of the first packet to receive; RC and UC
	MaxDestRdAtomic uint8  // READs and atomics that the peer may have outstanding; RC
	MinRNRTimer     uint8  // code of the peer's wait after an RNR NAK, 0 to 31; RC

	SQPSN       uint32 // 24 bits: of the first packet to send
	Timeout     uint8  // of an acknowledgement: 4.096 us * 2^Timeout, 1 to 31, or 0 for never; RC
	RetryCnt    uint8  // 0 to 7; RC
	RNRRetry    uint8  // 0 to 6, or 7 for no limit; RC
	MaxRdAtomic uint8  // READs and atomics outstanding; RC

	MigState         MigState
	EnSQDAsyncNotify bool // SQDrained comes when the send queue has drained
	SQDraining       bool // whether it still drains; Modify ignores it
	Cap              Cap  // Modify does not change it
}

// gsiQKey is the well-known Q_Key of queue pair 1 (IB_QP1_QKEY of the kernel).
const gsiQKey = 0x80010000

// ignored are access flags that do not apply to a peer, but which programs set.
const ignored = uint32(memory.LocalWrite|memory.MWBind) | memory.Hints

// checkAttributes checks the attributes of a mask against their ranges.
func (a *Attr) checkAttributes(t Type, m Mask, l *Limits) error {
	for _, c := range []struct {
		bit   Mask
		check func() error
	}{
		{MaskAccessFlags, func() error { return a.checkAccess(t, l) }},
		{MaskPKeyIndex, func() error { return checkBetween("pkey_index", int(a.PKeyIndex), 0, l.PKeys-1) }},
		{MaskPort, func() error { return checkBetween("port_num", int(a.Port), 1, l.Ports) }},
		{MaskQKey, func() error { return a.checkQKey(t) }},
		{MaskAV, func() error { return a.checkAV(l) }},
		{MaskPathMTU, func() error { return checkBetween("path_mtu", a.PathMTU, MTU256, l.ActiveMTU) }},
		{MaskDestQPN, func() error { return checkBetween("dest_qp_num", a.DestQPN, 0, 1<<24-1) }},
		{MaskRQPSN, func() error { return checkBetween("rq_psn", a.RQPSN, 0, 1<<24-1) }},
		{MaskMaxDestRdAtomic, func() error {
			return checkBetween("max_dest_rd_atomic", int(a.MaxDestRdAtomic), 0, l.QPRdAtom)
		}},
		{MaskMinRNRTimer, func() error { return checkBetween("min_rnr_timer", a.MinRNRTimer, 0, 31) }},
		{MaskSQPSN, func() error { return checkBetween("sq_psn", a.SQPSN, 0, 1<<24-1) }},
		{MaskTimeout, func() error { return checkBetween("timeout", a.Timeout, 0, 31) }},
		{MaskRetryCnt, func() error { return checkBetween("retry_cnt", a.RetryCnt, 0, 7) }},
		{MaskRNRRetry, func() error { return checkBetween("rnr_retry", a.RNRRetry, 0, 7) }},
		{MaskMaxQPRdAtomic, func() error { return checkBetween("max_rd_atomic", int(a.MaxRdAtomic), 0, l.QPInitRdAtom) }},
		{MaskPathMigState, func() error { return checkBetween("path_mig_state", a.MigState, Migrated, Migrated) }},
		{MaskAltPath, func() error {
			return fmt.Errorf("%w: alternate paths are not implemented: leave IBV_QP_ALT_PATH out", syscall.EOPNOTSUPP)
		}},
	} {
		if m&c.bit == 0 {
			continue
		}
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

func (a *Attr) checkAccess(t Type, l *Limits) error {
	flags := a.Access &^ ignored
	may, what := uint32(memory.RemoteWrite|memory.RemoteRead|memory.RemoteAtomic), "IBV_ACCESS_REMOTE_WRITE, _READ and _ATOMIC"
	switch {
	case t == UC:
		may, what = uint32(memory.RemoteWrite), "IBV_ACCESS_REMOTE_WRITE, as UC has neither READ nor atomics"
	case l.NoAtomics:
		may, what = uint32(memory.RemoteWrite|memory.RemoteRead), "IBV_ACCESS_REMOTE_WRITE and _READ, as the device has no atomics"
	}
	if flags&^may != 0 {
		return fmt.Errorf("%w: qp_access_flags is %#x: a queue pair of type %v can have %s", syscall.EINVAL, a.Access, t, what)
	}
	return nil
}

func (a *Attr) checkQKey(t Type) error {
	if t == GSI && a.QKey != gsiQKey {
		return fmt.Errorf("%w: qkey is %#x: that of queue pair 1 is %#x", syscall.EINVAL, a.QKey, gsiQKey)
	}
	return nil
}

func (a *Attr) checkAV(l *Limits) error {
	if a.AV.DGID.Multicast() {
		return fmt.Errorf("%w: ah_attr.grh.dgid is a multicast group: only datagrams can be sent to it", syscall.EINVAL)
	}
	return a.AV.checkVector(l)
}

// copyFrom takes the attributes of a mask from b.
func (a *Attr) copyFrom(b *Attr, m Mask) {
	setIf(m, MaskAccessFlags, &a.Access, b.Access)
	setIf(m, MaskPKeyIndex, &a.PKeyIndex, b.PKeyIndex)
	setIf(m, MaskPort, &a.Port, b.Port)
	setIf(m, MaskQKey, &a.QKey, b.QKey)
	setIf(m, MaskAV, &a.AV, b.AV)
	setIf(m, MaskPathMTU, &a.PathMTU, b.PathMTU)
	setIf(m, MaskDestQPN, &a.DestQPN, b.DestQPN)
	setIf(m, MaskRQPSN, &a.RQPSN, b.RQPSN)
	setIf(m, MaskMaxDestRdAtomic, &a.MaxDestRdAtomic, b.MaxDestRdAtomic)
	setIf(m, MaskMinRNRTimer, &a.MinRNRTimer, b.MinRNRTimer)
	setIf(m, MaskSQPSN, &a.SQPSN, b.SQPSN)
	setIf(m, MaskTimeout, &a.Timeout, b.Timeout)
	setIf(m, MaskRetryCnt, &a.RetryCnt, b.RetryCnt)
	setIf(m, MaskRNRRetry, &a.RNRRetry, b.RNRRetry)
	setIf(m, MaskMaxQPRdAtomic, &a.MaxRdAtomic, b.MaxRdAtomic)
	setIf(m, MaskPathMigState, &a.MigState, b.MigState)
	setIf(m, MaskEnSQDAsyncNotify, &a.EnSQDAsyncNotify, b.EnSQDAsyncNotify)
}

func setIf[T any](m, bit Mask, to *T, from T) {
	if m&bit != 0 {
		*to = from
	}
}
