package nicemu

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/qp"
)

// AH is an address handle: where datagrams go (ibv_create_ah(3)). Its Path goes
// into transport.SendWR.
type AH struct {
	device *Device
	handle *qp.AH
	route  route
	path   uint32
}

// handles finds address handles by what work requests name them by.
type handles struct {
	slots []*AH
	freed []uint32
}

// CreateAH makes an address handle. ENOMEM: there are max_ah; EHOSTUNREACH: nobody
// has the address.
func (p *PD) CreateAH(av qp.AV) (*AH, error) {
	d := p.device
	if err := d.settings.Limits.Room(qp.AddressHandles, d.inUse[qp.AddressHandles]); err != nil {
		return nil, err
	}
	inner, err := qp.NewAH(p.memory, av, &d.settings.Limits)
	if err != nil {
		return nil, err
	}
	r, err := d.resolve(&av, 0, 0)
	if err != nil {
		_ = inner.Destroy()
		return nil, err
	}
	h := &AH{device: d, handle: inner, route: r}
	d.inUse[qp.AddressHandles]++
	if n := len(d.handles.freed); n > 0 {
		h.path = d.handles.freed[n-1]
		d.handles.freed = d.handles.freed[:n-1]
		d.handles.slots[h.path-1] = h
	} else {
		d.handles.slots = append(d.handles.slots, h)
		h.path = uint32(len(d.handles.slots))
	}
	return h, nil
}

// Path names the handle in work requests.
func (h *AH) Path() uint32 { return h.path }

// AV is the address vector.
func (h *AH) AV() qp.AV { return h.handle.AV() }

// Destroy ends the handle. Datagrams that are posted with it and not sent fail with
// IBV_WC_LOC_QP_OP_ERR.
func (h *AH) Destroy() error {
	if err := h.handle.Destroy(); err != nil {
		return err
	}
	d := h.device
	d.inUse[qp.AddressHandles]--
	d.handles.slots[h.path-1] = nil
	d.handles.freed = append(d.handles.freed, h.path)
	return nil
}

// handle finds an address handle; nil if there is none.
func (d *Device) handle(path uint32) *AH {
	if i := path - 1; int(i) < len(d.handles.slots) {
		return d.handles.slots[i]
	}
	return nil
}

// checkPath holds a datagram to the address handles that its queue pair can use.
func (q *QP) checkPath(path uint32) error {
	h := q.device.handle(path)
	switch {
	case h == nil:
		return fmt.Errorf("%w: there is no address handle %d", syscall.EINVAL, path)
	case !q.verbs.Reaches(h.handle):
		return fmt.Errorf("%w: address handle %d is of another protection domain than queue pair %d", syscall.EINVAL, path, q.Number())
	}
	return nil
}
