package uverbs

import (
	"fmt"
	"syscall"
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
