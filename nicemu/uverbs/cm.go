package uverbs

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cmnic"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
	msg "github.com/weftlab/weft/protocols/cm"
)

func (x *session) cmCreateChannel(*none) answer {
	p, read, err := newPipe()
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: handleMsg{Handle: x.addObject(&cmChannel{pipe: p, session: x})}, fds: []int{read}}
}

func (x *session) cmDestroyChannel(q *handleMsg) answer {
	c, err := getObject[*cmChannel](x, q.Handle, "event channel")
	if err != nil {
		return failedAnswer(err)
	}
	if c.ids > 0 {
		return failedAnswer(fmt.Errorf("%w: %d IDs use the channel: destroy them first", syscall.EBUSY, c.ids))
	}
	c.releasePipe()
	x.dropHandle(q.Handle)
	return answer{}
}

func (x *session) cmCreateID(q *cmCreateID) answer {
	c, err := getObject[*cmChannel](x, q.Channel, "event channel")
	if err != nil {
		return failedAnswer(err)
	}
	i := &cmID{session: x, channel: c, space: portSpace(q.PortSpace), qpType: q.Type}
	switch {
	case i.space == spaceTCP && (q.Type == 0 || q.Type == typeRC || q.Type == typeUC):
		i.qpType = max(q.Type, typeRC)
	case (i.space == spaceUDP || i.space == spaceIPoIB) && (q.Type == 0 || q.Type == typeUD):
		i.qpType = typeUD
	default:
		return failedAnswer(fmt.Errorf("%w: port space %#x with queue pairs of type %d is not supported: use RDMA_PS_TCP with RC or UC, or RDMA_PS_UDP or RDMA_PS_IPOIB with UD", syscall.EPROTONOSUPPORT, q.PortSpace, q.Type))
	}
	c.ids++
	i.handle = x.addObject(i)
	return answer{body: handleMsg{Handle: i.handle}}
}

func (x *session) findID(handle uint32) (*cmID, error) {
	return getObject[*cmID](x, handle, "rdma_cm_id")
}

// findBoundID finds an ID that has a device.
func (x *session) findBoundID(handle uint32) (*cmID, error) {
	i, err := x.findID(handle)
	if err == nil && i.device == nil {
		err = fmt.Errorf("%w: the ID has no device yet: bind it to an address of the host, or resolve an address", syscall.EINVAL)
	}
	return i, err
}

func (x *session) cmDestroyID(q *handleMsg) answer {
	i, err := x.findID(q.Handle)
	if err != nil {
		return failedAnswer(err)
	}
	i.destroyID()
	x.dropHandle(q.Handle)
	return answer{}
}

func (x *session) cmMigrate(q *cmCreateID) answer {
	i, err := x.findID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	to, err := getObject[*cmChannel](x, q.Channel, "event channel")
	if err != nil {
		return failedAnswer(err)
	}
	from := i.channel
	kept := from.events[:0]
	for _, e := range from.events {
		if e.of != i || !to.putEvent(e) {
			kept = append(kept, e)
			continue
		}
		from.refundEvents(1)
		if e.new != nil { // it is made where the request is read
			from.ids--
			to.ids++
			e.new.channel = to
		}
	}
	clear(from.events[len(kept):])
	from.events = kept
	from.ids--
	to.ids++
	i.channel = to
	return answer{}
}

// deviceOf returns the NIC with an address; nil if there is none.
func (s *Server) deviceOf(a netip.Addr) *Device {
	for n := range s.devices {
		if _, err := s.devices[n].GIDIndex(a); err == nil {
			return &s.devices[n]
		}
	}
	return nil
}

// anyAddress reports whether an address stands for all of the host's: so does a loopback address,
// which no NIC has (cma_any_addr of Linux). libfabric's servers bind to one.
func anyAddress(a netip.Addr) bool { return !a.IsValid() || a.IsUnspecified() || a.IsLoopback() }

// bindLocal assigns an ID its local address, and the device that has it.
func (i *cmID) bindLocal(a netip.AddrPort) error {
	if i.bound {
		return fmt.Errorf("%w: the ID is bound to %v already", syscall.EINVAL, i.local)
	}
	device := i.device
	if !anyAddress(a.Addr()) {
		if device = i.session.server.deviceOf(a.Addr()); device == nil {
			return fmt.Errorf("%w: no NIC of the host has the address %v", syscall.EADDRNOTAVAIL, a.Addr())
		}
	}
	i.local = a
	if err := i.session.server.ports.claimPort(i); err != nil {
		return err
	}
	i.device = device
	return nil
}

// settleAddress chooses one address, and the device that has it, for an ID that is bound to any.
func (i *cmID) settleAddress(a netip.Addr) error {
	device := i.session.server.deviceOf(a)
	if device == nil {
		return fmt.Errorf("%w: no NIC of the host has the address %v", syscall.EADDRNOTAVAIL, a)
	}
	i.device, i.local = device, netip.AddrPortFrom(a, i.local.Port())
	return nil
}

func (x *session) cmBind(q *cmAddress) answer {
	i, err := x.findID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	a, err := q.Local.addrPort()
	if err == nil {
		err = i.bindLocal(a)
	}
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: i.bothAddresses()}
}

func (x *session) cmResolveAddr(q *cmResolve) answer {
	i, err := x.findID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	local, err := q.Local.addrPort()
	if err != nil {
		return failedAnswer(err)
	}
	remote, err := q.Remote.addrPort()
	if err != nil {
		return failedAnswer(err)
	}
	switch {
	case !remote.Addr().IsValid() || remote.Addr().IsUnspecified():
		return failedAnswer(fmt.Errorf("%w: %v is not the address of a host", syscall.EINVAL, remote.Addr()))
	case i.stage != unresolved || i.passive || len(i.listening) > 0:
		return failedAnswer(fmt.Errorf("%w: the ID listens, or has an address resolved already", syscall.EINVAL))
	}
	// Unless the program has named one, local is the address that the routes of its kernel choose.
	switch {
	case !i.bound:
		err = i.bindLocal(local)
	case anyAddress(i.local.Addr()) && !anyAddress(local.Addr()):
		err = i.settleAddress(local.Addr())
	}
	if err != nil {
		return failedAnswer(err)
	}
	i.remote, i.stage = remote, resolving
	if err := i.chooseDevice(); err != nil {
		i.queueResolution(cmEvent{Event: eventAddrError, Status: -int32(errnoOf(err))})
	} else {
		i.queueResolution(cmEvent{Event: eventAddrResolved})
	}
	return answer{body: i.bothAddresses()}
}

// chooseDevice finds the device that reaches the remote address, and the device's own address.
func (i *cmID) chooseDevice() error {
	if i.device != nil && !anyAddress(i.local.Addr()) {
		if i.local.Addr().Is4() != i.remote.Addr().Is4() {
			return fmt.Errorf("%w: %v and %v have different IP versions", syscall.EINVAL, i.local, i.remote)
		}
		return i.device.CheckReachable(i.local.Addr(), i.remote.Addr())
	}
	err := fmt.Errorf("%w: the host has no NIC", syscall.ENODEV)
	for n := range i.session.server.devices {
		d := &i.session.server.devices[n]
		var from netip.Addr
		if from, err = d.SourceFor(i.remote.Addr()); err == nil {
			i.device = d
			i.local = netip.AddrPortFrom(from, i.local.Port())
			return nil
		}
	}
	return err
}

func (x *session) cmResolveRoute(q *handleMsg) answer {
	i, err := x.findBoundID(q.Handle)
	switch {
	case err != nil:
		return failedAnswer(err)
	case i.stage != resolved:
		return failedAnswer(fmt.Errorf("%w: a route is resolved once, after RDMA_CM_EVENT_ADDR_RESOLVED", syscall.EINVAL))
	}
	i.stage = routed
	i.queueEvent(cmEvent{Event: eventRouteResolved})
	return answer{}
}

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

func (x *session) cmSetOption(q *cmOption) answer {
	i, err := x.findID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	switch q.Option {
	case optionTOS:
		i.tos, i.tosSet = uint8(q.Value), true
	case optionReuse:
		i.reuse = q.Value != 0
	case optionV6Only: // addresses of either version are distinct anyway
	case optionAckTimeout:
		if q.Value > 31 {
			return failedAnswer(fmt.Errorf("%w: the code of the local ACK timeout is %d: it can be 0 to 31", syscall.EINVAL, q.Value))
		}
		i.ackTimeout = uint8(q.Value)
	default:
		return failedAnswer(fmt.Errorf("%w: option %d", syscall.ENOSYS, q.Option))
	}
	return answer{}
}

// cmJoin joins a multicast group: a RoCE port has no subnet manager to ask, and the fabric floods.
func (x *session) cmJoin(q *cmJoin) answer {
	i, err := x.findBoundID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	a, err := q.Address.addrPort()
	if err != nil {
		return failedAnswer(err)
	}
	if !a.Addr().IsMulticast() || i.qpType != typeUD || a.Addr().Is4() != i.local.Addr().Is4() {
		return failedAnswer(fmt.Errorf("%w: the ID cannot join %v: it needs a UD queue pair and a group of its IP version", syscall.EINVAL, a.Addr()))
	}
	if len(i.groups) >= maxGroups {
		return failedAnswer(fmt.Errorf("%w: an ID can join at most %d groups", syscall.ENOMEM, maxGroups))
	}
	if i.groups == nil {
		i.groups = map[uint32]netip.Addr{}
	}
	i.nextGroup++
	i.groups[i.nextGroup] = a.Addr()
	i.queueEvent(cmEvent{Event: eventMulticastJoin, Param: cmParam{QPNum: 0xffffff, QKey: udpQKey}, AH: i.addressVector(a.Addr())})
	return x.joinedGroup(i.nextGroup)
}

func (x *session) joinedGroup(group uint32) answer { return answer{body: handleMsg{Handle: group}} }

func (x *session) cmLeave(q *cmJoin) answer {
	i, err := x.findBoundID(q.ID)
	if err != nil {
		return failedAnswer(err)
	}
	if _, ok := i.groups[q.Group]; !ok {
		return failedAnswer(fmt.Errorf("%w: the ID has not joined group %d", syscall.EINVAL, q.Group))
	}
	delete(i.groups, q.Group)
	return answer{}
}
