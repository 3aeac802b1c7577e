package transport

import (
	"fmt"
	"math"

	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

var (
	_ Memory   = memory.View{}
	_ Receives = (*qp.SRQ)(nil)
)

// Keys of the first regions of a host, in the order in which they are registered: one for lists,
// one that the peer works on.
const (
	localKey  = 0x100
	targetKey = 0x200
)

// open are the rights of a queue pair and of memory that the peer may do anything with.
const open = memory.RemoteRead | memory.RemoteWrite | memory.RemoteAtomic

// host is the memory of one side.
type host struct {
	table   *memory.Table
	pd      *memory.PD
	regions map[uint32]*memory.Region
}

func newHost() *host {
	h := &host{table: memory.New(memory.Limits{MR: 8, MW: memory.MaxKeys, PD: 1, MRSize: math.MaxUint64}), regions: map[uint32]*memory.Region{}}
	h.pd, _ = h.table.AllocPD()
	return h
}

// add registers n bytes and returns their key.
func (h *host) add(va, n uint64, rights memory.Access, b memory.Backing) uint32 {
	if rights&(memory.RemoteWrite|memory.RemoteAtomic) != 0 {
		rights |= memory.LocalWrite
	}
	r, err := h.table.Register(memory.Registration{PD: h.pd, Addr: va, IOVA: va, Length: n, Access: rights, Backing: b})
	if err != nil {
		panic(err)
	}
	h.regions[r.RKey()] = r
	return r.RKey()
}

// bytes registers real memory.
func (h *host) bytes(va uint64, n int, rights memory.Access) []byte {
	b := &memory.Bytes{Base: va, Data: make([]byte, n)}
	h.add(va, uint64(n), rights, b)
	return b.Data
}

// window makes a window of type 2 and returns its key.
func (h *host) window() uint32 {
	w, err := h.table.AllocWindow(h.pd, memory.Type2)
	if err != nil {
		panic(err)
	}
	return w.RKey()
}

func (h *host) view(number uint32) memory.View { return h.table.View(h.pd, number) }

// newSizes makes memory of which only lengths are modelled: all addresses, for
// both keys.
func newSizes() *host {
	h := newHost()
	h.add(0, math.MaxUint64, memory.LocalWrite, memory.Sizes{})
	h.add(0, math.MaxUint64, open|memory.MWBind, memory.Sizes{})
	return h
}

func sizes() memory.View { return newSizes().view(0) }

// ledger records changes made through a view.
type ledger struct {
	memory.View
	log func(line string)
}

func (l ledger) note(f memory.Fault, format string, args ...any) memory.Fault {
	if f == memory.OK {
		l.log(fmt.Sprintf(format, args...))
	}
	return f
}

func (l ledger) StoreSpan(s memory.Span, data []byte) memory.Fault {
	f := l.View.StoreSpan(s, data)
	if s.Length > 0 {
		l.note(f, "store key=%#x va=%#x len=%d", s.Key, s.VA, s.Length)
	}
	return f
}

func (l ledger) ScatterBytes(list []memory.SGE, offset, n uint32, data []byte) memory.Fault {
	f := l.View.ScatterBytes(list, offset, n, data)
	for _, e := range list {
		from := min(offset, e.Length)
		take := min(e.Length-from, n)
		if offset, n = offset-from, n-take; take > 0 {
			l.note(f, "store key=%#x va=%#x len=%d", e.LKey, e.VA+uint64(from), take)
		}
	}
	return f
}

func (l ledger) CompareSwap(s memory.Span, compare, swap uint64) (uint64, memory.Fault) {
	old, f := l.View.CompareSwap(s, compare, swap)
	return old, l.note(f, "compare-swap key=%#x va=%#x was=%d", s.Key, s.VA, old)
}

func (l ledger) FetchAdd(s memory.Span, add uint64) (uint64, memory.Fault) {
	old, f := l.View.FetchAdd(s, add)
	return old, l.note(f, "fetch-add key=%#x va=%#x was=%d", s.Key, s.VA, old)
}

func (l ledger) BindWindow(b memory.Binding) (uint32, memory.Fault) {
	key, f := l.View.BindWindow(b)
	return key, l.note(f, "bind key=%#x", key)
}

func (l ledger) InvalidateKey(key uint32) memory.Fault {
	return l.note(l.View.InvalidateKey(key), "invalidate key=%#x", key)
}
