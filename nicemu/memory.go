package nicemu

import (
	"github.com/weftlab/weft/emu/units"
	"github.com/weftlab/weft/nicemu/memory"
)

// firstVA is the address of the first buffer that the device gives one to, and
// pageSize what these addresses are multiples of.
const (
	firstVA  = 0x7f00_0000_0000
	pageSize = 4096
)

// PD is a protection domain (ibv_alloc_pd(3)).
type PD struct {
	device *Device
	memory *memory.PD
}

// AllocPD makes a protection domain. ENOMEM: there are max_pd.
func (d *Device) AllocPD() (*PD, error) {
	p, err := d.memory.AllocPD()
	if err != nil {
		return nil, err
	}
	return &PD{d, p}, nil
}

// Device is the device that it is of.
func (p *PD) Device() *Device { return p.device }

// Dealloc ends it (ibv_dealloc_pd(3)). EBUSY: something is of it.
func (p *PD) Dealloc() error { return p.device.memory.DeallocPD(p.memory) }

// MR is a memory region (ibv_reg_mr(3)).
type MR struct {
	*memory.Region
	device *Device
}

// Register makes a region of a buffer. The buffer gets an address of its own, as
// it would have in a process (Region.Bounds gives it); the NIC reads and writes
// the slice itself.
func (p *PD) Register(buffer []byte, access memory.Access) (*MR, error) {
	va := p.device.place(uint64(len(buffer)))
	return p.RegisterFrom(memory.Registration{
		Addr: va, IOVA: va, Length: uint64(len(buffer)), Access: access, Backing: &memory.Bytes{Base: va, Data: buffer},
	})
}

// RegisterSize makes a region of which only the size is modelled: what is sent
// from it has a length and no bytes, and what is written to it is forgotten. A
// frame of it in a capture has zeros.
func (p *PD) RegisterSize(size units.Bytes, access memory.Access) (*MR, error) {
	va := p.device.place(uint64(size))
	return p.RegisterFrom(memory.Registration{Addr: va, IOVA: va, Length: uint64(size), Access: access, Backing: memory.Sizes{}})
}

// RegisterFrom makes a region of any memory. r.PD is not looked at.
func (p *PD) RegisterFrom(r memory.Registration) (*MR, error) {
	r.PD = p.memory
	m, err := p.device.memory.Register(r)
	if err != nil {
		return nil, err
	}
	return &MR{m, p.device}, nil
}

// place gives an address for n bytes.
func (d *Device) place(n uint64) uint64 {
	va := d.nextVA
	// A page between buffers stays free, so that an access beyond one is a fault.
	d.nextVA += n/pageSize*pageSize + 2*pageSize
	return va
}

// Deregister ends the region (ibv_dereg_mr(3)). EBUSY: windows are bound to it.
func (m *MR) Deregister() error { return m.device.memory.Deregister(m.Region) }

// Reregister changes the region (ibv_rereg_mr(3)); to.PD is not looked at: pd is,
// if ChangePD is among the changes.
func (m *MR) Reregister(c memory.Changes, pd *PD, to memory.Registration) error {
	if pd != nil {
		to.PD = pd.memory
	}
	return m.device.memory.Reregister(m.Region, c, to)
}

// SGE is an element of a scatter/gather list: n bytes from an offset in the
// region.
func (m *MR) SGE(offset, n units.Bytes) memory.SGE {
	base, _ := m.Bounds()
	return memory.SGE{VA: base + uint64(offset), Length: uint32(n), LKey: m.LKey()}
}

// Addr is the address of an offset in the region, for RDMA operations.
func (m *MR) Addr(offset units.Bytes) uint64 {
	base, _ := m.Bounds()
	return base + uint64(offset)
}

// MW is a memory window (ibv_alloc_mw(3)).
type MW struct {
	*memory.Window
	device *Device
}

// AllocMW makes a window that is not bound. ENOMEM: there are max_mw.
func (p *PD) AllocMW(kind memory.WindowType) (*MW, error) {
	w, err := p.device.memory.AllocWindow(p.memory, kind)
	if err != nil {
		return nil, err
	}
	return &MW{w, p.device}, nil
}

// Dealloc ends the window, unbinding it if need be (ibv_dealloc_mw).
func (w *MW) Dealloc() error { return w.device.memory.DeallocWindow(w.Window) }
