package uverbs

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cmnic"
	msg "github.com/weftlab/weft/protocols/cm"
)

// errOfCM maps an error of the connection manager to the errno of rdma_cm.
func errOfCM(err error) error { return nicemu.ConnErrno(err) }

func (x *session) cmConnect(q *cmConnect) answer {
	i, err := x.findBoundID(q.ID)
	switch {
	case err != nil:
		return failedAnswer(err)
	case i.stage != routed:
		return failedAnswer(fmt.Errorf("%w: an ID connects once, after RDMA_CM_EVENT_ROUTE_RESOLVED", syscall.EINVAL))
	case int(q.Param.PrivateDataLen) > privateLen-1:
		return failedAnswer(syscall.EINVAL)
	}
	p := &q.Param
	data := p.PrivateData[:p.PrivateDataLen]
	d := i.device
	d.CallManager(func(c *cmnic.CM) {
		var id msg.CommID
		if i.qpType == typeUD {
			id, err = c.Resolve(d.Now(), cmnic.Resolve{
				Service: i.serviceID(i.remote.Port()), Local: i.local, Peer: i.remote.Addr(), PKey: 0xffff, TrafficClass: i.trafficClass(), PrivateData: data,
			})
		} else {
			transport := msg.TransportRC
			if i.qpType == typeUC {
				transport = msg.TransportUC
			}
			i.resources = p.ResponderResources
			id, err = c.Connect(d.Now(), cmnic.Connect{
				Service: i.serviceID(i.remote.Port()), Local: i.local, Peer: i.remote.Addr(), Transport: transport,
				QP:      cmnic.QP{Number: p.QPNum, StartPSN: i.firstPSN(), SRQ: p.SRQ != 0, FlowControl: p.FlowControl != 0},
				PathMTU: msg.MTU(d.Settings().MTU), PKey: 0xffff, RetryCount: min(p.RetryCount, 7), RNRRetryCount: min(p.RNRRetryCount, 7),
				ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
				TrafficClass: i.trafficClass(), HopLimit: 64, PrivateData: data,
			})
		}
		if err == nil {
			i.comm, i.stage = id, connecting
			d.SetOwner(id, i.handleEvent)
		}
	})
	return doneAnswer(errOfCM(err))
}

func (x *session) cmAccept(q *cmConnect) answer {
	i, err := x.findBoundID(q.ID)
	switch {
	case err != nil:
		return failedAnswer(err)
	case i.comm == 0 || !i.passive:
		return failedAnswer(fmt.Errorf("%w: there is no request to accept", syscall.EINVAL))
	}
	p := &q.Param
	data := p.PrivateData[:p.PrivateDataLen]
	d := i.device
	d.CallManager(func(c *cmnic.CM) {
		if i.qpType == typeUD {
			a := cmnic.Answer{Status: msg.SIDRStatus(q.Status), QPN: p.QPNum, QKey: udpQKey, PrivateData: data}
			if err = c.AnswerResolution(d.Now(), i.comm, a); err == nil {
				i.handleEnd()
			}
			return
		}
		_, err = c.Accept(d.Now(), i.comm, cmnic.Accept{
			QP:                 cmnic.QP{Number: p.QPNum, StartPSN: i.firstPSN(), SRQ: p.SRQ != 0, FlowControl: p.FlowControl != 0},
			ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, RNRRetryCount: min(p.RNRRetryCount, 7), PrivateData: data,
		})
	})
	return doneAnswer(errOfCM(err))
}

func (x *session) cmReject(q *cmConnect) answer {
	return x.callManager(q.ID, func(i *cmID, c *cmnic.CM) (err error) {
		data := q.Param.PrivateData[:q.Param.PrivateDataLen]
		if i.qpType == typeUD {
			err = c.AnswerResolution(i.device.Now(), i.comm, cmnic.Answer{Status: msg.SIDRRejected, PrivateData: data})
		} else {
			err = c.Reject(i.device.Now(), i.comm, cmnic.Reject{PrivateData: data})
		}
		if err == nil {
			i.handleEnd()
		}
		return err
	})
}

// callManager calls f with the connection of an ID and the connection manager.
func (x *session) callManager(handle uint32, f func(*cmID, *cmnic.CM) error) answer {
	i, err := x.findBoundID(handle)
	switch {
	case err != nil:
		return failedAnswer(err)
	case i.comm == 0:
		return failedAnswer(fmt.Errorf("%w: the ID has no connection", syscall.EINVAL))
	}
	i.device.CallManager(func(c *cmnic.CM) { err = f(i, c) })
	return doneAnswer(errOfCM(err))
}

func (x *session) cmEstablish(q *handleMsg) answer {
	return x.callManager(q.Handle, func(i *cmID, c *cmnic.CM) error { return c.Confirm(i.comm, nil) })
}

func (x *session) cmDisconnect(q *handleMsg) answer {
	return x.callManager(q.Handle, func(i *cmID, c *cmnic.CM) error { return c.Disconnect(i.device.Now(), i.comm, nil) })
}

func (x *session) cmNotify(q *handleMsg) answer {
	return x.callManager(q.Handle, func(i *cmID, c *cmnic.CM) error { return c.Established(i.comm) })
}
