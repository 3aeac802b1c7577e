package bbr

import "github.com/weftlab/weft/sim/units"

// maxFilter tracks the largest sample of the last rounds. It keeps three: the largest, the
// largest since that, and the largest since the second (Nichols's windowed filter, as in
// Linux's lib/win_minmax.c).
type maxFilter struct {
	rounds uint32
	best   [3]sample
}

type sample struct {
	round uint32
	rate  units.Rate
}

func (f *maxFilter) maxRate() units.Rate { return f.best[0].rate }

// addSample records a sample of a round.
func (f *maxFilter) addSample(round uint32, r units.Rate) {
	s := sample{round, r}
	b := &f.best
	if r >= b[0].rate || round-b[2].round > f.rounds {
		*b = [3]sample{s, s, s}
		return
	}
	switch {
	case r >= b[1].rate:
		b[1], b[2] = s, s
	case r >= b[2].rate:
		b[2] = s
	}
	// The largest is dropped when its time is over; the others move up, or are replaced when
	// the window has lacked a second sample for long.
	switch age := round - b[0].round; {
	case age > f.rounds:
		b[0], b[1], b[2] = b[1], b[2], s
		if round-b[0].round > f.rounds {
			b[0], b[1], b[2] = b[1], b[2], s
		}
	case b[1].round == b[0].round && age > f.rounds/4:
		b[1], b[2] = s, s
	case b[2].round == b[1].round && age > f.rounds/2:
		b[2] = s
	}
}
