package sim

import "github.com/weftlab/weft/sim/units"

// Agenda keeps a time for each of many things and finds those that come first: a
// tree of minima of eight, which are a cache line. Setting a time touches as many
// lines as there are levels, mostly fewer; there is nothing to take out and put in
// again as with a heap.
type Agenda struct {
	levels [][]units.Time // the first has the times, the last one block; each is whole blocks
}

// NewAgenda makes an agenda of n things, all at units.Never.
func NewAgenda(n int) *Agenda {
	a := &Agenda{}
	for {
		n = (max(n, 1) + 7) / 8
		level := make([]units.Time, 8*n)
		for i := range level {
			level[i] = units.Never
		}
		a.levels = append(a.levels, level)
		if n == 1 {
			return a
		}
	}
}

// Set gives thing i a time.
func (a *Agenda) Set(i int, at units.Time) {
	for l, level := range a.levels {
		was := level[i]
		if at == was {
			return
		}
		level[i] = at
		if at > was {
			b := (*[8]units.Time)(level[i&^7:])
			at = min(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
		} else if l+1 < len(a.levels) && a.levels[l+1][i>>3] <= at {
			return
		}
		i >>= 3
	}
}

// Lower gives thing i a time unless it has an earlier one.
func (a *Agenda) Lower(i int, at units.Time) {
	for _, level := range a.levels {
		if level[i] <= at {
			return
		}
		level[i] = at
		i >>= 3
	}
}

// First is the earliest of all times.
func (a *Agenda) First() units.Time {
	b := (*[8]units.Time)(a.levels[len(a.levels)-1])
	return min(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
}

// Due gives the first thing from number from on whose time is limit or before; -1 when there
// is none.
func (a *Agenda) Due(from int, limit units.Time) int {
	i, l := from, 0
	for l < len(a.levels) {
		level := a.levels[l]
		for end := i | 7; i <= end && i < len(level); i++ {
			if level[i] > limit {
				continue
			}
			for l > 0 {
				l--
				for i <<= 3; a.levels[l][i] > limit; i++ {
				}
			}
			return i
		}
		// The rest of the block has none: on with what is behind it.
		i >>= 3
		l++
	}
	return -1
}
