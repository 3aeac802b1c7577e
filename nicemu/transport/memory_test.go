package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/weftlab/weft/nicemu/memory"
)

// region is a piece of a testMemory.
type region struct {
	key    uint32
	va     uint64
	rights memory.Access
	bytes  []byte
}

// testMemory is regions of real bytes.
type testMemory struct {
	regions []*region
	log     func(line string) // of stores; may be nil
}

func (m *testMemory) add(key uint32, va uint64, n int, rights memory.Access) *region {
	r := &region{key, va, rights, make([]byte, n)}
	m.regions = append(m.regions, r)
	return r
}

func (m *testMemory) find(s memory.Span) []byte {
	for _, r := range m.regions {
		if r.key == s.Key && s.Access&^r.rights == 0 && s.VA >= r.va && s.VA-r.va+uint64(s.Length) <= uint64(len(r.bytes)) {
			return r.bytes[s.VA-r.va:][:s.Length]
		}
	}
	return nil
}

func (m *testMemory) Check(s memory.Span) bool { return m.find(s) != nil }

func (m *testMemory) Load(s memory.Span, dst []byte) ([]byte, bool) {
	b := m.find(s)
	return append(dst, b...), b != nil
}

func (m *testMemory) Store(s memory.Span, data []byte) bool {
	b := m.find(s)
	if b == nil {
		return false
	}
	copy(b, data)
	if m.log != nil {
		m.log(fmt.Sprintf("store key=%d va=%#x len=%d", s.Key, s.VA, s.Length))
	}
	return true
}

func (m *testMemory) CompareSwap(s memory.Span, compare, swap uint64) (uint64, bool) {
	return m.change(s, func(old uint64) uint64 {
		if old == compare {
			return swap
		}
		return old
	})
}

func (m *testMemory) FetchAdd(s memory.Span, add uint64) (uint64, bool) {
	return m.change(s, func(old uint64) uint64 { return old + add })
}

func (m *testMemory) change(s memory.Span, f func(uint64) uint64) (uint64, bool) {
	b := m.find(s)
	if b == nil {
		return 0, false
	}
	old := binary.LittleEndian.Uint64(b)
	now := f(old)
	binary.LittleEndian.PutUint64(b, now)
	if m.log != nil {
		m.log(fmt.Sprintf("atomic key=%d va=%#x %d -> %d", s.Key, s.VA, old, now))
	}
	return old, true
}

func (m *testMemory) Invalidate(key uint32) bool {
	for i, r := range m.regions {
		if r.key == key {
			m.regions = append(m.regions[:i], m.regions[i+1:]...)
			if m.log != nil {
				m.log(fmt.Sprintf("invalidate key=%d", key))
			}
			return true
		}
	}
	return false
}

// sizes is memory of which only lengths are modelled.
type sizes struct{}

func (sizes) Check(memory.Span) bool                                 { return true }
func (sizes) Load(memory.Span, []byte) ([]byte, bool)                { return nil, true }
func (sizes) Store(memory.Span, []byte) bool                         { return true }
func (sizes) CompareSwap(memory.Span, uint64, uint64) (uint64, bool) { return 0, true }
func (sizes) FetchAdd(memory.Span, uint64) (uint64, bool)            { return 0, true }
func (sizes) Invalidate(uint32) bool                                 { return true }
