package fabric

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weftlab/weft/emu/plan"
)

// addressBook has the addresses that interfaces with NICs got while the lab runs, in addition to
// those of the lab file. Engines look addresses up at the same time.
type addressBook struct {
	mu  sync.Mutex // of changes
	now atomic.Pointer[map[netip.Addr][]plan.End]
}

func (b *addressBook) holders(a netip.Addr) []plan.End {
	if m := b.now.Load(); m != nil {
		return (*m)[a]
	}
	return nil
}

// setHolder notes whether a port has an address.
func (b *addressBook) setHolder(a netip.Addr, e plan.End, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[netip.Addr][]plan.End{}
	if m := b.now.Load(); m != nil {
		next = maps.Clone(*m)
	}
	ends := slices.DeleteFunc(slices.Clone(next[a]), func(x plan.End) bool { return x == e })
	if has {
		ends = append(ends, e)
	}
	if next[a] = ends; len(ends) == 0 {
		delete(next, a)
	}
	b.now.Store(&next)
}

// AddAddress tells the NIC of a host's interface about an address that the interface got. NICs on
// the same links reach it. Call it from code that the host's engine runs.
func (f *Fabric) AddAddress(node, index int, a netip.Addr) {
	d, end := f.Device(node, index), plan.End{Node: node, Port: index}
	if d == nil {
		return
	}
	if e, known := f.topology.PortOf(a); !known || e != end {
		f.added.setHolder(a, end, true)
	}
	d.AddAddress(a)
}

// RemoveAddress tells the NIC of a host's interface that the interface has lost an address. The
// rules of AddAddress apply.
func (f *Fabric) RemoveAddress(node, index int, a netip.Addr) {
	if d := f.Device(node, index); d != nil {
		f.added.setHolder(a, plan.End{Node: node, Port: index}, false)
		d.RemoveAddress(a)
	}
}
