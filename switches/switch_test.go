package switches_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches"
	"github.com/weftlab/weft/wire"
)

// star is a switch with one host at every port; host i is at port i.
type star struct {
	network
	sw *switches.Switch
}

func newStar(hosts int, seed uint64) *star {
	s := &star{}
	s.sw = switches.New("s1", seed, &s.pool)
	table := switches.Table{Groups: [][]uint16{nil}}
	for i := range hosts {
		h := s.host(fmt.Sprintf("h%d:eth0", i))
		s.join(h.port, s.addPort(s.sw, fmt.Sprintf("s1:%d", i), plenty), 0, 0)
		table.Groups = append(table.Groups, []uint16{uint16(i)})
		table.Route = append(table.Route, uint16(i+1))
		table.Tree = append(table.Tree, true)
	}
	s.sw.SetTable(table)
	return s
}

// TestForward: a packet leaves through the port of its destination, once, and no
// time passes in the switch itself.
func TestForward(t *testing.T) {
	s := newStar(4, 1)
	for from := range s.hosts {
		for to := range s.hosts {
			if from != to {
				s.hosts[from].port.Send(s.engine.Now(), s.packet(packet.Endpoint(from), packet.Endpoint(to), 100))
			}
		}
	}
	s.finish()
	for i, h := range s.hosts {
		if len(h.got) != 3 {
			t.Errorf("host %d got %v, want one packet of each other host", i, h.got)
		}
		for _, g := range h.got {
			if g.At != 0 {
				t.Errorf("host %d got packet %d at %v; nothing on the way takes time", i, g.ID, g.At)
			}
		}
	}
	if s.pool.LivePackets() != 0 || s.sw.ReplicatedPackets() != 0 || s.sw.OriginatedPackets() != 0 {
		t.Errorf("live %d, copies %d, own %d; want none", s.pool.LivePackets(), s.sw.ReplicatedPackets(), s.sw.OriginatedPackets())
	}
}

// TestStoreAndForward: the switch begins to send when the last bit has arrived.
func TestStoreAndForward(t *testing.T) {
	var n network
	sw := switches.New("s1", 1, &n.pool)
	a, b := n.host("a:eth0"), n.host("b:eth0")
	n.join(a.port, n.addPort(sw, "s1:1", plenty), 10*units.Gbps, 3*units.Microsecond)
	n.join(b.port, n.addPort(sw, "s1:2", plenty), units.Gbps, 5*units.Microsecond)
	sw.SetTable(switches.Table{Groups: [][]uint16{nil, {0}, {1}}, Route: []uint16{1, 2}, Tree: []bool{true, true}})
	for range 2 {
		a.port.Send(0, n.packet(a.id, b.id, 1514))
	}
	n.finish()
	// 1538 bytes take 1.2304 us and then 12.304 us; the second waits for the
	// first at the slower link.
	first := units.Time(1_230_400 + 3_000_000 + 12_304_000 + 5_000_000)
	if want := []came{{first, 0}, {first + 12_304_000, 1}}; !cmp.Equal(b.got, want) {
		t.Errorf("arrived %v, want %v", b.got, want)
	}
}

// TestNoWay: a packet that has no route, or would go back where it came from, is
// dropped at the port it came in through. PeekFate predicts that.
func TestNoWay(t *testing.T) {
	s := newStar(3, 1)
	table := s.sw.Table()
	table.Route = []uint16{1, 2, 0}
	s.sw.SetTable(table)
	in := s.sw.Ports[0]
	for _, c := range []struct {
		name string
		dest packet.Endpoint
		want packet.Fate
	}{{"a route", 1, packet.Fine}, {"no route", 2, packet.NoRoute}, {"the way it came", 0, packet.NoRoute}} {
		before := in.Counters(0)
		p := s.packet(0, c.dest, 100)
		if got := s.sw.PeekFate(0, in, p); got != c.want {
			t.Errorf("%s: foreseen %v, want %v", c.name, got, c.want)
		}
		s.sw.InputPacket(0, in, p)
		s.finish()
		after := in.Counters(0)
		if lost := after.Drops[packet.NoRoute] - before.Drops[packet.NoRoute]; (lost == 1) != (c.want == packet.NoRoute) || lost > 1 {
			t.Errorf("%s: %d lost at the port it came in by", c.name, lost)
		}
	}
	if got := len(s.hosts[1].got); got != 1 || len(s.hosts[0].got)+len(s.hosts[2].got) != 0 || s.pool.LivePackets() != 0 {
		t.Errorf("%d arrived, %d live", got, s.pool.LivePackets())
	}
}

// TestFlood: a copy leaves by every port of the tree that has a link, except the
// one the packet came in through, with random trees and cables.
func TestFlood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStar(rapid.IntRange(1, 7).Draw(t, "ports"), 1)
		table := s.sw.Table()
		in := rapid.IntRange(0, len(s.hosts)-1).Draw(t, "in")
		want := make([]int, len(s.hosts))
		copies := uint64(0)
		for i := range s.hosts {
			table.Tree[i] = rapid.IntRange(0, 3).Draw(t, "in the tree") > 0
			cable := rapid.IntRange(0, 3).Draw(t, "cable") > 0
			if !cable {
				s.sw.Ports[i].ConnectLink(nil)
			}
			if i != in && table.Tree[i] && cable {
				want[i] = 1
				copies++
			}
		}
		p := s.pool.NewFrame(100)
		p.Dest, p.Size, p.ID = packet.Flood, 100, 7
		for i := range p.Frame {
			p.Frame[i] = byte(i)
		}
		for _, h := range s.hosts {
			h.keep = func(p *packet.Packet) {
				if p.ID != 7 || p.Frame[99] != 99 || p.Dest != packet.Flood {
					t.Fatalf("a copy differs: %+v", p)
				}
				p.Frame[99] = 0 // another copy must not see this
			}
		}
		fate := packet.Fine
		if copies == 0 {
			fate = packet.NoRoute
		}
		if got := s.sw.PeekFate(0, s.sw.Ports[in], p); got != fate {
			t.Fatalf("foreseen %v, want %v", got, fate)
		}
		s.sw.InputPacket(0, s.sw.Ports[in], p)
		s.finish()
		got := make([]int, len(s.hosts))
		for i, h := range s.hosts {
			got[i] = len(h.got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("packets by host (-want +got):\n%s", diff)
		}
		if s.sw.ReplicatedPackets() != max(copies, 1)-1 {
			t.Fatalf("%d copies counted for %d ports", s.sw.ReplicatedPackets(), copies)
		}
		if lost := s.sw.Ports[in].Counters(0).Drops[packet.NoRoute]; (lost == 1) != (copies == 0) || s.pool.LivePackets() != 0 {
			t.Fatalf("%d lost, %d live", lost, s.pool.LivePackets())
		}
	})
}

// multipath returns a switch with a group of ports of equal cost to one endpoint
// behind its last ports; port 0 is where packets come in.
func multipath(paths int, seed uint64) *star {
	s := newStar(paths+1, seed)
	table := s.sw.Table()
	var group []uint16
	for i := range paths {
		group = append(group, uint16(i+1))
	}
	table.Groups = append(table.Groups, group)
	table.Route = append(table.Route, uint16(len(table.Groups)-1))
	s.sw.SetTable(table)
	return s
}

// paths returns the port through which each of the flows leaves.
func (s *star) paths(flows int) []int {
	took := make([]int, flows)
	for i, h := range s.hosts {
		h.keep = func(p *packet.Packet) { took[p.ID] = i }
	}
	for i := range took {
		p := s.packet(0, packet.Endpoint(len(s.hosts)), 100)
		p.ID, p.Hash = uint64(i), packet.FlowHash(0x0a000001, 0x0a000002, wire.ProtoUDP, uint16(i), 5001)
		s.sw.InputPacket(0, s.sw.Ports[0], p)
	}
	s.finish()
	return took
}

// quantile has the 99.99% quantiles of chi-square by the number of paths.
var quantile = map[int]float64{2: 15.14, 3: 18.42, 4: 21.11, 8: 29.88}

// chiSquare measures how far the counts are from even.
func chiSquare(count []float64) (chi float64) {
	var sum float64
	for _, n := range count {
		sum += n
	}
	even := sum / float64(len(count))
	for _, n := range count {
		chi += (n - even) * (n - even) / even
	}
	return chi
}

// TestECMP: flows spread evenly, each keeps its path, another seed chooses
// differently, and the next switch spreads the flows of one path of the first
// evenly again.
func TestECMP(t *testing.T) {
	const flows = 20_000
	for paths, bound := range quantile {
		one := multipath(paths, 1).paths(flows)
		if diff := cmp.Diff(one, multipath(paths, 1).paths(flows)); diff != "" {
			t.Fatalf("%d paths: the same flows with the same seed take other ways", paths)
		}
		count := make([]float64, paths)
		for _, p := range one {
			if p == 0 {
				t.Fatalf("%d paths: a packet went back", paths)
			}
			count[p-1]++
		}
		if chi := chiSquare(count); chi > bound {
			t.Errorf("%d paths: %v, chi-square %.1f beyond %v", paths, count, chi, bound)
		}
		for seed := range uint64(4) {
			// With each path of the first switch in turn.
			next := multipath(paths, seed+2).paths(flows)
			for first := range paths {
				count := make([]float64, paths)
				for flow, p := range next {
					if one[flow] == first+1 {
						count[p-1]++
					}
				}
				if chi := chiSquare(count); chi > bound {
					t.Errorf("%d paths: flows of path %d at a switch with seed %d: %v, chi-square %.1f", paths, first, seed+2, count, chi)
				}
			}
		}
	}
}

// TestOriginate: packets that the switch generates are sent to their destination,
// also broadcast; those without a route are counted and freed.
func TestOriginate(t *testing.T) {
	s := newStar(3, 1)
	s.sw.OriginatePacket(0, s.packet(0, 2, 100))
	s.sw.OriginatePacket(0, s.packet(0, packet.Flood, 100))
	s.finish()
	if got := []int{len(s.hosts[0].got), len(s.hosts[1].got), len(s.hosts[2].got)}; !cmp.Equal(got, []int{1, 1, 2}) {
		t.Errorf("packets by host %v, want 1, 1, 2", got)
	}
	if s.sw.OriginatedPackets() != 2 || s.sw.UnsentPackets() != 0 || s.sw.ReplicatedPackets() != 2 {
		t.Errorf("originated %d, copies %d; want 2, 2", s.sw.OriginatedPackets(), s.sw.ReplicatedPackets())
	}
	s.sw.SetTable(switches.Table{Groups: [][]uint16{nil}, Route: []uint16{0, 0, 0}, Tree: make([]bool, 3)})
	s.sw.OriginatePacket(0, s.packet(0, 2, 100))
	s.sw.OriginatePacket(0, s.packet(0, packet.Flood, 100))
	s.finish()
	if s.sw.OriginatedPackets() != 4 || s.sw.UnsentPackets() != 2 || s.pool.LivePackets() != 0 {
		t.Errorf("without a way: originated %d, unsent %d, live %d", s.sw.OriginatedPackets(), s.sw.UnsentPackets(), s.pool.LivePackets())
	}
}
