package resolve

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/nicemu/transport"
)

// TestWindowFromTopology checks that the bandwidth-delay product of the longest path
// limits packets in flight, unless the file sets a number.
func TestWindowFromTopology(t *testing.T) {
	const line = `
topology:
  kinds: {link: {rate: 40Gbps, delay: 2us}, host: {attach: none, nic: {mtu: 1024, recovery: RECOVERY}}}
  nodes: {a: {kind: host}, b: {kind: host}, c: {kind: host}, s: {kind: switch}, t: {kind: switch}, u: {kind: switch}}
  links:
    - {endpoints: ["a:eth0", "s:1"]}
    - {endpoints: ["s:2", "t:1"]}
    - {endpoints: ["t:2", "u:1"]}
    - {endpoints: ["u:2", "b:eth0"]}
    - {endpoints: ["s:3", "c:eth0"]SLOW}
`
	// 40 Gb/s and 2 us per link: a frame of 1146 B on the wire takes 229.2 ns, an
	// acknowledgement of 110 B 22 ns. Four links: 17004.8 ns, 75 frames, plus one.
	for _, c := range []struct {
		recovery, slow string
		want           int
	}{
		{"irn", "", 76}, {"{irn: {window: -1}}", "", 76}, {"{go-back-n: {window: -1}}", "", 76},
		{"{irn: {window: 5}}", "", 5}, {"{irn: {window: 0}}", "", 0}, {"go-back-n", "", 0},
		{"irn", ", delay: 10us", 145}, // 16 us more: 144 frames
	} {
		lab := strings.NewReplacer("RECOVERY", c.recovery, "SLOW", c.slow).Replace(line)
		p, err := Parse("lab.yaml", []byte(lab))
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Nodes {
			if p.Nodes[i].NIC == nil {
				continue
			}
			got := 0
			switch s := p.Nodes[i].NIC.Recovery.Settings.(type) {
			case *transport.IRNSettings:
				got = s.Window
			case *transport.GoBackNSettings:
				got = s.Window
			}
			if got != c.want {
				t.Errorf("%s%s: %s has a window of %d, want %d", c.recovery, c.slow, p.Nodes[i].Name, got, c.want)
			}
		}
	}
}
