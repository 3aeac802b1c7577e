package loop

import "math"

// FlowsAt returns the number of flows beyond which the phase margin is below margin, in
// degrees. The number need not be whole. It is 0 if no number of flows has that margin.
//
// With more flows the margin first grows, to the greatest margin of these gains, and then
// keeps falling. FlowsAt is where it falls below the given margin; with few flows it may be
// below too. The greatest margin depends only on r = β/α + 1/2 and is
//
//	atan √(r-1) - √(r-1)/r.
//
// So with β up to α/2 no number of flows is stable.
func (s Settings) FlowsAt(margin float64) float64 {
	r := s.zeroLead()
	// In x = ωT: atan(rx) - x is the margin. It grows up to x = √(r-1)/r and falls beyond.
	at := func(x float64) float64 { return toDegrees(math.Atan(r*x) - x) }
	low := math.Sqrt(max(r-1, 0)) / r
	if !(at(low) > margin) {
		return 0
	}
	high := max(1, 2*low)
	for at(high) > margin {
		high *= 2
	}
	for range 200 {
		middle := low + (high-low)/2
		if at(middle) > margin {
			low = middle
		} else {
			high = middle
		}
	}
	// |G| = 1 in x: x⁴ = (κTα)² N² (1 + r²x²).
	return low * low / (s.queueStep() * s.Alpha * math.Hypot(1, r*low))
}

// MaxFlows returns the largest number n of flows with which the loop is stable while the
// gains are fixed: with 1 to n flows the margin is above 0. It is 0 if no number is stable,
// and at most 2³¹-1.
func (s Settings) MaxFlows() int { return clampFlows(math.Ceil(s.FlowsAt(0)) - 1) }

// clampFlows limits a number of flows to the range of an int32.
func clampFlows(n float64) int { return int(min(max(n, 0), math.MaxInt32)) }
