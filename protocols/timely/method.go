package timely

import (
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

func init() {
	cc.Methods.Register("timely", cc.Method{
		Summary: "TIMELY (Mittal et al., SIGCOMM 2015): the gradient of RTTs sets the rate; the preset patched is the version of Zhu et al. (CoNEXT 2016)",
		Presets: Presets,
		Preset: func(name string, line units.Rate) cc.Settings {
			c := Preset(name, line)
			return &c
		},
		Gauges: []gauge.Gauge{
			{Name: "rtt", Unit: gauge.Seconds, Help: "RTT at the last completion event", Brief: true},
			{Name: "gradient", Help: "smoothed difference of RTTs, in units of min_rtt", Brief: true},
			{Name: "min_rtt", Unit: gauge.Seconds, Help: "divisor of RTT differences"},
			{Name: "falling", Help: "completion events in a row without a rising RTT"},
		},
	})
}

// AppendGauges implements cc.Control.
func (t *Timely) AppendGauges(_ units.Time, values []float64) []float64 {
	minRTT := gauge.None
	if t.minRTT > 0 {
		minRTT = gauge.TimeValue(units.Time(t.minRTT))
	}
	if t.prevRTT == 0 {
		return append(values, gauge.None, gauge.None, minRTT, gauge.None)
	}
	return append(values, gauge.TimeValue(units.Time(t.prevRTT)), t.rttGradient(), minRTT, float64(t.falling))
}
