package sizes

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
)

// Part is one distribution of a mix.
type Part struct {
	Share units.Fraction // of the flows, above 0
	Dist  Dist
}

// Mix draws each flow from one of several distributions: "half 32 B to 1 KB, 15% 200 KB
// to 3 MB, the rest between".
type Mix struct {
	parts []Part
	upTo  []float64 // shares of the parts added up; the last is 1
}

// slack is how far the sum of shares may be from 100%: 33.3% and 66.7% are exact,
// thirds to 12 digits are not.
const slack = 1e-9

// NewMix mixes parts. Either their shares add up to 100% and rest is nil, or rest takes
// the remaining share.
func NewMix(parts []Part, rest Dist) (*Mix, error) {
	if len(parts) == 0 {
		return nil, errors.New("an empty mix of sizes")
	}
	sum := 0.0
	for i, p := range parts {
		if !(p.Share > 0) || p.Share > 1 {
			return nil, fmt.Errorf("part %d of the mix has a share of %v: it must be above 0 and at most 100%%", i+1, p.Share)
		}
		sum += float64(p.Share)
	}
	switch {
	case rest != nil && sum > 1-slack:
		return nil, fmt.Errorf("the parts of the mix have %v: nothing is left for the rest", units.Fraction(sum))
	case rest != nil:
		parts = append(parts[:len(parts):len(parts)], Part{units.Fraction(1 - sum), rest})
	case math.Abs(sum-1) > slack:
		return nil, fmt.Errorf("the parts of the mix have %v of the flows, not 100%%: change a share or name a rest", units.Fraction(sum))
	}
	m := &Mix{parts: parts, upTo: make([]float64, len(parts))}
	sum = 0
	for i, p := range parts {
		sum += float64(p.Share)
		m.upTo[i] = sum
	}
	m.upTo[len(parts)-1] = 1
	return m, nil
}

// DrawSize chooses a part and draws from it.
func (m *Mix) DrawSize(r *rand.Rand) units.Bytes {
	u := r.Float64()
	i := 0
	for u >= m.upTo[i] {
		i++
	}
	return m.parts[i].Dist.DrawSize(r)
}

// MeanSize returns the mean of the parts' means, weighted by their shares.
func (m *Mix) MeanSize() float64 {
	mean := 0.0
	for _, p := range m.parts {
		mean += float64(p.Share) * p.Dist.MeanSize()
	}
	return mean
}
