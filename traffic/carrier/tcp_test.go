package carrier

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/packet"
	_ "github.com/weftlab/weft/protocols/accurate"
	"github.com/weftlab/weft/protocols/cc"
	_ "github.com/weftlab/weft/protocols/cubic"
	_ "github.com/weftlab/weft/protocols/dcqcn"
	_ "github.com/weftlab/weft/protocols/dctcp"
	_ "github.com/weftlab/weft/protocols/hpcc"
	"github.com/weftlab/weft/protocols/reno"
	_ "github.com/weftlab/weft/protocols/rocc"
	"github.com/weftlab/weft/protocols/tcp"
	"github.com/weftlab/weft/sim/units"
)

// choice returns a rate control with the parameters of its first preset.
func choice(t *testing.T, name string) cc.Choice {
	m, err := cc.Methods.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return cc.Choice{Name: name, Settings: m.Preset(m.Presets[0], 10*units.Gbps)}
}

// TestTCPCheck: settings of TCP flows have limits, and not every rate control is
// allowed.
func TestTCPCheck(t *testing.T) {
	good := TCP{Config: tcp.Default(), Control: choice(t, "cubic")}
	if err := good.Check(); err != nil {
		t.Errorf("the default: %v", err)
	}
	if err := CheckControl(choice(t, "accurate")); err != nil {
		t.Errorf("accurate: %v", err)
	}
	for want, change := range map[string]func(c *TCP){
		"dscp is 64":                             func(c *TCP) { c.DSCP = 64 },
		"need a rate control":                    func(c *TCP) { c.Control = cc.Choice{} },
		"dcqcn needs CNPs":                       func(c *TCP) { c.Control = choice(t, "dcqcn") },
		"hpcc needs in-band":                     func(c *TCP) { c.Control = choice(t, "hpcc") },
		"rocc needs messages that switches send": func(c *TCP) { c.Control = choice(t, "rocc") },
		"receive-window: 1 is":                   func(c *TCP) { c.Window = 1 },
		"retries: 0 is out of range: g":          func(c *TCP) { c.Retries = 0 },
	} {
		c := good
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "1B", "1"), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// TestECNOf: the rate control determines how marks are echoed.
func TestECNOf(t *testing.T) {
	config := reno.Preset("rfc")
	c := cc.Choice{Name: "reno", Settings: &config}
	if ECNOf(c) != tcp.NoECN {
		t.Error("reno without ecn takes part in ECN")
	}
	if config.ECN = true; ECNOf(c) != tcp.ClassicECN {
		t.Error("reno with ecn has not the echo of RFC 3168")
	}
	if ECNOf(choice(t, "dctcp")) != tcp.DCTCP {
		t.Error("dctcp does not have its echo")
	}
}

// TestSegmentBody: a segment is copied completely, and its length is what it writes.
func TestSegmentBody(t *testing.T) {
	var l packet.Pool
	p := l.NewMessage(segments)
	b := p.Message.Body.(*segment)
	*b = segment{Segment: tcp.Segment{Seq: 7, Flags: tcp.ACK, Timestamps: true, TSVal: 9, Payload: 5}, id: 3, size: 5, tag: 1, traffic: 2, from: 4}
	c := segment{}
	c.Set(b)
	if c != *b {
		t.Errorf("%+v is copied as %+v", *b, c)
	}
	bytes := make([]byte, b.Len())
	b.EncodeTo(bytes)
	g, _, _, err := tcp.Parse(bytes)
	if err != nil || g != b.Segment {
		t.Errorf("%+v reads back as %+v, %v", b.Segment, g, err)
	}
	if b.Reset(); *b != (segment{}) {
		t.Errorf("reset, it is %+v", *b)
	}
}
