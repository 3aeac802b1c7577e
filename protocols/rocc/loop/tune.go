package loop

import "math"

// mostLevel is the level at which AUTO_TUNE ends (Algorithm 1, line 17).
const mostLevel = 64

// Ratio is what AUTO_TUNE divides the gains by when n flows have the fair rate F = Fmax/n
// (Algorithm 1, lines 15 to 21; Eq. 1 without mice): 1, 2, 4, 8, 16 or 32.
//
// F < Fmax/level is n > level. Where n is 2, 4, ... 32, F is on the border of two ratios and
// goes to and fro across it as it swings. This is the lower one, with the larger gains.
func Ratio(n int) int {
	level := 2
	for n > level && level < mostLevel {
		level *= 2
	}
	return level / 2
}

// Tuned is the settings with the gains that AUTO_TUNE gives for n flows, so that
// s.Tuned(n).Loop(n) is the auto-tuned loop.
func (s Settings) Tuned(n int) Settings {
	r := float64(Ratio(n))
	s.Alpha /= r
	s.Beta /= r
	return s
}

// MostTunedFlows is the largest number of flows with which the auto-tuned loop is stable:
// with 1 to so many the margin is above 0. It is 2³¹-1 at most. Beyond 64 flows the gains
// remain at a thirty-second, so it is about 32 times MostFlows.
func (s Settings) MostTunedFlows() int {
	limit := s.FlowsAt(0)
	for n := 1; n <= mostLevel; n++ {
		if float64(n) >= limit*float64(Ratio(n)) {
			return n - 1
		}
	}
	return finite(math.Ceil(limit*mostLevel/2) - 1)
}
