package memory

import (
	"fmt"
	"syscall"
)

// MaxKeys is the number of regions and windows that a table can hold: indices of 24 bits except 0,
// so that no key is less than 256.
const MaxKeys = 1<<24 - 1

// Limits are the limits of the device.
type Limits struct {
	MR     int    // regions
	MW     int    // windows
	PD     int    // protection domains
	MRSize uint64 // bytes of a region
}

// Table holds the protection domains, regions and windows of a NIC. Make it with New.
type Table struct {
	limits  Limits
	entries []entry // by index
	free    []uint32
	regions int
	windows int
	pds     int
	bound2  int // windows of type 2 that are bound
	word    [8]byte
}

// entry is the object of an index: a region, a window or nothing.
type entry struct {
	region *Region
	window *Window
	tag    uint8 // of the next key, if free
}

// New makes an empty table.
func New(l Limits) *Table {
	return &Table{limits: l, entries: make([]entry, 1)}
}

// InUse counts the existing protection domains, regions and windows.
func (t *Table) InUse() (pds, regions, windows int) { return t.pds, t.regions, t.windows }

// PD is a protection domain: queue pairs may use only regions and windows of the same domain
// (§10.2.3).
type PD struct {
	table *Table
	users int
}

// AllocPD makes a protection domain; ENOMEM if there are too many.
func (t *Table) AllocPD() (*PD, error) {
	if t.pds >= t.limits.PD {
		return nil, checkFull("protection domains", "max_pd", t.limits.PD)
	}
	t.pds++
	return &PD{table: t}, nil
}

// DeallocPD deallocates a protection domain; EBUSY if objects belong to it.
func (t *Table) DeallocPD(p *PD) error {
	switch {
	case p.table != t:
		return fmt.Errorf("%w: the protection domain does not, or no longer, belong to this device", syscall.EINVAL)
	case p.users > 0:
		return fmt.Errorf("%w: %d regions, windows, queue pairs and other objects use the protection domain: destroy them first", syscall.EBUSY, p.users)
	}
	p.table = nil
	t.pds--
	return nil
}

// AddUser records that an object, such as a queue pair or an address handle, belongs to the protection
// domain.
func (p *PD) AddUser() { p.users++ }

// ReleaseHold undoes one Hold.
func (p *PD) ReleaseHold() { p.users-- }

// allocateIndex finds a free index.
func (t *Table) allocateIndex() (uint32, error) {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i, nil
	}
	if len(t.entries) > MaxKeys {
		return 0, checkFull("keys", "24 bits", MaxKeys)
	}
	t.entries = append(t.entries, entry{})
	return uint32(len(t.entries) - 1), nil
}

// dropKey frees the index of a key, which stays invalid until the tags have wrapped around.
func (t *Table) dropKey(key uint32) {
	t.entries[key>>8] = entry{tag: uint8(key) + 1}
	t.free = append(t.free, key>>8)
}

// regionOf finds the region with a key, if any.
func (t *Table) regionOf(key uint32) *Region {
	if i := key >> 8; uint64(i) < uint64(len(t.entries)) {
		if r := t.entries[i].region; r != nil && r.key == key {
			return r
		}
	}
	return nil
}

// windowOf finds the window with a key, if any.
func (t *Table) windowOf(key uint32) *Window {
	if i := key >> 8; uint64(i) < uint64(len(t.entries)) {
		if w := t.entries[i].window; w != nil && w.key == key {
			return w
		}
	}
	return nil
}

func checkFull(what, name string, limit int) error {
	return fmt.Errorf("%w: the device holds %d %s (%s): free some first", syscall.ENOMEM, limit, what, name)
}
