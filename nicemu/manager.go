package nicemu

import (
	"net/netip"

	"github.com/weftlab/weft/nicemu/cmnic"
	"github.com/weftlab/weft/nicemu/qp"
	msg "github.com/weftlab/weft/protocols/cm"
)

// CallManager calls f with the connection manager itself, for programs that change the states of their
// queue pairs themselves, as librdmacm does (rdma_ucm of Linux). Then it sends the resulting
// packets and calls the owners.
func (d *Device) CallManager(f func(*cmnic.CM)) {
	f(d.conns.cm)
	d.conns.flushManager()
}

// SetOwner sets f to be called for events of a connection or resolution, instead of a Conn; nil ends
// that.
func (d *Device) SetOwner(id msg.CommID, f func(*cmnic.Event)) {
	if f == nil {
		delete(d.conns.owners, id)
		return
	}
	d.conns.owners[id] = f
}

// OwnListener sets f to be called for requests to a listener of the connection manager, instead of
// a Listener; nil ends that.
func (d *Device) OwnListener(id cmnic.ListenID, f func(*cmnic.Event)) {
	if f == nil {
		delete(d.conns.owned, id)
		return
	}
	d.conns.owned[id] = f
}

// ownerOf returns the function that takes an event, nil for the device itself.
func (c *connections) ownerOf(e *cmnic.Event) func(*cmnic.Event) {
	if e.Kind == cmnic.Requested || e.Kind == cmnic.ResolveRequested {
		return c.owned[e.Listener]
	}
	return c.owners[e.ID]
}

// ConnErrno maps an error of the connection manager to the errno that rdma_cm returns.
func ConnErrno(err error) error { return cmError(err) }

// CheckReachable checks that an address can be reached from one of the device's own. EHOSTUNREACH: no host
// has it.
func (d *Device) CheckReachable(from, to netip.Addr) error {
	index, err := d.GIDIndex(from)
	if err != nil {
		return err
	}
	_, err = d.makeRoute(&qp.AV{DGID: GID(to), SGIDIndex: index}, 0, 0)
	return err
}

// SourceFor returns the device's address from which another is reached.
func (d *Device) SourceFor(to netip.Addr) (netip.Addr, error) {
	from, err := d.sourceFor(to)
	if err != nil {
		return from, err
	}
	return from, d.CheckReachable(from, to)
}
