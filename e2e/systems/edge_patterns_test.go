package systems

import (
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/observe/records"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/carrier"
	"github.com/weftlab/weft/traffic/pattern"
)

// TestEdgeLimit_PacesPatternFlowsSeparately: an edge service handles pattern flows over TCP
// and UDP like those of programs: each gets the rate of a flow, none holds up another, and
// what does not fit is dropped and, with TCP, sent again.
func TestEdgeLimit_PacesPatternFlowsSeparately(t *testing.T) {
	for _, c := range []struct {
		queue  string
		drops  bool
		senses string
	}{{"", false, "without a bound of a flow's queue"}, {", queue: 30KB", true, "with one"}} {
		p := fabrictest.Parse(t, fmt.Sprintf("topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}, nodes: {h1: {edge: {limit: {rate: 100Mbps%s}}}}}", c.queue))
		h := fabrictest.Hosts(p)
		l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {
			{Tag: 1, From: h[0], To: h[1], Size: units.MB}, {Tag: 2, From: h[0], To: h[1], Size: units.MB}, {Tag: 3, From: h[0], To: h[2], Size: units.MB},
		}}}
		p.Traffic = []plan.Traffic{{Name: "tcp", Pattern: l, TCP: fabrictest.TCP(t, "cubic")}}
		p.Traffic[0].TCP.MinRTO = 100 * units.Millisecond // a queue takes as long
		f, all, _ := carry(t, p, 1)
		fabrictest.CheckOnce(t, l, all, false)
		// A segment with 1448 bytes of payload takes 1538 on the wire.
		alone := float64(units.MB) * 8 * 1538 / 1448 / 100e6
		for _, r := range all {
			if took := (r.End - r.Started).Seconds(); r.State != records.Done || took < 0.98*alone || took > 1.1*alone {
				t.Errorf("%s: flow %d took %.4f s, alone at its rate %.4f s: %+v", c.senses, r.Tag, took, alone, r)
			}
		}
		if _, again := states(all); (f.Accounts().Drops[packet.QueueFull.String()] > 0) != c.drops || (again > 0) != c.drops {
			t.Errorf("%s: %+v, %d sent again", c.senses, f.Accounts().Drops, again)
		}
	}

	p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none}}, generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}, nodes: {h1: {edge: {limit: {rate: 100Mbps}}}}}")
	h := fabrictest.Hosts(p)
	l := &fabrictest.List{Members: h, Flows: map[int][]pattern.Flow{h[0]: {{From: h[0], To: h[1], Size: 100 * units.KB}}}}
	p.Traffic = []plan.Traffic{{Name: "udp", Pattern: l, UDP: &carrier.UDP{Rate: units.Gbps, Size: 1000}}}
	_, all, _ := carry(t, p, 1)
	if took := (all[0].Arrived - all[0].Started).Seconds(); took < 0.008 || took > 0.0095 {
		t.Errorf("100 KB by UDP took %.4f s at 100 Mb/s", took)
	}
}
