package tunnel

import (
	"math/rand/v2"

	"github.com/weftlab/weft/sim/units"
)

// Path is what a sender knows about one path.
type Path struct {
	Sent    uint32     // packets, including retransmissions
	Trimmed uint32     // of them, according to NACKs
	Lost    uint32     // of them, by timeout
	Latency units.Time // round trip, smoothed by 1/8; 0 before the first
}

// paths spreads packets over all paths in rounds. Each round has its own order: an arithmetic
// progression whose step is odd and so visits every path of a power of two.
type paths struct {
	all          []Path
	from, step   uint8
	left, number int
}

func (s *paths) resetPaths(n int) {
	if len(s.all) != n {
		s.all = make([]Path, n)
	}
	clear(s.all)
	s.left = 0
}

// nextPath returns the path of the packet that leaves now.
func (s *paths) nextPath(r *rand.Rand) uint8 {
	n := len(s.all)
	if s.left == 0 {
		x := r.Uint32()
		s.from, s.step, s.left, s.number = uint8(x), uint8(x>>8)|1, n, 0
	}
	path := (s.from + s.step*uint8(s.number)) & uint8(n-1)
	s.left--
	s.number++
	s.all[path].Sent++
	return path
}

func (p *Path) sampleRTT(rtt units.Time) {
	if p.Latency == 0 {
		p.Latency = rtt
		return
	}
	p.Latency += (rtt - p.Latency) / 8
}
