package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/cm"
	"github.com/weftlab/weft/nicemu/qp"
	msg "github.com/weftlab/weft/protocols/cm"
)

// Manage has f use the connection manager itself, for programs that bring their queue
// pairs through the states on their own, as librdmacm does (rdma_ucm of Linux). Then
// it sends what has come of that and tells the owners.
func (d *Device) Manage(f func(*cm.CM)) {
	f(d.conns.cm)
	d.conns.pump()
}

// Own has f told of what becomes of a connection or resolution, in place of a Conn;
// nil ends that.
func (d *Device) Own(id msg.CommID, f func(*cm.Event)) {
	if f == nil {
		delete(d.conns.owners, id)
		return
	}
	d.conns.owners[id] = f
}

// OwnListener has f told of requests to a listener of the connection manager's, in
// place of a Listener; nil ends that.
func (d *Device) OwnListener(id cm.ListenID, f func(*cm.Event)) {
	if f == nil {
		delete(d.conns.owned, id)
		return
	}
	d.conns.owned[id] = f
}

// owner is who is told of an event, nil for the device itself.
func (c *connections) owner(e *cm.Event) func(*cm.Event) {
	if e.Kind == cm.Requested || e.Kind == cm.ResolveRequested {
		return c.owned[e.Listener]
	}
	return c.owners[e.ID]
}

// ConnErrno gives an error of the connection manager the errno that rdma_cm returns.
func ConnErrno(err error) error { return cmError(err) }

// Reach tells whether an address can be reached from one of the device's own.
// EHOSTUNREACH: nobody has it.
func (d *Device) Reach(from, to netip.Addr) error {
	index, err := d.GIDIndex(from)
	if err != nil {
		return err
	}
	_, err = d.resolve(&qp.AV{DGID: GID(to), SGIDIndex: index}, 0, 0)
	return err
}

// Source is the device's address from which another is reached.
func (d *Device) Source(to netip.Addr) (netip.Addr, error) {
	from, err := d.sourceFor(to)
	if err != nil {
		return from, err
	}
	return from, d.Reach(from, to)
}
