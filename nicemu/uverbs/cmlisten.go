package uverbs

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cmnic"
	msg "github.com/weftlab/weft/protocols/cm"
)

func (x *session) cmListen(q *cmListen) answer {
	i, err := x.findID(q.ID)
	switch {
	case err != nil:
		return failedAnswer(err)
	case len(i.listening) > 0 || i.stage != unresolved || i.passive:
		return failedAnswer(fmt.Errorf("%w: the ID listens already, or is for a connection", syscall.EINVAL))
	}
	if !i.bound {
		if err := i.bindLocal(netip.AddrPortFrom(netip.IPv6Unspecified(), 0)); err != nil {
			return failedAnswer(err)
		}
	}
	for n := range x.server.devices {
		if d := &x.server.devices[n]; i.device == nil || i.device == d {
			if err := i.startListening(d.Device, backlogOf(q.Backlog)); err != nil {
				return failedAnswer(err)
			}
		}
	}
	return answer{body: i.bothAddresses()}
}

// maxBacklog is the number of requests that may wait for a listener's decision, as in Linux
// (max_backlog in drivers/infiniband/core/ucma.c); a backlog of 0 means this number too.
const maxBacklog = 1024

func backlogOf(n uint32) int {
	if n == 0 || n > maxBacklog {
		return maxBacklog
	}
	return int(n)
}

func (i *cmID) startListening(d *nicemu.Device, backlog int) (err error) {
	l := cmnic.Listen{Service: i.serviceID(i.local.Port()), Datagram: i.qpType == typeUD, Backlog: backlog}
	if a := i.local.Addr(); !anyAddress(a) {
		l.Address = a
	}
	d.CallManager(func(c *cmnic.CM) {
		var id cmnic.ListenID
		if id, err = c.Listen(l); err == nil {
			i.listening = append(i.listening, listening{d, id})
			d.OwnListener(id, func(e *cmnic.Event) { i.handleRequest(d, e) })
		}
	})
	return errOfCM(err)
}

// handleRequest handles a request to connect, or a question for datagrams.
func (i *cmID) handleRequest(d *nicemu.Device, e *cmnic.Event) {
	x := i.session
	n := &cmID{
		session: x, channel: i.channel, space: i.space, qpType: i.qpType, local: e.Destination, remote: e.Source, comm: e.ID, passive: true,
		tos: i.tos, tosSet: i.tosSet, ackTimeout: i.ackTimeout,
	}
	for k := range x.server.devices {
		if x.server.devices[k].Device == d {
			n.device = &x.server.devices[k]
		}
	}
	out := cmEvent{Event: eventConnectRequest, Listen: i.handle}
	if e.Kind == cmnic.Requested {
		if e.Attributes.Transport == msg.TransportUC {
			n.qpType = typeUC
		}
		n.attrs, n.known = e.Attributes, true
		n.attrs.RQPSN = 0 // ours, as soon as there is a handle
		out.Param = paramOf(&e.Attributes)
	}
	setPrivate(&out.Param, e.PrivateData)
	if x.spendCost(simple) != nil {
		n.dropConnection()
		return
	}
	i.channel.ids++
	x.cost = simple
	n.handle = x.addObject(n)
	x.cost = cost{}
	n.attrs.RQPSN = n.firstPSN()
	n.resources = n.attrs.MaxDestRDAtomic
	d.SetOwner(n.comm, n.handleEvent)
	if !n.channel.putEvent(&queuedEvent{of: i, new: n, msg: n.completeEvent(out)}) {
		n.destroyID()
		x.dropHandle(n.handle)
	}
}
