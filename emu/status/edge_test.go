package status

import (
	"net/netip"
	"testing"
)

// TestEdgeFlow_HasAName: a modelled flow has the name of the lab file, others their protocol
// and ends.
func TestEdgeFlow_HasAName(t *testing.T) {
	from, to := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, c := range []struct {
		flow EdgeFlow
		want string
	}{
		{EdgeFlow{Flow: "bulk", From: from, To: to, Protocol: "udp"}, "bulk"},
		{EdgeFlow{From: from, To: to, Protocol: "tcp", SrcPort: 5201, DstPort: 40000}, "tcp 10.0.0.1:5201 > 10.0.0.2:40000"},
		{EdgeFlow{From: from, To: to, Protocol: "icmp"}, "icmp 10.0.0.1 > 10.0.0.2"},
		{EdgeFlow{From: from, To: to, Protocol: "udp", SrcPort: 50000, DstPort: 4791, QP: 18}, "udp 10.0.0.1:50000 > 10.0.0.2:4791 QP 18"},
		{EdgeFlow{}, "all others"},
	} {
		if got := c.flow.Name(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.flow, got, c.want)
		}
	}
}
