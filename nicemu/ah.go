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

// handles finds address handles by what work requests name them by: a place, and
// in the highest bits how often that was given away before, so that datagrams that
// wait do not go to where a later handle leads.
type handles struct {
	slots []*AH
	freed []uint32 // paths, oldest first
}

// placeBits are those of a path that say the place, from 1.
const placeBits = 24

func placeOf(path uint32) uint32 { return path & (1<<placeBits - 1) }

// CreateAH makes an address handle. ENOMEM: there are max_ah, or 2²⁴ - 1;
// EHOSTUNREACH: nobody has the address.
func (p *PD) CreateAH(av qp.AV) (*AH, error) {
	d := p.device
	if err := d.settings.Limits.Room(qp.AddressHandles, d.inUse[qp.AddressHandles]); err != nil {
		return nil, err
	}
	if d.inUse[qp.AddressHandles] == 1<<placeBits-1 {
		return nil, fmt.Errorf("%w: there are %d address handles: destroy some first", syscall.ENOMEM, d.inUse[qp.AddressHandles])
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
	d.handles.add(h)
	d.inUse[qp.AddressHandles]++
	return h, nil
}

// add gives a handle its path.
func (s *handles) add(h *AH) {
	if len(s.freed) > 0 {
		h.path = s.freed[0] + 1<<placeBits
		s.freed = s.freed[1:]
		s.slots[placeOf(h.path)-1] = h
		return
	}
	s.slots = append(s.slots, h)
	h.path = uint32(len(s.slots))
}

// Path names the handle in work requests.
func (h *AH) Path() uint32 { return h.path }

// AV is the address vector.
func (h *AH) AV() qp.AV { return h.handle.AV() }

// Destroy ends the handle. A datagram that is posted with it fails with
// IBV_WC_LOC_QP_OP_ERR when it is its turn, as with rdma_rxe.
func (h *AH) Destroy() error {
	if err := h.handle.Destroy(); err != nil {
		return err
	}
	d := h.device
	d.inUse[qp.AddressHandles]--
	d.handles.slots[placeOf(h.path)-1] = nil
	d.handles.freed = append(d.handles.freed, h.path)
	return nil
}

// handle finds an address handle; nil if there is none.
func (d *Device) handle(path uint32) *AH {
	if i := placeOf(path) - 1; int(i) < len(d.handles.slots) {
		if h := d.handles.slots[i]; h != nil && h.path == path {
			return h
		}
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
