package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim/nodeclock"
	"github.com/weftlab/weft/sim/units"
)

// TestNodeClocks_Text: exact clocks are not shown, a few others each, and many with the slowest and the
// fastest.
func TestNodeClocks_Text(t *testing.T) {
	packet, time := nodeclock.Jitter{Packet: true}, nodeclock.Jitter{Time: 100 * units.Nanosecond}
	many := make([]nodeclock.Settings, 9)
	for i := range many {
		many[i] = nodeclock.Settings{Error: nodeclock.PPB(i-4) * 1500, Jitter: packet}
	}
	for _, c := range []struct {
		clocks []nodeclock.Settings
		all    bool
		want   string
	}{
		{make([]nodeclock.Settings, 3), false, ""},
		{[]nodeclock.Settings{{Error: 37_500}, {}, {Error: -20_000}}, false, "clocks   n0 +37.5 ppm, n2 -20 ppm\n"},
		{[]nodeclock.Settings{{Error: 37_500, Jitter: packet}, {Jitter: packet}}, false, "clocks   n0 +37.5 ppm, n1 0 ppm, jitter packet\n"},
		{[]nodeclock.Settings{{Error: 37_500, Jitter: packet}, {Jitter: time}, {Error: 1}}, false, "clocks   n0 +37.5 ppm jitter packet, n1 0 ppm jitter 100ns, n2 +0.001 ppm\n"},
		{many, false, "clocks   9 not exact, -6 ppm (n0) to +6 ppm (n8), jitter packet\n"},
		{many[:7], true, "clocks   n0 -6 ppm, n1 -4.5 ppm, n2 -3 ppm, n3 -1.5 ppm, n4 0 ppm, n5 +1.5 ppm, n6 +3 ppm, jitter packet\n"},
	} {
		p := &plan.Plan{}
		for i, s := range c.clocks {
			p.Nodes = append(p.Nodes, plan.Node{Name: fmt.Sprint("n", i), Clock: s})
		}
		var b strings.Builder
		WriteNodeClocks(&b, NodeClocks(p), c.all)
		if b.String() != c.want {
			t.Errorf("%v: %q, want %q", c.clocks, b.String(), c.want)
		}
	}
}
