package brake

import (
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/registry"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// EdgeSettings are the settings of edge: {brake: ...}.
type EdgeSettings struct {
	Pause units.Time `yaml:"pause,omitempty" json:"pause" jsonschema_description:"how long a message holds up the packets of programs; default 20us"`
}

func init() {
	edge.Services.Register("brake", edge.Kind{
		Summary:  "messages of switches with mark: brake hold up the traffic of programs for a while",
		Settings: func(string, units.Rate) edge.Settings { return &EdgeSettings{Pause: 20 * units.Microsecond} },
		Gauges:   []gauge.Gauge{{Name: "notices", Help: "messages received", Brief: true}},
	})
}

// Validate implements edge.Settings.
func (s *EdgeSettings) Validate(units.Rate) error {
	var c registry.Check
	c.CheckTime("pause", s.Pause, units.Picosecond)
	return c.Err()
}

// New implements edge.Settings.
func (s *EdgeSettings) New(env edge.Env) edge.Service { return &service{settings: s, env: env} }

// service is the edge service of one interface: a queue for each class, which nothing
// leaves before a time.
type service struct {
	edge.Flowless // it tells no flows apart
	settings      *EdgeSettings
	env           edge.Env
	until         units.Time
	queues        [class.Count]packet.List
	held          [class.Count]units.Bytes
	packets       int
	notices       uint64
}

// SendPacket holds a packet until the port asks for it.
func (s *service) SendPacket(now units.Time, p *packet.Packet) {
	limit := s.env.Limit[p.Prio]
	switch {
	case p.Version == 0 || p.Kind == packet.Protocol: // ARP, messages
		s.env.Pass(now, p)
		return
	case limit > 0 && s.held[p.Prio]+p.Size > limit:
		s.env.Drop(now, p, packet.QueueFull)
		return
	}
	s.queues[p.Prio].Push(p)
	s.held[p.Prio] += p.Size
	s.packets++
	s.env.Waits(now, p) // a real host's programs are kept from sending too much
	s.announceNext(now, p.Prio)
}

// announceNext tells the port what there is to send of a class.
func (s *service) announceNext(now units.Time, prio uint8) {
	size := units.Bytes(0)
	if p := s.queues[prio].First(); p != nil && now >= s.until {
		size = p.Size
	}
	s.env.AnnouncePacket(now, prio, size)
}

// Next gives the port a packet.
func (s *service) Next(now units.Time, prio uint8) *packet.Packet {
	if s.queues[prio].First() == nil || now < s.until {
		return nil
	}
	p := s.queues[prio].Pop()
	s.held[prio] -= p.Size
	s.packets--
	s.env.Leaves(now, p)
	s.announceNext(now, prio)
	return p
}

// WantsPacket takes messages about flows that are not a NIC's.
func (s *service) WantsPacket(p *packet.Packet) bool {
	return p.Kind == packet.Protocol && p.Message.Protocol == Protocol && !p.Trimmed && !p.Returned &&
		p.Message.Body.(*Notice).Flow.QP == 0
}

// ReceivePacket brakes.
func (s *service) ReceivePacket(now units.Time, p *packet.Packet) {
	s.notices++
	s.until = now + s.settings.Pause
	s.env.Arm(s.until)
	s.feedAll(now)
	s.env.Consume(now, p)
}

// Fire lets go.
func (s *service) Fire(now units.Time) { s.feedAll(now) }

func (s *service) feedAll(now units.Time) {
	for prio := range s.queues {
		s.announceNext(now, uint8(prio))
	}
}

// SetLineRate implements edge.Service: nothing depends on the rate of the link.
func (s *service) SetLineRate(units.Time, units.Rate) {}

// HeldPackets implements edge.Service.
func (s *service) HeldPackets() (packets int, bytes units.Bytes) {
	for _, held := range s.held {
		bytes += held
	}
	return s.packets, bytes
}

// AppendGauges implements edge.Service.
func (s *service) AppendGauges(_ units.Time, values []float64) []float64 {
	return append(values, float64(s.notices))
}
