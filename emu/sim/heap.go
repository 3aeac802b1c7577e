package sim

import "github.com/weftlab/weft/emu/units"

// entry is one place in the event queue: 16 bytes without a pointer, so that
// four children share a cache line.
type entry struct {
	at units.Time
	id uint32
}

func (a entry) before(b entry) bool {
	return a.at < b.at || a.at == b.at && a.id < b.id
}

// push adds x. While the root is being fired its place is free, and since
// most events lead to one other, taking that place saves a pop.
func (e *Engine) push(x entry) {
	if e.hole {
		e.hole = false
		e.replace(x)
		return
	}
	h := append(e.heap, x)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !x.before(h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = x
	e.heap = h
}

// pop removes the root.
func (e *Engine) pop() {
	last := len(e.heap) - 1
	x := e.heap[last]
	e.heap = e.heap[:last]
	if last > 0 {
		e.replace(x)
	}
}

// replace puts x in the root's place and lets it sink.
func (e *Engine) replace(x entry) {
	h := e.heap
	i := 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		c := first
		for k := first + 1; k < min(first+4, len(h)); k++ {
			if h[k].before(h[c]) {
				c = k
			}
		}
		if !h[c].before(x) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = x
}
