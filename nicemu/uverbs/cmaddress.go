package uverbs

import (
	"fmt"
	"net/netip"
	"syscall"
)

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
