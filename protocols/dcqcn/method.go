package dcqcn

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("dcqcn", cc.Method{
		Summary: "DCQCN (Zhu et al., SIGCOMM 2015): receivers answer marks with CNPs, which lower the rate of the flow",
		Presets: Presets,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "limited", Unit: gauge.YesNo, Help: "whether a CNP has arrived"},
			{Name: "target_rate", Unit: gauge.BitsPerSecond, Help: "rate that increases approach"},
			{Name: "alpha", Unit: gauge.Share, Help: "estimate of congestion", Brief: true},
			{Name: "time_stage", Help: "increases by the timer since the last decrease"},
			{Name: "byte_stage", Help: "increases by the byte counter since the last decrease"},
		},
	})
}

// Traits implements cc.Settings: marks are answered by CNPs.
func (c *Config) Traits() cc.Traits {
	return cc.Traits{ECT: true, Marks: cc.AnswerCNP, CNPGap: c.NPMinTimeBetweenCNPs, CNPDSCP: uint8(c.NPCNPDSCP)}
}

// New implements cc.Settings.
func (c *Config) New(f cc.Flow) cc.Control { return New(c, f.Line) }

// AppendGauges implements cc.Control.
func (r *Reaction) AppendGauges(now units.Time, values []float64) []float64 {
	s := r.State(now)
	if !s.Limited {
		return append(values, 0, gauge.None, gauge.None, gauge.None, gauge.None)
	}
	return append(values, 1, gauge.RateValue(s.Target), float64(s.Alpha), float64(s.TimeStage), float64(s.ByteStage))
}
