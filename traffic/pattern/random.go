package pattern

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Stream identifies the source of a pattern's random numbers. Two patterns of a run
// have different names.
type Stream struct {
	Seed uint64 // of the run
	Name string // of the pattern
}

// streamOf returns the stream of one component of the pattern.
func (s Stream) streamOf(format string, a ...any) *rand.Rand {
	return sim.NewRand(s.Seed, "pattern "+s.Name+" "+fmt.Sprintf(format, a...))
}

// hostStream returns the stream of a host.
func (s Stream) hostStream(h int) *rand.Rand { return s.streamOf("host %d", h) }

// numbered provides streams by number, such as one for each request: every host that
// knows the number gets the same stream.
type numbered struct {
	seed, name uint64
	pcg        *rand.PCG
	r          *rand.Rand
}

func (s Stream) numberedStream(what string) numbered {
	pcg := new(rand.PCG)
	return numbered{s.Seed, sim.HashName("pattern " + s.Name + " " + what), pcg, rand.New(pcg)}
}

// streamAt returns the stream of a number from its beginning; the previously returned stream
// must no longer be used.
func (n numbered) streamAt(number uint64) *rand.Rand {
	// SplitMix64's function: adjacent numbers have independent streams.
	n.pcg.Seed(n.seed, sim.MixBits(n.name+number*0x9e3779b97f4a7c15))
	return n.r
}

// Law is the shape of a distribution of times; the mean is given separately. The zero
// Law means a default that the user of the Law states.
type Law struct {
	draw  func(*rand.Rand) float64 // mean 1
	fixed bool
}

// ConstantLaw always gives the mean. If several hosts have it, the first time is a
// random part of the mean, so that hosts are not in step.
func ConstantLaw() Law {
	return Law{func(*rand.Rand) float64 { return 1 }, true}
}

// PoissonLaw gives exponentially distributed times, as between the events of a Poisson
// process.
func PoissonLaw() Law { return Law{(*rand.Rand).ExpFloat64, false} }

// LognormalLaw gives times whose logarithm has the normal distribution with standard
// deviation sigma, above 0 and at most 5: the larger, the burstier. Papers use 1 to 2.
func LognormalLaw(sigma float64) (Law, error) {
	if !(sigma > 0 && sigma <= 5) {
		return Law{}, fmt.Errorf("lognormal times with sigma %v: it must be above 0 and at most 5", sigma)
	}
	return Law{func(r *rand.Rand) float64 { return math.Exp(sigma*r.NormFloat64() - sigma*sigma/2) }, false}, nil
}

// WeibullLaw gives Weibull-distributed times with a shape from 0.1 to 10: below 1 is
// burstier than Poisson, 1 is Poisson, above 1 is more regular.
func WeibullLaw(shape float64) (Law, error) {
	if !(shape >= 0.1 && shape <= 10) {
		return Law{}, fmt.Errorf("shape %v of Weibull times must lie between 0.1 and 10", shape)
	}
	scale := 1 / math.Gamma(1+1/shape)
	return Law{func(r *rand.Rand) float64 { return scale * math.Pow(r.ExpFloat64(), 1/shape) }, false}, nil
}

// orElse returns l, or the other law if l is zero.
func (l Law) orElse(other Law) Law {
	if l.draw == nil {
		return other
	}
	return l
}

// drawAfter returns t plus a time drawn from this law, with a mean in picoseconds.
func (l Law) drawAfter(t units.Time, mean float64, r *rand.Rand) units.Time {
	return addSpan(t, mean*l.draw(r))
}

// drawFirst returns when the first of several events comes after t.
func (l Law) drawFirst(t units.Time, mean float64, r *rand.Rand) units.Time {
	if l.fixed {
		return addSpan(t, mean*r.Float64())
	}
	return l.drawAfter(t, mean, r)
}

// addSpan returns t plus a span in picoseconds, or Never if that is beyond all times.
func addSpan(t units.Time, span float64) units.Time {
	if t == units.Never || span >= float64(units.Never-t) {
		return units.Never
	}
	return t + units.Time(math.Round(span))
}
