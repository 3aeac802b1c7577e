package edge

import (
	"testing"

	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
)

// stock is a feeder with some packets of a size.
type stock struct {
	port Port
	pool *packet.Pool
	size units.Bytes
	left int
	lies bool // about the last one
}

func (s *stock) tell() {
	size := s.size
	if s.left == 0 {
		size = 0
	}
	s.port.AnnouncePacket(0, 3, size)
}

func (s *stock) Next(units.Time, uint8) *packet.Packet {
	if s.left == 0 || s.lies && s.left == 1 {
		return nil
	}
	s.left--
	p := s.pool.New()
	p.Size = s.size
	s.tell()
	return p
}

// slot is a port that records what is fed.
type slot struct{ fed units.Bytes }

func (s *slot) AnnouncePacket(_ units.Time, _ uint8, size units.Bytes) { s.fed = size }

// TestOutletTakesTurns: two feeders of one port take turns; one that has nothing, or nothing after
// all, does not hold up the other; and the port knows what comes next.
func TestOutletTakesTurns(t *testing.T) {
	port, pool := &slot{}, packet.NewPools(1)[0]
	o := NewOutlet(port)
	a, b := &stock{pool: pool, size: 100, left: 4, lies: true}, &stock{pool: pool, size: 200, left: 6}
	a.port, b.port = o.ServicePort(a), o.NICPort(b)
	a.tell()
	b.tell()
	var got []units.Bytes
	for {
		fed := port.fed
		p := o.Next(0, 3)
		if p == nil {
			break
		}
		if p.Size != fed && !(a.left == 1 && fed == a.size) {
			t.Errorf("told of %v, given %v", fed, p.Size)
		}
		got = append(got, p.Size)
	}
	want := []units.Bytes{200, 100, 200, 100, 200, 100, 200, 200, 200}
	if len(got) != len(want) {
		t.Fatalf("%v, not %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, not %v", got, want)
		}
	}
}
