// Package qcnswitch implements the congestion point of QCN (IEEE 802.1Q clauses 30 to 32,
// 802.1Qau) at an egress queue. It samples frames and, when the queue is too long or grows,
// sends a congestion notification message to the source of the frame. Package protocols/qcn
// has the computation, the message, and the reaction point.
//
// A message is a frame without IP, so it does not cross routers, and without a VLAN tag, so
// it belongs to the class of untagged frames.
package qcnswitch

import (
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/protocols/qcn"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire"
	"github.com/weftlab/weft/wire/roce"
)

// Settings holds the parameters of qcn.CPConfig.
type Settings struct {
	QSp             units.Bytes `yaml:"cp_qsp,omitempty" json:"cp_qsp" jsonschema_description:"set point of the queue; default 26KB"`
	W               float64     `yaml:"cp_w,omitempty" json:"cp_w" jsonschema_description:"weight of the queue's growth against its length, 0.001 to 1024; default 2"`
	SampleBase      units.Bytes `yaml:"cp_sample_base,omitempty" json:"cp_sample_base" jsonschema_description:"bytes between samples without congestion; default 150KB"`
	MinHeaderOctets units.Bytes `yaml:"cp_min_header_octets,omitempty" json:"cp_min_header_octets" jsonschema_description:"amount of a sampled frame that a message carries, 0B to 64B; default 0B"`
}

func init() {
	congestion.Points.Register("qcn", congestion.Kind{
		Summary: "QCN (802.1Qau): samples frames and notifies their senders of congestion, for cc: qcn",
		Settings: func(string, units.Rate) congestion.Settings {
			c := qcn.StandardCP()
			return &Settings{c.QSp, c.W, c.SampleBase, c.MinHeaderOctets}
		},
		Gauges: []gauge.Gauge{
			{Name: "fb", Help: "current quantized feedback of a sample, 0 to 63", Brief: true},
			{Name: "messages", Help: "congestion notification messages sent"},
		},
		NotRouted: "messages of QCN do not cross routers",
	})
}

// Validate implements congestion.Settings.
func (s *Settings) Validate(limit units.Bytes) error {
	var c registry.Check
	switch {
	case s.QSp <= 0:
		c.AddRange("cp_qsp", s.QSp, "the target length of the queue, such as 26KB")
	case limit > 0 && s.QSp >= limit:
		c.AddRange("cp_qsp", s.QSp, "less than %v, as the queue never grows beyond that", limit)
	}
	if !(s.W >= 0.001 && s.W <= 1024) {
		c.AddRange("cp_w", s.W, "a number from 0.001 to 1024")
	}
	if s.SampleBase <= 0 {
		c.AddRange("cp_sample_base", s.SampleBase, "an amount above 0, such as 150KB")
	}
	if s.MinHeaderOctets < 0 || s.MinHeaderOctets > qcn.MaxMSDU {
		c.AddRange("cp_min_header_octets", s.MinHeaderOctets, "0B to %dB", qcn.MaxMSDU)
	}
	return c.Err()
}

// New implements congestion.Settings.
func (s *Settings) New(env congestion.Env) congestion.Point {
	return &point{env: env, keep: int(s.MinHeaderOctets), cp: qcn.NewCP(qcn.CPConfig{QSp: s.QSp, W: s.W, SampleBase: s.SampleBase, MinHeaderOctets: s.MinHeaderOctets}, env.Rand)}
}

// point samples the packets that join a queue.
type point struct {
	congestion.Passive
	env  congestion.Env
	cp   *qcn.CP
	keep int // of a sampled frame, bytes
	sent uint64
	buf  []byte
}

// OnEnqueue implements congestion.Point.
func (c *point) OnEnqueue(_ units.Time, q congestion.Queue, p *packet.Packet) packet.Fate {
	if p.Message != nil && p.Message.Protocol == qcn.Protocol {
		return packet.Fine
	}
	if s, tell := c.cp.CountFrame(p.Size, q.Bytes+p.Size); tell {
		c.sendCNM(s, p)
	}
	return packet.Fine
}

// sendCNM sends a message about a sampled frame to its source.
func (c *point) sendCNM(s qcn.Sample, sampled *packet.Packet) {
	m := c.env.NewReply(sampled, qcn.Protocol)
	if m == nil {
		return
	}
	dst, _ := sampled.MACs()
	b := m.Message.Body.(*qcn.CNM)
	b.Flow, b.Fb, b.Point = sampled.FlowKey(roce.Port), s.Fb, c.env.ID
	b.QOffset, b.QDelta, b.Priority, b.DA = s.QOffset, s.QDelta, sampled.Prio, dst
	if c.keep > 0 && sampled.HasBytes() {
		c.buf = c.env.Pool.Render(sampled, c.buf[:0])
		msdu := c.buf[2*wire.MACLen:]
		b.MSDU = append(b.MSDU, msdu[:min(len(msdu), c.keep)]...)
	}
	c.sent++
	c.env.Send(m)
}

// AppendGauges implements congestion.Point.
func (c *point) AppendGauges(_ units.Time, q congestion.Queue, values []float64) []float64 {
	return append(values, float64(c.cp.SampleQueue(q.Bytes).Fb), float64(c.sent))
}

// ArrivalsOnly marks the point as one that only judges arrivals.
func (*point) ArrivalsOnly() {}
