package roccswitch

import (
	"errors"

	"github.com/weftlab/weft/protocols/rocc"
	"github.com/weftlab/weft/protocols/rocc/flowtable"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
)

// Settings holds the settings under mark: {rocc: ...}. Parameters of the table that are 0
// mean the table's defaults.
type Settings struct {
	rocc.Params `yaml:",inline"`
	Table       flowtable.Kind `yaml:"table,omitempty" json:"table" jsonschema_description:"which flows get messages; default queued"`
	TableSize   int            `yaml:"table_size,omitempty" json:"table_size,omitempty" jsonschema_description:"maximum number of flows in a bounded or sampled table; default f_max/f_min, four times that for afd"`
	TableAge    units.Time     `yaml:"table_age,omitempty" json:"table_age,omitempty" jsonschema_description:"time after which bounded or bubble-cache forgets a flow; default 1ms"`
	TableSample int            `yaml:"table_sample,omitempty" json:"table_sample,omitempty" jsonschema_description:"one packet in this many is sampled; default 8"`
	Compute     rocc.Compute   `yaml:"compute,omitempty" json:"compute" jsonschema_description:"where the fair rate is computed: the switch, the sender from messages (host), or the sender from a registry of parameters (registry); default switch"`
	DSCP        int            `yaml:"dscp,omitempty" json:"dscp" jsonschema:"minimum=0,maximum=63" jsonschema_description:"DSCP of messages, 0 to 63, for a class above others; default 48"`
}

func init() {
	congestion.Points.Register("rocc", congestion.Kind{
		Summary: "RoCC (CoNEXT 2020): computes the fair rate of the queue's flows and sends it to their senders, for cc: rocc",
		Settings: func(_ string, rate units.Rate) congestion.Settings {
			return &Settings{Params: rocc.PaperParams(rate), Table: flowtable.Queued, DSCP: 48}
		},
		ByRate: true,
		Gauges: []gauge.Gauge{
			{Name: "fair_rate", Unit: gauge.BitsPerSecond, Help: "rate sent to the flows", Brief: true},
			{Name: "flows", Help: "flows in the flow table", Brief: true},
			{Name: "ratio", Help: "divisor of the gains, 1 to 64"},
			{Name: "messages", Help: "messages sent"},
		},
	})
}

// samplesPerFlow is the number of samples per flow in a table of kind afd when all flows
// are alike: with fewer it misses flows for whole intervals.
const samplesPerFlow = 4

// tableConfig returns the flow table's parameters. A table with a size has room for f_max/f_min
// flows by default: no more flows can all have f_min.
func (s *Settings) tableConfig() flowtable.Config {
	c := flowtable.Config{Kind: s.Table, Size: s.TableSize, Age: s.TableAge, Sample: s.TableSample}
	if c.Size == 0 && c.Kind.Defaults().Size > 0 && s.FMin > 0 {
		n := s.FMax / s.FMin
		if c.Kind == flowtable.AFD {
			n *= samplesPerFlow
		}
		c.Size = int(min(n, flowtable.MaxSize))
	}
	return c
}

// Validate implements congestion.Settings.
func (s *Settings) Validate(limit units.Bytes) error {
	var c registry.Check
	c.CheckNumber("dscp", s.DSCP, 0, 63)
	if s.Rule == rocc.Proportional && s.Compute != rocc.AtSwitch {
		c.AddRange("rule", s.Rule, "%s beside compute: %v, as hosts know no other rule", rocc.AutoTuned, s.Compute)
	}
	return errors.Join(s.Params.Validate(limit), s.tableConfig().Validate(), c.Err())
}

// New implements congestion.Settings.
func (s *Settings) New(env congestion.Env) congestion.Point {
	p := &point{settings: s, env: env, fair: rocc.NewPoint(&s.Params), law: s.Law(), table: flowtable.New(s.tableConfig(), env.Rand)}
	// Switches are not synchronised.
	p.phase = units.Time(env.Rand.Int64N(int64(s.Interval)))
	p.next = p.phase
	return p
}
