package nicemu

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/cq"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// AH is an address handle: the destination of datagrams (ibv_create_ah(3)). Its Path goes into
// SendWR.
type AH struct {
	device *Device
	handle *qp.AH
	route  route
	path   uint32
}

// handles finds address handles by the path in work requests: index and 1 in 24 bits, below a tag
// that changes when the index is reused, so that no datagram uses a handle created after its own.
type handles struct {
	slots []handleSlot
	freed []uint32 // indices
}

type handleSlot struct {
	handle *AH // nil if free
	tag    uint8
}

// maxHandles is the number of indices.
const maxHandles = 1<<24 - 1

func (h *handles) addHandle(a *AH) error {
	i := uint32(len(h.slots))
	if n := len(h.freed); n > 0 {
		i = h.freed[n-1]
		h.freed = h.freed[:n-1]
	} else if i == maxHandles {
		return fmt.Errorf("%w: the device holds %d address handles: destroy some first", syscall.ENOMEM, i)
	} else {
		h.slots = append(h.slots, handleSlot{})
	}
	h.slots[i].handle = a
	a.path = uint32(h.slots[i].tag)<<24 | (i + 1)
	return nil
}

func (h *handles) removeHandle(a *AH) {
	i := a.path&maxHandles - 1
	h.slots[i] = handleSlot{tag: h.slots[i].tag + 1}
	h.freed = append(h.freed, i)
}

// findHandle returns the address handle that a work request names; nil if there is none.
func (h *handles) findHandle(path uint32) *AH {
	if i := path&maxHandles - 1; int(i) < len(h.slots) && h.slots[i].tag == uint8(path>>24) {
		return h.slots[i].handle
	}
	return nil
}

// MulticastQPN is the destination queue pair number of datagrams to a group (IBTA §10.5.1).
const MulticastQPN = 0xffffff

// CreateAHTo makes an address handle to the address of a host or group, from the device's first
// address of the same IP version. Its packets have the device's DSCP. Errors are those of CreateAH,
// and EADDRNOTAVAIL: the device has no address of that version.
// address of that version.
func (p *PD) CreateAHTo(to netip.Addr) (*AH, error) {
	from, err := p.device.sourceFor(to)
	if err != nil {
		return nil, err
	}
	index, err := p.device.GIDIndex(from)
	if err != nil {
		return nil, err
	}
	return p.CreateAH(AV{Global: true, Port: 1, DGID: GID(to), SGIDIndex: index})
}

// CreateAHFromWC makes an address handle to the sender of a datagram (ibv_create_ah_from_wc(3));
// c.SrcQP is the queue pair there. grh is the first GRHLen bytes of the datagram's receive buffer.
// Answers have the datagram's traffic class and flow label. EINVAL: c is not a datagram's, or grh
// holds no IP header, as where only sizes are modelled.
func (p *PD) CreateAHFromWC(c *Completion, grh []byte) (*AH, error) {
	if c.Status != cq.Success || c.Flags&cq.GRH == 0 {
		return nil, fmt.Errorf("%w: the completion is not of a received datagram", syscall.EINVAL)
	}
	av, to, err := headerOf(grh)
	if err != nil {
		return nil, err
	}
	from := to
	if to.IsMulticast() {
		if from, err = p.device.sourceFor(to); err != nil {
			return nil, err
		}
	}
	if av.SGIDIndex, err = p.device.GIDIndex(from); err != nil {
		return nil, err
	}
	return p.CreateAH(av)
}

// SenderOf returns the sender of a datagram, from the header at the start of its receive buffer;
// false if that is no IP header, as where only sizes are modelled.
func SenderOf(grh []byte) (netip.Addr, bool) {
	av, _, err := headerOf(grh)
	return AddressOf(av.DGID), err == nil
}

// ecn masks the bits of a traffic class that belong to a packet, not to its route.
const ecn = 3

// headerOf reads the header in front of a datagram: the address vector that reaches its sender, and
// the destination address.
func headerOf(grh []byte) (av AV, to netip.Addr, err error) {
	if len(grh) < transport.GRHLen {
		return av, to, fmt.Errorf("%w: grh has %d bytes: it needs %d", syscall.EINVAL, len(grh), transport.GRHLen)
	}
	ip := grh[:wire.IPv6Header]
	if ip[0]>>4 != 6 {
		ip = ip[wire.IPv6Header-wire.IPv4Header:]
	}
	av = AV{Global: true, Port: 1, ClassSet: true}
	switch ip[0] >> 4 {
	case 4:
		av.TrafficClass = ip[1] &^ ecn
	case 6:
		word := binary.BigEndian.Uint32(ip)
		av.TrafficClass, av.FlowLabel = uint8(word>>20)&^ecn, word&wire.MaxFlowLabel
	default:
		return av, to, fmt.Errorf("%w: grh begins neither with an IPv6 header nor, in its last %d bytes, with an IPv4 header", syscall.EINVAL, wire.IPv4Header)
	}
	from, to := addressesOf(ip)
	av.DGID = GID(from)
	return av, to, nil
}

// CreateAH makes an address handle. A traffic class of 0 means the device's DSCP unless ClassSet, a
// hop limit of 0 means 64. ENOMEM: there are max_ah; EHOSTUNREACH: no host has the address; EINVAL:
// the address vector is invalid.
func (p *PD) CreateAH(av AV) (*AH, error) {
	d := p.device
	if err := p.checkUsable(); err != nil {
		return nil, err
	}
	if err := d.settings.Limits.CheckRoom(qp.AddressHandles, d.inUse[qp.AddressHandles]); err != nil {
		return nil, err
	}
	inner, err := qp.NewAH(p.memory, av, &d.settings.Limits)
	if err != nil {
		return nil, err
	}
	r, err := d.makeRoute(&av, 0, 0)
	if err != nil {
		_ = inner.Destroy()
		return nil, err
	}
	h := &AH{device: d, handle: inner, route: r}
	if err := d.handles.addHandle(h); err != nil {
		_ = inner.Destroy()
		return nil, err
	}
	d.inUse[qp.AddressHandles]++
	return h, nil
}

// Path names the handle in work requests.
func (h *AH) Path() uint32 { return h.path }

// AV returns the address vector.
func (h *AH) AV() AV { return h.handle.AV() }

// Destroy destroys the handle. A datagram posted with it fails with IBV_WC_LOC_QP_OP_ERR when its
// turn comes, as with rdma_rxe.
func (h *AH) Destroy() error {
	if err := h.handle.Destroy(); err != nil {
		return err
	}
	d := h.device
	d.inUse[qp.AddressHandles]--
	d.handles.removeHandle(h)
	return nil
}

// checkPath checks that the queue pair of a datagram can use its address handle.
func (q *QP) checkPath(wr *SendWR) error {
	h := q.device.handles.findHandle(wr.Path)
	switch {
	case h == nil:
		return fmt.Errorf("%w: address handle %d does not exist", syscall.EINVAL, wr.Path)
	case !q.verbs.MayReach(h.handle):
		return fmt.Errorf("%w: address handle %d is of another protection domain than queue pair %d", syscall.EINVAL, wr.Path, q.Number())
	case wr.DestQP > roce.PSNMask:
		return fmt.Errorf("%w: the datagram is for queue pair %#x, which has more than 24 bits", syscall.EINVAL, wr.DestQP)
	}
	return nil
}
