package loop

import "math"

// maxLevel is the level at which AUTO_TUNE ends (Algorithm 1, line 17).
const maxLevel = 64

// GainRatio returns the number that AUTO_TUNE divides the gains by when n flows have the fair
// rate F = Fmax/n (Algorithm 1, lines 15 to 21; Eq. 1 without mice): 1, 2, 4, 8, 16 or 32.
//
// F < Fmax/level is n > level. Where n is 2, 4, ... 32, F is on the border of two ratios and
// crosses it as it oscillates. Ratio returns the lower one, with the larger gains.
func GainRatio(n int) int {
	level := 2
	for n > level && level < maxLevel {
		level *= 2
	}
	return level / 2
}

// TunedFor returns the settings with the gains of AUTO_TUNE for n flows, so that
// s.Tuned(n).Loop(n) is the auto-tuned loop.
func (s Settings) TunedFor(n int) Settings {
	r := float64(GainRatio(n))
	s.Alpha /= r
	s.Beta /= r
	return s
}

// MaxTunedFlows returns the largest number n of flows with which the auto-tuned loop is
// stable: with 1 to n flows the margin is above 0. It is at most 2³¹-1. Beyond 64 flows the
// gains stay at 1/32, so it is about 32 times MaxFlows.
func (s Settings) MaxTunedFlows() int {
	limit := s.FlowsAt(0)
	for n := 1; n <= maxLevel; n++ {
		if float64(n) >= limit*float64(GainRatio(n)) {
			return n - 1
		}
	}
	return clampFlows(math.Ceil(limit*maxLevel/2) - 1)
}
