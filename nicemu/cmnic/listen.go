package cmnic

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	msg "github.com/weftlab/weft/protocols/cm"
)

// ListenID identifies a listener.
type ListenID uint32

// Listen describes a listener.
type Listen struct {
	Service  msg.ServiceID
	Address  netip.Addr // the zero Addr for any; a specific address takes precedence
	Datagram bool       // resolves a service of datagrams, instead of taking connections
	Backlog  int        // requests that may wait for the consumer's decision; 0 for no limit
}

type service struct {
	id       msg.ServiceID
	address  netip.Addr
	datagram bool
}

type listener struct {
	id      ListenID
	key     service
	backlog int
	waiting int
}

// Listen makes Requested or ResolveRequested events for requests from now on. It returns ErrInUse
// or ErrParameter.
func (c *CM) Listen(l Listen) (ListenID, error) {
	key := service{l.Service, l.Address.Unmap().WithZone(""), l.Datagram}
	if l.Backlog < 0 {
		return 0, fmt.Errorf("%w: a backlog of %d", ErrParameter, l.Backlog)
	}
	if c.services[key] != nil {
		where := "any address"
		if l.Address.IsValid() {
			where = l.Address.String()
		}
		return 0, fmt.Errorf("%w: service %v, %s", ErrInUse, l.Service, where)
	}
	c.nextListener++
	x := &listener{id: c.nextListener, key: key, backlog: l.Backlog}
	c.services[key], c.listeners[x.id] = x, x
	return x.id, nil
}

// StopListening stops listening. Requests already reported to the consumer remain.
func (c *CM) StopListening(id ListenID) error {
	x := c.listeners[id]
	if x == nil {
		return fmt.Errorf("%w: listener %d", ErrUnknown, id)
	}
	delete(c.listeners, id)
	delete(c.services, x.key)
	return nil
}

// Listeners returns the listeners, in the order in which they were made.
func (c *CM) Listeners() []Listen {
	var list []Listen
	for _, id := range slices.Sorted(maps.Keys(c.listeners)) {
		x := c.listeners[id]
		list = append(list, Listen{x.key.id, x.key.address, x.key.datagram, x.backlog})
	}
	return list
}

// listenerFor returns the listener for a request, or nil.
func (c *CM) listenerFor(id msg.ServiceID, address netip.Addr, datagram bool) *listener {
	if x := c.services[service{id, address.Unmap(), datagram}]; x != nil {
		return x
	}
	return c.services[service{id, netip.Addr{}, datagram}]
}

// queueRequest takes a request into the backlog.
func (l *listener) queueRequest(x *conn) { l.waiting++; x.listener = l }

func (l *listener) isFull() bool { return l.backlog > 0 && l.waiting >= l.backlog }
