package transport

import "github.com/weftlab/weft/sim/units"

// stamps record when PSNs were sent, for round-trip times. Their number grows with the window to
// maxStamps; in a longer window the older ones are dropped and give no sample.
type stamps []stamp

type stamp struct {
	psn PSN
	at  units.Time // units.Never if it was sent again (Karn's rule)
}

const maxStamps = 4096

// sent records that psn, which is in w, was sent.
func (s *stamps) sent(psn PSN, now units.Time, again bool, w Window) {
	if again {
		now = units.Never
	}
	if int(w.Len()) > len(*s) && len(*s) < maxStamps {
		s.grow(w)
	}
	*s.of(psn) = stamp{psn, now}
}

func (s stamps) of(psn PSN) *stamp { return &s[int(psn)&(len(s)-1)] }

// since returns how long ago psn was sent; 0 if unknown.
func (s stamps) since(psn PSN, now units.Time) units.Time {
	if len(s) == 0 {
		return 0
	}
	if t := s.of(psn); t.psn == psn && t.at != units.Never {
		return now - t.at
	}
	return 0
}

func (s *stamps) grow(w Window) {
	bigger := make(stamps, max(16, 2*len(*s)))
	for i := range bigger {
		bigger[i].at = units.Never
	}
	for _, t := range *s {
		if t.at != units.Never && t.psn.From(w.Una) < w.Len() {
			*bigger.of(t.psn) = t
		}
	}
	*s = bigger
}
