package memory

import (
	"bytes"
	"errors"
	"math"
	"math/bits"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/weftlab/weft/nicemu/cq"
	"pgregory.net/rapid"
)

var roomy = Limits{MR: MaxKeys, MW: MaxKeys, PD: MaxKeys, MRSize: math.MaxUint64}

const all = LocalWrite | remote | MWBind

func table(t testing.TB) (*Table, *PD) {
	t.Helper()
	tab := New(roomy)
	pd, err := tab.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return tab, pd
}

func register(t testing.TB, tab *Table, r Registration) *Region {
	t.Helper()
	m, err := tab.Register(r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Each cause of refusal has its fault, and each fault its completion status.
func TestFaults(t *testing.T) {
	tab, pd := table(t)
	other, _ := tab.AllocPD()
	host := &Bytes{Base: 0x1000, Data: make([]byte, 64)}
	reg := func(a Access, n uint64) uint32 {
		return register(t, tab, Registration{PD: pd, Addr: 0x1000, IOVA: 0x1000, Length: n, Access: a, Backing: host}).LKey()
	}
	rw, ro, hole := reg(all, 64), reg(RemoteRead, 64), reg(all, 128)
	w, _ := tab.AllocWindow(pd, Type2)
	idle, _ := tab.AllocWindow(pd, Type1)
	mine := tab.View(pd, 1)
	key, f := mine.BindWindow(Binding{Window: w.RKey(), Tag: 9, Region: rw, Addr: 0x1008, Length: 16, Access: RemoteRead})
	if f != OK {
		t.Fatal(f)
	}
	for _, c := range []struct {
		name   string
		view   View
		span   Span
		fault  Fault
		status cq.Status
	}{
		{"all of it", mine, Span{rw, 0x1000, 64, RemoteWrite}, OK, cq.Success},
		{"no such index", mine, Span{0xffffff00, 0x1000, 1, RemoteRead}, BadKey, cq.RemAccessErr},
		{"key 0", mine, Span{0, 0x1000, 1, LocalRead}, BadKey, cq.LocProtErr},
		{"other tag", mine, Span{rw + 1, 0x1000, 1, LocalRead}, BadKey, cq.LocProtErr},
		{"other domain", tab.View(other, 1), Span{rw, 0x1000, 1, RemoteRead}, WrongPD, cq.RemAccessErr},
		{"no write", mine, Span{ro, 0x1000, 1, LocalWrite}, NoRight, cq.LocProtErr},
		{"no remote write", mine, Span{ro, 0x1000, 1, RemoteWrite}, NoRight, cq.RemAccessErr},
		{"one too far", mine, Span{rw, 0x1000, 65, LocalRead}, OutOfBounds, cq.LocProtErr},
		{"in front", mine, Span{rw, 0xfff, 1, RemoteRead}, OutOfBounds, cq.RemAccessErr},
		{"round the end", mine, Span{rw, math.MaxUint64, 2, RemoteRead}, OutOfBounds, cq.RemAccessErr},
		{"atomic at 4", mine, Span{rw, 0x1004, 8, RemoteAtomic}, Misaligned, cq.RemInvReqErr},
		{"window", mine, Span{key, 0x1008, 16, RemoteRead}, OK, cq.Success},
		{"window is not a local key", mine, Span{key, 0x1008, 1, LocalRead}, BadKey, cq.LocProtErr},
		{"window's bounds", mine, Span{key, 0x1007, 1, RemoteRead}, OutOfBounds, cq.RemAccessErr},
		{"window's rights", mine, Span{key, 0x1008, 1, RemoteWrite}, NoRight, cq.RemAccessErr},
		{"window's old key", mine, Span{key&^0xff | 8, 0x1008, 1, RemoteRead}, BadKey, cq.RemAccessErr},
		{"other queue pair", tab.View(pd, 2), Span{key, 0x1008, 1, RemoteRead}, WrongQP, cq.RemAccessErr},
		{"window's domain", tab.View(other, 1), Span{key, 0x1008, 1, RemoteRead}, WrongPD, cq.RemAccessErr},
		{"not bound", mine, Span{idle.RKey(), 0x1008, 1, RemoteRead}, BadKey, cq.RemAccessErr},
		{"nothing", mine, Span{12345, 7, 0, RemoteWrite}, OK, cq.Success},
	} {
		use := Local
		if c.span.Access&remote != 0 {
			use = Remote
		}
		if f := c.view.CheckSpan(c.span); f != c.fault || f.Status(use) != c.status {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, f, f.Status(use), c.fault, c.status)
		}
	}
	gone := Span{hole, 0x1000 + 60, 8, LocalWrite}
	if f := mine.StoreSpan(gone, make([]byte, 8)); f != Unmapped || f.Status(Local) != cq.LocProtErr {
		t.Errorf("store to memory that is not there: %v", f)
	}
	if _, f := mine.LoadSpan(gone, nil); f != Unmapped {
		t.Errorf("load from memory that is not there: %v", f)
	}
	gone.VA = 0x1000 + 64
	if _, f := mine.FetchAdd(gone, 1); f != Unmapped {
		t.Errorf("atomic in memory that is not there: %v", f)
	}
	if f := mine.ScatterBytes([]SGE{{0x1000, 8, rw}}, 0, 8, make([]byte, 5)); f != OutOfBounds {
		t.Errorf("less data than is to be scattered: %v", f)
	}
	if f := mine.StoreSpan(Span{rw, 0x1000, 4, LocalWrite}, make([]byte, 5)); f != OutOfBounds {
		t.Errorf("more data than the span has: %v", f)
	}
}

func TestBindFaults(t *testing.T) {
	tab, pd := table(t)
	other, _ := tab.AllocPD()
	reg := func(pd *PD, a Access) uint32 {
		return register(t, tab, Registration{PD: pd, Addr: 0x1000, IOVA: 0x1000, Length: 64, Access: a, Backing: Sizes{}}).LKey()
	}
	rw, readOnly, noBind, zero, foreign := reg(pd, all), reg(pd, MWBind), reg(pd, LocalWrite), reg(pd, all|ZeroBased), reg(other, all)
	w1, _ := tab.AllocWindow(pd, Type1)
	w2, _ := tab.AllocWindow(pd, Type2)
	w3, _ := tab.AllocWindow(pd, Type2)
	wf, _ := tab.AllocWindow(other, Type2)
	v := tab.View(pd, 1)
	for _, c := range []struct {
		name string
		b    Binding
		want Fault
	}{
		{"a region's key", Binding{Window: rw, Region: rw, Addr: 0x1000, Length: 8}, BadKey},
		{"no region", Binding{Window: w1.RKey(), Region: 7, Addr: 0x1000, Length: 8}, BadKey},
		{"window of another domain", Binding{Window: wf.RKey(), Region: rw, Addr: 0x1000, Length: 8}, WrongPD},
		{"region of another domain", Binding{Window: w1.RKey(), Region: foreign, Addr: 0x1000, Length: 8}, WrongPD},
		{"no right to bind", Binding{Window: w1.RKey(), Region: noBind, Addr: 0x1000, Length: 8, Access: RemoteRead}, NoRight},
		{"no local write", Binding{Window: w1.RKey(), Region: readOnly, Addr: 0x1000, Length: 8, Access: RemoteWrite}, NoRight},
		{"no local write for atomics", Binding{Window: w1.RKey(), Region: readOnly, Addr: 0x1000, Length: 8, Access: RemoteAtomic}, NoRight},
		{"zero-based region", Binding{Window: w1.RKey(), Region: zero, Length: 8}, BadBind},
		{"zero-based type 1", Binding{Window: w1.RKey(), Region: rw, Addr: 0x1000, Length: 8, Access: ZeroBased}, BadBind},
		{"the right to bind", Binding{Window: w1.RKey(), Region: rw, Addr: 0x1000, Length: 8, Access: MWBind}, BadBind},
		{"local write is no right of the region", Binding{Window: w1.RKey(), Region: readOnly, Addr: 0x1000, Length: 8, Access: LocalWrite | RemoteWrite}, NoRight},
		{"type 2 of no length", Binding{Window: w2.RKey(), Region: rw, Addr: 0x1000}, BadBind},
		{"out of bounds", Binding{Window: w2.RKey(), Region: rw, Addr: 0x1000, Length: 65}, OutOfBounds},
		{"reading needs no remote right of the region", Binding{Window: w1.RKey(), Region: readOnly, Addr: 0x1000, Length: 8, Access: RemoteRead}, OK},
		{"type 2", Binding{Window: w2.RKey(), Region: rw, Addr: 0x1000, Length: 8, Access: RemoteRead | ZeroBased}, OK},
		{"local write", Binding{Window: w3.RKey(), Region: rw, Addr: 0x1000, Length: 8, Access: LocalWrite | RemoteWrite}, OK},
		{"type 2 again", Binding{Window: w2.RKey(), Region: rw, Addr: 0x1000, Length: 8}, BadKey}, // the key has moved on
	} {
		c.b.Tag = 0x55
		if _, f := v.BindWindow(c.b); f != c.want {
			t.Errorf("%s: %v, want %v", c.name, f, c.want)
		}
	}
	again := Binding{Window: w2.RKey(), Tag: 1, Region: rw, Addr: 0x1000, Length: 8}
	if _, f := v.BindWindow(again); f != BadBind || f.Status(Bind) != cq.MWBindErr {
		t.Errorf("type 2 that is bound: %v", f)
	}
	if f := tab.View(pd, 2).InvalidateKey(w2.RKey()); f != WrongQP || f.Status(RemoteInvalidate) != cq.RemInvReqErr {
		t.Errorf("invalidated by another queue pair: %v", f)
	}
	if f := v.InvalidateKey(w1.RKey()); f != BadKey || f.Status(LocalInvalidate) != cq.MWBindErr {
		t.Errorf("type 1 was invalidated: %v", f)
	}
	if f := v.InvalidateKey(rw); f != BadKey {
		t.Errorf("a region was invalidated: %v", f)
	}
	if f := v.CheckSpan(Span{w2.RKey(), 0, 8, RemoteRead}); f != OK {
		t.Errorf("zero-based: %v", f)
	}
	if f := v.InvalidateKey(w2.RKey()); f != OK || w2.Region() != nil {
		t.Errorf("invalidate: %v", f)
	}
	if _, f := v.BindWindow(again); f != OK {
		t.Errorf("bound again: %v", f)
	}
	if w1.Region() == nil || w1.Type() != Type1 {
		t.Error("type 1 is not bound")
	}
	if _, f := v.BindWindow(Binding{Window: w1.RKey()}); f != OK || w1.Region() != nil {
		t.Errorf("type 1 was not unbound: %v", f)
	}
}

func TestErrors(t *testing.T) {
	tab := New(Limits{MR: 1, MW: 1, PD: 1, MRSize: 100})
	pd, _ := tab.AllocPD()
	good := Registration{PD: pd, Addr: 8, IOVA: 8, Length: 8, Backing: Sizes{}}
	with := func(f func(r *Registration)) error { r := good; f(&r); _, err := tab.Register(r); return err }
	m := register(t, tab, good)
	w, err := tab.AllocWindow(pd, Type1)
	if err != nil {
		t.Fatal(err)
	}
	stale := *m
	stale.key++
	foreign, _ := New(roomy).AllocPD()
	second := func(_ any, err error) error { return err }
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		text  string
	}{
		{second(tab.AllocPD()), syscall.ENOMEM, "max_pd"},
		{second(tab.Register(good)), syscall.ENOMEM, "max_mr"},
		{second(tab.AllocWindow(pd, Type2)), syscall.ENOMEM, "max_mw"},
		{second(tab.AllocWindow(pd, 3)), syscall.EINVAL, "type of memory window is 3"},
		{second(tab.AllocWindow(foreign, 1)), syscall.EINVAL, "not of this device"},
		{with(func(r *Registration) { r.PD = foreign }), syscall.EINVAL, "not of this device"},
		{with(func(r *Registration) { r.Backing = nil }), syscall.EINVAL, "Backing"},
		{with(func(r *Registration) { r.Length = 101 }), syscall.EINVAL, "0 to 100 (max_mr_size)"},
		{with(func(r *Registration) { r.Addr = math.MaxUint64 - 6 }), syscall.EINVAL, "beyond the last"},
		{with(func(r *Registration) { r.IOVA = math.MaxUint64 - 6 }), syscall.EINVAL, "beyond the last"},
		{with(func(r *Registration) { r.Access = RemoteWrite }), syscall.EINVAL, "IBV_ACCESS_LOCAL_WRITE"},
		{with(func(r *Registration) { r.Access = 1 << 6 }), syscall.EOPNOTSUPP, "ON_DEMAND"},
		{tab.Reregister(m, 0, good), syscall.EINVAL, "flags"},
		{tab.Reregister(&stale, ChangePD, good), syscall.EINVAL, "no longer"},
		{tab.Deregister(&stale), syscall.EINVAL, "no longer"},
		{tab.DeallocPD(pd), syscall.EBUSY, "2 regions"},
		{tab.DeallocPD(foreign), syscall.EINVAL, "not, or no longer"},
		{CheckCount(make([]SGE, 3), 2), syscall.EINVAL, "3 elements"},
		{second(AccessOf(1 << 8)), syscall.EOPNOTSUPP, "0x100"},
		{second(AccessOf(8)), syscall.EINVAL, "REMOTE_ATOMIC needs"},
	} {
		if !errors.Is(c.err, c.errno) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%v: want %v and %q", c.err, c.errno, c.text)
		}
	}
	if a, err := AccessOf(1<<20 | 1<<6 | 1<<7 | 5); a != LocalWrite|RemoteRead || err != nil {
		t.Errorf("relaxed ordering, on demand, huge pages: %v %v", a, err)
	}
	if err := errors.Join(tab.DeallocWindow(w), tab.Deregister(m), tab.DeallocPD(pd)); err != nil {
		t.Error(err)
	}
	if tab.DeallocWindow(w) == nil || tab.DeallocPD(pd) == nil {
		t.Error("ended twice")
	}
}

// A list with offsets gives the same bytes as the concatenated list.
func TestListsAreTheirBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := New(roomy)
		pd, _ := tab.AllocPD()
		host := &Bytes{Base: 100, Data: make([]byte, 64)}
		for i := range host.Data {
			host.Data[i] = byte(i)
		}
		m, err := tab.Register(Registration{PD: pd, Addr: 100, IOVA: math.MaxUint64 - 63, Length: 64, Access: LocalWrite, Backing: host})
		if err != nil {
			t.Fatal(err)
		}
		v := tab.View(pd, 1)
		base, _ := m.Bounds()
		var list []SGE
		var flat []int // the index in Data of each byte, or -1 outside
		for range rapid.IntRange(0, 5).Draw(t, "elements") {
			at, n := rapid.IntRange(0, 64).Draw(t, "at"), rapid.IntRange(0, 20).Draw(t, "n")
			e := SGE{base + uint64(at), uint32(n), m.LKey()}
			if n == 0 {
				e.LKey = 99
			}
			list = append(list, e)
			for i := range n {
				if at+i > 63 {
					flat = append(flat, -1)
				} else {
					flat = append(flat, at+i)
				}
			}
		}
		if ListLength(list) != uint64(len(flat)) {
			t.Fatal("length")
		}
		offset, n := rapid.IntRange(0, len(flat)+2).Draw(t, "offset"), rapid.IntRange(0, 30).Draw(t, "count")
		want := OK
		var bytesWant []byte
		if n > 0 && offset+n > len(flat) {
			want = ListShort
		}
		for _, i := range flat[min(offset, len(flat)):min(offset+n, len(flat))] {
			if i < 0 {
				want = OutOfBounds
				break
			}
			bytesWant = append(bytesWant, host.Data[i])
		}
		got, f := v.GatherBytes(list, uint32(offset), uint32(n), []byte("head"))
		if f != want {
			t.Fatalf("gather: %v, want %v", f, want)
		}
		if f == OK && !bytes.Equal(got[4:], bytesWant) {
			t.Fatalf("gathered %v, want %v", got[4:], bytesWant)
		}
		data := bytes.Repeat([]byte{0xee}, n)
		for i := range data {
			data[i] += byte(i)
		}
		after := bytes.Clone(host.Data)
		if f := v.ScatterBytes(list, uint32(offset), uint32(n), data); f != want {
			t.Fatalf("scatter: %v, want %v", f, want)
		} else if f != OK {
			return
		}
		for k, b := range data {
			after[flat[offset+k]] = b
		}
		if !bytes.Equal(after, host.Data) {
			t.Fatal("scattered otherwise")
		}
	})
}

// An element beyond the last address does not wrap around to 0.
func TestListDoesNotWrap(t *testing.T) {
	tab, pd := table(t)
	m := register(t, tab, Registration{PD: pd, Length: 64, Access: all | ZeroBased, Backing: &Bytes{Data: make([]byte, 64)}})
	v := tab.View(pd, 1)
	list := []SGE{{math.MaxUint64 - 9, 20, m.LKey()}}
	if _, f := v.GatherBytes(list, 10, 10, nil); f != OutOfBounds {
		t.Errorf("gather: %v", f)
	}
	if f := v.ScatterBytes(list, 12, 1, []byte{1}); f != OutOfBounds {
		t.Errorf("scatter: %v", f)
	}
	if f := v.CheckList(list, LocalRead); f != OutOfBounds {
		t.Errorf("check: %v", f)
	}
}

// Memory of which only lengths are modelled has the same checks and no bytes.
func TestSizes(t *testing.T) {
	tab, pd := table(t)
	m := register(t, tab, Registration{PD: pd, Addr: 1 << 40, IOVA: 1 << 40, Length: 1 << 40, Access: all, Backing: Sizes{}})
	real := register(t, tab, Registration{PD: pd, Length: 8, Access: all, Backing: &Bytes{Data: []byte("12345678")}})
	v := tab.View(pd, 1)
	data, f := v.GatherBytes([]SGE{{1 << 40, 4096, m.LKey()}, {0, 8, real.LKey()}}, 0, 4104, []byte("head"))
	if string(data) != "head" || f != OK {
		t.Errorf("%d bytes, %v", len(data), f)
	}
	if f := v.ScatterBytes([]SGE{{1 << 40, 4096, m.LKey()}}, 0, 4096, nil); f != OK {
		t.Error(f)
	}
	if f := v.ScatterBytes([]SGE{{1<<41 - 1, 2, m.LKey()}}, 0, 2, nil); f != OutOfBounds {
		t.Error(f)
	}
	if old, f := v.FetchAdd(Span{Key: m.RKey(), VA: 1 << 40, Length: 8}, 5); old != 0 || f != OK {
		t.Error(old, f)
	}
	if old, f := v.CompareSwap(Span{Key: m.RKey(), VA: 1 << 40, Length: 8}, 0, 5); old != 0 || f != OK {
		t.Error(old, f)
	}
}

// Data written through a window lands where the region says.
func TestWindowsTranslate(t *testing.T) {
	tab, pd := table(t)
	host := &Bytes{Base: 0x1000, Data: []byte("0123456789abcdef")}
	m := register(t, tab, Registration{PD: pd, Addr: 0x1002, IOVA: 0x77000, Length: 14, Access: all, Backing: host})
	v := tab.View(pd, 1)
	for _, c := range []struct {
		access Access
		va     uint64
	}{{RemoteRead, 0x77004}, {RemoteRead | ZeroBased, 1}} {
		w, _ := tab.AllocWindow(pd, Type2)
		key, f := v.BindWindow(Binding{Window: w.RKey(), Region: m.LKey(), Addr: 0x77003, Length: 6, Access: c.access})
		if f != OK {
			t.Fatal(f)
		}
		if got, f := v.LoadSpan(Span{key, c.va, 4, RemoteRead}, nil); f != OK || string(got) != "6789" {
			t.Errorf("%v: %q %v, want 6789", c.access, got, f)
		}
	}
	tab.UnbindQP(2)
	if m.Windows() != 2 {
		t.Errorf("%d windows, want 2", m.Windows())
	}
	tab.UnbindQP(1)
	if m.Windows() != 0 || tab.Deregister(m) != nil {
		t.Errorf("%d windows are still bound", m.Windows())
	}
}

func TestReregisterMovesBetweenDomains(t *testing.T) {
	tab, pd := table(t)
	other, _ := tab.AllocPD()
	m := register(t, tab, Registration{PD: pd, Length: 8, Backing: Sizes{}})
	if err := tab.Reregister(m, ChangePD, Registration{PD: other}); err != nil || m.PD() != other {
		t.Fatal(err)
	}
	if err := tab.DeallocPD(other); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("the new domain: %v", err)
	}
	if err := tab.DeallocPD(pd); err != nil {
		t.Errorf("the old domain: %v", err)
	}
}

func TestKeysOfDeadRegionsStayDead(t *testing.T) {
	tab, pd := table(t)
	r := Registration{PD: pd, Length: 8, Backing: Sizes{}}
	seen := map[uint32]bool{}
	for range 256 {
		m := register(t, tab, r)
		if seen[m.LKey()] || m.LKey() < 256 {
			t.Fatalf("key %#x", m.LKey())
		}
		seen[m.LKey()] = true
		if err := tab.Deregister(m); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzWithin(f *testing.F) {
	f.Add(uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint64(math.MaxUint64), uint64(1), uint64(0), uint64(1))
	f.Add(uint64(10), uint64(math.MaxUint64), uint64(9), uint64(0))
	f.Fuzz(func(t *testing.T, base, length, va, n uint64) {
		end, over := bits.Add64(va, n, 0)
		last, far := bits.Add64(base, length, 0)
		want := va >= base && (over < far || over == far && end <= last)
		if isWithin(base, length, va, n) != want {
			t.Errorf("[%#x+%#x) in [%#x+%#x) is not %v", va, n, base, length, want)
		}
	})
}

func TestSmall(t *testing.T) {
	for name, n := range map[string]uintptr{"region": unsafe.Sizeof(Region{}), "window": unsafe.Sizeof(Window{})} {
		if n > 64 {
			t.Errorf("a %s has %d bytes", name, n)
		}
	}
}

func setup(t testing.TB) (View, Span, []SGE) {
	tab, pd := table(t)
	var key uint32
	for range 100 {
		key = register(t, tab, Registration{PD: pd, Addr: 4096, IOVA: 4096, Length: 8192, Access: all, Backing: &Bytes{4096, make([]byte, 8192)}}).LKey()
	}
	w, _ := tab.AllocWindow(pd, Type2)
	v := tab.View(pd, 1)
	wkey, f := v.BindWindow(Binding{Window: w.RKey(), Region: key, Addr: 4096, Length: 8192, Access: remote})
	if f != OK {
		t.Fatal(f)
	}
	return v, Span{wkey, 4096, 4096, RemoteWrite}, []SGE{{4096, 1000, key}, {6000, 4000, key}}
}

func TestNoAllocations(t *testing.T) {
	v, s, list := setup(t)
	buf := make([]byte, 0, 4096)
	word := Span{s.Key, s.VA, 8, RemoteAtomic}
	if n := testing.AllocsPerRun(100, func() {
		data, _ := v.GatherBytes(list, 500, 4096, buf)
		_ = v.ScatterBytes(list, 400, 4096, data)
		_ = v.CheckSpan(s)
		_ = v.StoreSpan(s, data)
		_, _ = v.FetchAdd(word, 1)
		_, _ = v.CompareSwap(word, 1, 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCheck checks one packet's access through a window.
func BenchmarkCheck(b *testing.B) {
	v, s, _ := setup(b)
	b.ReportAllocs()
	for b.Loop() {
		if v.CheckSpan(s) != OK {
			b.Fatal()
		}
	}
}

// BenchmarkGather copies a packet's 4 KiB out of a list of two.
func BenchmarkGather(b *testing.B) {
	v, _, list := setup(b)
	buf := make([]byte, 0, 4096)
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, f := v.GatherBytes(list, 500, 4096, buf); f != OK {
			b.Fatal(f)
		}
	}
}
