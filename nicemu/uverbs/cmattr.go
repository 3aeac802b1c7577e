package uverbs

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

// cmQPAttr is rdma_init_qp_attr: the attributes for modifying a queue pair, as in Linux's
// cma_ib_init_qp_attr and ib_cm_init_qp_attr.
func (x *session) cmQPAttr(q *cmQPAttr) answer {
	i, err := x.findBoundID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	a, m := qp.Attr{State: qp.State(min(q.State, uint32(qp.Err)))}, qp.MaskState
	switch {
	case i.qpType == typeUD:
		m |= i.datagramAttr(&a)
	case a.State == qp.Init:
		m |= i.initAttr(&a)
	case !i.known:
		return failedAnswer(fmt.Errorf("%w: the peer's queue pair is not known yet", syscall.EINVAL))
	case a.State == qp.RTR:
		m |= i.rtrAttr(&a)
	case a.State == qp.RTS:
		m |= i.rtsAttr(&a)
	default:
		return failedAnswer(fmt.Errorf("%w: state %v: it can be INIT, RTR or RTS", syscall.EINVAL, a.State))
	}
	out := attrTo(&a)
	out.Mask = uint32(m)
	return answer{body: out}
}

func (i *cmID) datagramAttr(a *qp.Attr) qp.Mask {
	switch a.State {
	case qp.Init:
		a.Port, a.QKey = 1, udpQKey
		return qp.MaskPKeyIndex | qp.MaskPort | qp.MaskQKey
	case qp.RTS:
		return qp.MaskSQPSN
	}
	return 0
}

func (i *cmID) initAttr(a *qp.Attr) qp.Mask {
	a.Port = 1
	if i.comm != 0 {
		access := memory.RemoteWrite
		if i.resources > 0 && i.qpType == typeRC {
			access |= memory.RemoteRead | memory.RemoteAtomic
		}
		a.Access = uint32(access)
	}
	return qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccessFlags
}

func (i *cmID) rtrAttr(a *qp.Attr) qp.Mask {
	c := &i.attrs
	v := i.addressVector(c.Peer)
	v.FlowLabel, v.HopLimit, v.TrafficClass = c.FlowLabel, c.HopLimit, c.TrafficClass
	if i.tosSet {
		v.TrafficClass = i.tos
	}
	a.AV, a.DestQPN, a.RQPSN = vectorOf(&v), c.PeerQPN, c.RQPSN
	a.PathMTU = min(qp.MTU(c.PathMTU), i.device.Settings().MTU)
	m := qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	if i.qpType == typeRC {
		a.MaxDestRdAtomic, a.MinRNRTimer = min(c.MaxDestRDAtomic, uint8(i.device.Limits().QPRdAtom)), 0
		m |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	return m
}

func (i *cmID) rtsAttr(a *qp.Attr) qp.Mask {
	c := &i.attrs
	a.SQPSN = c.SQPSN
	if i.qpType != typeRC {
		return qp.MaskSQPSN
	}
	a.Timeout, a.RetryCnt, a.RNRRetry = uint8(c.ACKTimeout), c.RetryCount, c.RNRRetryCount
	if i.ackTimeout > 0 {
		a.Timeout = i.ackTimeout
	}
	a.MaxRdAtomic = min(c.MaxRDAtomic, uint8(i.device.Limits().QPInitRdAtom))
	return qp.MaskSQPSN | qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxQPRdAtomic
}
