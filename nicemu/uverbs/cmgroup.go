package uverbs

import (
	"fmt"
	"net/netip"
	"syscall"
)

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
