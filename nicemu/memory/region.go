package memory

import (
	"fmt"
	"syscall"
)

// Registration describes a region.
type Registration struct {
	PD     *PD
	Addr   uint64 // start in the backing
	Length uint64 // bytes, from 0 to the device's max_mr_size
	// IOVA is the address of the first byte in work requests and packets: Addr with ibv_reg_mr,
	// anything with ibv_reg_mr_iova. With ZeroBased it is ignored and the address is 0.
	IOVA    uint64
	Access  Access
	Backing Backing
}

// Region is a memory region. Make it with Table.Register.
type Region struct {
	pd      *PD
	backing Backing
	base    uint64 // the first address
	length  uint64
	addr    uint64 // the first address in the backing
	key     uint32
	windows uint32 // bound to it
	access  Access
}

// LKey returns the local key.
func (r *Region) LKey() uint32 { return r.key }

// RKey returns the remote key.
func (r *Region) RKey() uint32 { return r.key }

// Access returns the access rights.
func (r *Region) Access() Access { return r.access }

// Bounds returns the first address in work requests and packets, and the length in bytes.
func (r *Region) Bounds() (base, length uint64) { return r.base, r.length }

// PD returns the protection domain.
func (r *Region) PD() *PD { return r.pd }

// Windows returns the number of memory windows bound to the region.
func (r *Region) Windows() int { return int(r.windows) }

func (t *Table) checkRegistration(r Registration) error {
	switch {
	case r.PD == nil || r.PD.table != t:
		return fmt.Errorf("%w: the protection domain is not of this device", syscall.EINVAL)
	case r.Backing == nil:
		return fmt.Errorf("%w: a region needs a Backing", syscall.EINVAL)
	case r.Length > t.limits.MRSize:
		return fmt.Errorf("%w: length is %d: it can be 0 to %d (max_mr_size)", syscall.EINVAL, r.Length, t.limits.MRSize)
	case r.Length > 0 && r.Addr+(r.Length-1) < r.Addr:
		return fmt.Errorf("%w: %d bytes from addr %#x go beyond the last address", syscall.EINVAL, r.Length, r.Addr)
	case r.Length > 0 && r.IOVA+(r.Length-1) < r.IOVA && r.Access&ZeroBased == 0:
		return fmt.Errorf("%w: %d bytes from iova %#x go beyond the last address", syscall.EINVAL, r.Length, r.IOVA)
	}
	return r.Access.checkRights()
}

// applyRegistration applies a registration to a region; its key stays.
func (r *Region) applyRegistration(to Registration) {
	r.pd, r.backing, r.access = to.PD, to.Backing, to.Access
	r.base, r.length, r.addr = to.IOVA, to.Length, to.Addr
	if r.access&ZeroBased != 0 {
		r.base = 0
	}
}

// Register makes a memory region (ibv_reg_mr, §11.2.8).
func (t *Table) Register(r Registration) (*Region, error) {
	if err := t.checkRegistration(r); err != nil {
		return nil, err
	}
	if t.regions >= t.limits.MR {
		return nil, checkFull("memory regions", "max_mr", t.limits.MR)
	}
	i, err := t.allocateIndex()
	if err != nil {
		return nil, err
	}
	m := &Region{key: i<<8 | uint32(t.entries[i].tag)}
	m.applyRegistration(r)
	t.entries[i].region = m
	t.regions++
	r.PD.AddUser()
	return m, nil
}

// Changes are what Reregister changes. The values are those of
// ibv_rereg_mr_flags.
type Changes uint8

// The changes.
const (
	ChangeTranslation Changes = 1 << 0 // Addr, Length, IOVA and Backing
	ChangePD          Changes = 1 << 1
	ChangeAccess      Changes = 1 << 2
)

// Reregister changes a region (ibv_rereg_mr, §11.2.8). Only a new translation brings a new key. An
// error leaves everything as it was; EBUSY is for a region with windows. Zero-based addressing is
// part of the rights: if it changes without a new translation, addresses count from 0, or are those
// of the backing.
func (t *Table) Reregister(m *Region, c Changes, to Registration) error {
	if err := t.checkOwned(m); err != nil {
		return err
	}
	if c == 0 || c&^(ChangeTranslation|ChangePD|ChangeAccess) != 0 {
		return fmt.Errorf("%w: flags are %#x: they choose what to change, 1 translation, 2 protection domain, 4 access", syscall.EINVAL, uint8(c))
	}
	r := Registration{PD: m.pd, Addr: m.addr, Length: m.length, IOVA: m.base, Access: m.access, Backing: m.backing}
	if c&ChangeTranslation != 0 {
		r.Addr, r.Length, r.IOVA, r.Backing = to.Addr, to.Length, to.IOVA, to.Backing
	}
	if c&ChangePD != 0 {
		r.PD = to.PD
	}
	if c&ChangeAccess != 0 {
		if m.access&^to.Access&ZeroBased != 0 && c&ChangeTranslation == 0 {
			r.IOVA = m.addr
		}
		r.Access = to.Access
	}
	if err := t.checkRegistration(r); err != nil {
		return err
	}
	if m.windows > 0 {
		return m.checkUnbound()
	}
	m.pd.ReleaseHold()
	r.PD.AddUser()
	m.applyRegistration(r)
	if c&ChangeTranslation != 0 {
		m.key = m.key&^0xff | uint32(uint8(m.key)+1)
	}
	return nil
}

// Deregister deregisters a region (ibv_dereg_mr, §11.2.8); EBUSY if windows are bound to it.
func (t *Table) Deregister(m *Region) error {
	if err := t.checkOwned(m); err != nil {
		return err
	}
	if m.windows > 0 {
		return m.checkUnbound()
	}
	m.pd.ReleaseHold()
	t.dropKey(m.key)
	t.regions--
	return nil
}

func (t *Table) checkOwned(m *Region) error {
	if t.regionOf(m.key) != m {
		return fmt.Errorf("%w: the region with key %#x does not, or no longer, belong to this device", syscall.EINVAL, m.key)
	}
	return nil
}

func (m *Region) checkUnbound() error {
	return fmt.Errorf("%w: %d memory windows are bound to the region with key %#x: invalidate or deallocate them first", syscall.EBUSY, m.windows, m.key)
}
