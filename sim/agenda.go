package sim

import "github.com/weftlab/weft/sim/units"

// Agenda keeps a time for each of many things and finds the earliest: it is a tree
// of minima of eight, which are a cache line. Setting a time touches at most as many
// lines as there are levels; unlike with a heap, nothing is removed and inserted
// again.
type Agenda struct {
	levels [][]units.Time // the first holds the times, the last is one block; each is whole blocks
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

// Set sets the time of thing i.
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

// LowerTime sets the time of thing i unless it has an earlier one.
func (a *Agenda) LowerTime(i int, at units.Time) {
	for _, level := range a.levels {
		if level[i] <= at {
			return
		}
		level[i] = at
		i >>= 3
	}
}

// FirstTime returns the earliest of all times.
func (a *Agenda) FirstTime() units.Time {
	b := (*[8]units.Time)(a.levels[len(a.levels)-1])
	return min(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7])
}

// NextDue returns the first thing, starting at number from, whose time is limit or before; -1
// when there is none.
func (a *Agenda) NextDue(from int, limit units.Time) int {
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
		// The rest of the block has none: continue after the block.
		i >>= 3
		l++
	}
	return -1
}
