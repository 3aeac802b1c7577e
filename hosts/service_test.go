package hosts

import (
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/class"
)

// holding is an edge service that holds the packets of the host until its timer fires, and takes
// arriving packets with a body of its protocol.
type holding struct {
	edge.Flowless
	env  edge.Env
	held packet.List
	n    int
	size units.Bytes
	line units.Rate
	took []*packet.Packet
	nic  edge.Feeder
}

// holds are the settings of a holding. The service that they make is in made.
type holds struct{ made *holding }

func (h *holds) Validate(units.Rate) error { return nil }

func (h *holds) New(env edge.Env) edge.Service {
	h.made = &holding{env: env, line: env.Line}
	return h.made
}

// addHolding gives an interface a holding.
func addHolding(i *Interface) *holding {
	var h holds
	i.AddEdge(edge.Choice{Name: "test-holding", Settings: &h}, [class.Count]units.Bytes{}, nil)
	return h.made
}

func (s *holding) SendPacket(now units.Time, p *packet.Packet) {
	s.held.Push(p)
	s.n++
	s.size += p.Size
	s.env.Waits(now, p)
	s.env.Arm(now + units.Microsecond)
}

func (s *holding) Fire(now units.Time) {
	if p := s.held.First(); p != nil {
		s.env.AnnouncePacket(now, p.Prio, p.Size)
	}
}

func (s *holding) Next(now units.Time, _ uint8) *packet.Packet {
	p := s.held.Pop()
	s.n--
	s.size -= p.Size
	s.env.Leaves(now, p)
	next := units.Bytes(0)
	if s.held.First() != nil {
		next = s.held.First().Size
	}
	s.env.AnnouncePacket(now, p.Prio, next)
	return p
}

func (s *holding) WantsPacket(p *packet.Packet) bool { return p.Kind == packet.Protocol }

func (s *holding) ReceivePacket(_ units.Time, p *packet.Packet) { s.took = append(s.took, p) }

func (s *holding) SetLineRate(_ units.Time, r units.Rate)                { s.line = r }
func (s *holding) HeldPackets() (int, units.Bytes)                       { return s.n, s.size }
func (s *holding) AppendGauges(_ units.Time, values []float64) []float64 { return values }
