package memory

import (
	"fmt"
	"syscall"
)

// WindowType is the type of a memory window. The values are those of
// ibv_mw_type.
type WindowType uint8

// The types.
const (
	Type1 WindowType = 1 // bound by a verb, for all queue pairs of its protection domain
	Type2 WindowType = 2 // bound by a work request, for that queue pair alone (2B)
)

// Window is a memory window: a remote key for a part of a region. Make it with
// Table.AllocWindow.
type Window struct {
	pd     *PD
	region *Region // nil if not bound
	base   uint64  // the first address
	length uint64
	addr   uint64 // the first address in the region's backing
	key    uint32
	qp     uint32 // of type 2
	access Access
	kind   WindowType
}

// RKey returns the remote key.
func (w *Window) RKey() uint32 { return w.key }

// Type is the window's type.
func (w *Window) Type() WindowType { return w.kind }

// Region returns the region it is bound to; nil if none.
func (w *Window) Region() *Region { return w.region }

// AllocWindow makes an unbound window (ibv_alloc_mw, §11.2.8).
func (t *Table) AllocWindow(p *PD, kind WindowType) (*Window, error) {
	switch {
	case p == nil || p.table != t:
		return nil, fmt.Errorf("%w: the protection domain is not of this device", syscall.EINVAL)
	case kind != Type1 && kind != Type2:
		return nil, fmt.Errorf("%w: type of memory window is %d: it can be 1 or 2", syscall.EINVAL, kind)
	case t.windows >= t.limits.MW:
		return nil, checkFull("memory windows", "max_mw", t.limits.MW)
	}
	i, err := t.allocateIndex()
	if err != nil {
		return nil, err
	}
	w := &Window{pd: p, key: i<<8 | uint32(t.entries[i].tag), kind: kind}
	t.entries[i].window = w
	t.windows++
	p.AddUser()
	return w, nil
}

// DeallocWindow deallocates a window, unbinding it if need be (ibv_dealloc_mw).
func (t *Table) DeallocWindow(w *Window) error {
	if t.windowOf(w.key) != w {
		return fmt.Errorf("%w: the window with key %#x does not, or no longer, belong to this device", syscall.EINVAL, w.key)
	}
	t.unbindWindow(w)
	w.pd.ReleaseHold()
	t.dropKey(w.key)
	t.windows--
	return nil
}

// Binding is a request to bind a window (ibv_bind_mw(3) for type 1, IBV_WR_BIND_MW for type 2).
type Binding struct {
	Window uint32 // its current remote key
	Region uint32 // a local key
	Addr   uint64 // start, as an address of the region
	Length uint64 // bytes; 0 unbinds a window of type 1
	Tag    uint8  // of its new key; programs count up by one (ibv_inc_rkey)
	Access Access // remote rights, and ZeroBased for type 2; LocalWrite is ignored
}

// Key returns the window's remote key after binding.
func (b *Binding) Key() uint32 { return b.Window&^0xff | uint32(b.Tag) }

// BindWindow binds a window, and returns its new key. A bound window of type 1 is bound again; one of
// type 2 must be invalidated first. A fault changes nothing. The rules are those of §10.6: C10-72
// to C10-75, o10-36.2.2, o10-37.2.30 and o10-37.2.40, as numbered in rdma_rxe (rxe_mw.c); the
// mapping to faults is ours. LocalWrite is ignored, as in mlx5, since programs set it as they do
// for regions; rdma_rxe refuses it.
func (v View) BindWindow(b Binding) (key uint32, f Fault) {
	w := v.table.windowOf(b.Window)
	b.Access &^= LocalWrite
	switch {
	case w == nil:
		return 0, BadKey
	case w.pd != v.pd:
		return 0, WrongPD
	case b.Access&^(remote|ZeroBased) != 0,
		w.kind == Type1 && b.Access&ZeroBased != 0,
		w.kind == Type2 && (w.region != nil || b.Length == 0):
		return 0, BadBind
	}
	if b.Length == 0 {
		v.table.rebindWindow(w, b.Tag)
		return w.key, OK
	}
	r := v.table.regionOf(b.Region)
	switch {
	case r == nil:
		return 0, BadKey
	case r.pd != v.pd:
		return 0, WrongPD
	case r.access&MWBind == 0,
		b.Access&(RemoteWrite|RemoteAtomic) != 0 && r.access&LocalWrite == 0:
		return 0, NoRight
	case r.access&ZeroBased != 0:
		return 0, BadBind
	case !isWithin(r.base, r.length, b.Addr, b.Length):
		return 0, OutOfBounds
	}
	v.table.rebindWindow(w, b.Tag)
	w.region, w.access, w.qp = r, b.Access, v.qp
	w.base, w.length, w.addr = b.Addr, b.Length, r.addr+(b.Addr-r.base)
	if b.Access&ZeroBased != 0 {
		w.base = 0
	}
	r.windows++
	if w.kind == Type2 {
		v.table.bound2++
	}
	return w.key, OK
}

// InvalidateKey revokes a remote key: that of a window of type 2 bound by this queue pair (§10.6;
// IBV_WR_LOCAL_INV and SEND with Invalidate). The window can be bound again with the same key,
// which grants nothing meanwhile.
func (v View) InvalidateKey(key uint32) Fault {
	w := v.table.windowOf(key)
	switch {
	case w == nil || w.kind != Type2 || w.region == nil:
		return BadKey
	case w.pd != v.pd:
		return WrongPD
	case w.qp != v.qp:
		return WrongQP
	}
	v.table.unbindWindow(w)
	return OK
}

// UnbindQP unbinds the windows of type 2 that a queue pair has bound, when it is destroyed or
// reset: its number may be reused. It scans all windows if any of type 2 is bound.
func (t *Table) UnbindQP(qp uint32) {
	if t.bound2 == 0 {
		return
	}
	for i := range t.entries {
		if w := t.entries[i].window; w != nil && w.kind == Type2 && w.region != nil && w.qp == qp {
			t.unbindWindow(w)
		}
	}
}

func (t *Table) rebindWindow(w *Window, tag uint8) {
	t.unbindWindow(w)
	w.key = w.key&^0xff | uint32(tag)
}

func (t *Table) unbindWindow(w *Window) {
	if w.region == nil {
		return
	}
	w.region.windows--
	if w.kind == Type2 {
		t.bound2--
	}
	w.region, w.access, w.qp = nil, 0, 0
	w.base, w.length, w.addr = 0, 0, 0
}
