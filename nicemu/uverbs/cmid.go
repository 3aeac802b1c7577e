package uverbs

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/cmnic"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/wire"
)

// portSpace is enum rdma_port_space.
type portSpace uint32

// The port spaces that are served.
const (
	spaceIPoIB portSpace = 0x0002
	spaceTCP   portSpace = 0x0106
	spaceUDP   portSpace = 0x0111
)

// Values of enum ibv_qp_type.
const (
	typeRC = 2
	typeUC = 3
	typeUD = 4
)

// stage is the progress of an ID towards a connection: each step is taken once, as in Linux's
// rdma_cm; only an address that could not be resolved can be resolved again.
type stage uint8

const (
	unresolved stage = iota
	resolving
	resolved
	routed
	connecting // or connected, or later
)

// cmID is an rdma_cm_id: one end of a connection, or of a resolution, or a listener.
type cmID struct {
	session *session
	handle  uint32
	channel *cmChannel
	space   portSpace
	qpType  uint32

	device        *Device // nil if none is chosen
	local, remote netip.AddrPort
	bound         bool // it holds its local port
	reuse         bool
	tos           uint8
	tosSet        bool
	ackTimeout    uint8 // of the queue pair; 0 for the connection manager's value

	stage     stage
	listening []listening
	comm      msg.CommID // of the connection; 0 if none
	passive   bool
	known     bool             // attributes are set
	attrs     cmnic.Attributes // of the queue pair
	resources uint8            // READs and atomics that it takes
	groups    map[uint32]netip.Addr
	nextGroup uint32
	ended     bool
}

// listening is a listener of one device.
type listening struct {
	device *nicemu.Device
	id     cmnic.ListenID
}

// cmChannel is an event channel: a pipe that carries a byte for each event, and the events.
type cmChannel struct {
	*pipe
	session *session
	events  []*queuedEvent
	ids     int // that use this channel
}

type queuedEvent struct {
	of  *cmID // its ID; for a request to connect the listener
	new *cmID // of a request to connect
	msg cmEvent
}

// maxEvents is the number of unread events that a channel holds: as many as its pipe has bytes.
const maxEvents = 65536

// maxGroups is the number of multicast groups that an ID, or a queue pair, can be in.
const maxGroups = 4096

// Values of enum rdma_cm_event_type.
const (
	eventAddrResolved = iota
	eventAddrError
	eventRouteResolved
	eventRouteError
	eventConnectRequest
	eventConnectResponse
	eventConnectError
	eventUnreachable
	eventRejected
	eventEstablished
	eventDisconnected
	eventDeviceRemoval
	eventMulticastJoin
	eventMulticastError
	eventAddrChange
	eventTimewaitExit
)

// udpQKey is RDMA_UDP_QKEY.
const udpQKey = 0x01234567

// queueEvent puts an event of an ID into its channel; false if there is no room.
func (i *cmID) queueEvent(e cmEvent) bool {
	return i.channel.putEvent(&queuedEvent{of: i, msg: i.completeEvent(e)})
}

// queueResolution puts the event of an address resolution, successful or not, into the channel.
func (i *cmID) queueResolution(e cmEvent) {
	s := i.session.server
	tell := func() {
		if i.ended {
			return
		}
		if i.stage = resolved; e.Event == eventAddrError {
			i.stage = unresolved
		}
		i.queueEvent(e)
	}
	if s.ResolveTime == 0 {
		tell()
		return
	}
	time.AfterFunc(s.ResolveTime, func() { _ = s.do(tell) }) // an error means that the lab has ended
}

// completeEvent completes an event of an ID.
func (i *cmID) completeEvent(e cmEvent) cmEvent {
	e.ID, e.Type, e.Address = i.handle, i.qpType, i.bothAddresses()
	return e
}

// putEvent queues an event; false if there is no room for it.
func (c *cmChannel) putEvent(e *queuedEvent) bool {
	if len(c.events) >= maxEvents || c.session.server.budget.acquireCost(&c.session.held, cost{memory: eventBytes}) != nil {
		return false
	}
	if !c.pipe.putRecord([]byte{1}) {
		c.refundEvents(1)
		return false
	}
	c.events = append(c.events, e)
	return true
}

// refundEvents returns the cost of n events.
func (c *cmChannel) refundEvents(n int) {
	c.session.server.budget.releaseCost(&c.session.held, cost{memory: int64(n) * eventBytes})
}

// removeID removes the events of an ID, and destroys what only they referred to.
func (c *cmChannel) removeID(i *cmID) {
	kept := c.events[:0]
	var orphans []*cmID
	for _, e := range c.events {
		switch {
		case e.of != i && e.new != i:
			kept = append(kept, e)
		case e.new != nil && e.new != i:
			orphans = append(orphans, e.new)
		}
	}
	c.refundEvents(len(c.events) - len(kept))
	clear(c.events[len(kept):])
	c.events = kept
	for _, o := range orphans {
		o.destroyID()
		o.session.dropHandle(o.handle)
	}
}

// bothAddresses returns the addresses of an ID for the process.
func (i *cmID) bothAddresses() cmAddress {
	a := cmAddress{ID: i.handle, Local: endpointOf(i.local), Remote: endpointOf(i.remote)}
	for n := range i.session.server.devices {
		if i.device == &i.session.server.devices[n] {
			a.Device = uint32(n) + 1
		}
	}
	return a
}

func endpointOf(a netip.AddrPort) endpoint {
	e := endpoint{Port: a.Port()}
	if !a.Addr().IsValid() {
		return e
	}
	e.IP, e.Family = a.Addr().As16(), unix.AF_INET6
	if a.Addr().Is4() {
		e.Family = unix.AF_INET
	}
	return e
}

// addrPort reads an endpoint; for family 0 it returns the zero AddrPort.
func (e *endpoint) addrPort() (netip.AddrPort, error) {
	a := netip.AddrFrom16(e.IP)
	switch e.Family {
	case 0:
		return netip.AddrPort{}, nil
	case unix.AF_INET:
		if !a.Is4In6() {
			return netip.AddrPort{}, fmt.Errorf("%w: %v is not an IPv4 address", syscall.EINVAL, a)
		}
		a = a.Unmap()
	case unix.AF_INET6:
		a = a.Unmap()
	default:
		return netip.AddrPort{}, fmt.Errorf("%w: address family %d is not supported: use IP", syscall.EAFNOSUPPORT, e.Family)
	}
	return netip.AddrPortFrom(a, e.Port), nil
}

// serviceID returns the connection manager's service ID of a port.
func (i *cmID) serviceID(port uint16) msg.ServiceID {
	switch i.space {
	case spaceTCP:
		return msg.IPService(wire.ProtoTCP, port)
	case spaceIPoIB:
		return msg.IPoIBService(port)
	}
	return msg.IPService(wire.ProtoUDP, port)
}

// firstPSN returns the first PSN that the queue pair sends.
func (i *cmID) firstPSN() uint32 { return i.handle * 0x9e3779b1 >> 8 }

// trafficClass returns the traffic class of the ID's packets.
func (i *cmID) trafficClass() uint8 {
	if i.tosSet {
		return i.tos
	}
	return i.device.Settings().DSCP << 2
}

// ports holds the ports of a host that are in use, by port space.
type ports struct {
	users map[portKey][]*cmID
	last  uint16
	left  pool // a process takes more only while others are left with as many
}

type portKey struct {
	space portSpace
	port  uint16
}

// firstPort is the first port assigned to IDs that ask for none: the first of Linux's
// ip_local_port_range.
const firstPort = 32768

func (p *ports) init() {
	p.users, p.last = map[portKey][]*cmID{}, firstPort
	p.left.left.Store(1<<16 - firstPort)
}

// claimPort assigns an ID the port of its local address, or any port if that is 0.
func (p *ports) claimPort(i *cmID) error {
	if !p.left.acquireFor(&i.session.ports, 1) {
		return fmt.Errorf("%w: the host has no more ports for one process", syscall.EADDRNOTAVAIL)
	}
	err := p.findPort(i)
	if err != nil {
		p.left.releaseFor(&i.session.ports, 1)
	}
	return err
}

func (p *ports) findPort(i *cmID) error {
	port := i.local.Port()
	if port == 0 {
		for range 1<<16 - firstPort {
			if p.last++; p.last < firstPort {
				p.last = firstPort
			}
			if len(p.users[portKey{i.space, p.last}]) == 0 {
				port = p.last
				break
			}
		}
		if port == 0 {
			return fmt.Errorf("%w: all ports are in use", syscall.EADDRNOTAVAIL)
		}
		i.local = netip.AddrPortFrom(i.local.Addr(), port)
	}
	key := portKey{i.space, port}
	for n := 0; n < len(p.users[key]); n++ {
		other := p.users[key][n]
		if !addressesOverlap(i.local.Addr(), other.local.Addr()) || i.reuse && other.reuse {
			continue
		}
		if other.session == i.session || other.session.memory.isConnected() {
			return fmt.Errorf("%w: port %d", syscall.EADDRINUSE, port)
		}
		// Its process has ended, whose parent may know that already, and the server not yet.
		other.session.destroyIDs()
		n = -1
	}
	p.users[key] = append(p.users[key], i)
	i.bound = true
	return nil
}

// addressesOverlap reports whether a packet can be for both addresses.
func addressesOverlap(a, b netip.Addr) bool {
	return a == b || anyAddress(a) || anyAddress(b)
}

func (p *ports) releasePort(i *cmID) {
	if !i.bound {
		return
	}
	i.bound = false
	p.left.releaseFor(&i.session.ports, 1)
	key := portKey{i.space, i.local.Port()}
	users := p.users[key]
	for n := range users {
		if users[n] == i {
			users = append(users[:n], users[n+1:]...)
			break
		}
	}
	if len(users) == 0 {
		delete(p.users, key)
	} else {
		p.users[key] = users
	}
}

// destroyID ends the ID in any state, and tells the peer.
func (i *cmID) destroyID() {
	i.ended = true
	for _, l := range i.listening {
		l.device.OwnListener(l.id, nil)
		l.device.CallManager(func(c *cmnic.CM) { _ = c.StopListening(l.id) })
	}
	i.listening = nil
	i.channel.removeID(i)
	i.dropConnection()
	i.session.server.ports.releasePort(i)
	i.channel.ids--
}

// dropConnection ends the connection.
func (i *cmID) dropConnection() {
	if i.comm == 0 {
		return
	}
	i.device.SetOwner(i.comm, nil)
	// It may be over already.
	i.device.CallManager(func(c *cmnic.CM) { _ = c.Destroy(i.device.Now(), i.comm) })
	i.comm = 0
}
