package switches_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/switches/forward"
	"github.com/weftlab/weft/wire"
)

// modes has all forwarding modes.
var modes = map[string]forward.Settings{
	"ecmp":        nil,
	"random":      &forward.Random{},
	"round-robin": &forward.RoundRobin{},
	"flowlet":     &forward.Flowlet{Gap: units.Microsecond, Table: forward.DefaultTable},
	"entropy":     &forward.Entropy{Divide: 1},
}

// around returns a switch with hosts around it and a group of ports to one more
// endpoint.
func around(hosts int, mode forward.Settings, group []uint16, static bool) *star {
	s := newStar(hosts, 1)
	s.sw.SetForwarding(mode, sim.NewRand(1, "forwarding s1"))
	table := s.sw.Table()
	table.Groups = append(table.Groups, group)
	table.Static = make([]bool, len(table.Groups))
	table.Static[len(table.Groups)-1] = static
	table.Route = append(table.Route, uint16(len(table.Groups)-1))
	s.sw.SetTable(table)
	return s
}

// send sends packets of as many flows to the endpoint behind the group, each 10 us
// after the previous one, and returns the counts by port. in is the port where they
// come in, or -1 for packets that the switch generates.
func (s *star) send(packets, in int) []int {
	to := packet.Endpoint(len(s.hosts))
	for i := range packets {
		p := s.packet(0, to, 100)
		p.Proto, p.SrcPort = wire.ProtoUDP, uint16(1+i)
		p.Hash = packet.FlowHash(1, 2, p.Proto, p.SrcPort, 1)
		now := s.engine.Now() + 10*units.Microsecond
		s.until(now)
		if in < 0 {
			s.sw.OriginatePacket(now, p)
			continue
		}
		s.sw.InputPacket(now, s.sw.Ports[in], p)
	}
	s.finish()
	count := make([]int, len(s.hosts))
	for i, h := range s.hosts {
		count[i] = len(h.got)
		h.got = nil
	}
	return count
}

// TestWeights: in every mode, a port that is in a group twice carries twice as
// much.
func TestWeights(t *testing.T) {
	const packets = 30_000
	for name, mode := range modes {
		got := around(4, mode, []uint16{1, 2, 1}, false).send(packets, 0)
		for port, share := range []float64{0, 2. / 3, 1. / 3, 0} {
			// Four standard deviations; round-robin and entropy are exact.
			if d := float64(got[port]) - packets*share; d*d > 16*packets*share*(1-share) {
				t.Errorf("%s: port %d has %d of %d packets, want %.0f", name, port, got[port], packets, packets*share)
			}
		}
	}
	if got := around(3, modes["round-robin"], []uint16{1, 2, 1}, false).send(packets, 0); !cmp.Equal(got, []int{0, 20_000, 10_000}) {
		t.Errorf("round-robin: %v", got)
	}
}

// TestNotBack: no packet leaves through the port it came in through if there are
// other paths, which share evenly; if there are none it is dropped.
func TestNotBack(t *testing.T) {
	const packets = 30_000
	for name, mode := range modes {
		s := around(4, mode, []uint16{0, 1, 2}, false)
		got := s.send(packets, 1)
		if got[1] != 0 || got[0]+got[2] != packets {
			t.Errorf("%s: packets that came in by port 1 left by %v", name, got)
		}
		if d := float64(got[0] - packets/2); d*d > 16*packets/4 {
			t.Errorf("%s: of the other ports, %v", name, got)
		}
		if got := s.send(packets, -1); got[0]+got[1]+got[2] != packets || got[1] < packets/4 {
			t.Errorf("%s: the switch's own left by %v", name, got)
		}
		for _, group := range [][]uint16{{1}, {1, 1}, {}} {
			s := around(4, mode, group, false)
			in := s.sw.Ports[1]
			if fate := s.sw.PeekFate(0, in, s.packet(0, 4, 100)); fate != packet.NoRoute {
				t.Errorf("%s: foreseen %v with ports %v", name, fate, group)
			}
			if got := s.send(10, 1); !cmp.Equal(got, make([]int, 4)) || in.Counters(0).Drops[packet.NoRoute] != 10 {
				t.Errorf("%s: with ports %v left by %v, %d dropped", name, group, got, in.Counters(0).Drops[packet.NoRoute])
			}
		}
	}
}

// TestPeekFate_ChoosesNothing: observing a port does not change what happens.
func TestPeekFate_ChoosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"random", "round-robin", "flowlet", "entropy"}).Draw(t, "mode")
		seen, unseen := around(5, modes[name], []uint16{1, 2, 3}, true), around(5, modes[name], []uint16{1, 2, 3}, true)
		for range rapid.IntRange(1, 20).Draw(t, "packets") {
			in := rapid.IntRange(0, 4).Draw(t, "in")
			p := seen.packet(0, 5, 100)
			if fate := seen.sw.PeekFate(0, seen.sw.Ports[in], p); fate != packet.Fine || p.StaticHops != 0 {
				t.Fatalf("foreseen %v, hops %d", fate, p.StaticHops)
			}
			seen.pool.Free(p)
			if diff := cmp.Diff(unseen.send(1, in), seen.send(1, in)); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestCircle: two switches that send a packet to each other by static routes do so
// 64 times in total, and then it is dropped, also with links without delay.
func TestCircle(t *testing.T) {
	for _, delay := range []units.Time{0, units.Microsecond} {
		var n network
		h := n.host("h:eth0")
		s1, s2 := switches.New("s1", 1, &n.pool), switches.New("s2", 2, &n.pool)
		n.join(h.port, n.addPort(s1, "s1:h", plenty), 0, 0)
		// Two cables, because no packet goes back where it came from.
		for range 2 {
			n.join(n.addPort(s1, "s1:s2", plenty), n.addPort(s2, "s2:s1", plenty), 0, delay)
		}
		s1.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}}, Static: []bool{false, false, true}, Route: []uint16{1, 2}, Tree: make([]bool, 3)})
		s2.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}}, Static: []bool{false, false, true}, Route: []uint16{1, 2}, Tree: make([]bool, 2)})
		for range 3 {
			h.port.Send(n.engine.Now(), n.packet(0, 1, 100))
		}
		n.finish()
		lost, hops := uint64(0), uint64(0)
		for _, s := range []*switches.Switch{s1, s2} {
			for _, p := range s.Ports {
				c := p.Counters(n.engine.Now())
				lost += c.Drops[packet.Looped]
				hops += c.TxPackets
			}
		}
		if lost != 3 || hops != 3*switches.MaxStaticHops || n.pool.LivePackets() != 0 {
			t.Errorf("delay %v: %d lost after %d hops, %d live; want 3, %d, 0", delay, lost, hops, n.pool.LivePackets(), 3*switches.MaxStaticHops)
		}
		p := n.packet(0, 1, 100)
		p.StaticHops = switches.MaxStaticHops
		if fate := s1.PeekFate(0, s1.Ports[0], p); fate != packet.Looped {
			t.Errorf("foreseen %v at the end", fate)
		}
		n.pool.Free(p)
	}
}

// TestTableWeights reads a group back.
func TestTableWeights(t *testing.T) {
	table := switches.Table{Groups: [][]uint16{nil, {3, 1, 3}}, Static: []bool{false, true}}
	ports, weights := table.GroupWeights(1)
	if !cmp.Equal(ports, []uint16{3, 1}) || !cmp.Equal(weights, []int{2, 1}) || !table.IsStatic(1) || table.IsStatic(0) || table.IsStatic(2) {
		t.Errorf("ports %v, weights %v", ports, weights)
	}
}
