package nicemu

import (
	"fmt"
	"math"
	"syscall"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/sim/units"
)

// firstVA is the address of the first buffer that the device gives one to, and pageSize the unit of
// these addresses.
const (
	firstVA  = 0x7f00_0000_0000
	pageSize = 4096
)

// PD is a protection domain (ibv_alloc_pd(3)): objects made from it may be used together.
type PD struct {
	device    *Device
	memory    *memory.PD
	destroyed bool
}

// AllocPD makes a protection domain. ENOMEM: there are max_pd.
func (d *Device) AllocPD() (*PD, error) {
	p, err := d.memory.AllocPD()
	if err != nil {
		return nil, err
	}
	return &PD{device: d, memory: p}, nil
}

// Device returns the device that the protection domain belongs to.
func (p *PD) Device() *Device { return p.device }

// Dealloc deallocates it (ibv_dealloc_pd(3)). EBUSY: it has objects; EINVAL: it is deallocated
// already.
func (p *PD) Dealloc() error {
	if err := p.device.memory.DeallocPD(p.memory); err != nil {
		return err
	}
	p.destroyed = true
	return nil
}

// checkUsable returns an error if the protection domain is deallocated.
func (p *PD) checkUsable() error {
	if p.destroyed {
		return fmt.Errorf("%w: the protection domain is deallocated", syscall.EINVAL)
	}
	return nil
}

// Locate returns the position of a region's bytes in its backing, as the kernel computes it before
// it prefetches them (ibv_advise_mr(3)). ENOENT: no region has the key; EPERM: it is of another
// protection domain, or does not grant a, which is LocalRead or LocalWrite; EFAULT: the bytes are
// not all within it.
func (p *PD) Locate(key uint32, va uint64, n uint32, a Access) (addr uint64, err error) {
	if err := p.checkUsable(); err != nil {
		return 0, err
	}
	addr, f := p.device.memory.View(p.memory, 0).LocateSpan(memory.Span{Key: key, VA: va, Length: n, Access: a})
	errno := syscall.EFAULT
	switch f {
	case memory.OK:
		return addr, nil
	case memory.BadKey:
		errno = syscall.ENOENT
	case memory.WrongPD, memory.NoRight:
		errno = syscall.EPERM
	}
	return 0, fmt.Errorf("%w: %d bytes at %#x with key %#x: %v", errno, n, va, key, f)
}

// MR is a memory region (ibv_reg_mr(3)).
type MR struct {
	*memory.Region
	pd *PD
}

// Register makes a region of a buffer. The buffer gets its own address, as it
// would have in a process (Addr); the NIC reads and writes the slice itself, so do not deregister
// the region before the program is done with the data in it. Remote write access needs LocalWrite
// too. ENOMEM: there are max_mr; EINVAL: the length or the rights are invalid.
func (p *PD) Register(buffer []byte, access Access) (*MR, error) {
	va := p.device.allocateAddress(uint64(len(buffer)))
	return p.RegisterFrom(memory.Registration{
		Addr: va, IOVA: va, Length: uint64(len(buffer)), Access: access, Backing: &memory.Bytes{Base: va, Data: buffer},
	})
}

// RegisterSize makes a region of which only the size is modelled: data sent from it has a length
// and no bytes, and data written to it is discarded. This takes neither memory nor time for copies;
// everything else, including time in the emulation, is as with real bytes. Its frames have zeros in
// a capture; atomics return 0. Errors are those of Register.
func (p *PD) RegisterSize(size units.Bytes, access Access) (*MR, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: a region of %d bytes: it can have 0 or more", syscall.EINVAL, int64(size))
	}
	va := p.device.allocateAddress(uint64(size))
	return p.RegisterFrom(memory.Registration{Addr: va, IOVA: va, Length: uint64(size), Access: access, Backing: memory.Sizes{}})
}

// RegisterFrom makes a region of any memory, at any address. r.PD is ignored. Errors are those of
// Register.
func (p *PD) RegisterFrom(r memory.Registration) (*MR, error) {
	r.PD = p.memory
	m, err := p.device.memory.Register(r)
	if err != nil {
		return nil, err
	}
	return &MR{m, p}, nil
}

// allocateAddress returns an address for n bytes.
func (d *Device) allocateAddress(n uint64) uint64 {
	va := d.nextVA
	// Leave a free page between buffers, so that an access beyond one faults.
	d.nextVA += n/pageSize*pageSize + 2*pageSize
	return va
}

// PD returns the region's protection domain.
func (m *MR) PD() *PD { return m.pd }

// Deregister deregisters the region (ibv_dereg_mr(3)). EBUSY: windows are bound to it; EINVAL: it
// is deregistered already.
func (m *MR) Deregister() error { return m.pd.device.memory.Deregister(m.Region) }

// Reregister changes the region (ibv_rereg_mr(3)). It ignores to.PD and uses pd if ChangePD is
// among the changes. A new translation gives new keys. An error changes nothing. EBUSY: windows are
// bound to it; EINVAL: the arguments are invalid.
func (m *MR) Reregister(c memory.Changes, pd *PD, to memory.Registration) error {
	if pd != nil {
		to.PD = pd.memory
	}
	if err := m.pd.device.memory.Reregister(m.Region, c, to); err != nil {
		return err
	}
	if c&memory.ChangePD != 0 {
		m.pd = pd
	}
	return nil
}

// SGE returns an element of a scatter/gather list: n bytes from an offset in the region. Bounds are
// checked only when they are used (cq.LocProtErr). SGE panics if n is negative or does not fit into
// 32 bits.
func (m *MR) SGE(offset, n units.Bytes) SGE {
	if n < 0 || n > math.MaxUint32 {
		panic(fmt.Sprintf("nicemu: an element of %d bytes: it can have 0 to 4294967295", int64(n)))
	}
	base, _ := m.Bounds()
	return SGE{VA: base + uint64(offset), Length: uint32(n), LKey: m.LKey()}
}

// Addr returns the address of an offset in the region, for RDMA operations.
func (m *MR) Addr(offset units.Bytes) uint64 {
	base, _ := m.Bounds()
	return base + uint64(offset)
}

// MW is a memory window (ibv_alloc_mw(3)): a separate remote key for part of a region. QP.BindMW
// binds it or, for type 2, a work request.
type MW struct {
	*memory.Window
	device *Device
}

// AllocMW makes an unbound window. ENOMEM: there are max_mw.
func (p *PD) AllocMW(kind memory.WindowType) (*MW, error) {
	w, err := p.device.memory.AllocWindow(p.memory, kind)
	if err != nil {
		return nil, err
	}
	return &MW{w, p.device}, nil
}

// Binding returns the binding of the window to n bytes from an offset in a region. Once bound, the
// window's key is the binding's Key: one more than now (ibv_inc_rkey). The region needs MWBind
// among its rights.
func (w *MW) Binding(m *MR, offset, n units.Bytes, access Access) Binding {
	return Binding{Window: w.RKey(), Tag: uint8(w.RKey()) + 1, Region: m.LKey(), Addr: m.Addr(offset), Length: uint64(n), Access: access}
}

// Dealloc deallocates the window, unbinding it if need be (ibv_dealloc_mw). EINVAL: it is
// deallocated already.
func (w *MW) Dealloc() error { return w.device.memory.DeallocWindow(w.Window) }
