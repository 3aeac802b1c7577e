// Package loop models the control loop of a RoCC congestion point as a linear system: Taheri
// et al., "RoCC: Robust Congestion Control for RDMA", CoNEXT 2020, §5. It shows whether gains
// are stable, and how fast the loop is, without a simulation.
//
// N flows send at the fair rate F that the congestion point computed an interval T before.
// The queue integrates the excess (Eq. 4), and the PI controller sets F (Eq. 5). The open
// loop is
//
//	G(s) = K (1 + s/z1)/s² e^(-sT)   (Eq. 6)
//	z1   = α/((β + α/2) T)           rad/s
//	K    = κNα/T                     1/s²
//	κ    = ΔF/(8 ΔQ)                 1/s; ΔF in b/s, ΔQ in bytes
//
// The closed loop is stable if the phase margin is above 0. That is exact: |G| falls with the
// frequency, so it is 1 at only one frequency.
//
// The model is linear: it knows neither the multiplicative decrease nor the bounds of F nor
// flows that send less than F. Its only delay is T. In §6 the NIC reacts after 15 µs and T is
// 40 µs, so the loop there may support more flows than the model predicts.
package loop

import "math"

// Loop is the open loop for one number of flows. Settings.Loop returns it.
type Loop struct {
	K     float64 // gain, 1/s²
	Zero  float64 // z1, rad/s
	Delay float64 // T, s
}

// Crossover returns the frequency at which |G| is 1, in rad/s. The paper calls it the loop
// bandwidth (§5.2) or the loop frequency (Fig. 7b); its text gives no unit. Divide by 2π for
// Hz.
//
// |G(jω)|² = K² (1 + ω²/z1²)/ω⁴ = 1 is quadratic in ω²:
//
//	ω² = (K/z1)²/2 + √((K/z1)⁴/4 + K²)
func (l Loop) Crossover() float64 {
	b := l.K / l.Zero // 1/s
	// Hypot of b²/2 and K, so that b⁴ does not overflow.
	return math.Sqrt(b*b/2 + math.Hypot(b*b/2, l.K))
}

// Margin returns the phase margin in degrees: how far the phase is above -180 at the
// crossover ω,
//
//	atan(ω/z1) - ωT.
//
// It is below 90, and far below -180 for loops far from stable: the phase does not wrap.
func (l Loop) Margin() float64 { return l.Phase(l.Crossover()) + 180 }

// Gain returns |G(jω)|, without a unit, at a frequency above 0 in rad/s. Decibels(l.Gain(w))
// is the gain in dB.
func (l Loop) Gain(w float64) float64 { return l.K * math.Hypot(1, w/l.Zero) / (w * w) }

// Phase returns the phase of G(jω) in degrees at a frequency above 0 in rad/s:
//
//	-180 + atan(ω/z1) - ωT.
//
// It does not depend on the number of flows, and does not wrap.
func (l Loop) Phase(w float64) float64 {
	return -180 + toDegrees(math.Atan(w/l.Zero)-w*l.Delay)
}

// Decibels returns a gain in dB: 20 log10(gain).
func Decibels(gain float64) float64 { return 20 * math.Log10(gain) }

func toDegrees(radians float64) float64 { return radians * 180 / math.Pi }
