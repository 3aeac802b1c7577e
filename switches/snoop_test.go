package switches_test

import (
	"slices"
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// mld returns a frame with a message of MLD, as Linux sends it.
func (s *star) mld(kind byte) *packet.Packet {
	b := append([]byte{0x33, 0x33, 0, 0, 0, 0x16, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, 0, 1, 0xfe, 0x80}, make([]byte, 13)...)
	b = append(b, 1, 0xff, 2)
	b = append(b, make([]byte, 13)...)
	b = append(b, 0x16, 58, 0, 5, 2, 0, 0, 1, 0, kind)
	p := s.pool.NewFrame(90)
	copy(p.Frame, b)
	p.Parse()
	p.Kind, p.Dest = packet.Real, packet.Flood
	return p
}

// TestReports_GoToMulticastRoutersOnly: a switch keeps reports about groups until it hears a query,
// and then sends them only where that came from, until there have been none for long.
func TestReports_GoToMulticastRoutersOnly(t *testing.T) {
	const report, query = 143, 130
	s := newStar(4, 1)
	steps := []struct {
		at   units.Time
		from int
		kind byte
		want []int // hosts that get it
	}{
		{0, 0, report, nil},
		{units.Second, 2, query, []int{0, 1, 3}},
		{2 * units.Second, 0, report, []int{2}},
		{2 * units.Second, 2, report, nil}, // the router's own
		{3 * units.Second, 3, query, []int{0, 1, 2}},
		{4 * units.Second, 1, report, []int{2, 3}},
		{257 * units.Second, 1, report, []int{3}},
		{300 * units.Second, 1, report, nil},
	}
	kept := uint64(0)
	for i, c := range steps {
		for _, h := range s.hosts {
			h.got = nil
		}
		p := s.mld(c.kind)
		if got := s.sw.PeekFate(c.at, s.sw.Ports[c.from], p); got != packet.Fine {
			t.Errorf("step %d: foreseen %v", i, got)
		}
		s.sw.InputPacket(c.at, s.sw.Ports[c.from], p)
		s.finish()
		var got []int
		for h := range s.hosts {
			if len(s.hosts[h].got) > 0 {
				got = append(got, h)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("step %d: %v got it, want %v", i, got, c.want)
		}
		if c.want == nil {
			kept++
		}
	}
	if s.sw.ConsumedPackets() != kept || s.pool.LivePackets() != 0 {
		t.Errorf("%d kept, want %d; %d live", s.sw.ConsumedPackets(), kept, s.pool.LivePackets())
	}
}
