package loop

import (
	"errors"
	"fmt"

	"github.com/weftlab/weft/sim/units"
)

// Settings holds what the loop of a congestion point depends on, apart from the number of
// flows. The symbols are from Table 2.
type Settings struct {
	// Alpha and Beta are the gains of the PI controller: α weighs the distance of the
	// queue from its reference, β the growth of the queue (Algorithm 1, line 8). They have
	// no unit: they turn multiples of ΔQ into multiples of ΔF. Above 0, up to 1000.
	Alpha, Beta float64
	// Interval is T, the time between two updates of the fair rate. The model also uses it
	// as the delay of the feedback (Eq. 2). Above 0, up to 1 s.
	Interval units.Time
	// DeltaF is ΔF, the resolution of rates. Above 0.
	DeltaF units.Rate
	// DeltaQ is ΔQ, the resolution of queue sizes. Above 0.
	DeltaQ units.Bytes
}

// Interval, DeltaF and DeltaQ are the paper's (§6, system parameters). §5 only gives T; we
// assume that it uses the same ΔF and ΔQ.
const (
	Interval = 40 * units.Microsecond
	DeltaF   = 10 * units.Mbps
	DeltaQ   = 600 * units.Byte
)

// AnalysisSettings returns settings with the gains that §5 begins with, 0.3:3. Fig. 6 shows them,
// and Fig. 7 halves them five times. The evaluation uses other gains: see Evaluation40G.
//
// With 2 flows the paper prints a margin of 50 degrees, and the model gives 49.3. With 10 it
// prints -50, and the model gives -62.6; 92% of κ reproduces both of the paper's values.
func AnalysisSettings() Settings { return paperSettings(0.3, 3) }

// Evaluation40G returns settings with the gains of §6 for links of 40 Gb/s, 0.3:1.5.
func Evaluation40G() Settings { return paperSettings(0.3, 1.5) }

// Evaluation100G returns settings with the gains of §6 for links of 100 Gb/s, 0.45:2.25.
func Evaluation100G() Settings { return paperSettings(0.45, 2.25) }

func paperSettings(alpha, beta float64) Settings {
	return Settings{Alpha: alpha, Beta: beta, Interval: Interval, DeltaF: DeltaF, DeltaQ: DeltaQ}
}

// GainsFor returns gains that give a loop the phase margins of the paper's 0.3:1.5 at 40 µs
// (§6, 40 Gb/s) for each number of flows. The margin depends only on κTα and κTβ, so gains
// scale with 1/(κT); the loop bandwidth scales with 1/T. The arguments are as in Settings,
// and above 0.
func GainsFor(interval units.Time, deltaF units.Rate, deltaQ units.Bytes) (alpha, beta float64) {
	from := Evaluation40G()
	to := Settings{Interval: interval, DeltaF: deltaF, DeltaQ: deltaQ}
	scale := from.queueStep() / to.queueStep()
	return from.Alpha * scale, from.Beta * scale
}

// Validate returns an error that describes all invalid settings.
func (s Settings) Validate() error {
	var err error
	gain := func(name string, v float64) {
		if !(v > 0 && v <= 1000) {
			err = errors.Join(err, fmt.Errorf("%s is %v: choose a gain above 0, up to 1000", name, v))
		}
	}
	gain("alpha", s.Alpha)
	gain("beta", s.Beta)
	if s.Interval <= 0 || s.Interval > units.Second {
		err = errors.Join(err, fmt.Errorf("the interval is %v: choose a time above 0, up to 1s, such as %v", s.Interval, Interval))
	}
	if s.DeltaF <= 0 {
		err = errors.Join(err, fmt.Errorf("ΔF is %d b/s: choose a rate above 0, such as %v", int64(s.DeltaF), DeltaF))
	}
	if s.DeltaQ <= 0 {
		err = errors.Join(err, fmt.Errorf("ΔQ is %d B: choose a size above 0, such as %v", int64(s.DeltaQ), DeltaQ))
	}
	return err
}

// Kappa returns κ = ΔF/ΔQ in 1/s (§5.1): the growth of the queue, in ΔQ per second, when a
// flow sends ΔF too much. ΔF is in bits and ΔQ in bytes, hence the 8: κ = ΔF/(8 ΔQ).
func (s Settings) Kappa() float64 { return float64(s.DeltaF) / (8 * float64(s.DeltaQ)) }

// queueStep returns κT: the growth of the queue per interval, in ΔQ, when a flow sends ΔF too
// much.
func (s Settings) queueStep() float64 { return s.Kappa() * s.Interval.Seconds() }

// zeroLead returns 1/(z1 T) = β/α + 1/2: how far the zero of the controller is below 1/T.
func (s Settings) zeroLead() float64 { return s.Beta/s.Alpha + 0.5 }

// Loop returns the open loop when n flows share the link, n > 0 (§5.1, Eq. 6). The gains are
// fixed; see TunedFor.
func (s Settings) Loop(n int) Loop {
	t := s.Interval.Seconds()
	return Loop{K: s.Kappa() * float64(n) * s.Alpha / t, Zero: 1 / (s.zeroLead() * t), Delay: t}
}
