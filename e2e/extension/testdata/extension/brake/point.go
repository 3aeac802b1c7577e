package brake

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire/roce"
)

// PointSettings are what stands behind mark: {brake: ...}. A key without omitempty must be
// in the file.
type PointSettings struct {
	Above units.Bytes `yaml:"above" json:"above" jsonschema_description:"queue length from which senders are notified"`
	Gap   units.Time  `yaml:"gap,omitempty" json:"gap" jsonschema_description:"minimum time between two messages; default 20us"`
	DSCP  int         `yaml:"dscp,omitempty" json:"dscp" jsonschema:"minimum=0,maximum=63" jsonschema_description:"DSCP of messages, 0 to 63; default 48"`
}

func init() {
	congestion.Points.Register("brake", congestion.Kind{
		Summary: "notifies the senders of packets that meet a long queue, for cc: brake",
		Settings: func(string, units.Rate) congestion.Settings {
			return &PointSettings{Gap: 20 * units.Microsecond, DSCP: 48}
		},
		Gauges: []gauge.Gauge{{Name: "notices", Help: "messages sent", Brief: true}},
	})
}

// Validate implements congestion.Settings. A limit of 0 is a queue without a bound.
func (s *PointSettings) Validate(limit units.Bytes) error {
	var c registry.Check
	if s.Above <= 0 || limit > 0 && s.Above >= limit {
		c.AddRange("above", s.Above, "a length above 0 and less than the queue's limit, such as 50KB")
	}
	c.CheckTime("gap", s.Gap, 0)
	c.CheckNumber("dscp", s.DSCP, 0, 63)
	return c.Err()
}

// New implements congestion.Settings.
func (s *PointSettings) New(env congestion.Env) congestion.Point {
	return &point{settings: s, env: env}
}

// point is the congestion point of one queue. It judges arrivals alone.
type point struct {
	congestion.Passive
	settings *PointSettings
	env      congestion.Env
	next     units.Time // the earliest next message
	notices  uint64
}

// ArrivalsOnly implements congestion.ArrivalsOnly.
func (*point) ArrivalsOnly() {}

// OnEnqueue tells the sender of p if the queue is long. All packets may join.
func (c *point) OnEnqueue(now units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	if q.Bytes < c.settings.Above || now < c.next || p.Message != nil {
		return packet.Fine
	}
	m := c.env.NewReply(p, Protocol)
	if m == nil { // nobody to tell
		return packet.Fine
	}
	m.TOS = uint8(c.settings.DSCP) << 2
	m.SrcPort = Port
	body := m.Message.Body.(*Notice)
	body.Flow, body.Queue = p.FlowKey(roce.Port), q.Bytes
	c.env.Send(m)
	c.notices++
	c.next = now + c.settings.Gap
	return packet.Fine
}

// AppendGauges implements congestion.Point.
func (c *point) AppendGauges(_ units.Time, _ congestion.Queue, values []float64) []float64 {
	return append(values, float64(c.notices))
}
