package sim

import (
	"math/bits"

	"github.com/weftlab/weft/sim/units"
)

// entry is an entry of the event queue: 16 bytes without a pointer, so that four
// children share a cache line.
type entry struct {
	at units.Time
	id uint64 // the timer's rank at that time, above its place among the engine's sources
}

// isBefore returns 1 when a comes before b and 0 otherwise, computed without a branch:
// which of two events is earlier is practically random, and a misprediction costs
// more than the comparison. Times are never negative.
func (a entry) isBefore(b entry) int {
	_, borrow := bits.Sub64(a.id, b.id, 0)
	_, borrow = bits.Sub64(uint64(a.at), uint64(b.at), borrow)
	return int(borrow)
}

// earlierEntry returns the earlier of two entries with its index. It selects with masks:
// selecting an index by comparison would require loading the entry again after the
// comparison.
func earlierEntry(a, b entry, ia, ib int) (entry, int) {
	m := -b.isBefore(a)
	return entry{a.at ^ (a.at^b.at)&units.Time(m), a.id ^ (a.id^b.id)&uint64(m)}, ia ^ (ia^ib)&m
}

// end marks a place without an entry.
var end = entry{units.Never, ^uint64(0)}

// root is the index of the heap's root. With this root, the children of i are the
// four from 4·(i-2), which is the beginning of a cache line.
const root = 3

// heap is a 4-ary heap of entries. After the last entry its array is padded with end
// to a multiple of four, so that four children can always be read.
type heap struct {
	a    []entry // a[root:root+n]
	n    int
	hole bool // the root has been taken: the next push may take its place
}

// topEntry returns the earliest entry, end when there is none.
func (h *heap) topEntry() entry {
	if h.n == 0 {
		return end
	}
	return h.a[root]
}

// pushEntry adds x. While the root is a hole, x takes its place: since most events cause
// one other event, this saves moving an entry from the end to the root and sinking
// it.
func (h *heap) pushEntry(x entry) {
	if h.hole {
		h.hole = false
		h.replaceTop(x)
		return
	}
	i := root + h.n
	h.n++
	for i >= len(h.a) {
		h.a = append(h.a, end, end, end, end)
	}
	for i > root {
		p := i/4 + 2
		if x.isBefore(h.a[p]) == 0 {
			break
		}
		h.a[i] = h.a[p]
		i = p
	}
	h.a[i] = x
}

// siftHole fills the hole left by a taken root.
func (h *heap) siftHole() {
	if h.hole {
		h.hole = false
		h.popEntry()
	}
}

// popEntry removes the root.
func (h *heap) popEntry() {
	h.n--
	last := root + h.n
	x := h.a[last]
	h.a[last] = end
	if h.n > 0 {
		h.replaceTop(x)
	}
}

// replaceTop puts x in the root's place and lets it sink.
func (h *heap) replaceTop(x entry) {
	a, i := h.a, root
	for {
		c := 4 * (i - 2)
		if c >= len(a) {
			break
		}
		g := (*[4]entry)(a[c:])
		left, l := earlierEntry(g[0], g[1], 0, 1)
		right, r := earlierEntry(g[2], g[3], 2, 3)
		earliest, m := earlierEntry(left, right, l, r)
		if earliest.isBefore(x) == 0 {
			break
		}
		a[i] = earliest
		i = c + m
	}
	a[i] = x
}
