package report

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/sim/gauge"
	"github.com/weftlab/weft/sim/units"
)

// limited returns a port with an edge service that shows this many flows and leaves out three.
func limited(name string, flows int) status.Port {
	e := &status.Edge{
		Service: "limit", QueuePackets: 2, FlowsLeftOut: 3,
		Gauges: []gauge.Value{{Name: "flows", Value: 7, Brief: true}, {Name: "waiting", Unit: gauge.Bytes, Value: 3000, Brief: true}, {Name: "table_full"}},
	}
	for i := range flows {
		e.Flows = append(e.Flows, status.EdgeFlow{
			Port: name, Protocol: "tcp", From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddr("10.0.0.2"), SrcPort: uint16(i + 1), DstPort: 80,
			Rate: 5 * units.Mbps, QueueBytes: 1500, TxBytes: 9000, Dropped: 4, Gauges: []gauge.Value{{Name: "feedback", Value: float64(i), Brief: true}},
		})
	}
	return status.Port{Name: name, Edge: e}
}

// TestReportEdges: a report has the sums of the services' counters, and the first flows
// of each with the gauges of their rate control, a few in all; the others are counted. If
// all flows were requested, they are shown elsewhere.
func TestReportEdges(t *testing.T) {
	r := &Report{Ports: []status.Port{{Name: "s1:1"}, limited("h1:eth0", 1), limited("h2:eth0", 16)}}
	var b strings.Builder
	r.writeEdges(&b)
	for _, want := range []string{
		"edge     limit at 2 interfaces: 4 packets wait, flows 14, waiting 6KB\n", "feedback", "h1:eth0  tcp 10.0.0.1:1 > 10.0.0.2:80", "h2:eth0  tcp 10.0.0.1:9 > 10.0.0.2:80", "5Mbps", "and 13 more flows\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "10.0.0.2:80"); n != maxReportFlows {
		t.Errorf("%d flows:\n%s", n, b.String())
	}
	b.Reset()
	r.EdgeFlows = r.Ports[1].Edge.Flows
	if r.writeEdges(&b); strings.Contains(b.String(), "10.0.0.2") {
		t.Errorf("flows that were asked for stand twice:\n%s", b.String())
	}
}

// TestWriteEdges: each port with an edge service has a line with its gauges.
func TestWriteEdges(t *testing.T) {
	var b strings.Builder
	WriteEdges(&b, []status.Port{{Name: "s1:1"}})
	if b.String() != "" {
		t.Errorf("without a service: %q", b.String())
	}
	WriteEdges(&b, []status.Port{{Name: "s1:1"}, limited("h1:eth0", 1), {Name: "h2:eth0", Edge: &status.Edge{Service: "brake"}}})
	want := fmt.Sprint("\nPORT     EDGE SERVICE\n", "h1:eth0  limit: flows 7, waiting 3KB, table full 0\n", "h2:eth0  brake\n")
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
