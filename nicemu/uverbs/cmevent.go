package uverbs

import (
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cmnic"
	msg "github.com/weftlab/weft/protocols/cm"
)

func paramOf(a *cmnic.Attributes) cmParam {
	return cmParam{
		QPNum: a.PeerQPN, ResponderResources: a.MaxDestRDAtomic, InitiatorDepth: a.MaxRDAtomic, FlowControl: uint8(boolBit(a.FlowControl)),
		RetryCount: a.RetryCount, RNRRetryCount: a.RNRRetryCount, SRQ: uint8(boolBit(a.SRQ)),
	}
}

func setPrivate(p *cmParam, b []byte) {
	p.PrivateDataLen = uint8(copy(p.PrivateData[:privateLen-1], b))
}

// handleEvent handles an event of a connection or a question.
func (i *cmID) handleEvent(e *cmnic.Event) {
	var out cmEvent
	switch e.Kind {
	case cmnic.Replied:
		i.attrs, i.known = e.Attributes, true
		out.Event, out.Param = eventConnectResponse, paramOf(&e.Attributes)
	case cmnic.Connected:
		out.Event = eventEstablished
	case cmnic.Rejected:
		out.Event, out.Status = eventRejected, int32(e.Reason)
		i.handleEnd()
	case cmnic.Unreachable:
		out.Event, out.Status = eventUnreachable, -int32(syscall.ETIMEDOUT)
		i.handleEnd()
	case cmnic.DisconnectRequested, cmnic.Disconnected:
		out.Event = eventDisconnected
	case cmnic.TimeWaitExit:
		out.Event = eventTimewaitExit
		i.handleEnd()
	case cmnic.Resolved:
		out = i.resolvedEvent(e)
		i.handleEnd()
	default:
		return
	}
	setPrivate(&out.Param, e.PrivateData)
	i.queueEvent(out)
}

// handleEnd handles the end of the connection in the connection manager.
func (i *cmID) handleEnd() {
	i.device.SetOwner(i.comm, nil)
	i.comm = 0
}

// resolvedEvent returns the event for an answer to a question for datagrams.
func (i *cmID) resolvedEvent(e *cmnic.Event) cmEvent {
	if e.Status != msg.SIDRValid {
		return cmEvent{Event: eventUnreachable, Status: int32(e.Status)}
	}
	return cmEvent{Event: eventEstablished, Param: cmParam{QPNum: e.QPN, QKey: e.QKey}, AH: i.addressVector(i.remote.Addr())}
}

// addressVector returns the address vector of an address as seen from the ID.
func (i *cmID) addressVector(to netip.Addr) ahAttr {
	index, _ := i.device.GIDIndex(i.local.Addr()) // it is the device's
	return ahAttr{DGID: nicemu.GID(to), SGIDIndex: index, HopLimit: 64, TrafficClass: i.trafficClass(), IsGlobal: 1, Port: 1}
}

func (x *session) cmGetEvent(q *handleMsg) answer {
	c, err := getObject[*cmChannel](x, q.Handle, "event channel")
	switch {
	case err != nil:
		return failedAnswer(err)
	case len(c.events) == 0:
		return failedAnswer(syscall.EAGAIN) // it was of an ID that is destroyed
	}
	e := c.events[0]
	c.events[0] = nil
	c.refundEvents(1)
	if c.events = c.events[1:]; len(c.events) == 0 {
		c.events = nil
	}
	return answer{body: e.msg}
}
