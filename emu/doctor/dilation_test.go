package doctor

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/sim/units"
)

func planOf(t *testing.T, text string) *plan.Plan {
	t.Helper()
	p, err := resolve.Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNeed_IsTheDilationForTheLinks checks the arithmetic against results computed by hand, on a machine that
// carries 14 Gb/s with offload, 1.7 Gb/s without, and 2.5 million packet-hops per second.
func TestNeed_IsTheDilationForTheLinks(t *testing.T) {
	on := &full().Predict
	for name, c := range map[string]struct {
		lab       string
		all, one  int
		late      int
		offered   units.Rate
		said, not string
	}{
		"fits": {
			lab: "topology: {kinds: {link: {rate: 1Gbps}}, generate: {star: {hosts: 4}}}",
			all: 1, one: 1, late: 1, offered: 4 * units.Gbps, said: "none: all 4 hosts can send at once at the rates of their links, 4Gbps.",
		},
		"too fast": { // 4 * 40 / 14 / 0.8 = 14.3, 40 / 14 / 0.8 = 3.6
			lab: "topology: {kinds: {link: {rate: 40Gbps}}, generate: {star: {hosts: 4}}}",
			all: 15, one: 4, late: 1, offered: 160 * units.Gbps, said: "dilation: 15, if all 4 hosts send at once at the rates of their links, 160Gbps; dilation: 4 for one of them.",
		},
		"without offload": { // 2 * 10 / 1.7 / 0.8 = 14.7
			lab: "topology: {kinds: {host: {offload: off}, link: {rate: 10Gbps}}, generate: {star: {hosts: 2}}}",
			all: 15, one: 8, late: 1, offered: 20 * units.Gbps,
		},
		"RDMA": { // 2 * 2 hops of 10e9/8/1062 packets / 2.5e6 / 0.8 = 2.35, more than TCP's 1.8
			lab: "topology: {kinds: {host: {nic: roce}, link: {rate: 10Gbps}}, generate: {star: {hosts: 2}}}",
			all: 3, one: 2, late: 1, offered: 20 * units.Gbps,
		},
		"further switches": { // four more: 2 * (40/14 + 4*40e9/8/1538/2.5e6) / 0.8 = 20.2
			lab: "topology: {kinds: {link: {rate: 40Gbps}}, nodes: {h1: {kind: host}, h2: {kind: host}, a: {kind: switch}, b: {kind: switch}, c: {kind: switch}, d: {kind: switch}, e: {kind: switch}}, " +
				"links: [{endpoints: [\"h1:e\", \"a:1\"]}, {endpoints: [\"a:2\", \"b:1\"]}, {endpoints: [\"b:2\", \"c:1\"]}, {endpoints: [\"c:2\", \"d:1\"]}, {endpoints: [\"d:2\", \"e:1\"]}, {endpoints: [\"e:2\", \"h2:e\"]}]}",
			all: 21, one: 11, late: 1, offered: 80 * units.Gbps,
		},
		"exact": { // lateness here is 70 us
			lab: "fidelity: {limit: 1us}\ntopology: {kinds: {link: {rate: 1Gbps}}, generate: {star: {hosts: 2}}}",
			all: 1, one: 1, late: 70, offered: 2 * units.Gbps, said: "Lateness here exceeds the file's limit: dilation: 70 stays within it.",
		},
		"no rate": {
			lab: "topology: {generate: {star: {hosts: 2}}}", late: 1, said: "not known, because the link of h1 has no rate.",
		},
		"modelled hosts": {
			lab: "topology: {kinds: {host: {attach: none}, link: {rate: 40Gbps}}, generate: {star: {hosts: 4}}}", all: 1, one: 1, late: 1,
		},
		"set": {
			lab: "dilation: 50\ntopology: {kinds: {link: {rate: 40Gbps}}, generate: {star: {hosts: 4}}}",
			all: 15, one: 4, late: 1, offered: 160 * units.Gbps, said: "The file says 50.",
		},
	} {
		n := NeedOf(planOf(t, c.lab), on)
		if n.All != c.all || n.One != c.one || n.Late != c.late || n.Unknown == "" && n.Offered != c.offered {
			t.Errorf("%s: %+v", name, n)
		}
		if said := n.text(); !strings.Contains(said, c.said) {
			t.Errorf("%s: %q, without %q", name, said, c.said)
		}
	}
	if n := NeedOf(planOf(t, "topology: {generate: {star: {hosts: 2}}}"), &Prediction{}); n.All != 0 || n.Late != 0 || n.Unknown == "" {
		t.Errorf("nothing was measured: %+v", n)
	}
}

// TestNeed_NamesNoDilationAboveTheLimit: a lab that is too fast at any dilation gets no figure that
// its file would be refused for.
func TestNeed_NamesNoDilationAboveTheLimit(t *testing.T) {
	n := Need{Hosts: 5, Offered: units.Tbps, All: 1_800_000, One: 360_000, Late: 1_000_001}
	said := n.text()
	for _, want := range []string{"more than the largest dilation, 1000000, if all 5 hosts send at once", "; dilation: 360000 for one of them", "exceeds the file's limit: more than the largest dilation, 1000000"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}
