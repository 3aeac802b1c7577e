package parallel

import (
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/sim/units"
)

// TestProcesses_HaveTwoColoursUnlessLinksFormAnOddCycle: no link joins two processes of one
// colour, and a ring of three switches leaves no choice.
func TestProcesses_HaveTwoColoursUnlessLinksFormAnOddCycle(t *testing.T) {
	for _, c := range []struct {
		topology string
		coloured bool
	}{
		{"generate: {fat-tree: {k: 4, rate: 10Gbps, delay: 1us}}", true},
		{"generate: {leaf-spine: {spines: 2, leaves: 3, hosts-per-leaf: 2, rate: 10Gbps, delay: 1us}}", true},
		{"generate: {parking-lot: {hops: 3, rate: 10Gbps, delay: 1us}}", true},
		{"kinds: {link: {rate: 10Gbps, delay: 1us}}, nodes: {s1: {kind: switch}, s2: {kind: switch}, s3: {kind: switch}}, links: [{endpoints: [\"s1:1\", \"s2:1\"]}, {endpoints: [\"s2:2\", \"s3:1\"]}, {endpoints: [\"s3:2\", \"s1:2\"]}]", false},
	} {
		p := fabrictest.Parse(t, "topology: {"+c.topology+"}")
		number, _, _ := Processes(p, 1)
		colour := Colours(p, number)
		if (colour != nil) != c.coloured {
			t.Errorf("%s: colours %v", c.topology, colour)
			continue
		}
		for _, l := range p.Links {
			if a, b := number[l.Ends[0].Node], number[l.Ends[1].Node]; colour != nil && a != b && colour[a] == colour[b] {
				t.Errorf("%s: a link joins two of colour %d", c.topology, colour[a])
			}
		}
	}
}

// TestTurn_LastsUntilAReplyCouldArrive: by hand, with a lookahead of 10.
func TestTurn_LastsUntilAReplyCouldArrive(t *testing.T) {
	const never = units.Never
	for _, c := range []struct {
		first  [2]units.Time
		colour int
		to     units.Time
	}{
		{[2]units.Time{100, 103}, 0, 112},   // the other's packet of 103 arrives at 113
		{[2]units.Time{103, 100}, 1, 112},   // the same the other way round
		{[2]units.Time{100, 500}, 0, 119},   // what is sent at 100 is answered at 120
		{[2]units.Time{100, never}, 0, 119}, // the same
		{[2]units.Time{100, 100}, 0, 109},
	} {
		if colour, to := turnOf(c.first, 10); colour != c.colour || to != c.to {
			t.Errorf("%v: colour %d up to %d, want %d up to %d", c.first, colour, to, c.colour, c.to)
		}
	}
}
