package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

const (
	hostBase = 0x10000
	hostSize = 96
)

// grant is the meaning of a key in the model: a region, or a bound window.
type grant struct {
	region       *Region
	window       *Window
	of           *grant // the region a window is bound to
	pd           int
	base, length uint64
	addr         uint64
	access       Access
	qp           uint32
}

func (g *grant) key() uint32 {
	if g.region != nil {
		return g.region.RKey()
	}
	return g.window.RKey()
}

// model is the naive table: lists, searched linearly, and unlimited numbers.
type model struct {
	table   *Table
	pds     []*PD
	grants  []*grant
	retired map[uint32]bool // keys that must be invalid
	host    *Bytes
	bytes   []byte // what host should have
}

func num(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

// inside reports whether [va, va+n) is a part of [base, base+length).
func inside(base, length, va, n uint64) bool {
	end := new(big.Int).Add(num(va), num(n))
	last := new(big.Int).Add(num(base), num(length))
	return num(va).Cmp(num(base)) >= 0 && end.Cmp(last) <= 0
}

func (m *model) bound(g *grant) (n int) {
	for _, o := range m.grants {
		if o.of == g {
			n++
		}
	}
	return n
}

// allowed returns whether an access should succeed, and where its bytes are.
func (m *model) allowed(pd int, qp uint32, s Span) (addr uint64, ok bool) {
	for _, g := range m.grants {
		if g.key() != s.Key {
			continue
		}
		if g.window != nil && (g.of == nil || s.Access&remote == 0 || g.window.Type() == Type2 && g.qp != qp) {
			return 0, false
		}
		if g.pd != pd || s.Access&^g.access != 0 || !inside(g.base, g.length, s.VA, uint64(s.Length)) {
			return 0, false
		}
		return g.addr + (s.VA - g.base), true
	}
	return 0, false
}

func (m *model) pick(t *rapid.T, windows bool) *grant {
	var of []*grant
	for _, g := range m.grants {
		if (g.window != nil) == windows {
			of = append(of, g)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return rapid.SampledFrom(of).Draw(t, "which")
}

func (m *model) remove(g *grant) {
	m.retired[g.key()] = true
	for i, o := range m.grants {
		if o == g {
			m.grants = append(m.grants[:i], m.grants[i+1:]...)
			return
		}
	}
}

var bases = rapid.OneOf(
	rapid.Uint64Range(hostBase, hostBase+hostSize),
	rapid.Uint64Range(0, 32),
	rapid.Uint64Range(math.MaxUint64-hostSize, math.MaxUint64),
)

func drawRegistration(t *rapid.T, m *model) (Registration, int) {
	pd := rapid.IntRange(0, 1).Draw(t, "pd")
	addr := rapid.Uint64Range(0, hostSize-1).Draw(t, "addr")
	return Registration{
		PD: m.pds[pd], Addr: hostBase + addr, Backing: m.host,
		Length: rapid.Uint64Range(0, hostSize-addr).Draw(t, "length"),
		IOVA:   bases.Draw(t, "iova"),
		Access: rapid.OneOf(rapid.SampledFrom([]Access{LocalWrite | remote | MWBind, MWBind | RemoteRead}), rapid.Map(rapid.IntRange(0, 63), func(a int) Access { return Access(a) })).Draw(t, "access"),
	}, pd
}

// valid returns whether Register should accept.
func valid(r Registration) bool {
	base := r.IOVA
	if r.Access&ZeroBased != 0 {
		base = 0
	}
	limit := new(big.Int).Lsh(big.NewInt(1), 64)
	return new(big.Int).Add(num(base), num(r.Length)).Cmp(limit) <= 0 &&
		(r.Access&(RemoteWrite|RemoteAtomic) == 0 || r.Access&LocalWrite != 0)
}

func (g *grant) set(r Registration, pd int) {
	g.pd, g.base, g.length, g.addr, g.access = pd, r.IOVA, r.Length, r.Addr, r.Access&^(ZeroBased|MWBind)
	if r.Access&ZeroBased != 0 {
		g.base = 0
	}
}

// With any regions and windows, exactly the accesses that they grant are done, and no other byte
// changes.
func TestTableIsTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			table:   New(Limits{MR: 6, MW: 6, PD: 2, MRSize: 1 << 30}),
			host:    &Bytes{Base: hostBase, Data: make([]byte, hostSize)},
			bytes:   make([]byte, hostSize),
			retired: map[uint32]bool{},
		}
		for range 2 {
			pd, err := m.table.AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			m.pds = append(m.pds, pd)
		}
		t.Repeat(map[string]func(*rapid.T){
			"register":   m.register,
			"reregister": m.reregister,
			"deregister": m.deregister,
			"window":     m.allocWindow,
			"dealloc":    m.dealloc,
			"bind":       m.bind,
			"bind2":      m.bind,
			"invalidate": m.invalidate,
			"unbind qp": func(t *rapid.T) {
				qp := rapid.Uint32Range(1, 2).Draw(t, "qp")
				m.table.UnbindQP(qp)
				for _, g := range m.grants {
					if g.window != nil && g.window.Type() == Type2 && g.qp == qp {
						g.of = nil
					}
				}
			},
			"access":  m.access,
			"access2": m.access,
			"access3": m.access,
			"":        m.check,
		})
	})
}

func (m *model) register(t *rapid.T) {
	r, pd := drawRegistration(t, m)
	n := 0
	for _, g := range m.grants {
		if g.region != nil {
			n++
		}
	}
	region, err := m.table.Register(r)
	if want := valid(r) && n < 6; want != (err == nil) {
		t.Fatalf("%+v: %v", r, err)
	}
	if err != nil {
		return
	}
	g := &grant{region: region}
	g.set(r, pd)
	m.grants = append(m.grants, g)
	delete(m.retired, region.RKey())
}

func (m *model) reregister(t *rapid.T) {
	g := m.pick(t, false)
	if g == nil {
		return
	}
	to, pd := drawRegistration(t, m)
	c := Changes(rapid.IntRange(0, 8).Draw(t, "changes"))
	r := Registration{PD: m.pds[g.pd], Addr: g.addr, Length: g.length, IOVA: g.base, Access: g.region.Access(), Backing: m.host}
	if c&ChangeTranslation != 0 {
		r.Addr, r.Length, r.IOVA = to.Addr, to.Length, to.IOVA
	}
	if c&ChangeAccess != 0 {
		if c&ChangeTranslation == 0 && r.Access&ZeroBased != 0 && to.Access&ZeroBased == 0 {
			r.IOVA = g.addr
		}
		r.Access = to.Access
	}
	if c&ChangePD != 0 {
		r.PD = to.PD
	} else {
		pd = g.pd
	}
	old := g.key()
	err := m.table.Reregister(g.region, c, to)
	ok := c > 0 && c < 8 && valid(r)
	if want := ok && m.bound(g) == 0; want != (err == nil) || errors.Is(err, syscall.EBUSY) != (ok && !want) {
		t.Fatalf("%v", err)
	}
	if err != nil {
		return
	}
	g.set(r, pd)
	if changed := g.key() != old; changed != (c&ChangeTranslation != 0) {
		t.Fatalf("the key changed: %v", changed)
	} else if changed {
		m.retired[old] = true
		delete(m.retired, g.key())
	}
}

func (m *model) deregister(t *rapid.T) {
	g := m.pick(t, false)
	if g == nil {
		return
	}
	err := m.table.Deregister(g.region)
	if m.bound(g) > 0 {
		if !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if m.table.Deregister(g.region) == nil {
		t.Fatal("deregistered twice")
	}
	m.remove(g)
}

func (m *model) allocWindow(t *rapid.T) {
	pd := rapid.IntRange(0, 1).Draw(t, "pd")
	w, err := m.table.AllocWindow(m.pds[pd], WindowType(rapid.IntRange(1, 2).Draw(t, "type")))
	if err != nil {
		return
	}
	m.grants = append(m.grants, &grant{window: w, pd: pd})
	delete(m.retired, w.RKey())
}

func (m *model) dealloc(t *rapid.T) {
	if g := m.pick(t, true); g != nil {
		m.remove(g)
		if err := m.table.DeallocWindow(g.window); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *model) bind(t *rapid.T) {
	g, r := m.pick(t, true), m.pick(t, false)
	if g == nil || r == nil {
		return
	}
	pd := rapid.SampledFrom([]int{g.pd, r.pd, 0, 1}).Draw(t, "pd")
	qp := rapid.Uint32Range(1, 2).Draw(t, "qp")
	b := Binding{
		Window: g.key(), Tag: rapid.Byte().Draw(t, "tag"), Region: r.key(),
		Addr:   rapid.OneOf(rapid.Just(r.base), bases, rapid.Uint64Range(r.base, r.base+(max(r.length, 1)-1))).Draw(t, "addr"),
		Length: rapid.OneOf(rapid.Uint64Range(0, r.length), rapid.Uint64Range(0, hostSize)).Draw(t, "length"),
		Access: Access(rapid.IntRange(0, 63).Draw(t, "access") & 0x2f),
	}
	old, type2 := g.key(), g.window.Type() == Type2
	ok := g.pd == pd
	if type2 {
		ok = ok && g.of == nil && b.Length > 0
	} else {
		ok = ok && b.Access&ZeroBased == 0
	}
	if b.Length > 0 {
		a := r.region.Access()
		ok = ok && r.pd == pd && a&MWBind != 0 && a&ZeroBased == 0 && inside(r.base, r.length, b.Addr, b.Length) &&
			(b.Access&(RemoteWrite|RemoteAtomic) == 0 || a&LocalWrite != 0)
	}
	key, f := m.table.View(m.pds[pd], qp).BindWindow(b)
	if ok != (f == OK) {
		t.Fatalf("%+v: %v", b, f)
	}
	if !ok {
		return
	}
	m.retired[old] = true
	delete(m.retired, key)
	if key != g.key() || key != old&^0xff|uint32(b.Tag) {
		t.Fatalf("key %#x", key)
	}
	if g.of = nil; b.Length == 0 {
		return
	}
	g.of, g.base, g.length, g.qp = r, b.Addr, b.Length, qp
	g.addr, g.access = r.addr+(b.Addr-r.base), b.Access&^(ZeroBased|LocalWrite)
	if b.Access&ZeroBased != 0 {
		g.base = 0
	}
}

func (m *model) invalidate(t *rapid.T) {
	if len(m.grants) == 0 {
		return
	}
	g := rapid.SampledFrom(m.grants).Draw(t, "which")
	pd, qp := rapid.IntRange(0, 1).Draw(t, "pd"), rapid.Uint32Range(1, 2).Draw(t, "qp")
	ok := g.window != nil && g.window.Type() == Type2 && g.of != nil && g.pd == pd && g.qp == qp
	if f := m.table.View(m.pds[pd], qp).InvalidateKey(g.key()); ok != (f == OK) {
		t.Fatalf("%v, want %v", f, ok)
	}
	if ok {
		g.of = nil
	}
}

func (m *model) access(t *rapid.T) {
	pd, qp := rapid.IntRange(0, 1).Draw(t, "pd"), rapid.Uint32Range(1, 2).Draw(t, "qp")
	s := Span{Key: rapid.Uint32Range(0, 1<<12).Draw(t, "key"), Length: rapid.OneOf(rapid.Uint32Range(0, 8), rapid.Uint32Range(0, hostSize+8)).Draw(t, "n"), VA: bases.Draw(t, "va")}
	if len(m.grants) > 0 && rapid.IntRange(0, 5).Draw(t, "known") > 0 {
		g := rapid.SampledFrom(m.grants).Draw(t, "which")
		s.Key, pd = g.key(), rapid.SampledFrom([]int{g.pd, g.pd, g.pd, pd}).Draw(t, "domain")
		s.VA = g.base + rapid.Uint64Range(0, g.length+1).Draw(t, "offset") - rapid.Uint64Range(0, 1).Draw(t, "back")
	}
	if s.Length == 0 {
		s.Key = rapid.Uint32().Draw(t, "any")
	}
	v := m.table.View(m.pds[pd], qp)
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0: // read
		s.Access = rapid.SampledFrom([]Access{LocalRead, RemoteRead}).Draw(t, "a")
		addr, ok := m.allowed(pd, qp, s)
		got, f := v.LoadSpan(s, []byte("x"))
		if m.verdict(t, s, v, ok, f); ok && s.Length > 0 && !bytes.Equal(got[1:], m.bytes[addr-hostBase:][:s.Length]) {
			t.Fatal("read other bytes")
		}
	case 1: // write
		s.Access = rapid.SampledFrom([]Access{LocalWrite, RemoteWrite}).Draw(t, "a")
		addr, ok := m.allowed(pd, qp, s)
		data := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, int(s.Length))
		f := v.StoreSpan(s, data)
		if m.verdict(t, s, v, ok, f); ok && s.Length > 0 {
			copy(m.bytes[addr-hostBase:], data)
		}
	default: // atomic
		s.Length, s.Access = 8, RemoteAtomic
		s.VA &^= rapid.SampledFrom([]uint64{0, 7, 7, 7}).Draw(t, "align")
		addr, ok := m.allowed(pd, qp, s)
		if ok && s.VA%8 != 0 {
			if _, f := v.FetchAdd(s, 1); f != Misaligned {
				t.Fatal(f)
			}
			return
		}
		old, f := v.FetchAdd(s, 3)
		if m.verdict(t, s, v, ok, f); !ok {
			return
		}
		word := m.bytes[addr-hostBase:][:8]
		if want := binary.LittleEndian.Uint64(word); old != want {
			t.Fatalf("old %d, want %d", old, want)
		}
		binary.LittleEndian.PutUint64(word, old+3)
		swap := rapid.Uint64().Draw(t, "swap")
		if got, f := v.CompareSwap(s, old, swap); f != OK || got != old+3 {
			t.Fatalf("compare failed to fail: %d %v", got, f)
		}
		if got, f := v.CompareSwap(s, old+3, swap); f != OK || got != old+3 {
			t.Fatalf("swap: %d %v", got, f)
		}
		binary.LittleEndian.PutUint64(word, swap)
	}
}

func (m *model) verdict(t *rapid.T, s Span, v View, ok bool, f Fault) {
	if s.Length == 0 {
		ok = true
	}
	if ok != (f == OK) || v.CheckSpan(s) != f {
		t.Fatalf("%+v: %v, check says %v, want %v", s, f, v.CheckSpan(s), ok)
	}
}

func (m *model) check(t *rapid.T) {
	if !bytes.Equal(m.bytes, m.host.Data) {
		t.Fatal("bytes changed that should not have")
	}
	for key := range m.retired {
		for pd := range m.pds {
			v := m.table.View(m.pds[pd], 1)
			for _, a := range []Access{LocalRead, RemoteRead} {
				if v.CheckSpan(Span{key, hostBase, 1, a}) == OK {
					t.Fatalf("dead key %#x lives", key)
				}
			}
		}
	}
	for _, g := range m.grants {
		if g.region != nil && g.region.Windows() != m.bound(g) {
			t.Fatalf("%d windows, want %d", g.region.Windows(), m.bound(g))
		}
	}
}
