package nicemu

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
)

// Join holds what a queue pair needs to know about its peer, for programs that exchange it
// themselves, as ibv_rc_pingpong(1) does.
type Join struct {
	// Local is an address of the device; the zero Addr means its first of the IP version of Remote.
	// Remote is the peer's. RC, UC and XRC.
	Local, Remote netip.Addr
	RemoteQPN     uint32 // the peer's number; RC, UC and XRC
	RemotePSN     uint32 // of the first packet that the peer sends, 24 bits; RC, UC and XRC
	PSN           uint32 // of the first packet that is sent, 24 bits
	MTU           MTU    // of the path; 0 means the device's
	DSCP          uint8  // 0 to 63; 0 means the device's, unless ClassSet; RC, UC and XRC
	ClassSet      bool   // a DSCP of 0 means 0
	// FlowLabel gives packets their own UDP source port, and so their own path where switches
	// choose it by a hash; 20 bits; with 0 the port is computed from the two numbers. RC, UC and XRC.
	FlowLabel uint32
	QKey      uint32 // UD; of a queue pair in RESET, like Access
	Access    Access // what the peer may do: RemoteWrite, and with RC and XRC RemoteRead and RemoteAtomic
	RdAtomic  uint8  // READs and atomics outstanding, in either direction; with 0 there can be none; RC and XRC
}

// maxDSCP is the largest DSCP, which has 6 bits.
const maxDSCP = 63

// Init takes a queue pair from RESET to INIT, where receives can be posted. access is what the peer
// of all types but UD may do, qkey is for UD. EINVAL: the state is another, or the rights are invalid.
func (q *QP) Init(access Access, qkey uint32) error {
	mask := qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort
	if q.config.Type == qp.UD {
		mask |= qp.MaskQKey
	} else {
		mask |= qp.MaskAccessFlags
	}
	return q.Modify(qp.Attr{State: qp.Init, Port: 1, QKey: qkey, Access: uint32(access)}, mask)
}

// JoinPair joins two queue pairs of one type, or an XRCSend and an XRCRecv, to each other, for a program that has both, by the
// first addresses of the same IP version that their devices have. j applies to both; its addresses,
// numbers and PSNs are ignored. While engines run, both must belong to the calling engine.
func JoinPair(a, b *QP, j Join) error {
	var err error
	for _, to := range b.device.Addresses() {
		if j.Local, err = a.device.sourceFor(to); err == nil {
			j.Remote = to
			break
		}
	}
	if !j.Remote.IsValid() {
		return fmt.Errorf("%w: %s and %s have no addresses of the same IP version", syscall.EADDRNOTAVAIL, a.device.Name(), b.device.Name())
	}
	j.RemoteQPN, j.PSN, j.RemotePSN = b.Number(), 0, 0
	if err := a.Join(j); err != nil {
		return err
	}
	j.Local, j.Remote, j.RemoteQPN = j.Remote, j.Local, a.Number()
	return b.Join(j)
}

// Join takes a queue pair from RESET or INIT to RTS, with the timeouts and retries of the device's
// Settings. Errors are those of Modify, and EADDRNOTAVAIL: Local is no address of the device. On an
// error the queue pair stays in the state it has reached.
func (q *QP) Join(j Join) error {
	d := q.device
	if j.DSCP > maxDSCP {
		return fmt.Errorf("%w: dscp is %d: it can be 0 to %d", syscall.EINVAL, j.DSCP, maxDSCP)
	}
	if q.config.Type != qp.UD && !j.Local.IsValid() {
		var err error
		if j.Local, err = d.sourceFor(j.Remote); err != nil {
			return err
		}
	}
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
		attr.AV = qp.AV{Global: true, Port: 1, DGID: GID(j.Remote), SGIDIndex: index, TrafficClass: j.DSCP << 2, ClassSet: j.ClassSet, FlowLabel: j.FlowLabel}
		attr.PathMTU, attr.DestQPN, attr.RQPSN = j.MTU, j.RemoteQPN, j.RemotePSN
		mask |= qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	}
	if q.config.Type == qp.RC || q.config.Type == qp.XRCRecv {
		attr.MaxDestRdAtomic, attr.MinRNRTimer = j.RdAtomic, d.settings.MinRNR
		mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	if err := q.Modify(attr, mask); err != nil {
		return err
	}
	attr = qp.Attr{State: qp.RTS, SQPSN: j.PSN}
	mask = qp.MaskState | qp.MaskSQPSN
	switch q.config.Type {
	case qp.XRCRecv:
		attr.Timeout = d.settings.Timeout
		mask |= qp.MaskTimeout
	case qp.RC, qp.XRCSend:
		attr.Timeout, attr.RetryCnt, attr.RNRRetry, attr.MaxRdAtomic = d.settings.Timeout, d.settings.RetryCount, d.settings.RNRRetry, j.RdAtomic
		mask |= qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxQPRdAtomic
	}
	return q.Modify(attr, mask)
}
