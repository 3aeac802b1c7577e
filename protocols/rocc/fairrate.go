package rocc

import (
	"math"

	"github.com/weftlab/weft/sim/units"
)

// gainBits is the number of fractional bits of gains, and of rates in messages that leave
// the computation to hosts.
const gainBits = 16

// Law is Algorithm 1 with its parameters scaled: queue lengths in ΔQ, rates in ΔF with 16
// fractional bits, gains with 16 fractional bits.
type Law struct {
	QRef, QMid, QMax int64
	FMin, FMax       int64
	Alpha, Beta      int64
	// drop is the number of a rate's fractional bits that are not kept.
	drop uint
	// proportional means Proportional instead of Algorithm 1. It is for the switch: messages
	// to hosts do not carry it.
	proportional bool
}

// Law returns the algorithm with the parameters of p.
func (p *Params) Law() Law {
	gain := func(g float64) int64 { return int64(math.Round(g * (1 << gainBits))) }
	f := func(r units.Rate) int64 { return int64(r/p.DeltaF) << gainBits }
	q := func(n units.Bytes) int64 { return int64(n / p.DeltaQ) }
	return Law{
		QRef: q(p.QRef), QMid: q(p.QMid), QMax: q(p.QMax), FMin: f(p.FMin), FMax: f(p.FMax),
		Alpha: gain(p.Alpha), Beta: gain(p.Beta), drop: uint(gainBits - p.FractionBits),
		proportional: p.Rule == Proportional,
	}
}

// Next implements CALCULATE_FAIR_RATE. It returns the fair rate after f for a queue of
// length q that had length qOld when f was computed. It rounds rates towards 0.
func (l *Law) Next(f, q, qOld int64) int64 {
	switch {
	case l.proportional:
		f = l.nextProportional(f, q, qOld)
	case q >= l.QMax && f > l.FMax/8:
		f = l.FMin
	case q-qOld >= l.QMid && f > l.FMax/8:
		f /= 2
	default:
		f -= (l.Alpha*(q-l.QRef) + l.Beta*(q-qOld)) / l.gainRatio(f)
	}
	f = f >> l.drop << l.drop
	return min(max(f, l.FMin), l.FMax)
}

// nextProportional returns the fair rate of Proportional, without its bounds.
func (l *Law) nextProportional(f, q, qOld int64) int64 {
	switch {
	case q > l.QMax && q-qOld > l.QMax:
		return l.FMin
	case q-qOld > l.QMid:
		return f / 2
	}
	const step = 1 << (gainBits / 2) // in two steps, so that products fit into 64 bits
	return f - (l.Alpha*(q-l.QRef)+l.Beta*(q-qOld))/step*l.gainShare(f, q, qOld)/step
}

// gainShare returns the share of the gains that Proportional uses, with 16 fractional bits.
func (l *Law) gainShare(f, q, qOld int64) int64 {
	if q < l.QRef/8 && (q+qOld)/2 < l.QRef/8 {
		return 1 << gainBits
	}
	return min(max(f<<(gainBits/2)/(l.FMax/2>>(gainBits/2)), 1<<gainBits/64), 1<<gainBits)
}

// gainRatio returns the number that AUTO_TUNE divides the gains by.
func (l *Law) gainRatio(f int64) int64 {
	level := int64(2)
	for f < l.FMax/level && level < 64 {
		level *= 2
	}
	return level / 2
}

// Point computes the fair rate of one queue.
type Point struct {
	params *Params
	law    Law
	f      int64
	qOld   int64
}

// NewPoint returns the computation for a queue. p has passed Validate and is shared, not
// copied. The fair rate starts at FStart.
func NewPoint(p *Params) Point {
	c := Point{params: p, law: p.Law()}
	if c.f = c.law.FMax; p.FStart > 0 {
		c.f = int64(p.FStart/p.DeltaF) << gainBits
	}
	return c
}

// UpdateRate computes the fair rate for a queue length, and returns the inputs of the
// computation.
func (c *Point) UpdateRate(queue units.Bytes) Inputs {
	in := Inputs{F: c.f, Q: int64(queue / c.params.DeltaQ), QOld: c.qOld}
	c.f = c.law.Next(c.f, in.Q, in.QOld)
	c.qOld = in.Q
	return in
}

// Rate returns the fair rate in whole ΔF.
func (c *Point) Rate() uint32 { return uint32(c.f >> gainBits) }

// FairRate returns the fair rate as messages carry it.
func (c *Point) FairRate() units.Rate { return units.Rate(c.Rate()) * c.params.DeltaF }

// IsAtMax reports whether the fair rate is FMax.
func (c *Point) IsAtMax() bool { return c.f == c.law.FMax }

// IsAtRest reports whether further computations for an empty queue would change nothing.
func (c *Point) IsAtRest() bool { return c.IsAtMax() && c.qOld == 0 }

// GainDivisor returns the current divisor of the gains, 1 to 32, or 64 with Proportional.
func (c *Point) GainDivisor() int {
	if c.law.proportional {
		return int(1 << gainBits / c.law.gainShare(c.f, c.qOld, c.qOld))
	}
	return int(c.law.gainRatio(c.f))
}

// Inputs are the inputs of a computation: the previous fair rate, in ΔF with 16 fractional
// bits, and the lengths of the queue, in ΔQ.
type Inputs struct{ F, Q, QOld int64 }
