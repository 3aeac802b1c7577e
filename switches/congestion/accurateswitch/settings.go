package accurateswitch

import (
	"github.com/weftlab/weft/protocols/accurate"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// Settings holds the settings under mark: {accurate: ...}.
type Settings struct {
	accurate.PointConfig `yaml:",inline"`
}

func init() {
	congestion.Points.Register("accurate", congestion.Kind{
		Summary: "ACCurate: computes the max-min fair share of the link's flows from their FRPs, without a table of flows, for cc: accurate; set it for the class of FRPs",
		Settings: func(_ string, rate units.Rate) congestion.Settings {
			return &Settings{PointConfig: accurate.PaperPoint(rate)}
		},
		ByRate: true, AtHosts: true,
		Gauges: []gauge.Gauge{
			{Name: "fsr", Unit: gauge.BitsPerSecond, Help: "FSR, the fair share rate of this period", Brief: true},
			{Name: "m", Help: "M of the last period: flows that are bottlenecked here", Brief: true},
			{Name: "b", Unit: gauge.BitsPerSecond, Help: "B of the last period: the rates of flows that are bottlenecked elsewhere", Brief: true},
			{Name: "b_max", Unit: gauge.BitsPerSecond, Help: "b_max of the last period: the largest of these rates"},
			{Name: "flows", Help: "flows counted in the last period", Brief: true},
			{Name: "frps", Help: "FRPs of continuing flows"},
			{Name: "inits", Help: "flow-inits"},
			{Name: "stops", Help: "flow-stops"},
			{Name: "shorts", Help: "short-circuit replies sent"},
		},
	})
}

// Validate implements congestion.Settings. The queue's limit does not matter for FRPs.
func (s *Settings) Validate(units.Bytes) error { return s.PointConfig.Validate() }

// New implements congestion.Settings.
func (s *Settings) New(env congestion.Env) congestion.Point {
	return &point{env: env, point: accurate.NewPoint(&s.PointConfig, s.Clocks.New(env.Rand))}
}
