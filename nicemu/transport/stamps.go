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

// recordSent records that psn, which is in w, was sent.
func (s *stamps) recordSent(psn PSN, now units.Time, again bool, w Window) {
	if again {
		now = units.Never
	}
	if int(w.Len()) > len(*s) && len(*s) < maxStamps {
		s.growStamps(w)
	}
	*s.stampOf(psn) = stamp{psn, now}
}

func (s stamps) stampOf(psn PSN) *stamp { return &s[int(psn)&(len(s)-1)] }

// timeSince returns how long ago psn was sent; 0 if unknown.
func (s stamps) timeSince(psn PSN, now units.Time) units.Time {
	if len(s) == 0 {
		return 0
	}
	if t := s.stampOf(psn); t.psn == psn && t.at != units.Never {
		return now - t.at
	}
	return 0
}

func (s *stamps) growStamps(w Window) {
	bigger := make(stamps, max(16, 2*len(*s)))
	for i := range bigger {
		bigger[i].at = units.Never
	}
	for _, t := range *s {
		if t.at != units.Never && t.psn.From(w.Una) < w.Len() {
			*bigger.stampOf(t.psn) = t
		}
	}
	*s = bigger
}
