package ndp

import "math/rand/v2"

// paths spreads packets over all paths in turns: each turn is a newly drawn permutation.
type paths struct {
	order   []uint16
	at      int // in order: those before it have had their turn
	counted []pathCount
	turn    uint32
}

// pathCount is what is known about a path since it was last judged.
type pathCount struct {
	judged, bad uint32 // packets that were answered or lost; of them NACKs and losses
	until       uint32 // turn at which it is used again
}

// When a path is left out. These are this project's: the paper compares paths and gives no
// numbers.
const (
	minPenaltyPackets = 8 // judged packets before a path is compared
	penaltyTimes      = 2 // times the share of bad packets of all paths
	penaltyTurns      = 4 // turns for which a path is left out
)

// resetPaths starts with n paths. With penalty, it counts what happens on them.
func (s *paths) resetPaths(n int, penalty bool) {
	if len(s.order) != n {
		s.order = make([]uint16, n)
	}
	for i := range s.order {
		s.order[i] = uint16(i)
	}
	switch {
	case !penalty:
		s.counted = nil
	case len(s.counted) != n:
		s.counted = make([]pathCount, n)
	default:
		clear(s.counted)
	}
	s.at, s.turn = 0, 0
}

// nextPath returns the path of the packet that leaves now.
func (s *paths) nextPath(r *rand.Rand) uint16 {
	for {
		n := len(s.order)
		if s.at == n {
			s.at = 0
			s.turn++
			s.excludeBadPaths()
		}
		k := s.at + r.IntN(n-s.at)
		s.order[s.at], s.order[k] = s.order[k], s.order[s.at]
		p := s.order[s.at]
		s.at++
		if s.counted == nil || s.counted[p].until <= s.turn {
			return p
		}
	}
}

// recordPacket counts a packet of a path. bad means a NACK or a loss.
func (s *paths) recordPacket(p uint16, bad bool) {
	if s.counted == nil || int(p) >= len(s.counted) {
		return
	}
	s.counted[p].judged++
	if bad {
		s.counted[p].bad++
	}
}

// excludeBadPaths leaves out paths that are much worse than all paths together, at most half of them.
func (s *paths) excludeBadPaths() {
	var judged, bad uint64
	out := 0
	for _, c := range s.counted {
		judged, bad = judged+uint64(c.judged), bad+uint64(c.bad)
		if c.until > s.turn {
			out++
		}
	}
	for i := range s.counted {
		c := &s.counted[i]
		if c.judged < minPenaltyPackets {
			continue
		}
		if c.until <= s.turn && uint64(c.bad)*judged > penaltyTimes*bad*uint64(c.judged) && out < len(s.order)/2 {
			c.until = s.turn + penaltyTurns
			out++
		}
		c.judged, c.bad = 0, 0
	}
}
