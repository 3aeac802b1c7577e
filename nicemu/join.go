package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

// Join is what a queue pair needs to know of its peer to be used, where programs
// have found that out by themselves, as ibv_rc_pingpong(1) does.
type Join struct {
	Local, Remote netip.Addr
	RemoteQPN     uint32 // RC and UC
	RemotePSN     uint32 // of the first packet that the peer sends, 24 bits; RC and UC
	PSN           uint32 // of the first packet that is sent, 24 bits
	MTU           qp.MTU // 0 is the device's
	DSCP          uint8  // 0 to 63; RC and UC
	QKey          uint32 // UD; of a queue pair in RESET, as Access
	Access        memory.Access
	RdAtomic      uint8 // READs and atomics outstanding, in either direction; RC
}

// Init takes a queue pair from RESET to INIT, where receives can be posted. access
// is what the peer of RC and UC may do, qkey is of UD.
func (q *QP) Init(access memory.Access, qkey uint32) error {
	mask := qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort
	if q.config.Type == qp.UD {
		mask |= qp.MaskQKey
	} else {
		mask |= qp.MaskAccessFlags
	}
	return q.Modify(qp.Attr{State: qp.Init, Port: 1, QKey: qkey, Access: uint32(access)}, mask)
}

// Join takes a queue pair from RESET or INIT to RTS, with timeouts and retries as the
// device's Settings have them.
func (q *QP) Join(j Join) error {
	d := q.device
	if q.State() != qp.Init {
		if err := q.Init(j.Access, j.QKey); err != nil {
			return err
		}
	}
	attr := qp.Attr{State: qp.RTR}
	mask := qp.MaskState
	if q.config.Type != qp.UD {
		index, err := d.GIDIndex(j.Local)
		if err != nil {
			return err
		}
		if j.MTU == 0 {
			j.MTU = d.settings.MTU
		}
		attr.AV = qp.AV{Global: true, Port: 1, DGID: GID(j.Remote), SGIDIndex: index, TrafficClass: j.DSCP << 2, ClassSet: true}
		attr.PathMTU, attr.DestQPN, attr.RQPSN = j.MTU, j.RemoteQPN, j.RemotePSN
		mask |= qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	}
	if q.config.Type == qp.RC {
		attr.MaxDestRdAtomic, attr.MinRNRTimer = j.RdAtomic, d.settings.MinRNR
		mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	if err := q.Modify(attr, mask); err != nil {
		return err
	}
	attr = qp.Attr{State: qp.RTS, SQPSN: j.PSN}
	mask = qp.MaskState | qp.MaskSQPSN
	if q.config.Type == qp.RC {
		attr.Timeout, attr.RetryCnt, attr.RNRRetry, attr.MaxRdAtomic = d.settings.Timeout, d.settings.RetryCount, d.settings.RNRRetry, j.RdAtomic
		mask |= qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxQPRdAtomic
	}
	return q.Modify(attr, mask)
}
