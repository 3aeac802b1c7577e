// Package sizes draws flow sizes from distributions as used in papers.
//
// All sizes are whole bytes and at least 1. All randomness comes from the stream
// passed to DrawSize, and a distribution has no state: any number of hosts may share it.
package sizes

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
)

// Dist is a distribution of sizes.
type Dist interface {
	// DrawSize returns a size, at least 1 B.
	DrawSize(r *rand.Rand) units.Bytes
	// MeanSize returns the expected value of DrawSize, in bytes: computed, not measured, and
	// with rounding and the minimum of 1 B taken into account.
	MeanSize() float64
}

// Fixed is one size; less than 1 B counts as 1 B.
type Fixed units.Bytes

// DrawSize returns the size and draws nothing.
func (f Fixed) DrawSize(*rand.Rand) units.Bytes { return max(units.Bytes(f), 1) }

// MeanSize returns the size.
func (f Fixed) MeanSize() float64 { return float64(max(f, 1)) }

// Uniform is the uniform distribution over all whole numbers of bytes from min to max,
// both included.
type Uniform struct{ min, max units.Bytes }

// NewUniform checks that 1 B ≤ lowest ≤ highest.
func NewUniform(lowest, highest units.Bytes) (Uniform, error) {
	return Uniform{lowest, highest}, checkBounds("uniform sizes", lowest, highest)
}

// DrawSize gives a size.
func (u Uniform) DrawSize(r *rand.Rand) units.Bytes {
	return u.min + units.Bytes(r.Int64N(int64(u.max-u.min)+1))
}

// MeanSize returns the midpoint of the bounds.
func (u Uniform) MeanSize() float64 { return (float64(u.min) + float64(u.max)) / 2 }

// Exponential is the exponential distribution in whole bytes: rounded up, that is the
// geometric distribution, with a rate such that its mean is exact.
type Exponential struct{ mean, scale float64 }

// NewExponential takes the mean, at least 1 B.
func NewExponential(mean units.Bytes) (Exponential, error) {
	if mean < 1 {
		return Exponential{}, fmt.Errorf("exponential sizes with mean %v: at least 1B is needed", mean)
	}
	// P(X > k) = (1-1/mean)^k = exp(-k/scale); 0 for a mean of 1 B.
	return Exponential{float64(mean), -1 / math.Log1p(-1/float64(mean))}, nil
}

// DrawSize gives a size.
func (e Exponential) DrawSize(r *rand.Rand) units.Bytes {
	return wholeBytes(math.Ceil(r.ExpFloat64() * e.scale))
}

// MeanSize returns the mean that it was made with.
func (e Exponential) MeanSize() float64 { return e.mean }

// Pareto is the bounded Pareto distribution: between the bounds the density falls with
// the power -(1+shape). Draws are rounded up or down at random, so that the mean stays
// that of the continuous law.
type Pareto struct{ min, max, shape float64 }

// NewPareto checks that 1 B ≤ lowest ≤ highest and that shape is above 0.
func NewPareto(shape float64, lowest, highest units.Bytes) (Pareto, error) {
	if !(shape > 0) || math.IsInf(shape, 1) {
		return Pareto{}, fmt.Errorf("Pareto sizes with shape %v: it must be above 0, such as 1.05", shape)
	}
	return Pareto{float64(lowest), float64(highest), shape}, checkBounds("Pareto sizes", lowest, highest)
}

// DrawSize gives a size.
func (p Pareto) DrawSize(r *rand.Rand) units.Bytes {
	// The share of sizes above x is (min/x)^shape without the upper bound; with it, only
	// shares from that of max to 1 occur.
	minShare := math.Pow(p.min/p.max, p.shape)
	above := 1 - r.Float64()*(1-minShare)
	x := min(p.min*math.Pow(above, -1/p.shape), p.max)
	return wholeBytes(math.Floor(x + r.Float64()))
}

// MeanSize returns the mean of the continuous law.
func (p Pareto) MeanSize() float64 {
	if p.min == p.max {
		return p.min
	}
	ln := math.Log(p.max / p.min)
	// E = min · shape/(shape-1) · (1-q^(shape-1))/(1-q^shape) with q = min/max, written so
	// that it goes smoothly through shape = 1, where the quotient becomes a logarithm.
	top := ln
	if s := (p.shape - 1) * ln; s != 0 {
		top = ln * -math.Expm1(-s) / s
	}
	return p.min * p.shape * top / -math.Expm1(-p.shape*ln)
}

// wholeBytes truncates a number of bytes to whole bytes, at least 1.
func wholeBytes(x float64) units.Bytes { return units.Bytes(max(min(x, math.MaxInt64/2), 1)) }

func checkBounds(what string, lowest, highest units.Bytes) error {
	switch {
	case lowest < 1:
		return fmt.Errorf("%s from %v: at least 1B is needed", what, lowest)
	case highest < lowest:
		return fmt.Errorf("%s from %v to %v: the second must not be less than the first", what, lowest, highest)
	}
	return nil
}
